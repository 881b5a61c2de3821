//! Words between the ends of cables: says this node's, and takes in those of its neighbours. Knows frames and
//! accounts; refuses to judge silence.

use crate::engine::Engine;
use crate::engine::account::counters::Counters;
use crate::engine::account::slots::Slots;
use crate::engine::account::tx_batches::{Ends, TxCredit};
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::execute::hand_out;
use crate::engine::action::output::Output;
use crate::engine::state::health::WatchDuty;
use crate::engine::vector::owner::Passage;
use catena_io::BufferPool;
use catena_model::account::{Created, Volume};
use catena_model::topology::PortNumber;

impl Engine {
    /// Another number whenever a neighbour at a link has fallen silent, or speaks again.
    #[must_use]
    #[inline]
    pub fn link_turns(&self) -> u64 {
        self.config.links.turns()
    }

    /// Says the words that are due. Answers when more will be; none: another engine of the node says them, or there is
    /// nobody to hear any.
    pub(super) fn say_hello(
        &mut self,
        now_ns: u64,
        pool: &mut BufferPool,
        out: &mut Output,
    ) -> Option<u64> {
        if let WatchDuty::Tells(..) = self.config.watch_duty {
            return None;
        }
        let Self { config, slots, counters, .. } = self;
        config.links.tick(now_ns, |number, word| {
            say(number, &word, (slots, counters), pool, out);
        })
    }
}

/// Sends a word into a cable. One that finds no buffer is not said.
pub(super) fn say(
    number: PortNumber,
    word: &[u8],
    (slots, counters): (&Slots, &mut Counters),
    pool: &mut BufferPool,
    out: &mut Output,
) {
    let Some(slot) = slots.of_port(number.link_id()) else { return };
    let Some(mut buffer) = pool.take() else { return };
    if !buffer.fill(word) {
        return pool.put(buffer);
    }
    let (owner, _) = slots.owner(slot);
    let volume = Volume { packets: 1, bytes: word.len() as u64 };
    counters.apply(CounterUpdate::Created(owner, Created::Hello), volume);
    counters.held(owner, 1);
    let ends = Ends { owner, to: owner, passage: Passage::Ordinary };
    let share = out.batches.enter(TxCredit { ends, volume });
    hand_out(buffer, slot, share, out);
}

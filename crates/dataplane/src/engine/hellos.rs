//! Words between the ends of cables: says those of this node that are due. Knows whose turn it is; refuses to judge
//! silence.

use crate::engine::Engine;
use crate::engine::action::output::Output;
use crate::engine::state::health::WatchDuty;
use crate::engine::transit::say;
use catena_io::BufferPool;

impl Engine {
    /// Another number whenever a link is good for something else than before.
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

//! When what waits in the engine goes on, and what waits for a way that has turned: begun with other tables, ended with
//! time. Refuses to know why all else waits.

use crate::engine::action::context::Context;
use crate::engine::action::output::Output;
use crate::engine::state::link_board::Use;
use crate::engine::tables::Tables;
use crate::engine::{Engine, Passing, context};
use catena_io::BufferPool;
use catena_model::program::RouteEntry;
use imbl::ordmap::DiffItem;

impl Engine {
    /// When packets of slices, of flows that are not set up or whose way has turned, or fragments wait for the next
    /// call of [`Engine::tick`]; none: no packet waits.
    #[must_use]
    pub fn next_release_ns(&self, now_ns: u64) -> Option<u64> {
        let waiting_ns = self.shaper.next_release_ns(now_ns);
        let held_ns = [self.setups.next_look_ns(), self.flushes.next_over_ns()];
        let waits = [waiting_ns, self.fragments.next_end_ns()];
        waits.into_iter().chain(held_ns).flatten().min()
    }

    /// Packets and super-frames that wait until their former way is flushed.
    #[must_use]
    pub fn flushes_waiting(&self) -> usize {
        self.flushes.waiting()
    }

    /// Before other tables are in force: what is to leave by another way than before waits from the latest time on that
    /// the engine was told, since it has sent nothing later.
    pub(crate) fn flush_former_ways(&mut self, tables: &Tables) {
        for item in self.tables.entries.routes.diff(&tables.entries.routes) {
            let DiffItem::Update { old: (_, former), new: (_, now) } = item else { continue };
            if former.ports != now.ports && self.has_to_be_flushed(former, tables) {
                self.flushes.begin(self.now_ns, now.to);
            }
        }
        // What a header leads to hangs on where it ends, too.
        for item in self.tables.entries.borders.diff(&tables.entries.borders) {
            let (DiffItem::Add(key, _)
            | DiffItem::Update { old: (key, _), .. }
            | DiffItem::Remove(key, _)) = item;
            let (node, port, _) = key;
            let former = self.tables.entries.routes.get(&(node.clone(), *port));
            if former.is_some_and(|former| self.has_to_be_flushed(former, tables)) {
                self.flushes.begin(self.now_ns, *port);
            }
        }
    }

    /// Whose link is dead or silent has nothing left to flush: its packets go round it already.
    fn has_to_be_flushed(&self, former: &RouteEntry, tables: &Tables) -> bool {
        former.ports.first().is_some_and(|number| {
            tables.exits.is_link(*number) && self.config.links.use_of(number.get()) == Use::Sound
        })
    }

    /// Lets packets go whose former way is flushed.
    pub(crate) fn release_flushed(&mut self, pool: &mut BufferPool, out: &mut Output) {
        let now_ns = self.now_ns;
        while let Some(works) = self.flushes.next_over(now_ns) {
            self.made.clear();
            self.carried.open(now_ns);
            let context: &mut Context<'_> = context!(self, now_ns, pool, Passing::default());
            self.egress.release(works, &mut self.proxy_flows, context, out);
        }
    }
}

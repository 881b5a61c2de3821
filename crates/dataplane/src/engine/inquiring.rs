//! What functions ask of their own accord, as the engine sends it when time passes. Knows which of several engines
//! does; refuses to know who asks, and what.

use crate::engine::action::context::Context;
use crate::engine::action::output::Output;
use crate::engine::stages::functions::{self, Access};
use crate::engine::stages::{inquiries, switch};
use crate::engine::state::health::WatchDuty;
use crate::engine::{Engine, Passing, context};
use catena_io::BufferPool;

impl Engine {
    /// Sends what functions ask others of their own accord. Where several engines share a node, the first one decides
    /// for functions that remember what they have asked.
    pub(crate) fn inquire(&mut self, now_ns: u64, pool: &mut BufferPool, out: &mut Output) {
        if matches!(self.config.watch_duty, WatchDuty::Tells(..)) {
            return;
        }
        self.carried.open(now_ns);
        let context = context!(self, now_ns, pool, Passing::default());
        inquiries::send(&mut self.functions, &mut self.vector, context);
        if self.vector.is_empty() {
            return;
        }
        let access = &mut Access::Live(&mut self.functions);
        functions::forward(&mut self.vector, &mut self.affinity, access, context);
        switch::switch(&mut self.vector, context);
        self.egress.emit(&mut self.vector, &mut self.proxy_flows, context, out);
    }
}

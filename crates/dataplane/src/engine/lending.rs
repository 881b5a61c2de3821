//! Functions that threads are asked for, as the engine goes on with what they have said. Knows when nothing may be
//! lent: before tables change, time passes for functions, or somebody listens; refuses to know threads.

use crate::engine::action::context::Context;
use crate::engine::action::output::Output;
use crate::engine::stage::{Form, Lanes};
use crate::engine::stages::functions::{self, Access};
use crate::engine::stages::{answer_inside, side_by_side, switch};
use crate::engine::{Engine, Passing, context};
use catena_io::BufferPool;

impl Engine {
    /// Functions are asked by these threads from now on, where that is worth it; `forced`: in this form, whatever it
    /// costs.
    pub fn lend_to(&mut self, lanes: Box<dyn Lanes>, forced: Option<Form>) {
        self.functions.stage.lend_to(lanes, forced);
    }

    /// Is a packet with a thread that asks functions, or has just come back from one? Then somebody has to call
    /// [`Engine::take_answers`].
    #[must_use]
    pub fn is_lending(&self) -> bool {
        self.functions.stage.is_lending() || !self.functions.released.is_empty()
    }

    /// Packets that are lent, as on the wire: they are held in the accounts.
    #[must_use]
    pub const fn lent_packets(&self) -> u64 {
        self.functions.stage.packets
    }

    /// Goes on with packets that functions have said something about; false: they have not.
    pub fn take_answers(&mut self, now_ns: u64, pool: &mut BufferPool, out: &mut Output) -> bool {
        self.elapse(now_ns);
        self.made.clear();
        self.carried.open(now_ns);
        let context: &mut Context<'_> = context!(self, now_ns, pool, Passing::default());
        let has_come = side_by_side::take_answers(&mut self.functions, context);
        self.release_lent(now_ns, pool, out);
        has_come
    }

    /// Waits until nothing is lent: before tables change, orders are carried out, or time passes for functions. Whoever
    /// does not give back what he has is waited for a second at most, and loses it.
    pub fn settle_lent(&mut self, now_ns: u64, pool: &mut BufferPool, out: &mut Output) {
        while self.is_lending() {
            self.made.clear();
            self.carried.open(now_ns);
            let context: &mut Context<'_> = context!(self, now_ns, pool, Passing::default());
            while side_by_side::wait(&mut self.functions, context) {}
            self.release_lent(now_ns, pool, out);
        }
    }

    /// Packets that have come through a hop go on behind it.
    fn release_lent(&mut self, now_ns: u64, pool: &mut BufferPool, out: &mut Output) {
        if self.functions.released.is_empty() {
            return;
        }
        self.made.clear();
        self.carried.open(now_ns);
        self.vector.append(&mut self.functions.released);
        let vector = &mut self.vector;
        let context: &mut Context<'_> = context!(self, now_ns, pool, Passing::default());
        let access = &mut Access::Live(&mut self.functions);
        functions::forward(vector, &mut self.affinity, access, context);
        answer_inside::answer(vector, context);
        switch::switch(vector, context);
        self.egress.emit(vector, &mut self.proxy_flows, context, out);
    }
}

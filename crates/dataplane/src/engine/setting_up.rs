//! Reactive set-up's place in the engine: what the controller is to be asked, its answers, and packets that go on when
//! it has answered, or has not.

use crate::engine::action::context::Context;
use crate::engine::action::output::Output;
use crate::engine::stages::functions::{self, Access};
use crate::engine::stages::{classify, setup, shaping, switch};
use crate::engine::state::setups::Said;
use crate::engine::vector::Work;
use crate::engine::{Engine, Passing, context};
use catena_io::BufferPool;
use catena_model::CounterScope;
use catena_model::setup::{FlowAnswer, FlowAsked, SetupCounters};
use std::collections::VecDeque;

impl Engine {
    /// The controller can be asked from now on, or not any more; then nobody waits for it. At first it cannot.
    pub fn note_controller(
        &mut self,
        is_there: bool,
        now_ns: u64,
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        self.elapse(now_ns);
        self.setups.note_controller(is_there);
        self.look_after_setups(pool, out);
    }

    /// The flows that the controller is to be asked for, those included that it was asked for long ago.
    pub fn take_flows_asked(&mut self) -> Vec<FlowAsked> {
        self.setups.take_questions()
    }

    /// Packets that wait for an answer of the controller.
    #[must_use]
    pub fn setups_waiting(&self) -> usize {
        self.setups.waiting()
    }

    /// Takes answers of the controller: the packets that waited go on, in their order and before any later one.
    /// Answers that do not fit the tables in force are as none.
    pub fn set_up(
        &mut self,
        answers: &[FlowAnswer],
        now_ns: u64,
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        self.elapse(now_ns);
        self.release_turned(pool, out);
        for answer in answers {
            let fits = |_| setup::fits(answer, &self.tables);
            let Some(answered) = self.setups.answer(now_ns, answer, fits) else { continue };
            self.affinity.note(now_ns, answered.key, answered.path);
            self.release_held(answered.works, Said::Yes, pool, out);
        }
    }

    /// Asks again for flows, and gives up those that nobody answers for.
    pub(crate) fn look_after_setups(&mut self, pool: &mut BufferPool, out: &mut Output) {
        while let Some(works) = self.setups.next_unanswered(self.now_ns) {
            self.release_held(works, Said::NoAnswer, pool, out);
        }
        self.setups.ask_again(self.now_ns);
    }

    /// Under other tables: packets whose path is not asked for any more are classified anew.
    pub(crate) fn release_turned(&mut self, pool: &mut BufferPool, out: &mut Output) {
        if !std::mem::take(&mut self.has_turned) {
            return;
        }
        // Those that are held again wait behind all of these.
        let mut turned = Vec::new();
        let setups = &self.tables.entries.setups;
        while let Some(works) = self.setups.next_turned(|path| setups.contains_key(&path)) {
            turned.push(works);
        }
        for works in turned {
            self.release_held(works, Said::Nothing, pool, out);
        }
    }

    /// Takes packets that waited through the stages from the classifier on.
    fn release_held(
        &mut self,
        works: VecDeque<Work>,
        said: Said,
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        let now_ns = self.now_ns;
        self.made.clear();
        self.carried.open(now_ns);
        let vector = &mut self.vector;
        let passing = Passing { said, ..Passing::default() };
        let context: &mut Context<'_> = context!(self, now_ns, pool, passing);
        setup::give_back(works, vector, context);
        classify::classify(vector, &mut self.affinity, context);
        shaping::set_aside(vector, context);
        setup::set_aside(vector, &self.affinity, context);
        let access = &mut Access::Live(&mut self.functions);
        functions::forward(vector, &mut self.affinity, access, context);
        switch::switch(vector, context);
        self.egress.emit(vector, &mut self.proxy_flows, context, out);
    }

    /// How set-ups of some chains went; none: of all.
    pub(crate) fn setup_counters(&self, of: Option<&CounterScope>) -> SetupCounters {
        let mut counters = self.setups.counters().clone();
        counters.chains.retain(|chain, _| of.is_none_or(|of| of.chains.contains(chain)));
        counters
    }
}

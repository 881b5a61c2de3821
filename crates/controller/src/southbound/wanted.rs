//! What a node should run, as messages: the whole, or what differs from a state that it runs. Knows
//! how many states of before are worth keeping; refuses to know what is in them.

use catena_model::{BlueprintNumber, NodeName};
use catena_plan::{NodeState, Program, SliceTable};
use catena_protocol::message::{self, to_agent};
use catena_protocol::session::Wanted;
use catena_protocol::{program, slices};
use std::collections::VecDeque;

/// States of before that a node may still run, and need not be sent whole for.
const FORMER_MAX: usize = 8;

/// One state of a node.
#[derive(Clone, Debug)]
struct State {
    number: BlueprintNumber,
    program: Program,
    slices: SliceTable,
}

impl State {
    fn new(state: NodeState) -> Self {
        Self { number: state.number, program: state.program, slices: state.slices }
    }
}

/// What a node should run, and what it ran before. A copy costs little.
#[derive(Clone, Debug)]
pub(crate) struct NodeWanted {
    node: NodeName,
    state: State,
    former: VecDeque<State>,
}

impl NodeWanted {
    /// The first state of a node.
    pub(crate) fn first(state: NodeState) -> Self {
        Self { node: state.node.clone(), state: State::new(state), former: VecDeque::new() }
    }

    /// The state that follows this one.
    pub(crate) fn next(&self, state: NodeState) -> Self {
        let mut former = self.former.clone();
        former.push_back(self.state.clone());
        if former.len() > FORMER_MAX {
            former.pop_front();
        }
        Self { node: state.node.clone(), state: State::new(state), former }
    }

    /// A program and the changes that follow it.
    fn program(&self, keeps: u64, base: &SliceTable) -> Vec<to_agent::Message> {
        let State { number, program, slices } = &self.state;
        let packed = program::pack(&program.whole(&self.node));
        let mut packed = message::Program { keeps_slices_of: keeps, ..packed };
        let is_all = packed.number == number.0 && slices.is_same(base);
        packed.followed_to = if is_all { 0 } else { number.0 };
        let from = BlueprintNumber(packed.number);
        let mut messages = vec![to_agent::Message::Program(packed)];
        if !is_all {
            messages.extend(self.deltas(base, from));
        }
        messages
    }

    fn deltas(&self, base: &SliceTable, from: BlueprintNumber) -> Vec<to_agent::Message> {
        let to = self.state.number;
        let deltas = self.state.slices.deltas(base, &self.node, from, to);
        let last = deltas.len().saturating_sub(1);
        let pack =
            |(place, delta)| to_agent::Message::SliceDelta(slices::pack(&delta, to, place == last));
        deltas.into_iter().enumerate().map(pack).collect()
    }
}

impl Wanted for NodeWanted {
    fn number(&self) -> u64 {
        self.state.number.0
    }

    fn whole(&self) -> Vec<to_agent::Message> {
        self.program(0, &SliceTable::default())
    }

    fn is_one_message(&self) -> bool {
        self.state.slices.is_empty() && self.state.program.number == self.state.number
    }

    fn since(&self, running: &Self) -> Option<Vec<to_agent::Message>> {
        let State { number, program, slices } = &running.state;
        if program.number == self.state.program.number {
            return Some(self.deltas(slices, *number));
        }
        Some(self.program(number.0, slices))
    }

    fn former(&self, number: u64) -> Option<Self> {
        let state = self.former.iter().find(|state| state.number.0 == number)?;
        Some(Self { node: self.node.clone(), state: state.clone(), former: VecDeque::new() })
    }
}

//! Lists of flows: the SFC-NFP paper's Algorithm 1 as it is printed, and one that compares flows of different
//! functions.
//!
//! Knows matches and the order of functions. Refuses to know what switches do with flows.

use super::PacketCopy;
use super::actions::{ActionReason, ActionVerdict, FlowAction, judge_actions, printed_rule};
use catena_wire::field::Field;
use std::collections::BTreeMap;

/// A flow of a function: of a packet that several take, the one of the highest priority acts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListedFlow {
    /// Its priority.
    pub priority: u16,
    /// Of each field, the bits that it must have: value and mask.
    pub matches: BTreeMap<Field, (u128, u128)>,
    /// What it does, in order.
    pub actions: Vec<FlowAction>,
}

/// What Algorithm 1 decides of two actions of a flow, all counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrintedDecision {
    /// The flow.
    pub flow: usize,
    /// The action that it calls `j`.
    pub first: usize,
    /// The action that it calls `k`.
    pub second: usize,
    /// Does it put them side by side?
    pub is_parallel: bool,
}

/// Algorithm 1 as printed: for each flow, `j` and `k` go through as many actions as there are flows, each with each and
/// with itself, and nothing asks which function a flow is of.
#[must_use]
pub fn algorithm_1(flows: &[ListedFlow]) -> Vec<PrintedDecision> {
    let mut decisions = Vec::new();
    for (flow, ListedFlow { actions, .. }) in flows.iter().enumerate() {
        for first in 0..flows.len() {
            for second in 0..flows.len() {
                let (Some(a), Some(b)) = (actions.get(first), actions.get(second)) else {
                    continue;
                };
                let decided = printed_rule(*a, *b);
                decisions.extend(decided.map(|is_parallel| PrintedDecision {
                    flow,
                    first,
                    second,
                    is_parallel,
                }));
            }
        }
    }
    decisions
}

/// Two flows of two functions that one packet may meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeetingFlows {
    /// The place of the first function's flow in its list.
    pub first: usize,
    /// The place of the second one's.
    pub second: usize,
    /// May the second one act beside the first?
    pub verdict: ActionVerdict,
}

/// Algorithm 1 corrected: flows of one function against those of a later one that packets may meet behind them, or that
/// would change what the first one looks at.
#[must_use]
pub fn meeting_flows(first: &[ListedFlow], second: &[ListedFlow]) -> Vec<MeetingFlows> {
    let mut meeting = Vec::new();
    for (place, one) in first.iter().enumerate() {
        for (other_place, other) in second.iter().enumerate() {
            let verdicts = [one.judge(other), one.copied_from(other).map(ActionVerdict::Beside)];
            let verdict = verdicts.into_iter().flatten().max();
            meeting.extend(verdict.map(|verdict| MeetingFlows {
                first: place,
                second: other_place,
                verdict,
            }));
        }
    }
    meeting
}

/// May a function of these flows work beside another one before it? The worst of what is said of flows that meet.
#[must_use]
pub fn judge_flows(first: &[ListedFlow], second: &[ListedFlow]) -> ActionVerdict {
    let meeting = meeting_flows(first, second).into_iter();
    let verdicts = meeting.map(|meeting| meeting.verdict);
    verdicts.max().unwrap_or(ActionVerdict::Beside(PacketCopy::Nothing))
}

impl ListedFlow {
    /// Fields that it writes; none: its packets have other headers behind it.
    fn written(&self) -> Option<Vec<Field>> {
        let fields = self.actions.iter().filter_map(|action| match action {
            FlowAction::SetField(field, _) => Some(Some(*field)),
            FlowAction::Push | FlowAction::Pop => Some(None),
            _ => None,
        });
        fields.collect()
    }

    /// Is there a packet that both may take, once these fields are others?
    fn may_meet(&self, other: &Self, written: &[Field]) -> bool {
        self.matches.iter().filter(|(field, _)| !written.contains(field)).all(|(field, own)| {
            let (value, mask) = other.matches.get(field).copied().unwrap_or_default();
            (own.0 ^ value) & own.1 & mask == 0
        })
    }

    fn asks(&self, field: &Field) -> bool {
        self.matches.get(field).is_some_and(|(_, mask)| *mask != 0)
    }

    /// What is copied so that this one is looked for in the packet as it came; none: that one does not change it.
    fn copied_from(&self, other: &Self) -> Option<PacketCopy> {
        match other.written() {
            None => Some(PacketCopy::Everything),
            Some(written) => {
                let is_seen = written.iter().any(|field| self.asks(field));
                (is_seen && self.may_meet(other, &written)).then_some(PacketCopy::Headers)
            }
        }
    }

    /// May that one, of a later function, act beside this one? None: no packet comes to both.
    fn judge(&self, other: &Self) -> Option<ActionVerdict> {
        let is_asked = match self.written() {
            Some(written) => {
                if !self.may_meet(other, &written) {
                    return None;
                }
                written.iter().any(|field| other.asks(field))
            }
            None => !other.matches.is_empty(),
        };
        if is_asked {
            return Some(ActionVerdict::Serial(ActionReason::ReadsWritten));
        }
        let pairs = self
            .actions
            .iter()
            .flat_map(|one| other.actions.iter().map(move |next| judge_actions(*one, *next)));
        Some(pairs.max().unwrap_or(ActionVerdict::Beside(PacketCopy::Nothing)))
    }
}

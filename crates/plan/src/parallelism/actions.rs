//! Actions of OpenFlow in pairs: may the second one be carried out beside the first (specification of function
//! parallelism, section 1.5)? And what the SFC-NFP paper's Algorithm 1 says of them.
//!
//! Knows what actions read, write and leave behind. Refuses to know which flows have them.

use super::PacketCopy;
use catena_wire::field::Field;
use std::fmt;

/// An action of a flow (OpenFlow 1.3.5 section 5.12), or of a flow of Open vSwitch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowAction {
    /// A copy leaves by a port.
    Output(u32),
    /// A copy leaves by one of a group's buckets, which a hash of the flow chooses.
    SelectGroup(u32),
    /// A copy goes to the controller.
    Controller,
    /// A field gets a value.
    SetField(Field, u128),
    /// A header comes in front.
    Push,
    /// The header in front goes.
    Pop,
    /// A meter lets the packet pass, or not.
    Meter(u32),
    /// The packet is held against connections that are remembered (`ct`).
    Track,
    /// The packet ends.
    Drop,
}

/// May the second of two actions be carried out beside the first?
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionVerdict {
    /// Yes; what is copied for it then.
    Beside(PacketCopy),
    /// No packet comes to it.
    Unreached,
    /// It has to wait.
    Serial(ActionReason),
}

/// Why an action has to wait for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ActionReason {
    /// It reads what the first one writes.
    ReadsWritten,
    /// The headers that it finds are those that the first one leaves.
    Structure,
    /// What it puts in front, or uncovers, holds what the first one writes.
    Encloses,
    /// Whether it is carried out hangs on what the first one remembers.
    StateOrDrop,
}

/// What says which connection, and which bucket of a group, a packet belongs to.
const TUPLE: [Field; 5] =
    [Field::Protocol, Field::Source, Field::Destination, Field::SourcePort, Field::DestinationPort];

impl FlowAction {
    /// Its word, as tables write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Output(_) => "output",
            Self::SelectGroup(_) => "group",
            Self::Controller => "controller",
            Self::SetField(..) => "set-field",
            Self::Push => "push",
            Self::Pop => "pop",
            Self::Meter(_) => "meter",
            Self::Track => "ct",
            Self::Drop => "drop",
        }
    }

    /// Does it read a field?
    fn reads(self, field: Field) -> bool {
        match self {
            // All of the packet leaves.
            Self::Output(_) | Self::SelectGroup(_) | Self::Controller => true,
            Self::Track => TUPLE.contains(&field),
            _ => false,
        }
    }
}

/// May `second` be carried out beside `first`, which comes before it? Effects of either are released in this order, and
/// of two values of one field the later one stands.
#[must_use]
pub fn judge_actions(first: FlowAction, second: FlowAction) -> ActionVerdict {
    use ActionVerdict::{Beside, Serial, Unreached};
    use FlowAction::{Controller, Drop, Meter, Output, Pop, Push, SelectGroup, SetField, Track};
    match (first, second) {
        (Drop, _) => Unreached,
        (Meter(_) | Track, _) => Serial(ActionReason::StateOrDrop),
        (Push | Pop, _) => Serial(ActionReason::Structure),
        (SetField(..), Push | Pop) => Serial(ActionReason::Encloses),
        (SetField(own, _), SetField(other, _)) if own == other => Beside(PacketCopy::Headers),
        (SetField(field, _), _) if second.reads(field) => Serial(ActionReason::ReadsWritten),
        (Output(_) | SelectGroup(_) | Controller, SetField(..)) => Beside(PacketCopy::Headers),
        (Output(_) | SelectGroup(_) | Controller, Push | Pop) => Beside(PacketCopy::Everything),
        (SetField(..) | Output(_) | SelectGroup(_) | Controller, _) => Beside(PacketCopy::Nothing),
    }
}

/// What Algorithm 1 of the paper calls two actions, in this order: parallel, or serial; none: it has no word for one of
/// them. What sends a copy is its `fwd`, and what changes the packet its `flow_mod`.
#[must_use]
pub const fn printed_rule(first: FlowAction, second: FlowAction) -> Option<bool> {
    match (is_modification(first), is_modification(second)) {
        (Some(false), Some(_)) => Some(true),
        (Some(true), Some(_)) => Some(false),
        _ => None,
    }
}

/// Is an action the paper's `flow_mod`, or else its `fwd`? None: neither.
const fn is_modification(action: FlowAction) -> Option<bool> {
    match action {
        FlowAction::SetField(..) | FlowAction::Push | FlowAction::Pop => Some(true),
        FlowAction::Output(_) | FlowAction::SelectGroup(_) | FlowAction::Controller => Some(false),
        FlowAction::Meter(_) | FlowAction::Track | FlowAction::Drop => None,
    }
}

/// What is wrong with the printed rule for two actions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrintedFlaw {
    /// It lets the second one into the buffer that the first one still reads.
    NeedsCopy(PacketCopy),
    /// It lets them wait for nothing.
    TooStrict(PacketCopy),
    /// It says nothing, and the second one may not be carried out beside the first.
    Unsaid(ActionVerdict),
}

/// Holds the printed rule against [`judge_actions`]; none: it is right, or says nothing where nothing is wrong.
#[must_use]
pub fn printed_flaw(first: FlowAction, second: FlowAction) -> Option<PrintedFlaw> {
    match (printed_rule(first, second), judge_actions(first, second)) {
        (Some(true), ActionVerdict::Beside(PacketCopy::Nothing)) => None,
        (Some(true), ActionVerdict::Beside(copy)) => Some(PrintedFlaw::NeedsCopy(copy)),
        (Some(false), ActionVerdict::Beside(copy)) => Some(PrintedFlaw::TooStrict(copy)),
        (Some(false), _) | (None, ActionVerdict::Beside(_)) => None,
        (Some(true) | None, verdict) => Some(PrintedFlaw::Unsaid(verdict)),
    }
}

impl fmt::Display for ActionVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Beside(PacketCopy::Nothing) => "0",
            Self::Beside(PacketCopy::Headers) => "H",
            Self::Beside(PacketCopy::Everything) => "F",
            Self::Unreached => "-",
            Self::Serial(_) => "S",
        })
    }
}

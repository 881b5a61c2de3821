//! A function: a value that is asked what becomes of packets.

use crate::outcome::{Outcomes, Patch, Verdict};
use crate::packet::{Direction, Packet, Time};
use catena_model::profile::Profile;
use serde::{Deserialize, Serialize};

/// A network function (RFC 7665 section 1.4: service function).
///
/// Whoever runs it owns clock, packets and what its outcomes ask for. Of one value, calls come one after
/// the other; times never go back. What is not said here is that of a function which remembers and counts nothing.
pub trait Function: Send {
    /// What it says of itself, with its configuration.
    fn profile(&self) -> &Profile;

    /// Decides over the packets of a batch, in their order, as if each came alone. `outcomes` is begun
    /// anew by it.
    fn process(
        &mut self,
        now: Time,
        direction: Direction,
        batch: &[Packet<'_>],
        outcomes: &mut Outcomes,
    );

    /// Lets time pass: what has waited long enough happens, packets and messages that are due are made.
    fn elapse(&mut self, _now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
    }

    /// Asks others of its own accord, where that is due; `outcomes` is begun anew by it. Whoever can send on its way
    /// what it asks calls this beside [`elapse`](Self::elapse), of all values of an instance for one alone.
    fn inquire(&mut self, _now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
    }

    /// The packets that wait in it.
    fn waiting(&self) -> Waiting {
        Waiting::default()
    }

    /// What would become of a packet; nothing changes.
    fn ask(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Answer;

    /// Appends what it remembers that has changed since it was exported last, or with `all` everything.
    fn export(&mut self, _all: bool, _into: &mut Vec<StateEntry>) {}

    /// Appends a portion of what [`export`](Self::export) would append; true: there is more, for the next call.
    /// What changes between portions is part of a later one, and what is forgotten comes before what is remembered
    /// again under its key. One that [forgets all](StateEntry::forgets_all) of something ends the export: the next
    /// is to be of everything. Where little is remembered, one portion is all of it.
    fn export_portion(&mut self, portion: Portion, into: &mut Vec<StateEntry>) -> bool {
        self.export(portion.all, into);
        false
    }

    /// Takes over what another value of its kind has exported; entries that its rules know nothing of, or
    /// for which there is no room, are left. Answers how many were taken.
    fn import(&mut self, _entries: &[StateEntry]) -> usize {
        0
    }

    /// What its rules have counted, in the order of their numbers.
    fn report(&self, _into: &mut Vec<RuleCount>) {}

    /// Bytes of packets that were copied to ask it, since it was made: of one in a process of its own.
    fn copied_bytes(&self) -> u64 {
        0
    }

    /// The rule with this number in its user's words, such as `edge.iptables line 14, --dport 23 -j DROP`.
    fn rule_in_words(&self, rule: u32) -> Option<String>;
}

/// A part of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Portion {
    /// Of everything; else of what has changed. It stays the same through one export.
    pub all: bool,
    /// The export begins with it.
    pub is_first: bool,
    /// How much it may cost: an entry that is looked at costs 1, one that is appended [`ENTRY_COST`].
    pub budget: usize,
}

/// What an appended entry costs of a [`Portion`].
pub const ENTRY_COST: usize = 32;

/// Packets that wait in a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// How many.
    pub packets: u64,
    /// When the next of them is to go on, by [`Function::elapse`]; none: when there is nothing to wait for.
    pub next: Option<Time>,
}

/// What would become of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Whether it goes on.
    pub verdict: Verdict,
    /// How it would be changed.
    pub patches: Vec<Patch>,
    /// The rules that it meets, by their numbers, in their order.
    pub rules: Vec<u32>,
}

/// One thing that a function remembers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateEntry {
    /// What it is about, by the content of rules and packets, never by a place.
    pub key: Vec<u8>,
    /// What is remembered; none: it has been forgotten.
    pub value: Option<Vec<u8>>,
}

impl StateEntry {
    /// Does it say that everything is forgotten that was told before of what its key is about? Such a key is one byte.
    #[must_use]
    pub fn forgets_all(&self) -> bool {
        self.value.is_none() && self.key.len() == 1
    }
}

/// What a rule has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleCount {
    /// Packets, as on the wire.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
}

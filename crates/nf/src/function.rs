//! A function: a value that is asked what becomes of packets.

use crate::outcome::{Outcomes, Patch, Verdict};
use crate::packet::{Direction, Packet, Time};
use crate::profile::Profile;

/// A network function (RFC 7665 section 1.4: service function).
///
/// Whoever runs it owns clock, packets and what its outcomes ask for. Of one value, calls come one after
/// the other; times never go back.
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
    fn elapse(&mut self, now: Time, outcomes: &mut Outcomes);

    /// The packets that wait in it.
    fn waiting(&self) -> Waiting {
        Waiting::default()
    }

    /// What would become of a packet; nothing changes.
    fn ask(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Answer;

    /// Appends what it remembers that has changed since it was exported last, or with `all` everything.
    fn export(&mut self, all: bool, into: &mut Vec<StateEntry>);

    /// Takes over what another value of its kind has exported; entries that its rules know nothing of, or
    /// for which there is no room, are left. Answers how many were taken.
    fn import(&mut self, entries: &[StateEntry]) -> usize;

    /// What its rules have counted, in the order of their numbers.
    fn report(&self, into: &mut Vec<RuleCount>);

    /// The rule with this number in its user's words, such as `edge.iptables line 14, --dport 23 -j DROP`.
    fn rule_in_words(&self, rule: u32) -> Option<String>;
}

/// Packets that wait in a function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// How many.
    pub packets: u64,
    /// When the next of them is to go on, by [`Function::elapse`]; none: when there is nothing to wait for.
    pub next: Option<Time>,
}

/// What would become of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether it goes on.
    pub verdict: Verdict,
    /// How it would be changed.
    pub patches: Vec<Patch>,
    /// The rules that it meets, by their numbers, in their order.
    pub rules: Vec<u32>,
}

/// One thing that a function remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEntry {
    /// What it is about, by the content of rules and packets, never by a place.
    pub key: Vec<u8>,
    /// What is remembered; none: it has been forgotten.
    pub value: Option<Vec<u8>>,
}

/// What a rule has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuleCount {
    /// Packets, as on the wire.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
}

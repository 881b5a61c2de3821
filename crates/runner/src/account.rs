//! What came, what was made, what left and what ended, in wire packets: a super-frame counts as what it
//! becomes. Knows the identity between them, which is computed and never assumed.

use catena_model::DropReason;
use catena_nf::Function;
use catena_nf::outcome::{DropCause, GeneratedKind};
use catena_rules::Side;
use serde::Serialize;
use std::collections::BTreeMap;

/// A number for each side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Sides {
    /// Where packets of the forward direction come in.
    #[serde(rename = "in")]
    pub at_in: u64,
    /// Where they go out.
    #[serde(rename = "out")]
    pub at_out: u64,
}

impl Sides {
    /// Both together.
    #[must_use]
    pub const fn total(self) -> u64 {
        self.at_in + self.at_out
    }

    pub(crate) const fn add(&mut self, side: Side, number: u64) {
        match side {
            Side::In => self.at_in += number,
            Side::Out => self.at_out += number,
        }
    }
}

/// Packets that ended by a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleDrops {
    /// The rule, in its user's words.
    pub rule: String,
    /// How many.
    pub packets: u64,
}

/// What a rule has counted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleLine {
    /// The rule, in its user's words.
    pub rule: String,
    /// Packets.
    pub packets: u64,
    /// Their bytes, IP headers included.
    pub bytes: u64,
}

/// Packets that ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Drops {
    /// By rules that say so; those that ended none are left out.
    pub rules: Vec<RuleDrops>,
    /// The function had no room for what they need.
    pub function_full: u64,
    /// For other reasons, by their names; those that ended none are left out.
    pub reasons: BTreeMap<&'static str, u64>,
}

impl Drops {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        let rules: u64 = self.rules.iter().map(|drops| drops.packets).sum();
        rules + self.function_full + self.reasons.values().sum::<u64>()
    }
}

/// What the function has handed out for collectors; no packets, so beside the account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Messages {
    /// All of them.
    pub handed_out: u64,
    /// Those that the socket, or who writes lines, has taken; what becomes of datagrams then, UDP does not tell.
    pub sent: u64,
    /// Those that they have not, as they are full or nobody listens; they are not sent again.
    pub refused: u64,
}

/// Packets that wait in the function, or have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// All that had to wait.
    pub held: u64,
    /// Those that have gone on; they are no created ones.
    pub released: u64,
    /// Those that wait, as the function says.
    pub waiting: u64,
}

/// The account of a function that runs alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Account {
    /// Packets that came, by the side where they did.
    pub received: Sides,
    /// Packets that the function made, by why.
    pub created: BTreeMap<&'static str, u64>,
    /// Packets that left, by the side where they did.
    pub sent: Sides,
    /// Packets that ended.
    pub dropped: Drops,
    /// Packets that wait in the function, or have.
    pub held: Held,
    /// Received and created less sent, dropped and waiting: what nobody can explain.
    pub unaccounted: i128,
    /// Frames that the kernel had no slot for; nobody has seen them, and they are in no other number.
    pub ring_full: Sides,
    /// ICMP errors that were not made, as there were too many in a second already.
    pub errors_withheld: u64,
    /// What the function has told of packets.
    pub events: u64,
    /// What it has handed out for collectors.
    pub messages: Messages,
    /// What its rules have counted, in their order.
    pub rules: Vec<RuleLine>,
}

/// The numbers as they grow.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) received: Sides,
    pub(crate) sent: Sides,
    pub(crate) errors_withheld: u64,
    pub(crate) events: u64,
    pub(crate) messages: Messages,
    pub(crate) held: Held,
    created: BTreeMap<GeneratedKind, u64>,
    /// By the rule's number, which is the function's own word.
    rules: BTreeMap<u32, u64>,
    function_full: u64,
    /// By the reason's place in [`DropReason::ALL`].
    reasons: [u64; DropReason::COUNT],
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            received: Sides::default(),
            sent: Sides::default(),
            errors_withheld: 0,
            events: 0,
            messages: Messages::default(),
            held: Held::default(),
            created: BTreeMap::new(),
            rules: BTreeMap::new(),
            function_full: 0,
            reasons: [0; DropReason::COUNT],
        }
    }
}

impl Tally {
    pub(crate) fn create(&mut self, kind: GeneratedKind) {
        *self.created.entry(kind).or_default() += 1;
    }

    pub(crate) fn end(&mut self, reason: DropReason, packets: u64) {
        self.reasons[reason as usize] += packets;
    }

    pub(crate) fn end_by(&mut self, cause: DropCause, packets: u64) {
        match cause {
            DropCause::Rule(rule) => *self.rules.entry(rule).or_default() += packets,
            DropCause::Full => self.function_full += packets,
        }
    }

    /// The account, in the words of the function's user.
    pub(crate) fn account<F: Function + ?Sized>(&self, function: &F, ring_full: Sides) -> Account {
        let words = |rule| function.rule_in_words(rule).unwrap_or_else(|| format!("rule {rule}"));
        let ended = self.rules.iter();
        let rules =
            ended.map(|(rule, packets)| RuleDrops { rule: words(*rule), packets: *packets });
        let reasons = DropReason::ALL.iter().zip(self.reasons).filter(|(_, packets)| *packets > 0);
        let dropped = Drops {
            rules: rules.collect(),
            function_full: self.function_full,
            reasons: reasons.map(|(reason, packets)| (reason.name(), packets)).collect(),
        };
        let created: BTreeMap<&'static str, u64> =
            self.created.iter().map(|(kind, packets)| (kind.name(), *packets)).collect();
        let held = Held { waiting: function.waiting().packets, ..self.held };
        let came = i128::from(self.received.total()) + i128::from(created.values().sum::<u64>());
        let ended = self.sent.total() + dropped.total();
        let went = i128::from(ended) + i128::from(held.waiting);
        let mut counts = Vec::new();
        function.report(&mut counts);
        let counts = (0..).zip(counts);
        let line = |(rule, count): (u32, catena_nf::function::RuleCount)| RuleLine {
            rule: words(rule),
            packets: count.packets,
            bytes: count.bytes,
        };
        Account {
            received: self.received,
            created,
            sent: self.sent,
            dropped,
            held,
            unaccounted: came - went,
            ring_full,
            errors_withheld: self.errors_withheld,
            events: self.events,
            messages: self.messages,
            rules: counts.map(line).collect(),
        }
    }
}

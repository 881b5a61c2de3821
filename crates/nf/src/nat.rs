//! Network address translation of IPv4: SNAT, masquerade, DNAT, port forwarding, and hosts with an outside address
//! of their own (RFC 2663; behaviour by RFC 4787, 5382, 5508 and 6888).
//!
//! Knows inside (where forward packets come from) and outside, mappings and flows. Refuses to know routes and
//! who has which hardware address, and to decrement the TTL: it is no router. IPv6 is not translated.

mod carry;
mod decide;
mod due;
mod end;
mod flows;
mod fragments;
mod ports;
mod rules;
mod session;
mod sight;
#[cfg(test)]
mod tests;
mod write;

use crate::function::{Answer, Function, Portion, RuleCount, StateEntry};
use crate::monitor::table::Keyed;
use crate::outcome::{DropCause, Outcomes, Patch, Verdict};
use crate::packet::{Direction, Packet, Time};
use catena_model::limits::FUNCTION_FLOWS_MAX;
use catena_model::profile::{FieldSet, Meta, Profile, StateScope};
use catena_rules::RuleError;
use catena_rules::nat::NatConfig;
use catena_wire::field::Field;
use catena_wire::scalar::PortRange;
use decide::{Change, Decision};
use end::End;
use flows::Flows;
use fragments::Fragments;
use rules::Rules;
use sight::Sight;
use std::fmt;

/// What whoever runs a NAT says, beside its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatOptions {
    /// Flows at once, 1 to [`FUNCTION_FLOWS_MAX`].
    pub flows_max: usize,
    /// The outside ports, and identifiers of queries, that this value may give to flows; none: those of the
    /// configuration. Values that share outside addresses have ranges that do not meet.
    pub ports: Option<PortRange>,
    /// A number that senders cannot guess: with it they could choose flows that hide from one another.
    pub seed: u64,
}

impl Default for NatOptions {
    fn default() -> Self {
        Self { flows_max: FUNCTION_FLOWS_MAX, ports: None, seed: 0 }
    }
}

/// Why there is no NAT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatError {
    /// The configuration contradicts itself, or its blocks have no room in the ports of this value.
    Config(RuleError),
    /// So many flows.
    Flows(usize),
    /// So many outside ports, which are not all of the configuration's.
    Ports(PortRange),
}

impl fmt::Display for NatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Flows(flows) => {
                write!(f, "a NAT looks after 1 to {FUNCTION_FLOWS_MAX} flows, not {flows}")
            }
            Self::Ports(own) => {
                let (first, last): (u16, u16) = (*own).into();
                write!(
                    f,
                    "the ports {first} to {last} are not within those that the configuration names"
                )
            }
        }
    }
}

impl std::error::Error for NatError {}

/// A NAT.
#[derive(Clone, Debug)]
pub struct Nat {
    profile: Profile,
    options: NatOptions,
    rules: Rules,
    flows: Flows,
    fragments: Fragments,
    /// What the rules have counted.
    counts: Vec<RuleCount>,
    is_count_dirty: Vec<bool>,
    /// Room for one super-frame that goes back inside.
    room: Vec<u8>,
}

impl Nat {
    /// A NAT that has seen nothing. All memory that its packets need is taken here.
    ///
    /// # Errors
    /// When the configuration contradicts itself, or the options contradict it.
    pub fn new(config: &NatConfig, options: &NatOptions) -> Result<Self, NatError> {
        const NAME: &str = "the configuration of the NAT";
        config.check(NAME).map_err(NatError::Config)?;
        if !(1..=FUNCTION_FLOWS_MAX).contains(&options.flows_max) {
            return Err(NatError::Flows(options.flows_max));
        }
        if let Some(ports) = options.ports {
            if !config.ports.contains(ports.min()) || !config.ports.contains(ports.max()) {
                return Err(NatError::Ports(ports));
            }
            config.check_blocks(ports, NAME).map_err(NatError::Config)?;
        }
        let rules = Rules::new(config, options);
        let number = rules.all_words().len();
        Ok(Self {
            profile: profile(),
            flows: Flows::new(&rules, options.flows_max, options.seed),
            fragments: Fragments::new(options.seed),
            counts: vec![RuleCount::default(); number],
            is_count_dirty: vec![false; number],
            room: vec![0; write::FRAME_BYTES_MAX],
            options: *options,
            rules,
        })
    }

    /// Where the search for a free port begins.
    fn start(&self, inside: &End, range: PortRange) -> u16 {
        let ports = u64::from(range.max()) - u64::from(range.min()) + 1;
        let at = u16::try_from(inside.hash(self.options.seed) % ports).unwrap_or(0);
        let start = range.min().saturating_add(at);
        // Even for even, odd for odd (RFC 4787 section 4.2.2).
        if start % 2 == inside.port % 2 { start } else { start ^ 1 }.clamp(range.min(), range.max())
    }

    fn count(&mut self, decision: &Decision, packet: &Packet<'_>) {
        for rule in decision.rules.into_iter().flatten() {
            let at = rule as usize;
            let Some((count, is_dirty)) =
                self.counts.get_mut(at).zip(self.is_count_dirty.get_mut(at))
            else {
                continue;
            };
            count.packets = count.packets.saturating_add(packet.wire_packets.into());
            count.bytes = count.bytes.saturating_add(packet.wire_bytes);
            *is_dirty = true;
        }
    }

    /// What a packet that goes on changes of flows.
    fn change(
        &mut self,
        now: Time,
        decision: &Decision,
        packet: &Packet<'_>,
        direction: Direction,
    ) {
        for change in decision.changes.into_iter().flatten() {
            match change {
                Change::Goes(flow, seen) => self.flows.touch(now, &flow, seen),
                Change::Begins(flow, outside, seen) => {
                    let begun = self.flows.begin(now, (&flow, outside), seen, &self.rules);
                    debug_assert!(begun.is_some(), "there was room when it was decided");
                }
            }
        }
        if let Some(first) = decision.noted
            && let Some(sight) = Sight::of(packet, direction)
        {
            self.fragments.note(now, sight.whole, first);
        }
    }

    /// Does what was decided over a packet of the batch.
    fn carry_out(
        &mut self,
        (at, packet): (usize, &Packet<'_>),
        (direction, decision): (Direction, &Decision),
        outcomes: &mut Outcomes,
    ) {
        let translation = &decision.translation;
        if let Some(cause) = decision.drop {
            outcomes.drop_packet(at, cause);
        } else if translation.returns {
            let hairpin = self.rules.named(rules::Named::Hairpin);
            outcomes.drop_packet(at, DropCause::Rule(hairpin));
            write::turn_back((at, packet, direction), translation, &mut self.room, outcomes);
        } else if translation.quoted.is_some() {
            let length = packet.view.end as usize;
            outcomes.replace(at, length, |into| write::rewrite(packet, translation, into));
        } else {
            write::patches(packet, translation, |patch| outcomes.patch(at, patch));
        }
    }

    fn answer(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Answer {
        let decision = self.decide(now, direction, packet);
        let translation = &decision.translation;
        let returned =
            translation.returns.then(|| DropCause::Rule(self.rules.named(rules::Named::Hairpin)));
        let cause = decision.drop.or(returned);
        let mut patches: Vec<Patch> = Vec::new();
        if cause.is_none() && translation.quoted.is_none() {
            write::patches(packet, translation, |patch| patches.push(patch));
        }
        Answer {
            verdict: cause.map_or(Verdict::Pass, Verdict::Drop),
            patches,
            rules: decision.rules.into_iter().flatten().collect(),
        }
    }
}

/// What a NAT says of itself. Which port a flow gets depends on all flows before it. An error is written anew, so
/// all of it counts.
fn profile() -> Profile {
    let writes = [
        Field::Source,
        Field::Destination,
        Field::SourcePort,
        Field::DestinationPort,
        Field::IcmpIdentifier,
    ];
    let reads = Field::ALL.iter().copied().fold(FieldSet::EMPTY, FieldSet::with);
    Profile {
        reads: reads.with_meta(Meta::InPort).with_meta(Meta::ReceivedAt),
        writes: writes.into_iter().fold(FieldSet::EMPTY, FieldSet::with),
        replaces: true,
        drops: true,
        has_effects: true,
        effects_are_sums: false,
        state: StateScope::All,
        generates: true,
        is_ordered: true,
        needs_both_directions: true,
        ..Profile::IDENTITY
    }
}

impl Function for Nat {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn process(
        &mut self,
        now: Time,
        direction: Direction,
        batch: &[Packet<'_>],
        outcomes: &mut Outcomes,
    ) {
        outcomes.begin(batch.len());
        self.flows.forget(now, &self.rules);
        for (at, packet) in batch.iter().enumerate() {
            let decision = self.decide(now, direction, packet);
            self.count(&decision, packet);
            if decision.drop.is_none() {
                self.change(now, &decision, packet, direction);
            }
            self.carry_out((at, packet), (direction, &decision), outcomes);
        }
    }

    fn elapse(&mut self, now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
        self.flows.forget(now, &self.rules);
    }

    fn ask(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Answer {
        if !self.flows.is_due(now) {
            return self.answer(now, direction, packet);
        }
        let mut later = self.clone();
        later.flows.forget(now, &later.rules);
        later.answer(now, direction, packet)
    }

    fn export(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        self.export_state(all, into);
    }

    fn export_portion(&mut self, portion: Portion, into: &mut Vec<StateEntry>) -> bool {
        self.export_state_portion(portion, into)
    }

    fn import(&mut self, entries: &[StateEntry]) -> usize {
        self.import_state(entries)
    }

    fn report(&self, into: &mut Vec<RuleCount>) {
        into.extend_from_slice(&self.counts);
    }

    fn rule_in_words(&self, rule: u32) -> Option<String> {
        self.rules.words(rule).cloned()
    }
}

//! The ids and the ips: rules of Snort and Suricata, held against packets, streams and requests of HTTP.
//!
//! One engine: the ips carries out `drop` and `reject`, and ends what it has no room to look at; the ids
//! tells alone, and lets it pass. Neither holds a packet back: what came before the packet that completes
//! a match has gone on. Refuses to know the language, to read a clock, and where alerts go.

mod carry;
mod config;
mod datagrams;
mod evaluate;
#[cfg(test)]
mod evasions;
mod eve;
mod facts;
mod finds;
mod flow;
mod http;
mod inspect;
mod program;
mod state;
mod stream;
#[cfg(test)]
mod tests;
mod thresholds;

pub use config::{IdsConfig, IdsError};

use crate::function::{Answer, Function, Portion, RuleCount, StateEntry};
use crate::outcome::{
    DropCause, Event, EventKind, GeneratedKind, HandedOutKind, Outcomes, Verdict,
};
use crate::packet::{Direction, Packet, Time};
use crate::tracking::{Tracking, TrackingConfig};
use catena_model::profile::{FieldSet, Meta, Profile, StateScope};
use catena_rules::snort::{Action, IdsRules, Protocol};
use catena_wire::field::Field;
use catena_wire::frame::Fragment;
use catena_wire::icmp::error_message::{self, ErrorMessage, Said};
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::reset;
use inspect::{Fate, Moment, Note, Scratch, inspect};
use program::Program;
use state::State;

/// What is looked at with each packet, of flows and of counters, whether it is over.
const SWEPT_BY_PACKET: usize = 2;
/// The same as time passes.
const SWEPT_BY_TIME: usize = 1_024;
/// Codes that tell the sender of a rejected packet (RFC 792: port unreachable; RFC 4443: the same).
const UNREACHABLE: (u8, u8) = (3, 4);

/// What was not looked at wholly, and why, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IdsStatistics {
    /// Alerts.
    pub alerts: u64,
    /// Their checksum is wrong: hosts drop them.
    pub bad_checksum: u64,
    /// Their time to live ends before the hosts.
    pub low_ttl: u64,
    /// There was no room for their flow.
    pub flows_full: u64,
    /// There was no room for their part of a stream.
    pub streams_full: u64,
    /// There was no room for their fragment.
    pub fragments_full: u64,
    /// Their fragments contradict one another: hosts drop them.
    pub fragments_overlap: u64,
    /// There was no room to count a match, which was told.
    pub thresholds_full: u64,
}

/// An ids, or an ips.
#[derive(Clone, Debug)]
pub struct Ids {
    config: IdsConfig,
    profile: Profile,
    program: Program,
    tracking: Tracking,
    state: State,
    scratch: Scratch,
    counts: Vec<RuleCount>,
    is_dirty: Vec<bool>,
    statistics: IdsStatistics,
    portioned: carry::Portioned,
}

impl Ids {
    /// One that has seen nothing. All memory that its packets need is taken here.
    ///
    /// # Errors
    /// When a number of the configuration is out of its bounds, or the rules are too many.
    pub fn new(rules: IdsRules, config: IdsConfig) -> Result<Self, IdsError> {
        config.check()?;
        let profile = profile(&rules, &config);
        let program = Program::compile(rules)?;
        let number = program.order.len();
        let tracking = TrackingConfig {
            connections_max: config.flows_max,
            seed: config.seed,
            ..TrackingConfig::default()
        };
        Ok(Self {
            profile,
            tracking: Tracking::new(&tracking),
            state: State::new(&config, &program),
            scratch: Scratch::with_room(&program),
            counts: vec![RuleCount::default(); number],
            is_dirty: vec![false; number],
            statistics: IdsStatistics::default(),
            portioned: carry::Portioned::default(),
            program,
            config,
        })
    }

    /// What was not looked at wholly.
    #[must_use]
    pub const fn statistics(&self) -> IdsStatistics {
        self.statistics
    }

    fn one(
        &mut self,
        now: Time,
        (at, direction): (usize, Direction),
        packet: &Packet<'_>,
        outcomes: &mut Outcomes,
    ) {
        let Self {
            config, program, tracking, state, scratch, counts, is_dirty, statistics, ..
        } = self;
        let moment = Moment { program, config, tracking, now };
        let mut tell = |hit: &inspect::Hit<'_>| {
            if let (Some(count), Some(is_dirty)) =
                (counts.get_mut(hit.number as usize), is_dirty.get_mut(hit.number as usize))
            {
                count.packets = count.packets.saturating_add(packet.wire_packets.into());
                count.bytes = count.bytes.saturating_add(packet.wire_bytes);
                *is_dirty = true;
            }
            if !hit.is_told {
                return;
            }
            statistics.alerts = statistics.alerts.saturating_add(1);
            outcomes.tell(at, Event { at: now, kind: EventKind::Alert, rule: hit.number });
            let is_blocked = config.is_preventing && hit.rule.action != Action::Alert;
            let write =
                |into: &mut [u8]| eve::write(hit, (now, config.epoch_seconds), is_blocked, into);
            outcomes.hand_out(at, HandedOutKind::Eve, eve::LINE_BYTES_MAX, write);
        };
        let found = inspect(moment, state, scratch, packet, &mut tell);
        if let Some(note) = found.note {
            let counter = match note {
                Note::BadChecksum => &mut statistics.bad_checksum,
                Note::LowTtl => &mut statistics.low_ttl,
                Note::FlowsFull => &mut statistics.flows_full,
                Note::StreamsFull => &mut statistics.streams_full,
                Note::FragmentsFull => &mut statistics.fragments_full,
                Note::FragmentsOverlap => &mut statistics.fragments_overlap,
                Note::ThresholdsFull => &mut statistics.thresholds_full,
            };
            *counter = counter.saturating_add(1);
        }
        let mut is_reset = false;
        match found.fate {
            Fate::Passes => {}
            Fate::Full => outcomes.drop_packet(at, DropCause::Full),
            Fate::Ends { rule, is_rejected } => {
                outcomes.drop_packet(at, DropCause::Rule(rule));
                // What came in fragments is answered as the packet that it is.
                let is_part = packet.view.fragment != Fragment::Whole;
                let whole = is_part.then(|| Packet::read(&scratch.datagram).ok()).flatten();
                let answered = whole.as_ref().unwrap_or(packet);
                is_reset = is_rejected && reject(answered, (at, direction), outcomes);
            }
        }
        match &found.look {
            Some(look) if is_reset => self.tracking.settle_reset(now, look),
            Some(look) => self.tracking.settle(look, found.fate == Fate::Passes),
            None => {}
        }
        self.state.sweep(&self.program, now, SWEPT_BY_PACKET);
    }
}

/// Tells the sender of a rejected packet; answers whether by a reset.
fn reject(
    packet: &Packet<'_>,
    (at, direction): (usize, Direction),
    outcomes: &mut Outcomes,
) -> bool {
    let macs = (packet.view.destination, packet.view.source);
    let back = direction.reversed();
    if packet.view.protocol == Some(IpProtocol::TCP) {
        let write = |into: &mut [u8]| reset::emit(packet.frame, macs, into);
        return outcomes.generate(
            (at, GeneratedKind::TcpReset, back),
            reset::FRAME_BYTES_MAX,
            write,
        );
    }
    let (v4, v6) = UNREACHABLE;
    let is_v4 = packet.view.network == catena_wire::frame::Network::Ipv4;
    let said = if is_v4 { Said::unreachable_v4(v4) } else { Said::unreachable_v6(v6) };
    if let Some(message) = ErrorMessage::judge(packet.frame) {
        let write = |into: &mut [u8]| message.emit(said, macs, into);
        let made = (at, GeneratedKind::Unreachable, back);
        outcomes.generate(made, error_message::FRAME_BYTES_MAX, write);
    }
    false
}

/// What an ids says of itself. Fragments of one packet meet by its hosts, and so may counters.
fn profile(rules: &IdsRules, config: &IdsConfig) -> Profile {
    let of_ip = Field::ALL.iter().filter(|field| **field >= Field::Dscp);
    let mut reads =
        of_ip.fold(FieldSet::EMPTY.with(Field::EtherType), |set, field| set.with(*field));
    let rejects =
        config.is_preventing && rules.rules.iter().any(|rule| rule.action == Action::Reject);
    if rejects {
        // The answer quotes the packet.
        reads = FieldSet::all();
    }
    let is_counted = rules.rules.iter().any(|rule| !rule.thresholds.is_empty());
    let is_of_all = rules.rules.iter().flat_map(|rule| &rule.thresholds);
    let is_of_all =
        is_of_all.into_iter().any(|threshold| threshold.track == catena_rules::snort::Track::Rule);
    let asks_both = rules.rules.iter().any(|rule| {
        rule.flow.is_any()
            || !rule.flowbits.is_empty()
            || !matches!(rule.protocol, Protocol::Ip | Protocol::Icmp)
    });
    Profile {
        reads: reads.with_meta(Meta::InPort).with_meta(Meta::ReceivedAt),
        // What finds no room ends, whatever rules say.
        drops: config.is_preventing,
        has_effects: true,
        effects_are_sums: false,
        state: if is_of_all { StateScope::All } else { StateScope::Host },
        generates: rejects,
        is_ordered: is_counted,
        // Lengths are those on the wire, and so is what a match ends in.
        takes_super_frames: false,
        needs_both_directions: asks_both,
        ..Profile::IDENTITY
    }
}

impl Function for Ids {
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
        for (at, packet) in batch.iter().enumerate() {
            self.one(now, (at, direction), packet, outcomes);
        }
    }

    fn elapse(&mut self, now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
        self.tracking.elapse(now);
        self.state.datagrams.sweep(now);
        self.state.sweep(&self.program, now, SWEPT_BY_TIME);
    }

    fn ask(&self, now: Time, _direction: Direction, packet: &Packet<'_>) -> Answer {
        let mut state = self.state.excerpt((&self.program, &self.config, now), packet);
        let mut scratch = Scratch::small(&self.program);
        let moment =
            Moment { program: &self.program, config: &self.config, tracking: &self.tracking, now };
        let mut rules = Vec::new();
        let mut tell = |hit: &inspect::Hit<'_>| rules.push(hit.number);
        let found = inspect(moment, &mut state, &mut scratch, packet, &mut tell);
        let verdict = match found.fate {
            Fate::Passes => Verdict::Pass,
            Fate::Full => Verdict::Drop(DropCause::Full),
            Fate::Ends { rule, .. } => Verdict::Drop(DropCause::Rule(rule)),
        };
        Answer { verdict, patches: Vec::new(), rules }
    }

    fn export(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        self.export_state(all, into);
    }

    fn export_portion(&mut self, portion: Portion, into: &mut Vec<StateEntry>) -> bool {
        self.export_state_portion(portion, into)
    }

    fn import(&mut self, entries: &[StateEntry]) -> usize {
        entries.iter().filter(|entry| self.take_over(entry).is_some()).count()
    }

    fn report(&self, into: &mut Vec<RuleCount>) {
        into.extend_from_slice(&self.counts);
    }

    fn rule_in_words(&self, rule: u32) -> Option<String> {
        let one = self.program.rules.rules.get(rule as usize)?;
        Some(self.program.rules.in_words(one))
    }
}

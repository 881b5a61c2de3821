//! The balancer: virtual services, each of which several backends serve.
//!
//! Knows which backend serves which session: by the lookup table of Maglev at first, then by the session, whatever
//! the table says later. Packets of clients go on to the backend with its address and port, answers come back from
//! the virtual ones. Forward is from clients to services. Refuses to answer for virtual addresses (ARP, neighbour
//! discovery, echoes): whoever runs it does.
//!
//! Nothing is allocated for a packet. Sessions are found by the client's end and the virtual one, and backends of
//! sessions that are handed over by their ends: no number of a configuration is in what another value takes over.

mod carry;
mod errors;
mod look;
mod maglev;
mod probe;
mod program;
mod session;
mod standing;
#[cfg(test)]
mod tests;

use crate::function::{Answer, Function, Portion, RuleCount, StateEntry};
use crate::outcome::{GeneratedKind, Outcomes, Verdict};
use crate::packet::{Direction, Packet, Time};
use catena_model::limits::FUNCTION_FRAGMENTED_MAX;
use catena_model::profile::{FieldSet, Meta, Profile, StateScope};
use catena_rules::balancer::{BalancerConfig, SessionTimeouts, WhenDead, WhenFull};
use catena_wire::field::Field;
use catena_wire::flow::FlowKey;
use catena_wire::scalar::MacAddr;
use catena_wire::tcp::reset;
use look::{Change, Look, Rewrite};
use probe::Checks;
use program::{Program, rule};
use session::{Fragmented, Sessions, Sign};
use standing::Standing;
use std::net::IpAddr;

/// Sessions that end at most each time that time passes.
const ENDED_BY_TIME: usize = 1_024;

/// A balancer.
#[derive(Clone, Debug)]
pub struct Balancer {
    program: Program,
    profile: Profile,
    timeouts: SessionTimeouts,
    when_full: WhenFull,
    seed: u64,
    sessions: Sessions,
    /// Where the next portion of an export begins.
    portioned: usize,
    /// Of each backend.
    standings: Vec<Standing>,
    checks: Checks,
    counts: Vec<RuleCount>,
    /// Rules whose counts have changed since they were exported.
    is_dirty: Vec<bool>,
    /// Packets that were seen.
    tick: u64,
    /// Is where frames go learnt?
    learns: bool,
}

/// How a backend stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendState {
    /// The service's name.
    pub service: String,
    /// The backend's address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Have active checks not found it dead?
    pub is_up: bool,
    /// Is it ejected for what clients met?
    pub is_ejected: bool,
    /// Does it take new sessions?
    pub is_open: bool,
}

impl Balancer {
    /// A balancer that has seen nothing. All memory that its packets need is taken here. The configuration is
    /// one that [`catena_rules::balancer::read`] has read.
    #[must_use]
    pub fn new(config: &BalancerConfig) -> Self {
        let program = Program::new(config);
        let rules = program.rules.len();
        Self {
            profile: profile(config),
            timeouts: config.timeouts,
            when_full: config.when_full,
            seed: config.seed,
            sessions: Sessions::new(config.sessions_max, FUNCTION_FRAGMENTED_MAX, config.seed),
            portioned: 0,
            standings: vec![standing::FRESH; program.backends.len()],
            checks: Checks::new(&program, config.seed),
            counts: vec![RuleCount::default(); rules],
            is_dirty: vec![false; rules],
            tick: 0,
            learns: config.services.iter().any(|service| service.health.is_some()),
            program,
        }
    }

    /// The same where checks are on their way by addresses, whatever stations their frames name: `stations`, to whom
    /// and from whom. `seed`: by which checks are drawn, known to nobody else.
    #[must_use]
    pub fn by_address(config: &BalancerConfig, seed: u64, stations: (MacAddr, MacAddr)) -> Self {
        let made = Self::new(config);
        let checks = Checks::by_address(&made.program, seed, stations);
        Self { checks, learns: false, ..made }
    }

    /// How each backend stands, in the order of the configuration.
    #[must_use]
    pub fn backends(&self, now: Time) -> Vec<BackendState> {
        let backends = self.program.backends.iter().zip(&self.standings).enumerate();
        let told = backends.filter_map(|(number, (backend, standing))| {
            Some(BackendState {
                service: self.program.service(number)?.config.name.clone(),
                address: backend.address,
                port: backend.port,
                is_up: standing.is_up,
                is_ejected: standing.is_ejected(now),
                is_open: self.is_open(number, now),
            })
        });
        told.collect()
    }

    /// Sessions that are remembered, those included that are over and not yet forgotten.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.table.len()
    }

    fn count(&mut self, rule: u32, packet: &Packet<'_>) {
        let rule = rule as usize;
        if let (Some(count), Some(is_dirty)) =
            (self.counts.get_mut(rule), self.is_dirty.get_mut(rule))
        {
            count.packets = count.packets.saturating_add(packet.wire_packets.into());
            count.bytes = count.bytes.saturating_add(packet.wire_bytes);
            *is_dirty = true;
        }
    }

    /// Carries out what was decided over a packet.
    fn settle(&mut self, now: Time, look: &Look) {
        self.tick = self.tick.wrapping_add(1);
        match &look.change {
            Change::Nothing => {}
            Change::Goes(key, session) => self.put(*key, *session),
            Change::Begins { key, session, gone } => {
                gone.iter().flatten().for_each(|gone| self.forget(gone, now));
                self.put(*key, *session);
            }
            Change::Ends(key) => self.forget(key, now),
        }
        if let Some(sign) = look.sign {
            standing::judge(&mut self.standings, &self.program, sign, now);
        }
        if let Some((key, backend)) = look.fragment {
            let met = Fragmented { backend, seen: now, tick: self.tick, is_dirty: true };
            self.sessions.put_fragmented(key, met);
        }
    }

    fn put(&mut self, key: FlowKey, mut session: session::Session) {
        (session.tick, session.is_dirty) = (self.tick, true);
        if let Some(answer) = self.answer_key(&key, session.backend) {
            self.sessions.put(key, answer, session);
        }
    }

    /// Ends a session; one that was asked for and never answered tells of its backend.
    fn forget(&mut self, key: &FlowKey, now: Time) {
        let Some(session) = self.sessions.find(key).copied() else { return };
        if let Some(answer) = self.answer_key(key, session.backend) {
            self.sessions.remove(key, &answer);
        }
        if session.asked.is_some() && !session.is_answered && !session.has_failed {
            let sign = (session.backend, Sign::Failed);
            standing::judge(&mut self.standings, &self.program, sign, now);
        }
    }

    /// Learns where frames to backends go.
    fn learn(&mut self, direction: Direction, packet: &Packet<'_>, look: &Look) {
        let from = packet.view.flow.map(|flow| flow.source);
        let backends = match (direction, &look.change) {
            (Direction::Forward, Change::Goes(_, session) | Change::Begins { session, .. }) => {
                std::slice::from_ref(&session.backend)
            }
            (Direction::Forward, _) => &[],
            (Direction::Backward, _) => from.map_or(&[][..], |from| self.program.backends_at(from)),
        };
        for backend in backends {
            let standing = self.standings.get_mut(*backend);
            standing.into_iter().for_each(|standing| standing.learn(packet, direction));
        }
    }

    fn carry_out(
        &mut self,
        (now, direction): (Time, Direction),
        (at, packet): (usize, &Packet<'_>),
        look: &Look,
        outcomes: &mut Outcomes,
    ) {
        if let Verdict::Drop(cause) = look.verdict {
            outcomes.drop_packet(at, cause);
        }
        look.patches().for_each(|patch| outcomes.patch(at, patch));
        if let Rewrite::Error(error) = &look.rewrite {
            outcomes.replace(at, packet.view.end as usize, |into| error.emit(packet, into));
        }
        if look.is_reset {
            let made = (at, GeneratedKind::TcpReset, direction.reversed());
            let macs = (packet.view.destination, packet.view.source);
            outcomes.generate(made, reset::FRAME_BYTES_MAX, |into| {
                reset::emit(packet.frame, macs, into)
            });
        }
        if look.rule == Some(rule::HEALTH) {
            self.checks.take(now, (at, packet), (&self.program, &mut self.standings), outcomes);
        }
    }
}

/// What a balancer says of itself. An error that is put in another's place has all of its fields. Whether a
/// backend is open, and whether there is room, all packets decide, in their order.
fn profile(config: &BalancerConfig) -> Profile {
    let reads = Field::ALL.iter().fold(FieldSet::EMPTY, |set, field| set.with(*field));
    let rewritten = [Field::Source, Field::SourcePort, Field::Destination, Field::DestinationPort];
    let mut writes = rewritten.into_iter().fold(FieldSet::EMPTY, FieldSet::with);
    let mut services = config.services.iter();
    if services.clone().flat_map(|service| &service.backends).any(|backend| backend.mac.is_some()) {
        writes = writes.with(Field::EthernetDestination);
    }
    let resets = services.any(|one| one.health.is_some() && one.when_dead != WhenDead::Keep);
    Profile {
        reads: reads.with_meta(Meta::InPort).with_meta(Meta::ReceivedAt),
        writes,
        replaces: true,
        drops: true,
        has_effects: true,
        effects_are_sums: false,
        generates: resets || config.services.iter().any(|service| service.health.is_some()),
        state: StateScope::All,
        is_ordered: true,
        needs_both_directions: true,
        ..Profile::IDENTITY
    }
}

impl Function for Balancer {
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
            let look = self.look(now, direction, packet);
            if self.learns {
                self.learn(direction, packet, &look);
            }
            self.carry_out((now, direction), (at, packet), &look, outcomes);
            look.rule.into_iter().for_each(|rule| self.count(rule, packet));
            self.settle(now, &look);
        }
    }

    fn elapse(&mut self, now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
        for _ in 0..ENDED_BY_TIME {
            let Some(over) = self.next_over(now) else { break };
            self.forget(&over, now);
        }
        self.sessions.turn_sweep();
    }

    fn inquire(&mut self, now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
        self.checks.turn(now, &self.program, &mut self.standings, outcomes);
    }

    fn ask(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Answer {
        let look = self.look(now, direction, packet);
        Answer {
            verdict: look.verdict,
            patches: look.patches().collect(),
            rules: look.rule.into_iter().collect(),
        }
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
        self.program.rules.get(rule as usize).cloned()
    }
}

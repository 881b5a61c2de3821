//! The monitor: flows told to collectors by IPFIX, who talks most, round trips, and scans.
//!
//! Knows flows one way, and when their records end. Refuses to change, drop or delay a packet, and to know
//! where collectors are: its messages are handed out.
//!
//! A record ends when no packet came for the idle timeout; with the first packet behind the active timeout;
//! with RST, both ways; with FIN of both ends and the ACK behind them; and when another flow needs its
//! room: that of the flow that was seen longest ago. Idle records are looked for at each packet, two at a
//! time, and as time passes.

mod collector;
mod config;
mod flow;
mod round_trips;
mod scans;
mod state;
pub(crate) mod table;
mod talkers;
#[cfg(test)]
mod tests;

pub use config::{MonitorConfig, MonitorError};
pub use round_trips::{CLASSES, RoundTrips};
pub use scans::ScanLimit;
pub use talkers::Talker;

use crate::function::{Answer, Function, Portion, RuleCount, StateEntry};
use crate::outcome::{Event, EventKind, Outcomes, Verdict};
use crate::packet::{Direction, Packet, Time};
use catena_model::profile::{FieldSet, Meta, Profile, StateScope};
use catena_wire::field::Field;
use catena_wire::ipfix::EndReason;
use catena_wire::tcp::TcpFlags;
use collector::Collector;
use flow::{Handshake, Key, Record, Sighting};
use scans::{Judged, Scans};
use state::{Gone, GoneKey};
use table::Table;
use talkers::Recent;

/// The rule that counts packets in flows.
const FLOWS_RULE: u32 = 0;
/// The rule that tells of scans.
const SCANS_RULE: u32 = 1;
/// Records that a packet ends at most because nothing came of them: it begins one.
const ENDED_BY_PACKET: usize = 2;
/// Records that end at most when time passes.
const ENDED_BY_TIME: usize = 1_024;

/// What has become of records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Records that ended.
    pub ended: u64,
    /// Of these, those that ended because another flow needed their room.
    pub ended_early: u64,
    /// Scans that were told.
    pub scans: u64,
}

/// A monitor.
#[derive(Clone, Debug)]
pub struct Monitor {
    config: MonitorConfig,
    profile: Profile,
    flows: Table<Key, Record>,
    collector: Collector,
    scans: Option<Scans>,
    round_trips: RoundTrips,
    recent: Recent,
    /// What the rules have counted.
    counts: [RuleCount; 2],
    statistics: Statistics,
    /// Packets that were seen.
    tick: u64,
    gone: Gone,
    /// Where the next portion of an export begins.
    portioned: usize,
}

/// Where and when something happens.
struct Moment<'o> {
    now: Time,
    /// The packet of the batch.
    at: usize,
    outcomes: &'o mut Outcomes,
}

impl Monitor {
    /// A monitor that has seen nothing. All memory that its packets need is taken here.
    ///
    /// # Errors
    /// When a number of the configuration is out of its bounds.
    pub fn new(config: MonitorConfig) -> Result<Self, MonitorError> {
        config.check()?;
        Ok(Self {
            profile: profile(&config),
            flows: Table::new(config.flows_max, config.seed),
            collector: Collector::new(config.domain, config.epoch_seconds),
            scans: config.scans.map(|limit| Scans::new(limit, config.seed)),
            round_trips: RoundTrips::default(),
            recent: Recent::new(),
            counts: [RuleCount::default(); 2],
            statistics: Statistics::default(),
            tick: 0,
            gone: Gone::default(),
            portioned: 0,
            config,
        })
    }

    /// The records with most bytes, that with most first: of all that are open, and of the 1,024 that
    /// ended last.
    #[must_use]
    pub fn top(&self, records: usize) -> Vec<Talker> {
        let open = self.flows.iter().map(|(key, record)| Talker::of(key, record, None));
        talkers::top(open.chain(self.recent.iter().copied()).collect(), records)
    }

    /// How long connections of TCP took to begin.
    #[must_use]
    pub const fn round_trips(&self) -> &RoundTrips {
        &self.round_trips
    }

    /// What has become of records.
    #[must_use]
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Records that are open.
    #[must_use]
    pub fn open(&self) -> usize {
        self.flows.len()
    }

    /// Ends all records and hands out all that waits: the monitor is about to end.
    pub fn end_all(&mut self, now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
        let moment = &mut Moment { now, at: 0, outcomes };
        self.collector.due(moment);
        while let Some(slot) = self.flows.oldest() {
            self.end(slot, EndReason::Forced, moment);
        }
        self.collector.flush(moment);
    }

    /// Does what is due: so many idle records end, windows of scans, messages.
    #[inline]
    fn look_after(&mut self, records: usize, moment: &mut Moment<'_>) {
        self.collector.due(moment);
        for _ in 0..records {
            let oldest = self.flows.oldest().and_then(|slot| Some((slot, self.flows.get(slot)?)));
            let Some((slot, (_, record))) = oldest else { break };
            if moment.now.since(record.last) < self.config.idle().0 {
                break;
            }
            let reason = record.idle_reason();
            self.end(slot, reason, moment);
        }
        while let Some(judged) = self.scans.as_mut().and_then(|scans| scans.judge(moment.now)) {
            self.judge(judged, moment);
        }
    }

    fn judge(&mut self, judged: Judged, moment: &mut Moment<'_>) {
        let Judged { source, is_found, is_gone } = judged;
        if is_gone {
            self.gone.note(GoneKey::Source(source));
        }
        if is_found {
            self.statistics.scans = self.statistics.scans.saturating_add(1);
            let kind = EventKind::ScanFound(source);
            moment.outcomes.tell(moment.at, Event { at: moment.now, kind, rule: SCANS_RULE });
        }
    }

    /// Counts a packet in its flow.
    #[inline]
    fn count(&mut self, seen: &Sighting, moment: &mut Moment<'_>) {
        self.tick = self.tick.wrapping_add(1);
        let [all, _] = &mut self.counts;
        add(all, seen);
        let Some(slot) = self.record_of(seen, moment) else { return };
        let Some(record) = self.flows.get_mut(slot) else { return };
        record.add(seen, moment.now, self.tick);
        self.flows.touch(slot);
        if let Some(flags) = seen.flags {
            self.follow(slot, seen, flags, moment);
        }
    }

    /// The open record that a packet belongs to.
    fn record_of(&mut self, seen: &Sighting, moment: &mut Moment<'_>) -> Option<u32> {
        let mut begun = Record::begun(moment.now);
        if let Some(slot) = self.flows.find(&seen.key) {
            let (_, record) = *self.flows.get(slot)?;
            let Some(reason) = self.why_over(&record, seen, moment.now) else { return Some(slot) };
            if reason == EndReason::Active {
                (begun.handshake, begun.is_closing) = (record.handshake, record.is_closing);
            }
            self.end(slot, reason, moment);
        }
        let slot = self.flows.insert(seen.key, begun);
        slot.or_else(|| {
            let oldest = self.flows.oldest()?;
            self.statistics.ended_early = self.statistics.ended_early.saturating_add(1);
            self.end(oldest, EndReason::Full, moment);
            self.flows.insert(seen.key, begun)
        })
    }

    /// Why a packet does not belong to the record of its flow any more.
    fn why_over(&self, record: &Record, seen: &Sighting, now: Time) -> Option<EndReason> {
        let asks = seen.flags.is_some_and(asks_for_connection);
        if now.since(record.last) >= self.config.idle().0 {
            Some(record.idle_reason())
        } else if asks && record.flags.has_any(TcpFlags::FIN) {
            Some(EndReason::Ended)
        } else if now.since(record.first) >= self.config.active().0 {
            Some(EndReason::Active)
        } else {
            None
        }
    }

    /// Ends a record.
    fn end(&mut self, slot: u32, reason: EndReason, moment: &mut Moment<'_>) {
        let Some((key, record)) = self.flows.remove(slot) else { return };
        self.gone.note(GoneKey::Flow(key));
        self.statistics.ended = self.statistics.ended.saturating_add(1);
        self.recent.put(Talker::of(&key, &record, Some(reason)));
        self.collector.add(record.told(&key, reason, self.config.epoch_ms()), moment);
    }

    /// What a packet of TCP says of its connection.
    fn follow(&mut self, slot: u32, seen: &Sighting, flags: TcpFlags, moment: &mut Moment<'_>) {
        let Some(&(key, record)) = self.flows.get(slot) else { return };
        if flags.has_any(TcpFlags::RST) {
            let back = self.flows.find(&key.reversed());
            self.end(slot, EndReason::Ended, moment);
            back.into_iter().for_each(|back| self.end(back, EndReason::Ended, moment));
        } else if asks_for_connection(flags) {
            self.set_handshake(
                slot,
                match record.handshake {
                    Handshake::Asked(_) | Handshake::AskedAgain => Handshake::AskedAgain,
                    Handshake::None | Handshake::Answered(_) => Handshake::Asked(moment.now),
                },
            );
            self.asked(seen, moment);
        } else if flags.has_any(TcpFlags::SYN) {
            self.answered(&key, moment.now);
        } else {
            self.go_on(slot, flags, moment);
        }
    }

    /// A packet of TCP that is neither the first nor resets.
    fn go_on(&mut self, slot: u32, flags: TcpFlags, moment: &mut Moment<'_>) {
        let Some(&(key, record)) = self.flows.get(slot) else { return };
        if let Handshake::Answered(at) = record.handshake
            && flags.has_any(TcpFlags::ACK)
        {
            round_trips::count(&mut self.round_trips.to_asking, moment.now.since(at));
            self.set_handshake(slot, Handshake::None);
        }
        let mut is_last = record.is_closing;
        if flags.has_any(TcpFlags::FIN)
            && let Some(back) = self.flows.find(&key.reversed())
            && let Some(other) = self.flows.get_mut(back)
            && other.flags.has_any(TcpFlags::FIN)
        {
            (other.is_closing, other.is_dirty) = (true, true);
            is_last = true;
        }
        if is_last {
            self.end(slot, EndReason::Ended, moment);
        }
    }

    fn set_handshake(&mut self, slot: u32, handshake: Handshake) {
        if let Some(record) = self.flows.get_mut(slot) {
            (record.handshake, record.is_dirty) = (handshake, true);
        }
    }

    /// A source asks for a connection.
    fn asked(&mut self, seen: &Sighting, moment: &mut Moment<'_>) {
        let flow = &seen.key.flow;
        let pair = (flow.destination, flow.destination_port);
        let Some(scans) = &mut self.scans else { return };
        let [_, asking] = &mut self.counts;
        add(asking, seen);
        if scans.asked(flow.source, pair, moment.now) {
            return;
        }
        let judged = scans.judge_oldest(moment.now, true);
        scans.asked(flow.source, pair, moment.now);
        judged.into_iter().for_each(|judged| self.judge(judged, moment));
    }

    /// A connection that was asked for is answered by this flow.
    fn answered(&mut self, key: &Key, now: Time) {
        if let Some(asking) = self.flows.find(&key.reversed())
            && let Some(record) = self.flows.get(asking).map(|(_, record)| *record)
        {
            if let Handshake::Asked(at) = record.handshake {
                round_trips::count(&mut self.round_trips.to_asked, now.since(at));
            }
            // Of two answers it cannot be told which one an ACK is for.
            let handshake = match record.handshake {
                Handshake::Asked(_) | Handshake::AskedAgain => Handshake::Answered(now),
                Handshake::None | Handshake::Answered(_) => Handshake::None,
            };
            self.set_handshake(asking, handshake);
        }
        let pair = (key.flow.source, key.flow.source_port);
        self.scans.iter_mut().for_each(|scans| scans.answered(key.flow.destination, pair));
    }
}

/// Counts a packet. What was taken over may be any number.
fn add(count: &mut RuleCount, seen: &Sighting) {
    count.packets = count.packets.saturating_add(seen.packets);
    count.bytes = count.bytes.saturating_add(seen.bytes);
}

/// SYN alone.
fn asks_for_connection(flags: TcpFlags) -> bool {
    let others = TcpFlags::ACK.with(TcpFlags::RST).with(TcpFlags::FIN);
    flags.has_any(TcpFlags::SYN) && !flags.has_any(others)
}

/// What of packets a monitor looks at.
const READS: [Field; 11] = [
    Field::EtherType,
    Field::Length,
    Field::FragmentOffset,
    Field::Protocol,
    Field::Source,
    Field::Destination,
    Field::SourcePort,
    Field::DestinationPort,
    Field::TcpFlags,
    Field::IcmpType,
    Field::IcmpCode,
];

/// What a monitor says of itself. Which record another one ends, and which records are told together, all
/// packets decide, in their order.
fn profile(config: &MonitorConfig) -> Profile {
    let reads = READS.into_iter().fold(FieldSet::EMPTY, FieldSet::with);
    Profile {
        reads: reads.with_meta(Meta::InPort).with_meta(Meta::ReceivedAt),
        has_effects: true,
        effects_are_sums: false,
        state: StateScope::All,
        is_ordered: true,
        // Whoever sees no answers takes each client for a scanner.
        needs_both_directions: config.scans.is_some(),
        ..Profile::IDENTITY
    }
}

impl Function for Monitor {
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
            let moment = &mut Moment { now, at, outcomes };
            self.look_after(ENDED_BY_PACKET, moment);
            if let Some(seen) = Sighting::of(packet, direction) {
                self.count(&seen, moment);
            }
        }
    }

    fn elapse(&mut self, now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
        self.look_after(ENDED_BY_TIME, &mut Moment { now, at: 0, outcomes });
    }

    fn ask(&self, _now: Time, _direction: Direction, _packet: &Packet<'_>) -> Answer {
        Answer { verdict: Verdict::Pass, patches: Vec::new(), rules: vec![FLOWS_RULE] }
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
        into.extend(self.counts.iter().take(1 + usize::from(self.scans.is_some())));
    }

    fn rule_in_words(&self, rule: u32) -> Option<String> {
        let scans = self.config.scans.filter(|_| rule == SCANS_RULE);
        let words = scans.map(|ScanLimit { pairs, seconds }| {
            format!(
                "a source that asks more than {pairs} places in vain within {seconds} s is told"
            )
        });
        words.or_else(|| (rule == FLOWS_RULE).then(|| "each packet counts in its flow".to_owned()))
    }
}

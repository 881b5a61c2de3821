//! What a monitor hands over to another: open records, sources that are looked at, and one entry of what is
//! about all of them. Records that have ended and were handed out are not in it.

use super::Monitor;
use super::flow::{Handshake, Key, Record};
use super::scans::Source;
use super::{RoundTrips, Statistics};
use crate::function::{ENTRY_COST, Portion, RuleCount, StateEntry};
use crate::packet::{Direction, Time};
use catena_wire::flow::FlowKey;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What entries are about: the first byte of their keys.
mod about {
    /// Forget everything before.
    pub(super) const NOTHING: u8 = b'n';
    pub(super) const FLOW: u8 = b'f';
    pub(super) const SOURCE: u8 = b's';
    pub(super) const ALL: u8 = b'a';
}

/// What has been forgotten.
#[derive(Clone, Copy, Debug)]
pub(super) enum GoneKey {
    Flow(Key),
    Source(IpAddr),
}

/// What was forgotten since the last export; nothing is noted before the first one, and when there is too
/// much of it, the next export tells everything.
#[derive(Clone, Debug, Default)]
pub(super) struct Gone {
    is_noting: bool,
    keys: Vec<GoneKey>,
}

impl Gone {
    #[inline]
    pub(super) fn note(&mut self, key: GoneKey) {
        if !self.is_noting {
            return;
        }
        if self.keys.len() < self.keys.capacity() {
            self.keys.push(key);
        } else {
            self.is_noting = false;
        }
    }

    fn begin(&mut self, entries: usize) {
        self.keys.clear();
        self.keys.reserve(entries);
        self.is_noting = true;
    }
}

const fn forget(key: Vec<u8>) -> StateEntry {
    StateEntry { key, value: None }
}

fn forget_gone(key: &GoneKey) -> StateEntry {
    forget(match key {
        GoneKey::Flow(key) => flow_key(key),
        GoneKey::Source(source) => source_key(*source),
    })
}

/// The entry of a record that has changed, or with `is_whole` of any.
fn changed(key: &Key, record: &mut Record, is_whole: bool) -> Option<StateEntry> {
    let is_told = std::mem::take(&mut record.is_dirty) || is_whole;
    is_told.then(|| StateEntry { key: flow_key(key), value: Some(record_value(record)) })
}

impl Monitor {
    pub(super) fn export_state(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        let is_whole = all || !self.gone.is_noting;
        if !all && !self.gone.is_noting {
            into.push(forget(vec![about::NOTHING]));
        }
        if !is_whole {
            into.extend(self.gone.keys.iter().map(forget_gone));
        }
        self.gone.begin(self.config.flows_max);
        let flows = self.flows.iter_mut();
        into.extend(flows.filter_map(|(key, record)| changed(key, record, is_whole)));
        self.export_rest(is_whole, into);
    }

    pub(super) fn export_state_portion(
        &mut self,
        Portion { all, is_first, mut budget }: Portion,
        into: &mut Vec<StateEntry>,
    ) -> bool {
        if is_first {
            self.portioned = 0;
        }
        if all && is_first {
            self.gone.begin(self.config.flows_max);
        }
        if !self.gone.is_noting {
            // Who gets it asks for everything then.
            self.gone.begin(self.config.flows_max);
            into.push(forget(vec![about::NOTHING]));
            return false;
        }
        while let Some(key) = self.gone.keys.pop() {
            into.push(forget_gone(&key));
            budget = budget.saturating_sub(ENTRY_COST);
            if budget == 0 {
                return true;
            }
        }
        self.flows.portion(&mut self.portioned, budget, |key, record| {
            let entry = changed(key, record, all);
            entry.map(|entry| into.push(entry)).is_some()
        });
        if self.portioned == 0 {
            self.export_rest(all, into);
        }
        self.portioned > 0
    }

    /// All but flows.
    fn export_rest(&mut self, is_whole: bool, into: &mut Vec<StateEntry>) {
        for (address, source) in self.scans.iter_mut().flat_map(|scans| scans.sources.iter_mut()) {
            if std::mem::take(&mut source.is_dirty) || is_whole {
                let value = Some(source_value(source));
                into.push(StateEntry { key: source_key(*address), value });
            }
        }
        into.push(StateEntry { key: vec![about::ALL], value: Some(self.whole_value()) });
    }

    pub(super) fn import_state(&mut self, entries: &[StateEntry]) -> usize {
        let taken = entries.iter().filter(|entry| self.take_over(entry).is_some()).count();
        self.flows.sort_by_key(|record| (record.last, record.tick));
        if let Some(scans) = &mut self.scans {
            scans.sort();
        }
        taken
    }

    fn take_over(&mut self, entry: &StateEntry) -> Option<()> {
        let (kind, key) = entry.key.split_first()?;
        let mut key = Reader(key);
        match (*kind, entry.value.as_deref()) {
            (about::NOTHING, None) => {
                self.flows.clear();
                self.scans.iter_mut().for_each(|scans| scans.sources.clear());
            }
            (about::FLOW, value) => {
                let key = key.key().filter(|_| key.0.is_empty())?;
                let record = value.map(read_record);
                let slot = self.flows.find(&key);
                match (record, slot) {
                    (None, slot) => drop(self.flows.remove(slot?)),
                    (Some(record), Some(slot)) => *self.flows.get_mut(slot)? = record?,
                    (Some(record), None) => drop(self.flows.insert(key, record?)?),
                }
            }
            (about::SOURCE, value) => {
                let address = key.address().filter(|_| key.0.is_empty())?;
                let source = value.map(read_source);
                let sources = &mut self.scans.as_mut()?.sources;
                let slot = sources.find(&address);
                match (source, slot) {
                    (None, slot) => drop(sources.remove(slot?)),
                    (Some(source), Some(slot)) => *sources.get_mut(slot)? = source?,
                    (Some(source), None) => drop(sources.insert(address, source?)?),
                }
            }
            (about::ALL, Some(value)) => self.read_whole(value)?,
            _ => return None,
        }
        Some(())
    }

    fn whole_value(&self) -> Vec<u8> {
        let collector = &self.collector;
        let (statistics, trips) = (&self.statistics, &self.round_trips);
        let templates = collector.templates_at;
        let numbers = [
            self.tick,
            collector.sequence.into(),
            templates.is_some().into(),
            templates.unwrap_or_default().0,
            collector.since.0,
            statistics.ended,
            statistics.ended_early,
            statistics.scans,
        ];
        let counts = self.counts.iter().flat_map(|count| [count.packets, count.bytes]);
        let trips = trips.to_asked.iter().chain(&trips.to_asking).copied();
        let mut value = Vec::with_capacity(2_048);
        numbers.into_iter().chain(counts).chain(trips).for_each(|number| put(number, &mut value));
        collector.write(&mut value);
        value
    }

    fn read_whole(&mut self, value: &[u8]) -> Option<()> {
        let mut value = Reader(value);
        let [tick, sequence, has_templates, templates, since, ended, ended_early, scans] =
            value.numbers()?;
        let [packets, bytes, asking_packets, asking_bytes] = value.numbers()?;
        let trips = RoundTrips { to_asked: value.numbers()?, to_asking: value.numbers()? };
        self.collector.read(value.0)?;
        self.collector.sequence = sequence as u32;
        self.collector.templates_at = (has_templates != 0).then_some(Time(templates));
        self.collector.since = Time(since);
        self.tick = self.tick.max(tick);
        self.statistics = Statistics { ended, ended_early, scans };
        let asking = RuleCount { packets: asking_packets, bytes: asking_bytes };
        self.counts = [RuleCount { packets, bytes }, asking];
        self.round_trips = trips;
        Some(())
    }
}

fn put(number: u64, into: &mut Vec<u8>) {
    into.extend(number.to_be_bytes());
}

fn put_address(address: IpAddr, into: &mut Vec<u8>) {
    match address {
        IpAddr::V4(address) => {
            into.push(4);
            into.extend(address.octets());
        }
        IpAddr::V6(address) => {
            into.push(6);
            into.extend(address.octets());
        }
    }
}

fn flow_key(key: &Key) -> Vec<u8> {
    let mut bytes = vec![about::FLOW, key.direction as u8, key.flow.protocol.0];
    bytes.extend(key.flow.source_port.to_be_bytes());
    bytes.extend(key.flow.destination_port.to_be_bytes());
    put_address(key.flow.source, &mut bytes);
    put_address(key.flow.destination, &mut bytes);
    bytes
}

fn source_key(source: IpAddr) -> Vec<u8> {
    let mut bytes = vec![about::SOURCE];
    put_address(source, &mut bytes);
    bytes
}

fn record_value(record: &Record) -> Vec<u8> {
    let (stage, at) = match record.handshake {
        Handshake::None => (0, Time::default()),
        Handshake::Asked(at) => (1, at),
        Handshake::AskedAgain => (2, Time::default()),
        Handshake::Answered(at) => (3, at),
    };
    let mut value = vec![record.flags.0, record.is_closing.into(), stage];
    let numbers = [record.packets, record.bytes, record.first.0, record.last.0, record.tick, at.0];
    numbers.into_iter().for_each(|number| put(number, &mut value));
    value
}

fn read_record(value: &[u8]) -> Option<Record> {
    let mut value = Reader(value);
    let [flags, is_closing, stage] = value.take()?;
    let [packets, bytes, first, last, tick, at] = value.numbers()?;
    let handshake = match stage {
        0 => Handshake::None,
        1 => Handshake::Asked(Time(at)),
        2 => Handshake::AskedAgain,
        3 => Handshake::Answered(Time(at)),
        _ => return None,
    };
    value.0.is_empty().then_some(Record {
        packets,
        bytes,
        flags: TcpFlags(flags),
        first: Time(first),
        last: Time(last),
        tick,
        handshake,
        is_closing: is_closing != 0,
        is_dirty: true,
    })
}

fn source_value(source: &Source) -> Vec<u8> {
    let mut value = vec![source.was_told.into()];
    put(source.began.0, &mut value);
    put(source.window, &mut value);
    source.pairs.iter().for_each(|word| put(*word, &mut value));
    value
}

fn read_source(value: &[u8]) -> Option<Source> {
    let mut value = Reader(value);
    let [was_told] = value.take()?;
    let [began, window] = value.numbers()?;
    let pairs = value.numbers()?;
    let was_told = was_told != 0;
    let began = Time(began);
    value.0.is_empty().then_some(Source { began, window, pairs, was_told, is_dirty: true })
}

struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn take<const BYTES: usize>(&mut self) -> Option<[u8; BYTES]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn numbers<const COUNT: usize>(&mut self) -> Option<[u64; COUNT]> {
        let mut numbers = [0; COUNT];
        for number in &mut numbers {
            *number = u64::from_be_bytes(self.take()?);
        }
        Some(numbers)
    }

    fn address(&mut self) -> Option<IpAddr> {
        match self.take()? {
            [4] => Some(Ipv4Addr::from(self.take::<4>()?).into()),
            [6] => Some(Ipv6Addr::from(self.take::<16>()?).into()),
            _ => None,
        }
    }

    fn key(&mut self) -> Option<Key> {
        let [direction, protocol] = self.take()?;
        let direction = match direction {
            0 => Direction::Forward,
            1 => Direction::Backward,
            _ => return None,
        };
        let source_port = u16::from_be_bytes(self.take()?);
        let destination_port = u16::from_be_bytes(self.take()?);
        let (source, destination) = (self.address()?, self.address()?);
        let is_of_one_version = source.is_ipv4() == destination.is_ipv4();
        let protocol = IpProtocol(protocol);
        let flow = FlowKey { source, destination, protocol, source_port, destination_port };
        is_of_one_version.then_some(Key { flow, direction })
    }
}

//! What an ids hands over to another: counts of rules, flows with their streams, packets in fragments, and
//! counters of thresholds, by the content of rules and packets. All numbers are big-endian.

use super::Ids;
use super::datagrams::{self, Datagram, Key};
use super::flow::{Counter, CounterKey, Flow, Pair};
use super::http::Http;
use super::stream::{BLOCK_BYTES, Pool, Stream};
use crate::function::{Portion, RuleCount, StateEntry};
use crate::packet::Time;
use crate::tracking::carry::{Bytes, key_bytes, read_key};
use catena_wire::flow::FlowKey;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What entries are about: the first byte of their keys. Connections have `c`.
mod about {
    pub(super) const RULE: u8 = b'r';
    pub(super) const FLOW: u8 = b'f';
    pub(super) const COUNTER: u8 = b't';
    pub(super) const DATAGRAM: u8 = b'd';
    /// Forget all packets in fragments.
    pub(super) const NO_DATAGRAM: u8 = b'n';
}

/// Where the next portion of an export begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Portioned {
    is_tracking_told: bool,
    /// Among flows.
    place: usize,
}

/// The entry of a flow that has changed, or with `all` of any. `names` are those of flowbits.
fn changed(
    key: &FlowKey,
    flow: &mut Flow,
    (names, pool): (&[String], &Pool),
    all: bool,
) -> Option<StateEntry> {
    let is_told = std::mem::take(&mut flow.is_dirty) || all;
    is_told.then(|| {
        let key = [&[about::FLOW][..], &key_bytes(key)].concat();
        StateEntry { key, value: Some(flow_value(flow, names, &|block| pool.get(block))) }
    })
}

impl Ids {
    pub(super) fn export_state(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        self.tracking.export(all, into);
        let (names, pool) = (&self.program.rules.flowbits, &self.state.pool);
        let flows = self.state.flows.iter_mut();
        into.extend(flows.filter_map(|(key, flow)| changed(&key.0, flow, (names, pool), all)));
        self.export_rest(all, into);
    }

    pub(super) fn export_state_portion(
        &mut self,
        portion: Portion,
        into: &mut Vec<StateEntry>,
    ) -> bool {
        let Portion { all, is_first, budget } = portion;
        if is_first {
            self.portioned = Portioned::default();
        }
        if !self.portioned.is_tracking_told {
            self.portioned.is_tracking_told = !self.tracking.export_portion(portion, into);
            return true;
        }
        let (names, pool) = (&self.program.rules.flowbits, &self.state.pool);
        self.state.flows.portion(&mut self.portioned.place, budget, |key, flow| {
            let entry = changed(&key.0, flow, (names, pool), all);
            entry.map(|entry| into.push(entry)).is_some()
        });
        if self.portioned.place > 0 {
            return true;
        }
        self.portioned.is_tracking_told = false;
        self.export_rest(all, into);
        if all {
            // Whoever gets everything has nothing to forget.
            into.retain(|entry| !entry.forgets_all());
        }
        false
    }

    /// All but connections and flows.
    fn export_rest(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        for (rule, is_dirty) in self.is_dirty.iter_mut().enumerate() {
            if !std::mem::take(is_dirty) && !all {
                continue;
            }
            let Some(content) = self.program.contents.get(rule) else { continue };
            let count = self.counts.get(rule).copied().unwrap_or_default();
            let key = [&[about::RULE][..], &content.to_be_bytes()].concat();
            let value = [count.packets.to_be_bytes(), count.bytes.to_be_bytes()].concat();
            into.push(StateEntry { key, value: Some(value) });
        }
        self.export_datagrams(all, into);
        let contents = &self.program.contents;
        for (key, counter) in self.state.counters.iter_mut() {
            if std::mem::take(&mut counter.is_dirty) || all {
                let Some(content) = contents.get(key.rule as usize) else { continue };
                let mut bytes = vec![about::COUNTER];
                bytes.extend(content.to_be_bytes());
                bytes.push(key.nth);
                write_address(key.host, &mut bytes);
                let mut value = counter.since.0.to_be_bytes().to_vec();
                value.extend(counter.count.to_be_bytes());
                into.push(StateEntry { key: bytes, value: Some(value) });
            }
        }
    }

    fn export_datagrams(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        let datagrams = &mut self.state.datagrams;
        let is_whole = all || datagrams.is_gone_full;
        if is_whole {
            into.push(StateEntry { key: vec![about::NO_DATAGRAM], value: None });
        } else {
            let gone = datagrams.gone.iter();
            into.extend(gone.map(|key| StateEntry { key: datagram_key(key), value: None }));
        }
        datagrams.gone.clear();
        datagrams.is_gone_full = false;
        for slot in 0..datagrams.slots.len() {
            let Some(Some(one)) = datagrams.slots.get_mut(slot) else { continue };
            if std::mem::take(&mut one.is_dirty) || is_whole {
                let one = *one;
                let value = Some(datagram_value(&one, datagrams.bytes(slot)));
                into.push(StateEntry { key: datagram_key(&one.key), value });
            }
        }
    }

    /// Takes one entry over; none: it is about no rule here, there is no room, or it is none.
    pub(super) fn take_over(&mut self, entry: &StateEntry) -> Option<()> {
        let (about, key) = entry.key.split_first()?;
        match (*about, entry.value.as_deref()) {
            (about::RULE, Some(value)) => self.take_count(key, value),
            (about::FLOW, Some(value)) => self.take_flow(key, value),
            (about::COUNTER, Some(value)) => self.take_counter(key, value),
            (about::DATAGRAM, value) => self.take_datagram(key, value),
            (about::NO_DATAGRAM, None) => {
                self.state.datagrams.slots.fill(None);
                Some(())
            }
            _ => self.tracking.take_over(entry),
        }
    }

    fn rule_of(&self, content: u64) -> Option<usize> {
        self.program.contents.iter().position(|one| *one == content)
    }

    fn take_count(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let rule = self.rule_of(u64::from_be_bytes(key.try_into().ok()?))?;
        let mut value = Bytes(value);
        let count = RuleCount { packets: value.long()?, bytes: value.long()? };
        *self.counts.get_mut(rule).filter(|_| value.0.is_empty())? = count;
        *self.is_dirty.get_mut(rule)? = true;
        Some(())
    }

    fn take_counter(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let (mut key, mut value) = (Bytes(key), Bytes(value));
        let rule = self.rule_of(key.long()?)?;
        let key = CounterKey {
            rule: u32::try_from(rule).ok()?,
            nth: key.byte()?,
            host: read_address(&mut key)?,
        };
        let counter =
            Counter { since: Time(value.long()?), count: value.double_word()?, is_dirty: true };
        let counters = &mut self.state.counters;
        match counters.find(&key) {
            Some(slot) => *counters.get_mut(slot)? = counter,
            None => drop(counters.insert(key, counter)?),
        }
        Some(())
    }

    fn take_flow(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        let key = Pair(read_key(key)?);
        if let Some((_, old)) =
            self.state.flows.find(&key).and_then(|slot| self.state.flows.remove(slot))
        {
            self.state.release(&old);
        }
        let names = &self.program.rules.flowbits;
        let mut value = Bytes(value);
        let (mut flow, bits) = read_flow(&mut value)?;
        for name in bits.split(|byte| *byte == 0) {
            let bit = names.iter().position(|one| one.as_bytes() == name);
            if let Some(bit) = bit.and_then(|bit| u16::try_from(bit).ok()) {
                flow.set_bit(bit, true);
            }
        }
        let pool = &mut self.state.pool;
        for stream in &mut flow.streams {
            *stream = read_stream(&mut value)?;
            let Some(stream) = stream else { continue };
            let bytes = take(&mut value, stream.reach())?;
            if !bytes.is_empty() {
                let block = pool.take()?;
                stream.block = Some(block);
                pool.get_mut(block).get_mut(..bytes.len())?.copy_from_slice(bytes);
            }
        }
        self.state.flows.insert(key, flow).map(drop)
    }

    fn take_datagram(&mut self, key: &[u8], value: Option<&[u8]>) -> Option<()> {
        let mut bytes = Bytes(key);
        let identification = bytes.double_word()?;
        let key = Key { flow: read_key(bytes.0)?, identification };
        let datagrams = &mut self.state.datagrams;
        if let Some(slot) = datagrams.find(&key) {
            datagrams.remove(slot);
        }
        let Some(value) = value else { return Some(()) };
        let mut value = Bytes(value);
        let mut one = datagrams::begin(Time(value.long()?), key);
        one.protocol = value.byte()?;
        one.ttl = value.byte()?;
        one.macs = value.take()?;
        one.end = (value.byte()? != 0).then_some(value.word()?);
        for _ in 0..value.byte()? {
            let part = (value.word()?, value.word()?);
            one.put(part).filter(|()| part.0 <= part.1)?;
        }
        let slot = datagrams.free()?;
        for (first, last) in one.parts() {
            let from = take(&mut value, usize::from(last - first))?;
            let to = datagrams.bytes_mut(slot).get_mut(usize::from(*first)..usize::from(*last))?;
            to.copy_from_slice(from);
        }
        *datagrams.slots.get_mut(slot)? = Some(one);
        Some(())
    }
}

fn take<'b>(bytes: &mut Bytes<'b>, number: usize) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.0.split_at_checked(number)?;
    bytes.0 = rest;
    Some(taken)
}

fn write_address(address: Option<IpAddr>, into: &mut Vec<u8>) {
    match address {
        None => into.push(0),
        Some(IpAddr::V4(v4)) => {
            into.push(4);
            into.extend(v4.octets());
        }
        Some(IpAddr::V6(v6)) => {
            into.push(6);
            into.extend(v6.octets());
        }
    }
}

fn read_address(bytes: &mut Bytes<'_>) -> Option<Option<IpAddr>> {
    Some(match bytes.byte()? {
        0 => None,
        4 => Some(IpAddr::V4(Ipv4Addr::from(bytes.take::<4>()?))),
        6 => Some(IpAddr::V6(Ipv6Addr::from(bytes.take::<16>()?))),
        _ => return None,
    })
}

fn datagram_key(key: &Key) -> Vec<u8> {
    [&[about::DATAGRAM][..], &key.identification.to_be_bytes(), &key_bytes(&key.flow)].concat()
}

fn datagram_value(one: &Datagram, bytes: &[u8]) -> Vec<u8> {
    let mut value = one.first.0.to_be_bytes().to_vec();
    value.extend([one.protocol, one.ttl]);
    value.extend(one.macs);
    value.push(one.end.is_some().into());
    value.extend(one.end.unwrap_or(0).to_be_bytes());
    value.push(one.parts_len);
    for (first, last) in one.parts() {
        value.extend(first.to_be_bytes());
        value.extend(last.to_be_bytes());
    }
    for (first, last) in one.parts() {
        value.extend(bytes.get(usize::from(*first)..usize::from(*last)).unwrap_or_default());
    }
    value
}

fn flow_value<'p>(flow: &Flow, names: &[String], block: &dyn Fn(u32) -> &'p [u8]) -> Vec<u8> {
    let mut value = Vec::new();
    value.extend(flow.begun.0.to_be_bytes());
    value.extend(flow.last.0.to_be_bytes());
    value.extend([
        flow.is_asked_forward.into(),
        flow.is_established.into(),
        flow.is_http.into(),
        flow.ended,
    ]);
    let set = (0..).zip(names).filter(|(bit, _)| flow.has_bit(*bit)).map(|(_, name)| name.as_str());
    let set = set.collect::<Vec<_>>().join("\0");
    value.extend(u16::try_from(set.len()).unwrap_or(u16::MAX).to_be_bytes());
    value.extend(set.bytes().take(u16::MAX.into()));
    for stream in &flow.streams {
        let Some(stream) = stream else {
            value.push(0);
            continue;
        };
        value.push(1);
        value.extend(stream.start.to_be_bytes());
        value.extend(stream.base.to_be_bytes());
        for number in [stream.end, stream.seen] {
            value.extend(number.to_be_bytes());
        }
        let (kind, at, left) = match stream.http {
            Http::Head(at) => (0, at, 0),
            Http::Body(at, left) => (1, at, left),
            Http::ChunkBody(at, left) => (2, at, left),
            Http::Chunk(at) => (3, at, 0),
            Http::Trailer(at) => (4, at, 0),
            Http::Off => (5, 0, 0),
        };
        value.push(kind);
        value.extend(at.to_be_bytes());
        value.extend(u64::to_be_bytes(left));
        value.push(stream.pieces_len);
        for (first, last) in stream.pieces() {
            value.extend(first.to_be_bytes());
            value.extend(last.to_be_bytes());
        }
        let bytes = stream.block.map_or(&[][..], block);
        value.extend(bytes.get(..stream.reach()).unwrap_or_default());
    }
    value
}

/// A flow without its streams, and the names of its bits.
fn read_flow<'b>(value: &mut Bytes<'b>) -> Option<(Flow, &'b [u8])> {
    let (begun, last) = (Time(value.long()?), Time(value.long()?));
    let mut flow = Flow::new(begun, value.byte()? != 0);
    flow.last = last;
    flow.is_established = value.byte()? != 0;
    flow.is_http = value.byte()? != 0;
    flow.ended = value.byte()?;
    let length = value.word()?;
    let names = take(value, length.into())?;
    Some((flow, names))
}

fn read_stream(value: &mut Bytes<'_>) -> Option<Option<Stream>> {
    if value.byte()? == 0 {
        return Some(None);
    }
    let mut stream = Stream::new(value.double_word()?);
    stream.base = value.long()?;
    (stream.end, stream.seen) = (value.word()?, value.word()?);
    let (kind, at, left) = (value.byte()?, value.word()?, value.long()?);
    stream.http = match kind {
        0 => Http::Head(at),
        1 => Http::Body(at, left),
        2 => Http::ChunkBody(at, left),
        3 => Http::Chunk(at),
        4 => Http::Trailer(at),
        5 => Http::Off,
        _ => return None,
    };
    stream.pieces_len = value.byte()?;
    let mut before = stream.end;
    for place in 0..usize::from(stream.pieces_len) {
        let piece = (value.word()?, value.word()?);
        *stream.pieces.get_mut(place)? = piece;
        if piece.0 <= before || piece.1 <= piece.0 {
            return None;
        }
        before = piece.1;
    }
    let is_sound =
        usize::from(before) <= BLOCK_BYTES && stream.seen <= stream.end && at <= stream.end;
    is_sound.then_some(Some(stream))
}

//! What a NAT hands over to another, as bytes. Knows the layout; refuses to trust what comes in.
//!
//! ```text
//! flow:     'f', protocol, inside address and port, remote address and port
//!           -> outside address and port, when it was seen last, what was seen
//! fragment: 'p', direction, source, destination, protocol, identification
//!           -> when, its number, does it go back, source and destination if any (a byte before each), rule
//! rule:     'r', its words -> packets, bytes
//! nothing:  'n': forget the flows before
//! ```
//! All numbers are big-endian.

use super::Nat;
use super::end::{End, Flow};
use super::flows::{Session, Told};
use super::fragments::{First, Fragments, Noted, Whole};
use super::session::Seen;
use crate::function::{Portion, RuleCount, StateEntry};
use crate::packet::{Direction, Time};
use catena_wire::scalar::IpProtocol;
use std::net::Ipv4Addr;

/// What entries are about: the first byte of their keys.
mod about {
    pub(super) const FLOW: u8 = b'f';
    pub(super) const FRAGMENT: u8 = b'p';
    pub(super) const RULE: u8 = b'r';
    pub(super) const NOTHING: u8 = b'n';
}

fn entry(told: &Told) -> StateEntry {
    match told {
        Told::Nothing => StateEntry { key: vec![about::NOTHING], value: None },
        Told::Gone(flow) => StateEntry { key: flow_key(flow), value: None },
        Told::Flow(flow, outside, session) => {
            StateEntry { key: flow_key(flow), value: Some(flow_value(*outside, session)) }
        }
    }
}

impl Nat {
    pub(super) fn export_state(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        self.flows.export(all, |told| into.push(entry(&told)));
        self.export_rest(all, into);
    }

    pub(super) fn export_state_portion(
        &mut self,
        portion: Portion,
        into: &mut Vec<StateEntry>,
    ) -> bool {
        let is_more = self.flows.portion(portion, |told| into.push(entry(&told)));
        if !is_more {
            self.export_rest(portion.all, into);
        }
        is_more
    }

    /// All but flows.
    fn export_rest(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        let mut put = |key, value| into.push(StateEntry { key, value });
        let rules = &self.rules;
        let words = |rule: u32| rules.words(rule).map_or(&[][..], |words| words.as_bytes());
        self.fragments.export(all, |whole, noted| {
            let rule = noted.first.rule.map_or(&[][..], words);
            put(fragment_key(whole), Some(fragment_value(noted, rule)));
        });
        let counts = self.counts.iter().zip(&mut self.is_count_dirty).zip(self.rules.all_words());
        for ((count, is_dirty), words) in counts {
            if std::mem::take(is_dirty) || all {
                let value = [count.packets.to_be_bytes(), count.bytes.to_be_bytes()].concat();
                put([&[about::RULE], words.as_bytes()].concat(), Some(value));
            }
        }
    }

    pub(super) fn import_state(&mut self, entries: &[StateEntry]) -> usize {
        let taken = entries.iter().filter(|entry| self.take_over(entry).is_some()).count();
        self.flows.sort();
        self.fragments.sort();
        taken
    }

    fn take_over(&mut self, entry: &StateEntry) -> Option<()> {
        let (kind, rest) = entry.key.split_first()?;
        let mut key = Reader(rest);
        match (*kind, entry.value.as_deref()) {
            (about::NOTHING, None) if rest.is_empty() => self.flows.clear(&self.rules),
            (about::FLOW, value) => {
                let flow = key.flow().filter(|_| key.0.is_empty())?;
                match value {
                    None => self.flows.forget_one(&flow, &self.rules)?,
                    Some(value) => self.take_flow(flow, value)?,
                }
            }
            (about::FRAGMENT, Some(value)) => {
                let whole = key.whole().filter(|_| key.0.is_empty())?;
                let noted = self.read_noted(value)?;
                self.fragments.put(whole, noted);
            }
            (about::RULE, Some(value)) => {
                let at = self.rule_at(rest)?;
                let mut value = Reader(value);
                let count = RuleCount { packets: value.long()?, bytes: value.long()? };
                *self.counts.get_mut(at).filter(|_| value.0.is_empty())? = count;
                *self.is_count_dirty.get_mut(at)? = true;
            }
            _ => return None,
        }
        Some(())
    }

    fn rule_at(&self, words: &[u8]) -> Option<usize> {
        self.rules.all_words().iter().position(|own| own.as_bytes() == words)
    }

    /// A flow, if the rules would give it this outside endpoint today.
    fn take_flow(&mut self, flow: Flow, value: &[u8]) -> Option<()> {
        let mut value = Reader(value);
        let outside = value.end(flow.inside.protocol)?;
        let (last, seen) = (Time(value.long()?), Seen(value.byte()?));
        let is_fixed = self.rules.static_outside(flow.inside.address).is_some()
            || self.rules.forwarded_outside(&flow.inside).is_some();
        if !value.0.is_empty() || is_fixed {
            return None;
        }
        let source = self.rules.source_of(flow.inside.address)?;
        let (place, range) = self.rules.room_of(source, flow.inside.address)?;
        if self.rules.place(outside.address)? != place || !range.contains(outside.port) {
            return None;
        }
        // Another rule set may tell less apart.
        let remote = self.told_apart(flow.inside.protocol, flow.remote);
        let flow = Flow { remote, ..flow };
        match self.flows.mapping(&flow.inside) {
            Some(known) if known != outside => return None,
            None if !self.flows.ports().is_free(place, outside.protocol, outside.port) => {
                return None;
            }
            _ => {}
        }
        if self.flows.session(&flow).is_some() {
            self.flows.touch(last, &flow, seen);
            return Some(());
        }
        self.flows.begin(last, (&flow, outside), seen, &self.rules)
    }

    fn read_noted(&self, value: &[u8]) -> Option<Noted> {
        let mut value = Reader(value);
        let (at, number, returns) = (Time(value.long()?), value.long()?, value.byte()? != 0);
        let (source, destination) = (value.maybe_address()?, value.maybe_address()?);
        let has_rule = value.byte()? != 0;
        let rule = self.rule_at(value.0).and_then(|at| u32::try_from(at).ok());
        // What a rule did that is not there any more is not done again.
        if rule.is_some() != has_rule || (!has_rule && !value.0.is_empty()) {
            return None;
        }
        Some(Fragments::read(First { source, destination, returns, rule }, at, number))
    }
}

fn put_end(end: &End, into: &mut Vec<u8>) {
    into.extend(end.address.octets());
    into.extend(end.port.to_be_bytes());
}

fn flow_key(flow: &Flow) -> Vec<u8> {
    let mut key = vec![about::FLOW, flow.inside.protocol.0];
    put_end(&flow.inside, &mut key);
    key.extend(flow.remote.0.octets());
    key.extend(flow.remote.1.to_be_bytes());
    key
}

fn flow_value(outside: End, session: &Session) -> Vec<u8> {
    let mut value = Vec::with_capacity(15);
    put_end(&outside, &mut value);
    value.extend(session.last.0.to_be_bytes());
    value.push(session.seen.0);
    value
}

fn fragment_key(whole: &Whole) -> Vec<u8> {
    let mut key = vec![about::FRAGMENT, whole.direction as u8];
    key.extend(whole.source.octets());
    key.extend(whole.destination.octets());
    key.push(whole.protocol.0);
    key.extend(whole.identification.to_be_bytes());
    key
}

fn fragment_value(noted: &Noted, rule: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(28 + rule.len());
    value.extend(noted.at.0.to_be_bytes());
    value.extend(noted.number.to_be_bytes());
    value.push(noted.first.returns.into());
    for address in [noted.first.source, noted.first.destination] {
        value.push(address.is_some().into());
        value.extend(address.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
    }
    value.push((!rule.is_empty()).into());
    value.extend(rule);
    value
}

/// Reads what entries say; none: they end before.
struct Reader<'b>(&'b [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn word(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    fn address(&mut self) -> Option<Ipv4Addr> {
        self.take::<4>().map(Ipv4Addr::from)
    }

    fn maybe_address(&mut self) -> Option<Option<Ipv4Addr>> {
        let is_there = self.byte()? != 0;
        self.address().map(|address| is_there.then_some(address))
    }

    fn end(&mut self, protocol: IpProtocol) -> Option<End> {
        Some(End { protocol, address: self.address()?, port: self.word()? })
    }

    fn flow(&mut self) -> Option<Flow> {
        let protocol = IpProtocol(self.byte()?);
        let has_ports = matches!(protocol, IpProtocol::TCP | IpProtocol::UDP | IpProtocol::ICMP);
        let inside = self.end(protocol).filter(|_| has_ports)?;
        Some(Flow { inside, remote: (self.address()?, self.word()?) })
    }

    fn whole(&mut self) -> Option<Whole> {
        let direction = match self.byte()? {
            0 => Direction::Forward,
            1 => Direction::Backward,
            _ => return None,
        };
        Some(Whole {
            direction,
            source: self.address()?,
            destination: self.address()?,
            protocol: IpProtocol(self.byte()?),
            identification: self.word()?,
        })
    }
}

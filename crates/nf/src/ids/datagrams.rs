//! Packets in fragments, put together as Linux hosts do (RFC 791 section 3.2, RFC 8200 section 4.5).
//!
//! A fragment that comes twice makes no difference; one that overlaps others otherwise ends the packet it
//! belongs to, of both versions (RFC 5722; Linux since 4.19 for IPv4).

use crate::packet::{Packet, Time};
use catena_wire::flow::FlowKey;
use catena_wire::fragment::FragmentPlace;
use catena_wire::frame::Network;
use catena_wire::ipv4::Ipv4Header;
use catena_wire::ipv6::Ipv6Header;
use catena_wire::scalar::{EtherType, FlowLabel, FragmentOffset, IpProtocol};
use catena_wire::{ethernet, ipv6};

/// Bytes of one packet.
pub(super) const DATAGRAM_BYTES: usize = 65_536;
/// How long its fragments are waited for (`ipfrag_time`; RFC 8200 says 60 s).
const WAIT: [u64; 2] = [30_000_000_000, 60_000_000_000];
/// Fragments of one packet.
const PARTS_MAX: usize = 64;
/// Packets that end before anybody is told of it.
const GONE_MAX: usize = 1_024;

/// What fragments of one packet have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) flow: FlowKey,
    pub(super) identification: u32,
}

/// A packet of which fragments have come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Datagram {
    pub(super) key: Key,
    pub(super) first: Time,
    /// What protocol its first byte is of.
    pub(super) protocol: u8,
    pub(super) ttl: u8,
    pub(super) macs: [u8; 12],
    pub(super) parts: [(u16, u16); PARTS_MAX],
    pub(super) parts_len: u8,
    /// Where it ends; none: the last fragment has not come.
    pub(super) end: Option<u16>,
    pub(super) is_dirty: bool,
}

impl Datagram {
    pub(super) fn parts(&self) -> &[(u16, u16)] {
        self.parts.get(..usize::from(self.parts_len)).unwrap_or_default()
    }

    fn is_whole(&self) -> bool {
        let mut at = 0;
        for (first, last) in self.parts() {
            if *first != at {
                return false;
            }
            at = *last;
        }
        self.end == Some(at)
    }

    fn is_over(&self, now: Time) -> bool {
        let wait =
            WAIT.get(usize::from(self.key.flow.source.is_ipv6())).copied().unwrap_or_default();
        now.since(self.first) >= wait
    }

    pub(super) fn put(&mut self, part: (u16, u16)) -> Option<()> {
        let at = self.parts().partition_point(|(first, _)| *first < part.0);
        let length = usize::from(self.parts_len);
        if length >= PARTS_MAX {
            return None;
        }
        self.parts.copy_within(at..length, at + 1);
        *self.parts.get_mut(at)? = part;
        self.parts_len += 1;
        Some(())
    }
}

/// What a fragment makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    /// Others are missing.
    Waits,
    /// It is the last: what is before it was this.
    Whole(usize, LastPart),
    /// It ends its packet: hosts take none.
    Ends,
    /// There is no room for it.
    Full,
}

/// The parts as they were before the last fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastPart {
    part: (u16, u16),
    end: Option<u16>,
}

/// Packets whose fragments have come in part.
#[derive(Clone, Debug)]
pub(super) struct Datagrams {
    pub(super) slots: Vec<Option<Datagram>>,
    bytes: Vec<u8>,
    /// Those that ended since the last export.
    pub(super) gone: Vec<Key>,
    /// There were too many of these.
    pub(super) is_gone_full: bool,
}

impl Datagrams {
    pub(super) fn new(datagrams: usize) -> Self {
        Self {
            slots: vec![None; datagrams],
            bytes: vec![0; datagrams * DATAGRAM_BYTES],
            gone: Vec::with_capacity(GONE_MAX),
            is_gone_full: false,
        }
    }

    /// What fragments of a packet are found by.
    pub(super) fn key(packet: &Packet<'_>) -> Option<(Key, FragmentPlace)> {
        let place = FragmentPlace::read(packet.frame, &packet.view)?;
        let flow = FragmentPlace::common(packet.view.flow.as_ref()?);
        Some((Key { flow, identification: place.identification }, place))
    }

    pub(super) fn find(&self, key: &Key) -> Option<usize> {
        self.slots.iter().position(|slot| slot.as_ref().is_some_and(|one| one.key == *key))
    }

    pub(super) fn bytes(&self, slot: usize) -> &[u8] {
        self.bytes.get(slot * DATAGRAM_BYTES..(slot + 1) * DATAGRAM_BYTES).unwrap_or_default()
    }

    pub(super) fn bytes_mut(&mut self, slot: usize) -> &mut [u8] {
        self.bytes.get_mut(slot * DATAGRAM_BYTES..(slot + 1) * DATAGRAM_BYTES).unwrap_or_default()
    }

    pub(super) fn free(&self) -> Option<usize> {
        self.slots.iter().position(Option::is_none)
    }

    /// Forgets a packet.
    pub(super) fn remove(&mut self, slot: usize) {
        let Some(one) = self.slots.get_mut(slot).and_then(Option::take) else { return };
        if self.gone.len() < self.gone.capacity() {
            self.gone.push(one.key);
        } else {
            self.is_gone_full = true;
        }
    }

    /// Forgets those that nobody waits for any more.
    pub(super) fn sweep(&mut self, now: Time) {
        for slot in 0..self.slots.len() {
            if self.slots.get(slot).is_some_and(|one| one.is_some_and(|one| one.is_over(now))) {
                self.remove(slot);
            }
        }
    }

    /// Takes a fragment in.
    pub(super) fn add(&mut self, now: Time, packet: &Packet<'_>) -> Added {
        let Some((key, place)) = Self::key(packet) else { return Added::Ends };
        let found = self.find(&key);
        if let Some(slot) = found
            && self.slots.get(slot).is_some_and(|one| one.is_some_and(|one| one.is_over(now)))
        {
            self.remove(slot);
        }
        let found = self.find(&key);
        let Some(slot) = found.or_else(|| self.free()) else { return Added::Full };
        if found.is_none()
            && let Some(place) = self.slots.get_mut(slot)
        {
            *place = Some(begin(now, key));
        }
        let added = self.put(slot, packet, &place);
        match added {
            Some(part) => match self.slots.get(slot) {
                Some(Some(one)) if one.is_whole() => Added::Whole(slot, part),
                _ => Added::Waits,
            },
            None => {
                self.remove(slot);
                Added::Ends
            }
        }
    }

    /// Takes a fragment into its packet; none: the packet ends.
    fn put(&mut self, slot: usize, packet: &Packet<'_>, place: &FragmentPlace) -> Option<LastPart> {
        let (from, to) = (u16::try_from(place.start).ok()?, u16::try_from(place.end).ok()?);
        let view = &packet.view;
        let ip = packet.frame.get(usize::from(view.l3_offset)..view.end as usize)?;
        let one = self.slots.get_mut(slot)?.as_mut()?;
        let undo = LastPart { part: (from, to), end: one.end };
        if one.parts().contains(&(from, to)) || (from == to && !place.is_last) {
            return Some(LastPart { part: (0, 0), end: one.end });
        }
        let overlaps = one.parts().iter().any(|(first, last)| *first < to && from < *last);
        let is_beyond = one.end.is_some_and(|end| to > end || (place.is_last && to != end));
        let is_short = place.is_last && one.parts().last().is_some_and(|(_, last)| *last > to);
        if overlaps || is_beyond || is_short {
            return None;
        }
        let length = usize::from(to - from);
        let data_start = match view.network {
            Network::Ipv4 => usize::from(ip.first()? & 0xf) * 4,
            _ => {
                let parsed = catena_wire::ipv6::Ipv6View::parse_cut(ip).ok()?;
                ip.len() - parsed.fragment_data()?.len()
            }
        };
        let data = ip.get(data_start..data_start + length)?;
        if from == 0 {
            one.ttl = if view.network == Network::Ipv4 { *ip.get(8)? } else { *ip.get(7)? };
            one.protocol =
                if view.network == Network::Ipv4 { *ip.get(9)? } else { *ip.get(data_start - 8)? };
            one.macs = *packet.frame.first_chunk()?;
        }
        one.put((from, to))?;
        one.is_dirty = true;
        if place.is_last {
            one.end = Some(to);
        }
        self.bytes_mut(slot).get_mut(usize::from(from)..usize::from(to))?.copy_from_slice(data);
        Some(undo)
    }

    /// The last fragment does not go on: it may come again.
    pub(super) fn undo(&mut self, slot: usize, last: LastPart) {
        let Some(Some(one)) = self.slots.get_mut(slot) else { return };
        let Some(at) = one.parts().iter().position(|part| *part == last.part) else { return };
        let length = usize::from(one.parts_len);
        one.parts.copy_within(at + 1..length, at);
        one.parts_len -= 1;
        one.end = last.end;
        one.is_dirty = true;
    }

    /// Writes a packet that is whole as a frame.
    pub(super) fn write(&self, slot: usize, into: &mut Vec<u8>) -> Option<()> {
        let one = self.slots.get(slot)?.as_ref()?;
        let end = one.end?;
        into.clear();
        into.extend_from_slice(&one.macs);
        let mut header = [0; ipv6::HEADER_BYTES];
        let length = match (one.key.flow.source, one.key.flow.destination) {
            (std::net::IpAddr::V4(source), std::net::IpAddr::V4(destination)) => {
                into.extend_from_slice(&EtherType::IPV4.0.to_be_bytes());
                let ip = Ipv4Header {
                    traffic_class: 0,
                    payload_bytes: end.into(),
                    identification: one.key.identification as u16,
                    dont_fragment: false,
                    more_fragments: false,
                    fragment_offset: FragmentOffset::new(0).ok()?,
                    ttl: one.ttl,
                    protocol: IpProtocol(one.protocol),
                    source,
                    destination,
                };
                ip.emit(&mut header).ok()?
            }
            (std::net::IpAddr::V6(source), std::net::IpAddr::V6(destination)) => {
                into.extend_from_slice(&EtherType::IPV6.0.to_be_bytes());
                let ip = Ipv6Header {
                    traffic_class: 0,
                    flow_label: FlowLabel::new(0).ok()?,
                    payload_length: end,
                    next_header: IpProtocol(one.protocol),
                    hop_limit: one.ttl,
                    source,
                    destination,
                };
                ip.emit(&mut header).ok()?
            }
            _ => return None,
        };
        into.extend_from_slice(header.get(..length)?);
        into.extend_from_slice(self.bytes(slot).get(..end.into())?);
        Some(())
    }
}

pub(super) fn begin(first: Time, key: Key) -> Datagram {
    Datagram {
        key,
        first,
        protocol: 0,
        ttl: 0,
        macs: [0; 12],
        parts: [(0, 0); PARTS_MAX],
        parts_len: 0,
        end: None,
        is_dirty: true,
    }
}

/// Bytes of the frame of a packet that was put together.
pub(super) const FRAME_BYTES_MAX: usize =
    ethernet::HEADER_BYTES + ipv6::HEADER_BYTES + DATAGRAM_BYTES;

//! As IPFIX: a record of each packet, with its header as a whole, and one of each hop that wrote one. Refuses to know
//! where it goes.

use super::moment::Moment;
use super::{DATAGRAM_BYTES_MAX, Told};
use catena_wire::ipfix::{
    HOP_BYTES, HopRecord, IpfixError, MessageHeader, PacketRecord, ToldFields, emit_hops,
    emit_packets, emit_telemetry_templates,
};
use catena_wire::ipv6;
use catena_wire::srv6_int::Hop;
use std::time::{Duration, Instant};

/// How long collectors that are new, or have missed them, wait for the templates (RFC 7011 section 8.4).
const TEMPLATES_EVERY: Duration = Duration::from_secs(60);
/// The observation domain: an agent has one.
const DOMAIN: u32 = 1;
/// Bytes of a message beside records of one set.
const FRAME_BYTES: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Writer {
    /// Records that were told before.
    sequence: u32,
    /// The number of the next packet.
    packet: u32,
    templates_at: Option<Instant>,
    /// Messages that had not been sent until then.
    unsent: u64,
}

impl Writer {
    pub(super) fn write(&mut self, told: &[Told<'_>], moment: Moment, unsent: u64) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        // Those that were not sent may have been among what was not.
        let is_due =
            |at: Instant| moment.now.duration_since(at) >= TEMPLATES_EVERY || unsent != self.unsent;
        if !told.is_empty() && self.templates_at.is_none_or(is_due) {
            (self.templates_at, self.unsent) = (Some(moment.now), unsent);
            messages.extend(self.message(moment, 0, emit_telemetry_templates));
        }
        let first = self.packet;
        let numbered = || (first..=u32::MAX).chain(0..).zip(told);
        self.packet = first.wrapping_add(told.len() as u32);
        let packets: Vec<_> =
            numbered().map(|(number, told)| packet_record(number, told)).collect();
        for part in parts(&packets, PacketRecord::len_bytes) {
            let emit = |header, into: &mut [u8]| emit_packets(header, part, into);
            messages.extend(self.message(moment, part.len(), emit));
        }
        let hops: Vec<_> =
            numbered().flat_map(|(number, told)| hop_records(number, told)).collect();
        for part in parts(&hops, |_| HOP_BYTES) {
            let emit = |header, into: &mut [u8]| emit_hops(header, part, into);
            messages.extend(self.message(moment, part.len(), emit));
        }
        messages
    }

    /// None: it has no room, which parts see to.
    fn message(
        &mut self,
        moment: Moment,
        records: usize,
        emit: impl FnOnce(MessageHeader, &mut [u8]) -> Result<usize, IpfixError>,
    ) -> Option<Vec<u8>> {
        let mut message = vec![0; DATAGRAM_BYTES_MAX];
        let header = MessageHeader {
            export_seconds: moment.seconds,
            sequence: self.sequence,
            domain: DOMAIN,
        };
        let length = emit(header, &mut message).ok()?;
        self.sequence = self.sequence.wrapping_add(records as u32);
        message.truncate(length);
        Some(message)
    }
}

fn packet_record<'p>(packet: u32, told: &Told<'p>) -> PacketRecord<'p> {
    let (header, routing) = (told.view.packet().header(), told.view.packet().routing());
    PacketRecord {
        fields: ToldFields {
            source: header.source,
            destination: header.destination,
            flow_label: header.flow_label,
            flags: routing.flags(),
            tag: routing.tag(),
            segments_left: routing.segments_left(),
            active: header.destination,
        },
        packet,
        path: told.path,
        flow: told.flow,
        reason: told.reason,
        section: told.header.get(ipv6::HEADER_BYTES..).unwrap_or_default(),
    }
}

/// In the order in which they were visited; of what wrote none there is none.
fn hop_records(packet: u32, told: &Told<'_>) -> impl Iterator<Item = HopRecord> + use<> {
    let (header, tag) = (*told.view.packet().header(), told.view.packet().routing().tag());
    let hops = (0..=u8::MAX).zip(told.view.hops().collect::<Vec<_>>());
    hops.filter_map(move |(place, hop)| match hop {
        Hop::Recorded(record) => Some(HopRecord {
            source: header.source,
            destination: header.destination,
            flow_label: header.flow_label,
            tag,
            place,
            record,
            packet,
        }),
        Hop::Ahead(_) | Hop::Silent(_) | Hop::Malformed => None,
    })
}

/// As many records in a row as a message has room for, and so on.
fn parts<R>(records: &[R], bytes: impl Fn(&R) -> usize) -> Vec<&[R]> {
    let mut parts = Vec::new();
    let mut rest = records;
    while !rest.is_empty() {
        let mut sum = FRAME_BYTES;
        let fit = rest.iter().take_while(|record| {
            sum += bytes(record);
            sum <= DATAGRAM_BYTES_MAX
        });
        // One that fits nowhere goes alone, and is not written.
        let (part, behind) = rest.split_at(fit.count().max(1));
        parts.push(part);
        rest = behind;
    }
    parts
}

//! The sockets of the IPv6 underlay: whole packets, which segments lead from node to node. Knows whose packets are
//! taken; refuses to know what they carry.

use super::ledger::Ledger;
use crate::engine::{Datagram, Engine, Origin, Packet, TunnelKind, TxBatches, TxRef};
use catena_fastpath::KERNEL_TAG;
use catena_io::{
    BrokenRow, Buffer, BufferPool, IoError, Ipv6Match, Ipv6Receiver, Ipv6Reserve, Ipv6Sender,
    PacketFailure, Poller,
};
use catena_model::DropReason;
use catena_model::account::Volume;
use catena_model::program::{Locator, SegmentPlace};
use catena_wire::ipv6::Ipv6Header;
use catena_wire::scalar::IpProtocol;
use catena_wire::{srv6, srv6_int};

/// What follows the IPv6 header of a packet for a segment: the routing header, or what is inside where that came off
/// before the last (RFC 8986 section 4.16.1).
const NEXT_HEADERS: [u8; 4] =
    [IpProtocol::ROUTING.0, IpProtocol::IPV4.0, IpProtocol::IPV6.0, IpProtocol::ETHERNET.0];

/// The sockets, and what they are for.
pub(super) struct SegmentSockets {
    place: SegmentPlace,
    receiver: Ipv6Receiver,
    sender: Ipv6Sender,
    scratch: Vec<Buffer>,
}

impl SegmentSockets {
    /// Takes sockets of the reserve for packets to a locator.
    ///
    /// # Errors
    /// There is none left, or the kernel refuses.
    pub(super) fn open(place: SegmentPlace, reserve: &mut Ipv6Reserve) -> Result<Self, IoError> {
        let receiver = Ipv6Receiver::bind(matching(place.locator), reserve)?;
        Ok(Self { place, receiver, sender: Ipv6Sender::new(reserve)?, scratch: Vec::new() })
    }

    /// Takes packets to another locator from now on.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn stand_at(&mut self, place: SegmentPlace) -> Result<(), IoError> {
        self.receiver.take(matching(place.locator))?;
        self.place = place;
        Ok(())
    }

    /// Takes packets only from these interfaces from now on.
    pub(super) fn take_only_from(&mut self, interfaces: &[u32]) {
        self.receiver.take_only_from(interfaces.to_vec());
    }

    /// Lets the poller report the socket under this token.
    pub(super) fn join(&self, poller: &mut Poller, token: u64) -> Result<(), IoError> {
        poller.add(&self.receiver, token)
    }

    /// Takes up to `max` packets.
    pub(super) fn receive(
        &mut self,
        max: usize,
        engine: &mut Engine,
        pool: &mut BufferPool,
        input: &mut Vec<Packet>,
    ) {
        let received = self.receiver.receive(pool, &mut self.scratch, max);
        let mut taken = std::mem::take(&mut self.scratch);
        for buffer in taken.drain(..) {
            match Ipv6Header::parse(buffer.bytes()) {
                Ok((header, _)) => {
                    input.push(Packet::from_tunnel(
                        TunnelKind::SEGMENTS,
                        header.source.into(),
                        buffer,
                    ));
                }
                Err(_) => {
                    let bytes = buffer.len() as u64;
                    self.note_lost(engine, DropReason::MalformedSrv6, (1, bytes));
                    pool.put(buffer);
                }
            }
        }
        self.scratch = taken;
        let cut = u64::from(received.truncated + received.unsupported_offload);
        let foreign = (u64::from(received.foreign), received.foreign_bytes);
        for (reason, lost) in
            [(DropReason::TruncatedByRing, (cut, 0)), (DropReason::ForeignDevice, foreign)]
        {
            if lost.0 > 0 {
                self.note_lost(engine, reason, lost);
            }
        }
        if let Some(errno) = received.socket_error {
            tracing::debug!(errno, "the socket of the IPv6 underlay reported an error");
        }
    }

    /// The kernel kept no sender of these packets, or none that can be read.
    fn note_lost(&self, engine: &mut Engine, reason: DropReason, (packets, bytes): (u64, u64)) {
        let origin =
            Origin::Tunnel { kind: TunnelKind::SEGMENTS, source: self.place.address.into() };
        engine.note_received_lost(origin, reason, packets, bytes);
    }

    /// Sends one packet, or a row of packets; what cannot be sent leaves its lot.
    pub(super) fn transmit(
        &mut self,
        datagram: Datagram,
        batches: &mut TxBatches,
        ledger: &mut impl Ledger,
        pool: &mut BufferPool,
    ) {
        let Datagram { segment_bytes, mut buffer, share, is_followed, .. } = datagram;
        if is_followed {
            tag_as_kernels(buffer.bytes_mut());
        }
        if let Err((sent, reason)) = self.send(&buffer, segment_bytes) {
            let left = unsent(share, sent, (buffer.len(), segment_bytes));
            ledger.failed(batches.withdraw(left), reason);
        }
        pool.put(buffer);
    }

    /// The error says how many packets of the row were sent.
    fn send(
        &mut self,
        buffer: &Buffer,
        segment_bytes: Option<u16>,
    ) -> Result<(), (usize, DropReason)> {
        let header = Ipv6Header::parse(buffer.bytes());
        let (header, _) = header.map_err(|_| (0, DropReason::MalformedSrv6))?;
        let sent = self.sender.send(header.destination, buffer.bytes(), segment_bytes);
        sent.map_err(|BrokenRow { sent, why }| match why {
            PacketFailure::TooLarge => (sent, DropReason::MtuExceeded),
            PacketFailure::NoRoute => (sent, DropReason::NoSegmentRoute),
            PacketFailure::BufferFull | PacketFailure::Refused(_) => {
                (sent, DropReason::TransmitFailed)
            }
        })
    }

    /// Packets that the kernel lost because the socket was full.
    pub(super) fn kernel_drops(&self) -> u64 {
        self.receiver.kernel_drops()
    }
}

/// What is left of a row of which so many packets were sent. All are of one size, but for the last.
fn unsent(share: TxRef, sent: usize, (bytes, each): (usize, Option<u16>)) -> TxRef {
    let Volume { packets, bytes: frames } = share.volume;
    let (sent, each) = (sent as u64, each.map_or(bytes, usize::from) as u64);
    // What each has in front of its frame.
    let header = (bytes as u64).saturating_sub(frames) / packets.max(1);
    let volume = Volume {
        packets: packets.saturating_sub(sent),
        bytes: frames.saturating_sub(sent * each.saturating_sub(header)),
    };
    TxRef { volume, ..share }
}

/// Lets a packet be taken as one of the kernel's path, which goes on with its flow or has begun it: both come by one
/// way to the other node's engine, and none overtakes another. The tag of one that takes records along says other
/// things, and such packets are no kernel's; nor are those whose nodes 16 bits name.
fn tag_as_kernels(packet: &mut [u8]) {
    if !srv6_int::takes_records(packet) && !srv6::is_compressed(packet) {
        // One without a routing header has no tag, and comes by the socket as ever.
        let _ = srv6::set_tag(packet, KERNEL_TAG);
    }
}

fn matching(locator: Locator) -> Ipv6Match<'static> {
    Ipv6Match { prefix: locator.address(), prefix_len: Locator::BITS, next_headers: &NEXT_HEADERS }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::scalar::FlowLabel;
    use catena_wire::srv6::{Encaps, Inner, SegmentFlags, SegmentRoutingView};
    use std::net::Ipv6Addr;

    fn tagged(flags: SegmentFlags) -> u16 {
        let encaps = Encaps {
            source: Ipv6Addr::LOCALHOST,
            way: &[Ipv6Addr::LOCALHOST],
            traffic_class: 0,
            flow_label: FlowLabel::new(0).unwrap(),
            hop_limit: 64,
            inner: Inner::Ipv4,
            is_reduced: false,
            flags,
            tag: 0x700,
            tlvs: &[],
            key_id: None,
        };
        let mut packet = vec![0; encaps.len_bytes()];
        encaps.emit(0, &mut packet).unwrap();
        tag_as_kernels(&mut packet);
        SegmentRoutingView::parse(&packet[40..]).unwrap().0.tag()
    }

    #[test]
    fn a_packet_that_the_kernel_follows_has_its_tag_and_one_with_records_keeps_its_own() {
        assert_eq!(tagged(SegmentFlags::default()), KERNEL_TAG);
        assert_eq!(tagged(srv6_int::FLAG), 0x700);
    }
}

//! The sockets of the tunnels between hosts, on this node's own underlay address. Knows which
//! tunnel has which socket; refuses to know what travels in it.

use super::ledger::Ledger;
use crate::engine::{Datagram, Engine, Origin, Packet, TunnelKind, TxBatches};
use catena_io::{
    Buffer, BufferPool, IoError, OuterChecksum, Poller, SendFailure, TUNNEL_SOURCE_PORTS_DEFAULT,
    TunnelReceiver, TunnelReserve, TunnelSender,
};
use catena_model::DropReason;
use std::net::{IpAddr, SocketAddr};

/// Tunnel sockets of a node.
pub(super) const UNDERLAY_SOCKETS: usize = TunnelKind::ALL.len() + TUNNEL_SOURCE_PORTS_DEFAULT;

/// All tunnel sockets of a node.
pub(super) struct Underlay {
    address: IpAddr,
    receivers: Vec<(TunnelKind, TunnelReceiver)>,
    sender: TunnelSender,
    scratch: Vec<(Buffer, SocketAddr)>,
}

impl Underlay {
    /// Opens the sockets in the network namespace of the calling thread.
    ///
    /// # Errors
    /// The address is not one of this host, or another process holds a tunnel's port.
    pub(super) fn open(address: IpAddr, reserve: &mut TunnelReserve) -> Result<Self, IoError> {
        // A socket of the reserve that is bound in vain is lost to it.
        drop(open_receivers(address, &mut TunnelReserve::default())?);
        let receivers = open_receivers(address, reserve)?;
        let sender = TunnelSender::new(address, TUNNEL_SOURCE_PORTS_DEFAULT, reserve)?;
        Ok(Self { address, receivers, sender, scratch: Vec::new() })
    }

    /// Takes datagrams only from these interfaces from now on.
    pub(super) fn take_only_from(&mut self, interfaces: &[u32]) {
        for (_, socket) in &mut self.receivers {
            socket.take_only_from(interfaces.to_vec());
        }
    }

    /// The own address.
    pub(super) fn address(&self) -> IpAddr {
        self.address
    }

    /// Lets the poller report each socket under `first_token` and the numbers after it.
    pub(super) fn join(&self, poller: &mut Poller, first_token: u64) -> Result<(), IoError> {
        (first_token..)
            .zip(&self.receivers)
            .try_for_each(|(token, (_, socket))| poller.add(socket, token))
    }

    pub(super) fn leave(&self, poller: &mut Poller) -> Result<(), IoError> {
        self.receivers.iter().try_for_each(|(_, socket)| poller.remove(socket))
    }

    /// The sockets that hold datagrams for which the poller will not report them.
    pub(super) fn pending(&self) -> impl Iterator<Item = u64> {
        (0..).zip(&self.receivers).filter(|(_, (_, socket))| socket.has_pending()).map(|(n, _)| n)
    }

    /// Takes up to `max` datagrams from socket number `which`.
    pub(super) fn receive(
        &mut self,
        which: usize,
        max: usize,
        engine: &mut Engine,
        pool: &mut BufferPool,
        input: &mut Vec<Packet>,
    ) {
        let Some((kind, socket)) = self.receivers.get_mut(which) else { return };
        let received = socket.receive(pool, &mut self.scratch, max);
        let packets = self.scratch.drain(..);
        input.extend(packets.map(|(buffer, from)| Packet::from_tunnel(*kind, from.ip(), buffer)));
        if received.truncated > 0 {
            // The kernel kept neither the end nor the sender of what it cut off.
            let origin = Origin::Tunnel { kind: *kind, source: self.address };
            let packets = u64::from(received.truncated);
            engine.note_received_lost(origin, DropReason::TruncatedByRing, packets, 0);
        }
        if received.foreign > 0 {
            let origin = Origin::Tunnel { kind: *kind, source: self.address };
            let (packets, bytes) = (u64::from(received.foreign), received.foreign_bytes);
            engine.note_received_lost(origin, DropReason::ForeignDevice, packets, bytes);
        }
        if let Some(errno) = received.socket_error {
            tracing::debug!(?kind, errno, "a tunnel socket reported an error");
        }
    }

    /// Sends one datagram, or the row of datagrams that it stands for; what cannot be sent leaves its
    /// lot.
    pub(super) fn transmit(
        &mut self,
        datagram: Datagram,
        batches: &mut TxBatches,
        ledger: &mut impl Ledger,
        pool: &mut BufferPool,
    ) {
        let Datagram { to, kind, entropy, segment_bytes, is_followed, buffer, share } = datagram;
        let to = SocketAddr::new(to, kind.udp_port());
        let checksum = if is_followed { OuterChecksum::None } else { OuterChecksum::Full };
        match self.sender.send(to, buffer.bytes(), segment_bytes, entropy, checksum) {
            Ok(()) => {}
            Err(SendFailure::TooLarge | SendFailure::TooManySegments) => {
                ledger.failed(batches.withdraw(share), DropReason::MtuExceeded);
            }
            Err(SendFailure::BufferFull | SendFailure::Refused(_)) => {
                ledger.failed(batches.withdraw(share), DropReason::TransmitFailed);
            }
        }
        pool.put(buffer);
    }

    /// Datagrams that the kernel lost because a socket was full.
    pub(super) fn kernel_drops(&self) -> u64 {
        self.receivers.iter().map(|(_, socket)| socket.kernel_drops()).sum()
    }
}

fn open_receivers(
    address: IpAddr,
    reserve: &mut TunnelReserve,
) -> Result<Vec<(TunnelKind, TunnelReceiver)>, IoError> {
    let mut receiver = |kind: &TunnelKind| {
        let local = SocketAddr::new(address, kind.udp_port());
        Ok((*kind, TunnelReceiver::bind(local, reserve)?))
    };
    TunnelKind::ALL.iter().map(&mut receiver).collect()
}

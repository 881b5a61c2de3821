//! All sockets between nodes of one worker: those over UDP, and those by segments. Knows which takes what.

use super::ledger::Ledger;
use super::segment_sockets::SegmentSockets;
use super::underlay::Underlay;
use crate::engine::{Datagram, Engine, Packet, TunnelKind, TxBatches};
use catena_io::{BufferPool, IoError, Poller};
use catena_model::DropReason;

/// How many sockets the poller may report.
pub(super) const TUNNEL_TOKENS: u64 = SEGMENTS + 1;
/// Which of them is that of segments: the last.
const SEGMENTS: u64 = TunnelKind::ALL.len() as u64;

/// Those that are open.
#[derive(Default)]
pub(super) struct Tunnels {
    udp: Option<Box<Underlay>>,
    segments: Option<Box<SegmentSockets>>,
    /// What sockets that are closed had lost.
    lost_before: u64,
}

impl Tunnels {
    /// Are those of a kind open?
    pub(super) fn are_open(&self, kind: TunnelKind) -> bool {
        if kind.is_segmented() { self.segments.is_some() } else { self.udp.is_some() }
    }

    /// Uses these sockets over UDP in the place of others, which come back.
    ///
    /// # Errors
    /// The kernel refuses to report them.
    pub(super) fn exchange(
        &mut self,
        udp: Box<Underlay>,
        poller: &mut Poller,
        first_token: u64,
    ) -> Result<Option<Box<Underlay>>, IoError> {
        if let Some(former) = &self.udp {
            former.leave(poller)?;
            self.lost_before += former.kernel_drops();
        }
        udp.join(poller, first_token)?;
        Ok(self.udp.replace(udp))
    }

    /// Uses these sockets by segments, where there are none yet.
    ///
    /// # Errors
    /// The kernel refuses to report them.
    pub(super) fn add_segments(
        &mut self,
        segments: Box<SegmentSockets>,
        poller: &mut Poller,
        first_token: u64,
    ) -> Result<(), IoError> {
        segments.join(poller, first_token + SEGMENTS)?;
        self.segments = Some(segments);
        Ok(())
    }

    /// Those by segments.
    pub(super) fn segments(&mut self) -> Option<&mut SegmentSockets> {
        self.segments.as_deref_mut()
    }

    /// Takes packets only from these interfaces from now on.
    pub(super) fn take_only_from(&mut self, interfaces: &[u32]) {
        if let Some(udp) = &mut self.udp {
            udp.take_only_from(interfaces);
        }
        if let Some(segments) = &mut self.segments {
            segments.take_only_from(interfaces);
        }
    }

    /// The sockets that hold packets for which the poller will not report them.
    pub(super) fn pending(&self) -> impl Iterator<Item = u64> {
        self.udp.iter().flat_map(|udp| udp.pending())
    }

    /// Takes up to `max` packets from socket number `which`.
    pub(super) fn receive(
        &mut self,
        which: u64,
        max: usize,
        engine: &mut Engine,
        pool: &mut BufferPool,
        input: &mut Vec<Packet>,
    ) {
        match (&mut self.udp, &mut self.segments) {
            (_, Some(segments)) if which == SEGMENTS => segments.receive(max, engine, pool, input),
            (Some(udp), _) => udp.receive(which as usize, max, engine, pool, input),
            (None, _) => {}
        }
    }

    /// Sends one packet to another node, or a row of them; what cannot be sent leaves its lot.
    pub(super) fn transmit(
        &mut self,
        datagram: Datagram,
        batches: &mut TxBatches,
        ledger: &mut impl Ledger,
        pool: &mut BufferPool,
    ) {
        match (&mut self.udp, &mut self.segments) {
            (_, Some(segments)) if datagram.kind.is_segmented() => {
                segments.transmit(datagram, batches, ledger, pool);
            }
            (Some(udp), _) if !datagram.kind.is_segmented() => {
                udp.transmit(datagram, batches, ledger, pool);
            }
            _ => {
                ledger.failed(batches.withdraw(datagram.share), DropReason::TransmitFailed);
                pool.put(datagram.buffer);
            }
        }
    }

    /// Packets that the kernel lost because a socket was full.
    pub(super) fn kernel_drops(&self) -> u64 {
        let udp = self.udp.as_ref().map_or(0, |udp| udp.kernel_drops());
        let segments = self.segments.as_ref().map_or(0, |segments| segments.kernel_drops());
        self.lost_before + udp + segments
    }
}

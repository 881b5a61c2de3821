//! Captures for the next packet at a port: a copy is taken, the packet goes on as if nothing had been.
//! Knows who asked and for how long a trap lives without being asked for; refuses to stop, change
//! or count a packet. Without a trap a packet costs one branch.

use crate::engine::packet::segments::Segments;
use catena_io::{Buffer, BufferPool};
use catena_model::classifier::FieldWord;
use catena_model::explain::{CatchRequest, CaughtPacket, FrameBytes, PacketFilter};
use catena_model::id::PortId;
use catena_model::resource::{IpFamily, Transport};
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use catena_wire::scalar::IpProtocol;
use catena_wire::varying::VaryingFields;
use ipnet::IpNet;
use std::net::IpAddr;

/// Captures at one time.
const TRAPS_MAX: usize = 8;
/// How long a trap lives without being asked for, in nanoseconds.
const TRAP_IDLE_NS: u64 = 5_000_000_000;
const NS_PER_MS: u64 = 1_000_000;
/// A buffer to complete the frame in, and one for its first wire packet.
const BUFFERS: usize = 2;

#[derive(Debug)]
struct Capture {
    token: u64,
    port: PortId,
    filter: PacketFilter,
    asked_ns: u64,
    /// The packet, and when it was seen, in nanoseconds.
    caught: Option<(Vec<u8>, u64)>,
}

/// All traps of an engine.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    captures: Vec<Capture>,
    /// Made with the first trap, gone with the last.
    pool: Option<BufferPool>,
}

impl Captures {
    /// Arms a trap, or answers what is in it and disarms it.
    ///
    /// # Errors
    /// Too many people wait for packets; for people.
    pub(crate) fn ask(
        &mut self,
        request: &CatchRequest,
        now_ns: u64,
    ) -> Result<Option<CaughtPacket>, String> {
        self.disarm_idle(now_ns);
        let known = self.captures.iter().position(|trap| trap.token == request.token);
        let Some(place) = known else {
            if self.captures.len() >= TRAPS_MAX {
                return Err(format!("{TRAPS_MAX} others wait for packets at this node; try again"));
            }
            self.pool.get_or_insert_with(|| BufferPool::new(BUFFERS));
            self.captures.push(Capture {
                token: request.token,
                port: request.port,
                filter: request.filter.clone(),
                asked_ns: now_ns,
                caught: None,
            });
            return Ok(None);
        };
        let trap = &mut self.captures[place];
        trap.asked_ns = now_ns;
        let Some((frame, seen_ns)) = trap.caught.take() else { return Ok(None) };
        self.captures.remove(place);
        self.disarm_idle(now_ns);
        let ago_ms = now_ns.saturating_sub(seen_ns) / NS_PER_MS;
        Ok(Some(CaughtPacket { frame: FrameBytes(frame), ago_ms }))
    }

    /// Disarms a trap.
    pub(crate) fn forget(&mut self, token: u64) {
        self.captures.retain(|trap| trap.token != token);
        if self.captures.is_empty() {
            self.pool = None;
        }
    }

    /// Captures that nobody asks for any more.
    fn disarm_idle(&mut self, now_ns: u64) {
        self.captures.retain(|trap| now_ns.saturating_sub(trap.asked_ns) <= TRAP_IDLE_NS);
        if self.captures.is_empty() {
            self.pool = None;
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.captures.is_empty()
    }

    /// A packet comes in by a port.
    #[cold]
    pub(crate) fn look(&mut self, now_ns: u64, port: PortId, buffer: &Buffer, view: &FrameView) {
        self.disarm_idle(now_ns);
        let view = &as_caught(buffer, view);
        let is_for = |trap: &&mut Capture| {
            trap.caught.is_none() && trap.port == port && matches(&trap.filter, view)
        };
        let mut waiting = self.captures.iter_mut().filter(is_for).peekable();
        if waiting.peek().is_none() {
            return;
        }
        let frame = self.pool.as_mut().and_then(|pool| first_wire_packet(buffer, view, pool));
        let Some(frame) = frame else { return };
        for trap in waiting {
            trap.caught = Some((frame.clone(), now_ns));
        }
    }
}

/// What is seen of the packet that would be caught: of a super-frame, the first.
fn as_caught(buffer: &Buffer, view: &FrameView) -> FrameView {
    let flags = view.varying.tcp_flags.filter(|_| buffer.offload.segmentation.is_some());
    let tcp_flags = flags.map(|flags| flags.of_segment(0, 2)).or(view.varying.tcp_flags);
    FrameView { varying: VaryingFields { tcp_flags, ..view.varying }, ..*view }
}

/// The first wire packet of a frame, as it would be on a wire.
fn first_wire_packet(buffer: &Buffer, view: &FrameView, pool: &mut BufferPool) -> Option<Vec<u8>> {
    let (mut whole, mut first) = (pool.take()?, pool.take()?);
    first.clear();
    let mut bytes = None;
    if whole.fill(buffer.bytes()) {
        whole.offload = buffer.offload;
        if let Ok(segments) = Segments::of(&mut whole, view)
            && segments.append_to(whole.bytes(), 0, &mut first)
        {
            bytes = Some(first.bytes().to_vec());
        }
    }
    pool.put(whole);
    pool.put(first);
    bytes
}

/// Does a packet look as it must?
pub(crate) fn matches(filter: &PacketFilter, view: &FrameView) -> bool {
    let Some(flow) = view.flow else { return *filter == PacketFilter::default() };
    let FlowKey { source, destination, protocol, source_port, destination_port } = flow;
    let is_in = |net: &Option<IpNet>, address: IpAddr| net.is_none_or(|net| net.contains(&address));
    let is_port = |wanted: Option<u16>, port: u16| wanted.is_none_or(|wanted| wanted == port);
    let transport = match protocol {
        IpProtocol::TCP => Some(Transport::Tcp),
        IpProtocol::UDP => Some(Transport::Udp),
        IpProtocol::ICMP | IpProtocol::ICMPV6 => Some(Transport::Icmp),
        _ => None,
    };
    filter.family.is_none_or(|family| family == IpFamily::of(source))
        && (filter.transport.is_none() || filter.transport == transport)
        && is_in(&filter.source, source)
        && is_in(&filter.destination, destination)
        && (is_in(&filter.host, source) || is_in(&filter.host, destination))
        && is_port(filter.source_port, source_port)
        && is_port(filter.destination_port, destination_port)
        && (is_port(filter.port, source_port) || is_port(filter.port, destination_port))
        && filter.fields.takes(FieldWord::of(&view.varying))
}

//! What goes into the engine: a frame in its buffer and where it came from. Knows the names of
//! ports and tunnels as the shell uses them; refuses to know what is inside the frame.

pub(crate) mod digests;
pub(crate) mod index;
pub(crate) mod parse;
pub(crate) mod segments;
pub(crate) mod subscriber;

use catena_io::{Buffer, Offload};
use catena_model::TunnelKind;
use index::PortIndex;
use std::net::IpAddr;

/// A port of this node as long as the engine lives: stable while the port stays in the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortSlot(pub(crate) u16);

impl PortSlot {
    /// The slot as an index into a table of the shell; dense, below the number of ports ever held
    /// at one time.
    #[must_use]
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Where a packet came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A port of this node.
    Port(PortSlot),
    /// Another node.
    Tunnel {
        /// By which of the tunnel sockets.
        kind: TunnelKind,
        /// Source address of the datagram.
        source: IpAddr,
    },
}

/// A frame from a port, or the payload of a tunnel datagram, on its way into the engine.
#[derive(Debug)]
pub struct Packet {
    pub(crate) buffer: Buffer,
    pub(crate) origin: Origin,
    pub(crate) arrived: Arrived,
}

/// Whether the kernel could carry the flow of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// It cannot, or was not asked.
    Plainly,
    /// It sent the packet up for want of a transform that holds. `is_counted`: one waits, and the
    /// packet is among those that must pass here before.
    FromKernel { is_counted: bool },
    /// It sent the packet up because every packet of its port, or of the node, goes up for a while.
    Watched,
    /// A link has brought it, and its source route comes out at this port.
    AtExit(PortIndex),
}

impl Packet {
    /// A frame taken from a port; its buffer carries the offload that the kernel told.
    #[must_use]
    #[inline]
    pub fn from_port(slot: PortSlot, buffer: Buffer) -> Self {
        Self { buffer, origin: Origin::Port(slot), arrived: Arrived::Plainly }
    }

    /// A frame of a port, or the payload of a tunnel packet that another node's kernel has made,
    /// which the kernel sent up for want of a transform that holds; the buffer carries the offload
    /// of the frame. `is_counted`: one waits until this packet, among others, has passed the engine.
    #[must_use]
    pub fn from_kernel(origin: Origin, buffer: Buffer, is_counted: bool) -> Self {
        Self { buffer, origin, arrived: Arrived::FromKernel { is_counted } }
    }

    /// The same for packets that came up because somebody looks at all of them for a while.
    #[must_use]
    pub fn watched(origin: Origin, buffer: Buffer) -> Self {
        Self { buffer, origin, arrived: Arrived::Watched }
    }

    /// The same for packets whose flow the kernel could not carry.
    #[must_use]
    pub fn plainly(origin: Origin, buffer: Buffer) -> Self {
        Self { buffer, origin, arrived: Arrived::Plainly }
    }

    /// The UDP payload of one datagram taken from a tunnel socket. What UDP_GRO has joined must be
    /// cut apart before: one datagram, one packet.
    #[must_use]
    #[inline]
    pub fn from_tunnel(kind: TunnelKind, source: IpAddr, buffer: Buffer) -> Self {
        let origin = Origin::Tunnel { kind, source };
        Self { buffer, origin, arrived: Arrived::Plainly }
    }

    /// The frame, for who forwards it by himself.
    #[must_use]
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// The port that it came in by.
    pub(crate) fn port(&self) -> Option<PortSlot> {
        match self.origin {
            Origin::Port(slot) => Some(slot),
            Origin::Tunnel { .. } => None,
        }
    }
}

/// Removes bytes at the front of a frame and moves its offload with it; false (and the frame is
/// not to be used) when they reach into what is still to be done.
pub(crate) fn trim_front(buffer: &mut Buffer, bytes: usize) -> bool {
    let Ok(shift) = u16::try_from(bytes) else { return false };
    let Some(offload) = shifted(buffer.offload, shift.into()) else { return false };
    buffer.offload = offload;
    buffer.trim_front(bytes)
}

/// Grows a frame at the front; false (and nothing changed) where there is no room. What a kernel is to do with it
/// moves along.
pub(crate) fn grow_front(buffer: &mut Buffer, bytes: usize) -> bool {
    let Ok(shift) = i32::try_from(bytes) else { return false };
    let Some(offload) = shifted(buffer.offload, -shift) else { return false };
    let has_room = buffer.prepend(bytes).is_some();
    if has_room {
        buffer.offload = offload;
    }
    has_room
}

/// Of a frame that begins so many bytes later.
fn shifted(offload: Offload, shift: i32) -> Option<Offload> {
    let mut moved = offload;
    let later = |place: u16| u16::try_from(i32::from(place) - shift);
    if let Some(checksum) = &mut moved.checksum {
        checksum.start = later(checksum.start).ok()?;
    }
    if let Some(segmentation) = &mut moved.segmentation {
        segmentation.header_bytes = later(segmentation.header_bytes).unwrap_or_default();
    }
    Some(moved)
}

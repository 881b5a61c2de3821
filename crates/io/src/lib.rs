//! Ports of the data plane and the memory behind them, from the ground up:
//! packet memory ([`Buffer`], [`BufferPool`], [`Offload`]); the packet ring of a function port
//! ([`PacketRing`]); the UDP sockets between hosts ([`TunnelReceiver`], [`TunnelSender`]); waiting
//! for any of them ([`Poller`]); descriptors from another process ([`receive_with_fds`]); giving up
//! rights ([`drop_privileges`]).
//!
//! It knows Linux sockets and bytes. It refuses to know packet formats, programs and who opens a
//! socket in which namespace. Unsafe code stands in `slots`, `datagram` and `options` alone.

mod buffer;
mod confine;
mod datagram;
mod error;
mod offload;
mod options;
mod passed;
mod poll;
mod ring;
mod slots;
mod tunnel_receiver;
mod tunnel_sender;

pub use buffer::{BUFFER_DATA_BYTES, BUFFER_HEADROOM_BYTES, Buffer, BufferPool};
pub use confine::drop_privileges;
pub use error::IoError;
pub use offload::{Offload, PartialChecksum, Segmentation, SegmentationKind};
pub use passed::{PASSED_FDS_MAX, receive_with_fds, send_with_fds};
pub use poll::Poller;
pub use ring::{
    PacketRing, RING_SLOT_BYTES_DEFAULT, RING_SLOT_BYTES_MAX, RING_SLOT_BYTES_MIN,
    RING_SLOTS_DEFAULT, RING_SLOTS_MAX, Received, RefusedFrame, RingConfig, Transmitted,
};
pub use tunnel_receiver::{TunnelReceived, TunnelReceiver};
pub use tunnel_sender::{
    SendFailure, TUNNEL_PAYLOAD_BYTES_MAX, TUNNEL_SEGMENTS_MAX, TUNNEL_SOURCE_PORTS_DEFAULT,
    TUNNEL_SOURCE_PORTS_MAX, TunnelSender,
};

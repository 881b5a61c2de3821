//! Ports of the data plane and the memory behind them, from the ground up:
//! packet memory ([`Buffer`], [`BufferPool`], [`Offload`]); what every port can do ([`Port`]) and
//! the kinds of it: the packet ring of any interface ([`PacketRing`]), frames shared with a driver
//! ([`XdpPort`]), a virtual machine's TAP ([`TapPort`]), a function in this process ([`LocalPort`]),
//! captures ([`PcapPort`]); what two threads hand each other ([`spsc_ring`]); the UDP sockets between
//! hosts ([`TunnelReceiver`], [`TunnelSender`]), and whole IPv6 packets between them, in by a prefix and out by
//! the host's routes ([`Ipv6Receiver`], [`Ipv6Sender`]); sockets that are opened while there are rights
//! ([`TunnelReserve`], [`Ipv6Reserve`]); waiting for any of them ([`Poller`]); descriptors
//! from another process ([`receive_with_fds`]); two processes that speak by turns ([`Mailbox`]);
//! giving up rights ([`drop_privileges`]).
//!
//! It knows Linux sockets and bytes. It refuses to know packet formats, programs and who opens a
//! socket in which namespace. Unsafe code stands in `counting`, `heap`, `huge`, `slots`, `spsc`,
//! `datagram`, `shared`, `stamped`, `options`, `packet_socket` and `prefetch` alone.

mod bell;
mod buffer;
mod confine;
mod cores;
mod counting;
mod datagram;
mod error;
mod heap;
mod huge;
mod ipv6_receiver;
mod ipv6_reserve;
mod ipv6_sender;
mod local;
mod mailbox;
mod offload;
mod options;
mod packet_socket;
mod passed;
mod pcap;
mod poll;
mod port;
mod prefetch;
mod reserve;
mod ring;
mod shared;
mod slots;
mod spsc;
mod stamped;
mod sync;
mod tap;
mod tunnel_receiver;
mod tunnel_sender;
pub mod walls;
mod xdp;
mod xdp_area;
mod xdp_map;
mod xdp_rings;

pub use buffer::{BUFFER_DATA_BYTES, BUFFER_HEADROOM_BYTES, Buffer, BufferPool};
pub use confine::{User, drop_privileges, give_to};
pub use cores::stay_on_core;
pub use counting::CountingAllocator;
pub use error::IoError;
pub use heap::share_one_heap;
pub use huge::prefer_huge_pages;
pub use ipv6_receiver::{IPV6_NEXT_HEADERS_MAX, Ipv6Match, Ipv6Received, Ipv6Receiver};
pub use ipv6_reserve::Ipv6Reserve;
pub use ipv6_sender::{BrokenRow, Ipv6Sender, PacketFailure};
pub use local::{LOCAL_SLOTS_MAX, LocalPort};
pub use mailbox::{Mailbox, MailboxParts, Unheard};
pub use offload::{Offload, PartialChecksum, Segmentation, SegmentationKind};
pub use passed::{PASSED_FDS_MAX, receive_with_fds, send_with_fds};
pub use pcap::PcapPort;
pub use poll::{Poller, rest};
pub use port::{Port, Received, RefusedFrame, Transmitted};
pub use prefetch::{prefetch, prefetch_whole};
pub use reserve::TunnelReserve;
pub use ring::{
    PacketRing, RING_SLOT_BYTES_DEFAULT, RING_SLOT_BYTES_MAX, RING_SLOT_BYTES_MIN,
    RING_SLOTS_DEFAULT, RING_SLOTS_MAX, RingConfig,
};
pub use spsc::{SpscIn, SpscOut, spsc_ring};
pub use stamped::{STAMPED_FRAME_BYTES_MAX, STAMPED_ROW_MAX, StampedFrame, StampedSocket};
pub use tap::TapPort;
pub use tunnel_receiver::{TunnelReceived, TunnelReceiver};
pub use tunnel_sender::{
    OuterChecksum, SendFailure, TUNNEL_PAYLOAD_BYTES_MAX, TUNNEL_SEGMENTS_MAX,
    TUNNEL_SOURCE_PORT_MIN, TUNNEL_SOURCE_PORTS_DEFAULT, TUNNEL_SOURCE_PORTS_MAX, TunnelSender,
};
pub use xdp::{XDP_FRAME_BYTES_MAX, XDP_SLOTS_DEFAULT, XDP_SLOTS_MAX, XdpConfig, XdpPort};

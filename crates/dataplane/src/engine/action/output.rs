//! What comes out of the engine: frames for local ports and datagrams for other nodes, and the batches
//! that the shell gives back once it knows how their transmission went. Knows no socket.

use crate::engine::account::tx_batches::{TxBatches, TxRef};
use crate::engine::packet::PortSlot;
use catena_io::Buffer;
use catena_model::TunnelKind;
use std::net::IpAddr;

/// A frame to be sent out of a local port, with its offload.
#[derive(Debug)]
pub struct Frame {
    /// The port.
    pub to: PortSlot,
    /// The frame from the Ethernet header on.
    pub buffer: Buffer,
    /// What it has of what is to be counted.
    pub share: TxRef,
}

/// One or several datagrams to another node, to be sent by one call.
#[derive(Debug)]
pub struct Datagram {
    /// Address of the other node.
    pub to: IpAddr,
    /// The tunnel; its port is the destination port.
    pub kind: TunnelKind,
    /// Source port hint from the flow: the same flow has the same value (RFC 7348 section 5), in
    /// 49,152..=65,535.
    pub entropy: u16,
    /// Length of each datagram but the last, when the buffer holds several (UDP_SEGMENT), in bytes.
    pub segment_bytes: Option<u16>,
    /// Does this node's kernel send other packets of the flow, before it or after it? They have no
    /// outer checksum: then this has none either, and the other node takes both the same way.
    pub is_followed: bool,
    /// The UDP payload, all datagrams one after the other.
    pub buffer: Buffer,
    /// What it has of what is to be counted.
    pub share: TxRef,
}

/// All that one call of the engine wants sent, in the order in which it must leave.
#[derive(Debug, Default)]
pub struct Output {
    /// Frames for local ports.
    pub frames: Vec<Frame>,
    /// Datagrams for other nodes.
    pub datagrams: Vec<Datagram>,
    /// What to count once all of them are sent; what cannot be is taken out before.
    pub batches: TxBatches,
}

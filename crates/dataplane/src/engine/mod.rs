//! The engine: vectors of packets in, frames and datagrams out, and the books of what happened.
//!
//! Knows the semantics of a node's program: classification, paths, proxies, switching, tunnels.
//! Refuses to know sockets, rings, clocks and threads: time is an argument, packets are values.
//! There is one implementation of these semantics; caches elsewhere may only repeat its verdicts.

mod counters;
mod output;
mod packet;
mod tables;

pub use counters::{Booking, RETIRED_PORTS_NAME};
pub use output::{
    Datagram, Frame, Output, TUNNEL_DATAGRAM_BYTES_MAX, TUNNEL_SEGMENTS_MAX,
};
pub use packet::{Origin, Packet, PortSlot, TunnelKind};
pub use tables::{CompileError, Tables};

use catena_io::BufferPool;
use catena_model::account::NodeCounters;
use catena_model::id::PortId;
use catena_model::{DropReason, NodeName};
use std::sync::Arc;

/// What an engine is told once, at start.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The node, as its counters name it.
    pub node: NodeName,
    /// Join adjacent TCP segments of one flow that came out of a tunnel into super-frames.
    pub is_coalescing: bool,
    /// Flows that the proxies remember.
    pub flows_max: usize,
}

impl EngineConfig {
    /// What production uses.
    #[must_use]
    pub fn new(node: NodeName) -> Self {
        Self { node, is_coalescing: true, flows_max: catena_model::limits::NODE_FLOWS_MAX }
    }
}

/// One engine: the tables in force, the proxies' memory and the books.
pub struct Engine {
    config: EngineConfig,
}

impl Engine {
    /// An engine with an empty program: it drops what it is given, by name.
    #[must_use]
    pub fn new(config: EngineConfig) -> Self {
        Self { config }
    }

    /// Puts new tables in force. Call between vectors, when all bookings have been given back or
    /// soon will be: ports and paths that stay keep their slots and sums.
    pub fn replace_tables(&mut self, tables: Arc<Tables>) {}

    /// The tables in force.
    #[must_use]
    pub fn tables(&self) -> &Arc<Tables> {}

    /// The slot of a port of the program.
    #[must_use]
    pub fn slot_of(&self, port: PortId) -> Option<PortSlot> {}

    /// Takes all packets of `input` through the engine. `now_ns` is a monotonic time in
    /// nanoseconds. Buffers of packets that end here go back to `pool`; all others are in `out`,
    /// and their packets are held until each booking has been given to [`Engine::booked_sent`]
    /// or [`Engine::booked_failed`].
    pub fn process(
        &mut self,
        now_ns: u64,
        input: &mut Vec<Packet>,
        pool: &mut BufferPool,
        out: &mut Output,
    ) {}

    /// A frame or datagram was handed to the kernel.
    pub fn booked_sent(&mut self, booking: Booking) {}

    /// A frame or datagram could not be sent and ends here: [`DropReason::TransmitFailed`],
    /// [`DropReason::MtuExceeded`] or [`DropReason::PortUnbound`].
    pub fn booked_failed(&mut self, booking: Booking, reason: DropReason) {}

    /// Packets that the shell received but could not bring here: received and dropped. `bytes` are
    /// those of the frames, as far as known.
    pub fn note_received_lost(
        &mut self,
        origin: Origin,
        reason: DropReason,
        packets: u64,
        bytes: u64,
    ) {}

    /// All counters at this moment. `ring_full` and `interface` are for the shell to fill in.
    #[must_use]
    pub fn counters(&self) -> NodeCounters {}
}

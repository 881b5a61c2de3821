//! Tells other nodes by ICMPv6 that their packets of segments cannot go on, and why (RFC 4443). Knows whom to tell and
//! how often; refuses to judge packets.
//!
//! Only nodes of the domain are told: whoever else sends here is dropped by name, and hears nothing.

use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::encap;
use crate::engine::packet::index::NodeIndex;
use crate::engine::packet::parse::parse_frame;
use crate::engine::state::scheduler::bucket::TokenBucket;
use crate::engine::vector::Work;
use crate::engine::vector::decision::Verdict;
use crate::engine::vector::owner::Owner;
use catena_model::DropReason;
use catena_model::account::Created;
use catena_model::limits::{SEGMENT_ERRORS_BURST, SEGMENT_ERRORS_PER_SECOND};
use catena_model::program::{PROXY_MAC, SliceRate};
use catena_model::resource::Encapsulation;
use catena_wire::ethernet::{EthernetHeader, HEADER_BYTES};
use catena_wire::icmp::error_message::{self, FRAME_BYTES_MAX};
use catena_wire::scalar::EtherType;

/// What the bucket counts in place of bytes.
const RATE: SliceRate = SliceRate {
    bits_per_second: 8 * SEGMENT_ERRORS_PER_SECOND as u64,
    burst_bytes: SEGMENT_ERRORS_BURST,
};

/// How much was told lately.
#[derive(Default)]
pub(crate) struct SegmentErrors {
    bucket: Option<TokenBucket>,
}

impl SegmentErrors {
    /// The message to the node that sent a packet, which ends for this reason; none: nobody is told.
    pub(super) fn about(
        &mut self,
        packet: &[u8],
        (by, reason): (Encapsulation, DropReason),
        sender: NodeIndex,
        context: &mut Context<'_>,
    ) -> Option<Work> {
        // Who asks what would become of a packet is told otherwise.
        if context.is_uncharged || context.is_injected {
            return None;
        }
        let said = encap::error_of(by, packet, reason)?;
        let own = context.tables.positions.own_segments()?.address;
        // Before a message is made: a flood of such packets must cost little.
        let now_ns = context.now_ns;
        let bucket = self.bucket.get_or_insert_with(|| TokenBucket::full(RATE, now_ns));
        if !bucket.take(now_ns, 1) {
            return None;
        }
        let mut frame = [0; FRAME_BYTES_MAX];
        EthernetHeader::untagged(PROXY_MAC, PROXY_MAC, EtherType::IPV6).emit(&mut frame).ok()?;
        let place = frame.get_mut(HEADER_BYTES..)?;
        let length = error_message::emit_about_v6(packet, own, said, place)?;
        let bytes = frame.get(..HEADER_BYTES + length)?;
        let view = parse_frame(bytes).ok()?;
        let mut buffer = context.take_buffer(Owner::Tunnels)?;
        if !buffer.fill(bytes) {
            context.pool.put(buffer);
            return None;
        }
        let (owner, seed) = (Owner::Tunnels, context.tables.choice_seed);
        let work = Work::made((buffer, view), owner, seed, Verdict::Tell(sender));
        let created = CounterUpdate::Created(owner, Created::SegmentError);
        context.counters.apply(created, work.volume);
        Some(work)
    }
}

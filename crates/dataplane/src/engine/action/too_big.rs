//! Tells senders of packets that are too big for their way which size fits. Knows where a sender is
//! and how often it is told; refuses to judge what is too big.
//!
//! The answer is from the address that the packet was for, as Linux makes it for tunnels under a
//! bridge: no router stands here, so there is no other address that the sender would know.

use super::context::Context;
use super::gso_batch::TooBig;
use crate::engine::account::updates::CounterUpdate;
use crate::engine::packet::index::NetworkIndex;
use crate::engine::packet::parse;
use crate::engine::state::scheduler::bucket::TokenBucket;
use crate::engine::tables::network::MacLocation;
use crate::engine::vector::Work;
use crate::engine::vector::decision::{ActionRef, Verdict};
use crate::engine::vector::owner::Owner;
use catena_io::Buffer;
use catena_model::DropReason;
use catena_model::account::Created;
use catena_model::limits::{TOO_BIG_ANSWERS_BURST, TOO_BIG_ANSWERS_PER_SECOND};
use catena_model::program::{PROXY_MAC, SliceRate};
use catena_wire::frame::FrameView;
use catena_wire::icmp::too_big;
use catena_wire::probe::ProbeMark;
use catena_wire::scalar::MacAddr;
use std::net::IpAddr;

/// What a bucket of answers counts in place of bytes.
const RATE: SliceRate = SliceRate {
    bits_per_second: 8 * TOO_BIG_ANSWERS_PER_SECOND as u64,
    burst_bytes: TOO_BIG_ANSWERS_BURST,
};

/// An answer on its way.
pub(crate) struct Answer {
    pub(crate) work: Work,
    /// How it leaves.
    pub(crate) action: ActionRef,
}

/// Who was told how much lately.
#[derive(Default)]
pub(crate) struct Teller {
    tunnels: Option<TokenBucket>,
    /// By slot, with the serial of the port that was there.
    ports: Vec<Option<(u32, TokenBucket)>>,
}

/// Where a sender is.
struct Sender {
    action: ActionRef,
    mac: MacAddr,
    /// From whom it gets the answer.
    from: MacAddr,
}

impl Teller {
    /// The answer to a packet, accounted for. `asked`: the network that the packet would come out in.
    ///
    /// # Errors
    /// There is none, and the packet ends for this reason.
    pub(crate) fn answer(
        &mut self,
        large: &TooBig,
        asked: Option<NetworkIndex>,
        context: &mut Context<'_>,
    ) -> Result<Answer, DropReason> {
        let work = &large.work;
        let is_probe = || ProbeMark::find(&work.view, work.buffer.bytes()).is_some();
        // Copies are nobody's question, and who checks a chain is told otherwise.
        if work.copy > 0 || context.is_injected || is_probe() {
            return Err(DropReason::MtuExceeded);
        }
        let mut buffer = context.pool.take().ok_or(DropReason::MtuExceeded)?;
        match self.fill(&mut buffer, large, asked, context) {
            Ok((sender, view)) => {
                let (owner, seed) = (work.owner, context.tables.choice_seed);
                let work = Work::made((buffer, view), owner, seed, Verdict::Consume);
                let created = CounterUpdate::Created(owner, Created::PacketTooBig);
                context.counters.apply(created, work.volume);
                Ok(Answer { work, action: sender.action })
            }
            Err(reason) => {
                context.pool.put(buffer);
                Err(reason)
            }
        }
    }

    /// Writes the answer into a free buffer.
    fn fill(
        &mut self,
        buffer: &mut Buffer,
        large: &TooBig,
        asked: Option<NetworkIndex>,
        context: &Context<'_>,
    ) -> Result<(Sender, FrameView), DropReason> {
        const NONE: DropReason = DropReason::MtuExceeded;
        buffer.clear();
        // Of a super-frame the sender is told about the first packet that it would have become.
        if !large.segments.append_to(large.work.buffer.bytes(), 0, buffer) {
            return Err(NONE);
        }
        let link_bytes = usize::from(large.work.view.l3_offset);
        let mtu = large.frame_bytes_max.saturating_sub(link_bytes);
        let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
        let packet = too_big::TooBig::judge(buffer.bytes(), mtu).ok_or(NONE)?;
        let address = packet.sender().ok_or(NONE)?;
        let sender = find(&large.work, address, asked, context).ok_or(NONE)?;
        if !self.may_tell(large.work.owner, context.now_ns) {
            return Err(DropReason::MtuUntold);
        }
        let mut room = [0; too_big::FRAME_BYTES_MAX];
        let length = packet.emit(sender.from, sender.mac, &mut room);
        let bytes = length.and_then(|length| room.get(..length)).ok_or(NONE)?;
        let view = parse::parse_frame(bytes)?;
        if buffer.fill(bytes) { Ok((sender, view)) } else { Err(NONE) }
    }

    fn may_tell(&mut self, owner: Owner, now_ns: u64) -> bool {
        let bucket = match owner {
            Owner::Tunnels => self.tunnels.get_or_insert_with(|| TokenBucket::full(RATE, now_ns)),
            Owner::Port { slot, serial } => {
                if self.ports.len() <= slot.index() {
                    self.ports.resize(slot.index() + 1, None);
                }
                let Some(place) = self.ports.get_mut(slot.index()) else { return false };
                let fresh = || (serial, TokenBucket::full(RATE, now_ns));
                let (known, bucket) = place.get_or_insert_with(fresh);
                if *known != serial {
                    (*known, *bucket) = fresh();
                }
                bucket
            }
        };
        bucket.take(now_ns, 1)
    }
}

/// Whoever sent a packet by the port of an endpoint is behind that port; of what comes out of functions
/// and tunnels, the sender is where its address is in the network that the packet would come out in.
fn find(
    work: &Work,
    address: IpAddr,
    asked: Option<NetworkIndex>,
    context: &Context<'_>,
) -> Option<Sender> {
    let tables = context.tables;
    if let Owner::Port { slot, serial } = work.owner
        && let (Owner::Port { serial: now, .. }, Some(port)) = context.slots.owner(slot)
        && now == serial
        && !tables.port(port).is_function()
    {
        let (mac, from) = (work.view.source, work.view.destination);
        return Some(Sender { action: ActionRef::Port(port), mac, from });
    }
    let index = asked?;
    let network = tables.network(index);
    let mac = network.next_hop(address)?;
    let action = match *network.lines.location(mac)? {
        MacLocation::Port(port) => ActionRef::Port(port),
        MacLocation::Node(node) => ActionRef::Network(index, node),
    };
    Some(Sender { action, mac, from: PROXY_MAC })
}

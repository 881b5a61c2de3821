//! Answers in place of the addressed: ARP requests and neighbour solicitations at a function's
//! port for an address that is not on that network. A routing function whose next network holds
//! the destination elsewhere could not send at all otherwise. Knows whom not to answer; refuses to
//! answer endpoints, ports that no path goes through (what the answer attracted could go nowhere),
//! and questions inside a VLAN. In place of functions that have no machine, `answer_inside` does.

use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::action::effects::Effect;
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::parse;
use crate::engine::tables::network::NetworkTable;
use crate::engine::vector::decision::{ActionRef, Decision, Verdict};
use crate::engine::vector::owner::Owner;
use crate::engine::vector::{Step, Work};
use catena_io::Offload;
use catena_model::DropReason;
use catena_model::account::{Created, Volume};
use catena_model::program::PROXY_MAC;
use catena_wire::arp::{ArpOperation, ArpPacket};
use catena_wire::frame::{FrameView, Network};
use catena_wire::icmp::IcmpV6Type;
use catena_wire::ipv6::Ipv6View;
use catena_wire::neighbour::{
    ADVERTISEMENT_FRAME_LEN, NeighbourSolicitation, emit_neighbour_advertisement,
};
use catena_wire::scalar::MacAddr;
use std::net::IpAddr;

/// A question to which the data plane may have the answer.
pub(super) enum Question {
    Arp(ArpPacket),
    Neighbour(NeighbourSolicitation),
}

impl Question {
    /// Whose hardware address is asked for.
    pub(super) fn target(&self) -> IpAddr {
        match self {
            Self::Arp(arp) => arp.target_ip.into(),
            Self::Neighbour(asked) => asked.target.into(),
        }
    }

    /// Has the asker no address yet (RFC 5227, RFC 4862)?
    pub(super) fn is_of_nobody(&self) -> bool {
        match self {
            Self::Arp(arp) => arp.sender_ip.is_unspecified(),
            Self::Neighbour(asked) => asked.source.is_unspecified(),
        }
    }

    /// Does it ask about the asker's own address, which tells others of it?
    pub(super) fn is_about_asker(&self) -> bool {
        match self {
            Self::Arp(arp) => arp.sender_ip == arp.target_ip,
            Self::Neighbour(asked) => asked.source == asked.target,
        }
    }
}

/// Turns questions of functions into answers; all others go on as they are.
pub(crate) fn answer(vector: &mut [Work], context: &mut Context<'_>) {
    for work in vector {
        let Step::FromFunction(port) = work.step else { continue };
        let entry = context.tables.port(port);
        if !entry.is_on_path() || work.view.vlan.is_some() {
            continue;
        }
        let network = context.tables.network(entry.network);
        let is_ours = |asked: &Question| {
            let is_own = asked.is_of_nobody() || asked.is_about_asker();
            !is_own && is_elsewhere(asked.target(), network)
        };
        match question(&work.view, work.buffer.bytes()) {
            Ok(asked) => {
                let Some(asked) = asked.filter(is_ours) else { continue };
                context.counters.created_by_function(work.owner, work.volume.packets);
                debug_assert!(
                    matches!(work.owner, Owner::Port { .. }),
                    "only ports of functions ask"
                );
                if reply(work, port, (&asked, PROXY_MAC), context) {
                    let decision = Decision::ordinary(ActionRef::Port(port), context.epoch);
                    work.step = Step::Decided(Verdict::Forward(decision));
                }
            }
            Err(reason) => work.drop(reason),
        }
    }
}

/// What a frame asks; none: nothing.
pub(super) fn question(view: &FrameView, bytes: &[u8]) -> Result<Option<Question>, DropReason> {
    if view.network == Network::Arp {
        let body = bytes.get(usize::from(view.l3_offset)..).unwrap_or_default();
        let arp = ArpPacket::parse(body).map_err(|_| DropReason::MalformedArp)?;
        return Ok((arp.operation == ArpOperation::Request).then_some(Question::Arp(arp)));
    }
    if view.icmp_type != Some(IcmpV6Type::NEIGHBOUR_SOLICITATION.0)
        || !view.is_neighbour_discovery()
    {
        return Ok(None);
    }
    Ok(solicitation(view, bytes).map(Question::Neighbour))
}

/// Is it the address of some host on another network?
fn is_elsewhere(address: IpAddr, network: &NetworkTable) -> bool {
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    let is_host = !address.is_unspecified() && !address.is_loopback() && !address.is_multicast();
    is_host && !is_link_local && !network.holds(address)
}

/// A solicitation that fails a check of RFC 4861 is no question to us.
fn solicitation(view: &FrameView, bytes: &[u8]) -> Option<NeighbourSolicitation> {
    let packet = bytes.get(usize::from(view.l3_offset)..)?;
    let ip = Ipv6View::parse(packet).ok()?;
    let message = bytes.get(usize::from(view.l4_offset?)..view.end as usize)?;
    NeighbourSolicitation::parse(message, ip.source(), ip.destination(), ip.hop_limit()).ok()
}

/// Makes the answer, which says this hardware address, in the buffer of the question. `port`: in whose place. False: it
/// could not.
pub(super) fn reply(
    work: &mut Work,
    port: PortIndex,
    (question, mac): (&Question, MacAddr),
    context: &mut Context<'_>,
) -> bool {
    let asker = work.view.source;
    let mut frame = [0; ADVERTISEMENT_FRAME_LEN];
    let length = match question {
        Question::Arp(request) => request.reply(mac).emit_frame(&mut frame).ok(),
        Question::Neighbour(asked) => {
            emit_neighbour_advertisement(asked, asker, mac, &mut frame).ok()
        }
    };
    let written = length.and_then(|length| frame.get(..length));
    let view = written.filter(|bytes| work.buffer.fill(bytes)).map(parse::parse_frame);
    let Some(Ok(view)) = view else {
        // The answer is of fixed size and smaller than any buffer.
        work.drop(DropReason::BuffersExhausted);
        return false;
    };
    work.buffer.offload = Offload::default();
    become_answer(work, view, port, context);
    true
}

/// A question has become its answer, which reads as this.
pub(super) fn become_answer(
    work: &mut Work,
    view: FrameView,
    port: PortIndex,
    context: &mut Context<'_>,
) {
    work.view = view;
    context.count(work.copy, CounterUpdate::Consumed(work.owner), work.volume);
    work.volume = Volume { packets: 1, bytes: work.buffer.len() as u64 };
    let created = CounterUpdate::Created(work.owner, Created::ProxyAnswer);
    context.count(work.copy, created, work.volume);
    context.trace.note(work.copy, || Effect::Answered { port });
}

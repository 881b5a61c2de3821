//! Answers in place of the addressed: ARP requests and neighbour solicitations at a function's
//! port for an address that is not on that network. A routing function whose next network holds
//! the destination elsewhere could not send at all otherwise. Knows whom not to answer; refuses to
//! answer endpoints, ports that no path goes through (what the answer attracted could go nowhere),
//! and questions inside a VLAN.

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
use std::net::IpAddr;

/// A question to which the proxy has the answer.
enum Question {
    Arp(ArpPacket),
    Neighbour(NeighbourSolicitation),
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
        match question(&work.view, work.buffer.bytes(), network) {
            Ok(None) => {}
            Ok(Some(question)) => reply(work, port, &question, context),
            Err(reason) => work.drop(reason),
        }
    }
}

fn question(
    view: &FrameView,
    bytes: &[u8],
    network: &NetworkTable,
) -> Result<Option<Question>, DropReason> {
    if view.network == Network::Arp {
        let body = bytes.get(usize::from(view.l3_offset)..).unwrap_or_default();
        let arp = ArpPacket::parse(body).map_err(|_| DropReason::MalformedArp)?;
        // A probe or an announcement asks about the asker's own address (RFC 5227).
        let is_own = arp.sender_ip.is_unspecified() || arp.sender_ip == arp.target_ip;
        let is_elsewhere = is_elsewhere(IpAddr::V4(arp.target_ip), network);
        let is_ours = arp.operation == ArpOperation::Request && !is_own && is_elsewhere;
        return Ok(is_ours.then_some(Question::Arp(arp)));
    }
    if view.icmp_type != Some(IcmpV6Type::NEIGHBOUR_SOLICITATION.0)
        || !view.is_neighbour_discovery()
    {
        return Ok(None);
    }
    Ok(solicitation(view, bytes)
        .filter(|asked| {
            !asked.source.is_unspecified()
                && asked.source != asked.target
                && is_elsewhere(IpAddr::V6(asked.target), network)
        })
        .map(Question::Neighbour))
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

/// Makes the answer in the buffer of the question.
fn reply(work: &mut Work, port: PortIndex, question: &Question, context: &mut Context<'_>) {
    context.counters.created_by_function(work.owner, work.volume.packets);
    let asker = work.view.source;
    let mut frame = [0; ADVERTISEMENT_FRAME_LEN];
    let length = match question {
        Question::Arp(request) => request.reply(PROXY_MAC).emit_frame(&mut frame).ok(),
        Question::Neighbour(asked) => {
            emit_neighbour_advertisement(asked, asker, PROXY_MAC, &mut frame).ok()
        }
    };
    let written = length.and_then(|length| frame.get(..length));
    let view = written.filter(|bytes| work.buffer.fill(bytes)).map(parse::parse_frame);
    let Some(Ok(view)) = view else {
        // The answer is of fixed size and smaller than any buffer.
        work.drop(DropReason::BuffersExhausted);
        return;
    };
    work.buffer.offload = Offload::default();
    work.view = view;
    context.count(work.copy, CounterUpdate::Consumed(work.owner), work.volume);
    work.volume = Volume { packets: 1, bytes: work.buffer.len() as u64 };
    let created = CounterUpdate::Created(work.owner, Created::ProxyAnswer);
    context.count(work.copy, created, work.volume);
    debug_assert!(matches!(work.owner, Owner::Port { .. }), "only ports of functions ask");
    context.trace.note(work.copy, || Effect::Answered { port });
    let decision = Decision::ordinary(ActionRef::Port(port), context.epoch);
    work.step = Step::Decided(Verdict::Forward(decision));
}

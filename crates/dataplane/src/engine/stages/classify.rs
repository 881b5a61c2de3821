//! The classifier at work: which packets of endpoints, and of functions' own, enter which path (RFC 7665
//! section 4.2). Knows which packets are asked about, and what is done with the answer; refuses to know
//! how rules are found and what a path does.
//!
//! Never classified: ARP, neighbour and router discovery, whatever is sent to a link-local address or
//! a group, directed broadcasts of the own network included. A later fragment has the ports of the
//! first fragment of its packet: one that a rule could take gets here only when that was seen
//! (`fragments`).

use super::setup::{self, Admission};
use super::{proxy, segmentation, slices};
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::action::effects::Effect;
use crate::engine::encap::{self, PathPosition};
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::packet::parse;
use crate::engine::packet::subscriber::Subscriber;
use crate::engine::state::affinity::FlowAffinity;
use crate::engine::state::flow_cache::{CachedPath, FlowQuery};
use crate::engine::tables::Tables;
use crate::engine::tables::classifier::AtPort;
use crate::engine::tables::path::HopTable;
use crate::engine::tables::slices::Scope;
use crate::engine::vector::{Step, Work};
use catena_model::DropReason;
use catena_model::classifier::FieldWord;
use catena_model::program::WhenAway;
use catena_search::GROUP;
use catena_wire::flow::FlowKey;
use catena_wire::frame::FrameView;
use catena_wire::nsh::UserContext;
use catena_wire::plain::PlainFrame;
use catena_wire::varying::VaryingFields;
use ipnet::IpNet;
use std::net::IpAddr;

/// Sends each packet of an endpoint into its path, or on as ordinary traffic. A flow that a pin
/// holds goes on into the path that it went into before.
pub(crate) fn classify(
    vector: &mut Vec<Work>,
    affinity: &mut FlowAffinity,
    context: &mut Context<'_>,
) {
    if context.tables.rules.fields_anywhere() != 0 {
        segment_where_judged_apart(vector, context);
    }
    for group in vector.chunks_mut(GROUP) {
        let asked = group.iter().map(|work| asking(work, context));
        let found = context.tables.rules.find_each(asked);
        for (work, found) in group.iter_mut().zip(found) {
            match work.step {
                Step::FromEndpoint(port) => classify_one(work, port, found, affinity, context),
                Step::OwnTraffic(port) => classify_own(work, port, found, affinity, context),
                _ => {}
            }
        }
    }
}

/// Segments super-frames whose wire packets show different things where rules look.
fn segment_where_judged_apart(vector: &mut Vec<Work>, context: &mut Context<'_>) {
    let (mut room, mut index) = (Vec::new(), 0);
    while index < vector.len() {
        let work = &vector[index];
        let mask = match work.step {
            Step::FromEndpoint(port) | Step::OwnTraffic(port) if work.volume.packets > 1 => {
                let own = context.tables.port(port);
                let network = Some(own.network).filter(|_| !own.is_function());
                context.tables.rules.fields_at(port, network)
            }
            _ => 0,
        };
        index += match is_judged_apart(work, mask) {
            true => segmentation::segment(vector, index, &mut room, context, |_, _, _| {}),
            false => 1,
        };
    }
}

/// Do the wire packets of a super-frame show different things among these fields?
pub(super) fn is_judged_apart(work: &Work, mask: u32) -> bool {
    let count = u32::try_from(work.volume.packets).unwrap_or(u32::MAX);
    let Some(flags) = work.view.varying.tcp_flags.filter(|_| mask != 0 && count > 1) else {
        return false;
    };
    let shown = |number| {
        let tcp_flags = Some(flags.of_segment(number, count));
        FieldWord::of(&VaryingFields { tcp_flags, ..work.view.varying }).masked(mask)
    };
    let first = shown(0);
    shown(1) != first || shown(count - 1) != first
}

/// What the rules are asked for a packet, also for one that a slice takes: which, is not known yet.
/// Of a function's own traffic only those that name its port are asked.
fn asking<'w>(work: &'w Work, context: &Context<'_>) -> Option<AtPort<'w>> {
    let (port, network) = match work.step {
        Step::FromEndpoint(port) => (port, Some(context.tables.port(port).network)),
        Step::OwnTraffic(port) => (port, None),
        _ => return None,
    };
    let flow = work.view.flow.as_ref().filter(|_| !parse::is_never_classified(&work.view))?;
    Some((port, network, &work.view, flow))
}

/// `found`: the rule that takes the packet unless a slice does, and where that sends it.
fn classify_one(
    work: &mut Work,
    port: PortIndex,
    found: Option<(u32, PathPosition)>,
    affinity: &mut FlowAffinity,
    context: &mut Context<'_>,
) {
    let tables = context.tables;
    let network = tables.port(port).network;
    if encap::by_ether_type(work.view.ethertype).is_some() {
        work.drop(DropReason::ForeignChainHeader);
        return;
    }
    if is_to_segment(work, tables) {
        work.drop(DropReason::SegmentFromPort);
        return;
    }
    if !proxy::may_be_own(work, tables.port(port)) {
        work.drop(DropReason::UndeclaredPort);
        return;
    }
    let never = parse::is_never_classified(&work.view)
        || is_directed_broadcast(&work.view, network, tables);
    let found = found.filter(|_| !never);
    if !never && work.view.is_unicast_in_group_frame() {
        // In its path it would reach all stations behind it, and outside of it pass the functions.
        let places = [Scope::port(port), Scope::network(network)];
        if found.is_some() || tables.slices.take_from(&places) {
            work.drop(DropReason::UnicastInGroupFrame);
            return;
        }
    }
    if !never && slices::classify(work, port, network, context) {
        return;
    }
    let Some(((rule, position), flow)) = found.zip(work.view.flow) else {
        context.trace.note(work.copy, || Effect::Unclassified { port, never });
        learn(work, port, None, context);
        work.switch_from_port(network, port);
        return;
    };
    match setup::admit(work, (port, position), &flow, affinity, context) {
        Admission::Enters => {}
        Admission::Waits => return,
        Admission::Unanswered(WhenAway::Drop) => return work.drop(DropReason::SetupUnanswered),
        Admission::Unanswered(WhenAway::Ordinary) => return work.switch_from_port(network, port),
    }
    learn(work, port, Some(position), context);
    send_in(work, port, (rule, position, flow), affinity, context);
}

/// Is it for a segment of the domain's, which nodes alone send to?
fn is_to_segment(work: &Work, tables: &Tables) -> bool {
    work.view.flow.is_some_and(|flow| tables.is_segment(flow.destination))
}

/// A function's own traffic: into the path of a chain that begins at its port, or on as ordinary
/// traffic. What only passes as its own, an ICMP error of somebody else, begins nowhere.
fn classify_own(
    work: &mut Work,
    port: PortIndex,
    found: Option<(u32, PathPosition)>,
    affinity: &mut FlowAffinity,
    context: &mut Context<'_>,
) {
    let tables = context.tables;
    if is_to_segment(work, tables) {
        work.drop(DropReason::SegmentFromPort);
        return;
    }
    let found = found.filter(|_| {
        proxy::has_own_source(work, tables.port(port))
            && !is_directed_broadcast(&work.view, tables.port(port).network, tables)
    });
    match found.zip(work.view.flow) {
        Some(_) if work.view.is_unicast_in_group_frame() => {
            work.drop(DropReason::UnicastInGroupFrame);
        }
        Some(((rule, position), flow)) => {
            match setup::admit(work, (port, position), &flow, affinity, context) {
                Admission::Enters => {
                    send_in(work, port, (rule, position, flow), affinity, context);
                }
                Admission::Waits => {}
                Admission::Unanswered(WhenAway::Drop) => work.drop(DropReason::SetupUnanswered),
                Admission::Unanswered(WhenAway::Ordinary) => {
                    proxy::own_traffic(work, port, tables);
                }
            }
        }
        None => proxy::own_traffic(work, port, tables),
    }
}

/// Sends a packet into the path that a rule has found for it.
fn send_in(
    work: &mut Work,
    port: PortIndex,
    (rule, position, flow): (u32, PathPosition, FlowKey),
    affinity: &mut FlowAffinity,
    context: &mut Context<'_>,
) {
    let tables = context.tables;
    let network = tables.port(port).network;
    let chain = tables.path(tables.positions.place(position).path).chain;
    let key = affinity.key(&flow, chain);
    let position = enter(position, key, work, affinity, context);
    context.trace.note(work.copy, || Effect::Classified { port, rule, start: position });
    let path_ref = context.counters.path_ref(position);
    context.count(work.copy, CounterUpdate::Entered(path_ref), work.volume);
    work.path = Some(path_ref);
    let shown = UserContext::default();
    match encap::enter(
        tables.entered_at(position),
        position,
        || work.open_hash(position),
        shown,
        context.carried,
    ) {
        Ok(position) => work.step = Step::OnPath { position, network: Some(network) },
        Err(reason) => work.drop(reason),
    }
}

/// Keeps what the rules said of those packets of the flow that show the same where they look, if it depends
/// on nothing else and all of them are treated alike; `start`: where they enter their path, if they do.
fn learn(work: &Work, port: PortIndex, start: Option<PathPosition>, context: &mut Context<'_>) {
    let tables = context.tables;
    let plain = PlainFrame::parse(work.buffer.bytes()).filter(|_| work.user == Subscriber::Unknown);
    let Some(frame) = plain else { return };
    let entrance = start.map(|start| {
        let shape = tables.positions.place(start).path;
        CachedPath { own: start.path(), shape }
    });
    // A flow that a pin may hold has a memory of its own, and metadata are written on the slow path.
    let is_simple = entrance.is_none_or(|CachedPath { shape, .. }| {
        !tables.pins.hold(tables.path(shape).id) && tables.path(shape).is_plain()
    });
    if is_simple && !frame.is_group() {
        let flow_hash = frame.symmetric_hash(tables.choice_seed);
        let now_ms = (context.now_ns / 1_000_000) as u32;
        let mask = tables.rules.fields_at(port, Some(tables.port(port).network));
        let fields = FieldWord::of(&work.view.varying).masked(mask);
        let asked = FlowQuery { port: port.0, frame: &frame, fields, flow_hash };
        context.flow_cache.learn(asked, now_ms, entrance);
    }
}

/// Where a flow enters that the rules send to a position. `key`: what it is remembered by here.
pub(crate) fn enter(
    position: PathPosition,
    key: u64,
    work: &Work,
    affinity: &mut FlowAffinity,
    context: &Context<'_>,
) -> PathPosition {
    let Tables { pins, paths, positions, .. } = context.tables;
    let new = paths.get(positions.place(position).path).id;
    let before = affinity.last(context.now_ns, key);
    let kept = before.and_then(|before| {
        let seed = context.tables.choice_seed;
        let choose = |hop: &HopTable| hop.choose_index(hop.hash(&work.view, work.flow_hash, seed));
        pins.keep(new, before, choose, paths, positions)
    });
    let position = kept.unwrap_or(position);
    let path = positions.id(position);
    affinity.note(context.now_ns, key, path);
    position
}

/// Is it a broadcast of a network by that network's own address (RFC 1812 section 4.2.2.11)?
fn is_directed_broadcast(view: &FrameView, network: NetworkIndex, tables: &Tables) -> bool {
    let is_of = |prefix: &IpNet, address: IpAddr| {
        address.is_ipv4() && prefix.prefix_len() < 31 && prefix.broadcast() == address
    };
    let prefixes = &tables.network(network).prefixes;
    view.destination.is_broadcast()
        && view.flow.is_some_and(|flow| prefixes.iter().any(|p| is_of(p, flow.destination)))
}

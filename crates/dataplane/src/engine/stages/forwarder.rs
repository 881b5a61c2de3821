//! The service function forwarder (RFC 7665 section 4.3): where a packet goes from its position.
//! Knows hops, the choice among instances and the end of a path; refuses to know how a position
//! is written.

use super::detour::{self, Choice, Turn};
use super::{branch, segmentation, tap, telemetry};
use crate::engine::account::updates::CounterUpdate;
use crate::engine::action::context::Context;
use crate::engine::action::effects::Effect;
use crate::engine::encap::{self, Carried, PathPosition};
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::state::affinity::FlowAffinity;
use crate::engine::tables::Tables;
use crate::engine::tables::path::{HopTable, Inside, InstancePlace, PathTable};
use crate::engine::vector::decision::{ActionRef, Decision, Verdict};
use crate::engine::vector::{InsideVisit, Source, Step, Work};
use catena_model::DropReason;
use catena_model::program::{HopKind, PROXY_MAC};
use catena_model::resource::FailurePolicy;
use catena_wire::scalar::MacAddr;
use std::net::IpAddr;

/// Decides for every packet on a path; at its end the packet goes on into the path that follows, or
/// is ordinary traffic again. Copies for taps join the vector.
pub(crate) fn forward(
    vector: &mut Vec<Work>,
    affinity: &mut FlowAffinity,
    context: &mut Context<'_>,
) {
    let (mut index, mut room) = (0, Vec::new());
    'works: while index < vector.len() {
        let at = index;
        index += 1;
        let (mut position, mut network, mut by_tunnel) = match vector[at].step {
            Step::OnPath { position, network } => {
                (position, network, context.slots.is_from_node(vector[at].owner))
            }
            Step::Passed { position, network } => (position, network, false),
            _ => continue,
        };
        loop {
            position = telemetry::begin(&vector[at], position, by_tunnel, context);
            position = tap::pass(vector, at, position, by_tunnel, context);
            while let Some(next) = pass_by(&vector[at], position, by_tunnel, context) {
                by_tunnel = false;
                position = tap::pass(vector, at, next, by_tunnel, context);
            }
            let work = &mut vector[at];
            let place = context.tables.positions.place(position);
            let path = context.tables.path(place.path);
            if let Some(hop) = path.hops.get(usize::from(place.hop)) {
                reach(work, position, hop, by_tunnel, context);
                break;
            }
            if branch::is_judged_apart(work, position, context) {
                work.step = Step::OnPath { position, network };
                segmentation::segment(vector, at, &mut room, context, |_, _, _| {});
                index = at;
                continue 'works;
            }
            position = telemetry::end(work, position, context);
            match branch::follow(work, position, affinity, context) {
                Ok(Some(start)) => {
                    position = start;
                    by_tunnel = false;
                    // The last function's own MAC, given back by a bridge, leads nowhere else.
                    network = network.filter(|_| !path.ends_at(work.view.destination));
                }
                Ok(None) => {
                    match finish(work, position, path, network, context) {
                        Ok(step) => work.step = step,
                        Err(reason) => work.drop(reason),
                    }
                    break;
                }
                Err(reason) => {
                    work.drop(reason);
                    break;
                }
            }
        }
    }
}

/// Decides for a packet, or a copy for a tap, that is at a hop. `by_tunnel`: another node has sent
/// it here for this hop.
pub(crate) fn reach(
    work: &mut Work,
    position: PathPosition,
    hop: &HopTable,
    by_tunnel: bool,
    context: &mut Context<'_>,
) {
    let seed = context.tables.choice_seed;
    let flow_hash = hop.hash(&work.view, work.flow_hash, seed);
    let chosen = detour::choose(hop, flow_hash, by_tunnel, context.health);
    let decided = chosen.and_then(|Choice { instance, turn }| {
        context.trace.note(work.copy, || {
            let flow_hash = hop.hash(&work.view, work.open_hash(position), 0);
            Effect::Chosen { position, instance, flow_hash }
        });
        let to = hop.instances[instance].place;
        let mut position = position;
        if turn == Turn::Detour {
            position = context.tables.positions.without_rest(position);
        } else if !by_tunnel && let InstancePlace::Here { ingress, .. } = to {
            position = taken_by(position, ingress, (context.tables, context.carried));
        }
        // Every node makes the same choice, so only a detour may go on from here.
        if by_tunnel && turn != Turn::Detour && matches!(to, InstancePlace::There(_)) {
            return Err(DropReason::PositionElsewhere);
        }
        let tables = context.tables;
        if let (InstancePlace::Here { local, .. }, Some(inside)) =
            (to, hop.instances[instance].inside)
        {
            let Inside { function, is_backward } = inside;
            return Ok(Step::Inside(InsideVisit { position, function, is_backward, local }));
        }
        let flow = work.view.flow;
        let place = tables.positions.place(position);
        let (number, action) = context.actions.to_instance((place.path, place.hop), instance)?;
        if let Some(memory) = action.memory() {
            // A proxy can only remember what it can tell apart.
            let flow = flow.ok_or(DropReason::MalformedIp)?;
            if tables.is_foreign(memory.egress, tables.path(place.path), &flow) {
                return Err(DropReason::ForeignAddress);
            }
        }
        let (action, epoch) = (ActionRef::Hop(number), context.epoch);
        let decision = Decision { action, position, destination: None, epoch };
        Ok(Step::Decided(Verdict::Forward(decision)))
    });
    work.step = decided.unwrap_or_else(|reason| Step::Decided(Verdict::Drop(reason)));
}

/// The position of a packet that an instance gets here, or passes by: what is left of its source route leads on from
/// behind it.
pub(crate) fn taken_by(
    position: PathPosition,
    ingress: PortIndex,
    (tables, carried): (&Tables, &mut Carried),
) -> PathPosition {
    let is_routed = tables.positions.encapsulation(position).is_source_route();
    if !is_routed || !position.carries_metadata() {
        return position;
    }
    let number = tables.exits.number_of(tables.port(ingress).entry.id);
    let known = (&tables.positions, &**tables.exits.reducers());
    encap::taken(known, carried, position, number)
}

/// Where a packet goes on whose instance at this position is dead and declared to be passed by.
fn pass_by(
    work: &Work,
    position: PathPosition,
    by_tunnel: bool,
    context: &mut Context<'_>,
) -> Option<PathPosition> {
    let place = context.tables.positions.place(position);
    let hop = context.tables.path(place.path).hops.get(usize::from(place.hop))?;
    // Spares the choice to all others. A copy for a tap ends with the tap.
    if hop.on_failure != FailurePolicy::Bypass || hop.kind == HopKind::Tap {
        return None;
    }
    let flow_hash = hop.hash(&work.view, work.flow_hash, context.tables.choice_seed);
    let choice = detour::choose(hop, flow_hash, by_tunnel, context.health).ok()?;
    let Choice { instance, turn: Turn::Bypass } = choice else { return None };
    context.trace.note(work.copy, || Effect::Bypassed { position, instance });
    let place = hop.instances.get(instance).map(|instance| instance.place);
    if let (Some(InstancePlace::Here { local, .. }), Some(path_ref)) = (place, work.path) {
        context.count(work.copy, CounterUpdate::Bypassed(path_ref, local), work.volume);
    }
    let position = match place {
        Some(InstancePlace::Here { ingress, .. }) if !by_tunnel => {
            taken_by(position, ingress, (context.tables, context.carried))
        }
        _ => position,
    };
    Some(encap::next(&context.tables.positions, position))
}

/// The end of a path: delivery where the last function addressed it, else in the network of the
/// path's destination.
fn finish(
    work: &mut Work,
    position: PathPosition,
    path: &PathTable,
    network: Option<NetworkIndex>,
    context: &mut Context<'_>,
) -> Result<Step, DropReason> {
    let destination = work.view.flow.map(|flow| flow.destination);
    let untold = path.destination.filter(|_| context.is_probe && path.is_translated_inside());
    let (network, resolved) = match untold {
        // Functions inside let probes pass as they are: what their packets are addressed to here, none of them says.
        Some(network) => (network, None),
        None => deliver(context.tables, path, network, work.view.destination, destination)?,
    };
    work.new_destination = resolved.or(work.new_destination);
    let resolved = work.new_destination;
    context.trace.note(work.copy, || Effect::Finished { position, network, resolved });
    if let Some(path_ref) = work.path.take() {
        context.count(work.copy, CounterUpdate::Finished(path_ref), work.volume);
    }
    Ok(match untold {
        Some(_) => Step::Decided(Verdict::Consume),
        None => Step::Ordinary { network, from: Source::Proxy },
    })
}

/// In which network a packet at the end of its path is delivered, and to which MAC if not to that
/// which it is addressed to. `destination`: its IP address.
pub(crate) fn deliver(
    tables: &Tables,
    path: &PathTable,
    network: Option<NetworkIndex>,
    addressed: MacAddr,
    destination: Option<IpAddr>,
) -> Result<(NetworkIndex, Option<MacAddr>), DropReason> {
    // A bridging function gives a frame back as it got it: addressed to itself.
    let is_resolved = |index: &NetworkIndex| {
        addressed != PROXY_MAC
            && tables.network(*index).lines.location(addressed).is_some()
            && !path.ends_at(addressed)
    };
    if let Some(network) = network.filter(is_resolved) {
        return Ok((network, None));
    }
    let network = path.destination.ok_or(DropReason::UnknownNetwork)?;
    let destination = destination.ok_or(DropReason::NoNeighbour)?;
    let mac = tables.network(network).next_hop(destination);
    Ok((network, Some(mac.ok_or(DropReason::NoNeighbour)?)))
}

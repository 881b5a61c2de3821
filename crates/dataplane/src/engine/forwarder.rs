//! The service function forwarder (RFC 7665 section 4.3): where a packet goes from its position.
//! Knows hops, the choice among instances and the end of a path; refuses to know how a position
//! is written.

use super::context::Context;
use super::counters::Owner;
use super::encap::{self, PathPosition};
use super::tables::{HopTable, InstancePlace, NetworkIndex, PathTable, Tables};
use super::tap;
use super::trace::Note;
use super::transform::{Epoch, Exit, Operation, Stage, Transform, Verdict};
use super::vector::{Source, Step, Work};
use catena_model::DropReason;
use catena_model::program::{HopKind, PROXY_MAC};

/// Decides for every packet on a path; at its end the packet is ordinary traffic again. Copies for
/// taps join the vector.
pub(super) fn forward(vector: &mut Vec<Work>, context: &mut Context<'_>) {
    for index in 0..vector.len() {
        let Step::OnPath { position, network } = vector[index].step else { continue };
        let position = tap::pass(vector, index, position, context);
        let work = &mut vector[index];
        let place = context.tables.positions.place(position);
        let path = context.tables.path(place.path);
        match path.hops.get(usize::from(place.hop)) {
            Some(hop) => reach(work, position, hop, context),
            None => match finish(work, position, path, network, context) {
                Ok(step) => work.step = step,
                Err(reason) => work.drop(reason),
            },
        }
    }
}

/// Decides for a packet, or a copy for a tap, that is at a hop.
pub(super) fn reach(
    work: &mut Work,
    position: PathPosition,
    hop: &HopTable,
    context: &mut Context<'_>,
) {
    let flow_hash = work.flow_hash;
    let chosen = hop.choose_index(flow_hash).ok_or(DropReason::NoInstance);
    let decided = chosen.and_then(|instance| {
        context.trace.note(work.copy, || Note::Chosen { position, instance, flow_hash });
        let to = hop.instances[instance].place;
        visit(work, position, hop.kind, to, context.tables, context.epoch)
    });
    work.step = Step::Decided(decided.map_or_else(Verdict::Drop, Verdict::Forward));
}

fn visit(
    work: &Work,
    position: PathPosition,
    kind: HopKind,
    to: InstancePlace,
    tables: &Tables,
    epoch: Epoch,
) -> Result<Transform, DropReason> {
    match to {
        InstancePlace::Here { ingress, egress, ingress_mac, speaks, local } => {
            let into = Transform::new(Exit::Port(ingress), Stage::Into(local), epoch);
            match speaks {
                None if kind == HopKind::Tap => {
                    Ok(into.then(Operation::SetDestination(ingress_mac)))
                }
                // A proxy can only remember what it can tell apart.
                None if work.view.flow.is_none() => Err(DropReason::MalformedIp),
                None => Ok(into
                    .then(Operation::SetDestination(ingress_mac))
                    .then(Operation::Remember { egress, visited: position, local })),
                Some(spoken) if spoken == encap::carrier(tables, position) => {
                    let destination = ingress_mac;
                    Ok(into.then(Operation::PushPathOverEthernet { destination, position }))
                }
                Some(_) => Err(DropReason::UnsupportedEncapsulation),
            }
        }
        InstancePlace::There(node) => {
            // Every node makes the same choice, so the node before should not have sent it here.
            if work.owner == Owner::Tunnels {
                return Err(DropReason::PositionElsewhere);
            }
            let between = Transform::new(Exit::Node(node), Stage::Between, epoch);
            Ok(between.then(Operation::PushPath(position)))
        }
        InstancePlace::Unported => Err(DropReason::UnknownPort),
        InstancePlace::Ambiguous | InstancePlace::Nowhere => Err(DropReason::NoInstance),
    }
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
    let tables = context.tables;
    let addressed = work.view.destination;
    // A bridging function gives a frame back as it got it: addressed to itself.
    let is_resolved = |index: &NetworkIndex| {
        addressed != PROXY_MAC
            && tables.network(*index).macs.contains_key(&addressed)
            && !path.ends_at(addressed)
    };
    let network = match network.filter(is_resolved) {
        Some(network) => network,
        None => {
            let network = path.destination.ok_or(DropReason::UnknownNetwork)?;
            let flow = work.view.flow.ok_or(DropReason::NoNeighbour)?;
            let mac = tables.network(network).next_hop(flow.destination);
            work.new_destination = Some(mac.ok_or(DropReason::NoNeighbour)?);
            network
        }
    };
    let resolved = work.new_destination;
    context.trace.note(work.copy, || Note::Finished { position, network, resolved });
    if let Some(seat) = work.path.take() {
        context.books.finished(seat, work.volume);
    }
    Ok(Step::Ordinary { network, from: Source::Proxy })
}

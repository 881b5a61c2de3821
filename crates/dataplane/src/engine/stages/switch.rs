//! The switch: ordinary traffic by MAC inside its tenant network, here or over VXLAN (RFC 7348).
//! Knows where each MAC is; refuses to learn: the program says it all.

use super::flooding;
use crate::engine::action::context::Context;
use crate::engine::action::effects::Effect;
use crate::engine::packet::index::NetworkIndex;
use crate::engine::tables::Tables;
use crate::engine::tables::network::MacLocation;
use crate::engine::vector::decision::{ActionRef, Decision, Epoch, Verdict};
use crate::engine::vector::{Source, Step, Work};
use catena_model::DropReason;
use catena_wire::scalar::MacAddr;

/// Decides for every packet of ordinary traffic.
pub(crate) fn switch(vector: &mut [Work], context: &mut Context<'_>) {
    for work in vector {
        let Step::Ordinary { network, from } = work.step else { continue };
        let destination = work.new_destination.unwrap_or(work.view.destination);
        context.trace.note(work.copy, || Effect::Switched { network, destination });
        let decided = decide(destination, network, from, context.tables, context.epoch);
        let decided = match decided {
            Ok(flooded @ Verdict::Replicate { .. }) => {
                flooding::admit(work, network, from, context).map(|()| flooded)
            }
            // Sent to one station, it is addressed to it first.
            Ok(Verdict::Forward(decision)) => {
                Ok(Verdict::Forward(decision.addressed_to(work.new_destination)))
            }
            other => other,
        };
        work.step = Step::Decided(decided.unwrap_or_else(Verdict::Drop));
    }
}

/// Where ordinary traffic to a MAC goes; none: to everybody.
#[inline]
pub(crate) fn exit(
    destination: MacAddr,
    network: NetworkIndex,
    from: Source,
    tables: &Tables,
) -> Result<Option<ActionRef>, DropReason> {
    if destination.is_multicast() {
        // No bridge passes these on (IEEE 802.1Q section 8.6.3).
        let is_passed_on = !destination.is_link_local_reserved();
        return if is_passed_on { Ok(None) } else { Err(DropReason::UnknownMac) };
    }
    match tables.network(network).lines.location(destination) {
        Some(MacLocation::Port(port)) if from == Source::Port(*port) => {
            Err(DropReason::HairpinToSource)
        }
        Some(MacLocation::Port(port)) if tables.port(*port).is_inside() => {
            Err(DropReason::FunctionUnasked)
        }
        Some(MacLocation::Port(port)) => Ok(Some(ActionRef::Port(*port))),
        Some(MacLocation::Node(node)) if from != Source::Tunnel => {
            Ok(Some(ActionRef::Network(network, *node)))
        }
        _ => Err(DropReason::UnknownMac),
    }
}

fn decide(
    destination: MacAddr,
    network: NetworkIndex,
    from: Source,
    tables: &Tables,
    epoch: Epoch,
) -> Result<Verdict, DropReason> {
    Ok(match exit(destination, network, from, tables)? {
        Some(action) => Verdict::Forward(Decision::ordinary(action, epoch)),
        None => Verdict::Replicate { network, from },
    })
}

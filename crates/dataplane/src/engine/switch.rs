//! The switch: ordinary traffic by MAC inside its tenant network, here or over VXLAN (RFC 7348).
//! Knows where each MAC is; refuses to learn: the program says it all.

use super::context::Context;
use super::tables::{NetworkIndex, Seat, Tables};
use super::trace::Note;
use super::transform::{Epoch, Exit, Operation, Stage, Transform, Verdict};
use super::vector::{Source, Step, Work};
use catena_model::DropReason;

/// Decides for every packet of ordinary traffic.
pub(super) fn switch(vector: &mut [Work], context: &mut Context<'_>) {
    for work in vector {
        let Step::Ordinary { network, from } = work.step else { continue };
        let destination = work.new_destination.unwrap_or(work.view.destination);
        context.trace.note(work.copy, || Note::Switched { network, destination });
        let decided = decide(work, network, from, context.tables, context.epoch);
        work.step = Step::Decided(decided.unwrap_or_else(Verdict::Drop));
    }
}

fn decide(
    work: &Work,
    index: NetworkIndex,
    from: Source,
    tables: &Tables,
    epoch: Epoch,
) -> Result<Verdict, DropReason> {
    let network = tables.network(index);
    let destination = work.new_destination.unwrap_or(work.view.destination);
    if destination.is_multicast() {
        // No bridge passes these on (IEEE 802.1Q section 8.6.3).
        return if destination.is_link_local_reserved() {
            Err(DropReason::UnknownMac)
        } else {
            Ok(Verdict::Replicate { network: index, from })
        };
    }
    let transform = match network.macs.get(&destination) {
        Some(Seat::Port(port)) if from == Source::Port(*port) => {
            return Err(DropReason::HairpinToSource);
        }
        Some(Seat::Port(port)) => Transform::new(Exit::Port(*port), Stage::Ordinary, epoch),
        Some(Seat::Node(node)) if from != Source::Tunnel => {
            Transform::new(Exit::Node(*node), Stage::Ordinary, epoch)
                .then(Operation::PushNetwork(network.vni))
        }
        _ => return Err(DropReason::UnknownMac),
    };
    let rewrite = work.new_destination.map(Operation::SetDestination);
    Ok(Verdict::Forward(rewrite.into_iter().fold(transform, Transform::then)))
}

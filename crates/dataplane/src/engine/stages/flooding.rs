//! Frames to everybody in a network: which of them go, and to whom not. Knows rates and echoes by `floods`;
//! refuses to know who gets a copy.

use crate::engine::action::context::Context;
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::state::flood_memory::FrameDigest;
use crate::engine::tables::network::MacLocation;
use crate::engine::vector::owner::Owner;
use crate::engine::vector::{Source, Work};
use catena_model::DropReason;

/// May a group frame go to everybody in a network? It is charged to the port that it came by.
pub(crate) fn admit(
    work: &Work,
    network: NetworkIndex,
    from: Source,
    context: &mut Context<'_>,
) -> Result<(), DropReason> {
    let network = context.tables.network(network);
    let location = network.lines.location(work.view.source);
    let sender = location.ok_or_else(|| context.floods.memory.digest(work, network));
    if let Source::Port(port) = from
        && is_echo(port, sender, context)
    {
        return Err(DropReason::FloodRepeated);
    }
    let is_free = context.is_uncharged || context.is_injected;
    if let Owner::Port { slot, serial } = work.owner
        && !is_free
        && !context.floods.rates.take(context.now_ns, (slot, serial), work.volume.packets)
    {
        return Err(DropReason::FloodLimited);
    }
    if let Err(digest) = sender {
        context.floods.memory.note(context.now_ns, digest, work.owner);
    }
    Ok(())
}

/// Is a frame that a function's machine sends to everybody by one of its ports from elsewhere in the
/// network? `sender`: the station that it says it is from; none: what the frame is known by.
fn is_echo(
    port: PortIndex,
    sender: Result<&MacLocation, FrameDigest>,
    context: &Context<'_>,
) -> bool {
    let entry = context.tables.port(port);
    if !entry.is_function() && entry.entry.own_sources.is_none() {
        return false;
    }
    let mut own = std::iter::once(port).chain(entry.siblings());
    match sender {
        Ok(MacLocation::Port(port)) => !own.any(|one| one == *port),
        Ok(MacLocation::Node(_)) => true,
        Err(digest) => {
            let first = context.floods.memory.first(context.now_ns, digest);
            first.is_some_and(|first| !own.any(|port| context.slots.owner_of_index(port) == first))
        }
    }
}

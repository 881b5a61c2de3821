//! Carries actions out: the steps that all packets share, and the whole of it for those that are one wire
//! packet with nothing special. What is more to a packet, the last stage sees to (`egress`). Knows what each
//! part of an action does to packet, memory and output; refuses to decide which action a packet meets.

use super::gso_batch::{GsoBatcher, GsoKey};
use super::output::{Frame, Output};
use super::{Action, ActionExit, Instance, Memory, Rewrite};
use crate::engine::account::tx_batches::TxRef;
use crate::engine::encap::PathPosition;
use crate::engine::packet::PortSlot;
use crate::engine::state::proxy_flows::Visit;
use crate::engine::tables::Tables;
use crate::engine::vector::decision::Epoch;
use catena_io::{Buffer, BufferPool};
use catena_model::{DropReason, PathId};
use catena_wire::ethernet;
use catena_wire::scalar::MacAddr;

/// A packet that is one wire packet, fits where it goes and carries no metadata.
pub(crate) struct PlainPacket {
    pub(crate) buffer: Buffer,
    /// What its header says of its path.
    pub(crate) path: u32,
    pub(crate) ttl: u8,
    pub(crate) flow_hash: u64,
    pub(crate) share: TxRef,
}

/// Writes what the action says into the packet and hands it out; answers the batch that it is in. `remember`:
/// tells the proxy's memory first where it goes.
///
/// # Errors
/// The packet ends here, for what `remember` says.
#[inline(always)]
pub(crate) fn leave(
    packet: PlainPacket,
    action: &Action,
    gso: &mut GsoBatcher,
    pool: &mut BufferPool,
    out: &mut Output,
    remember: impl FnOnce(&Instance, &Memory) -> Result<(), DropReason>,
) -> Result<u32, (Buffer, DropReason)> {
    let PlainPacket { mut buffer, path, ttl, flow_hash, share } = packet;
    match &action.rewrite {
        Rewrite::Nothing => {}
        Rewrite::Header(header) => {
            let is_written = header.put_before(&mut buffer, path, ttl);
            debug_assert!(is_written, "there was room when the action was looked up");
        }
        Rewrite::Macs { destination, source, memory } => {
            if let (Some(memory), ActionExit::Instance(instance)) = (memory, &action.exit)
                && let Err(reason) = remember(instance, memory)
            {
                return Err((buffer, reason));
            }
            let written = address(&mut buffer, Some(*destination), *source);
            debug_assert!(written.is_ok(), "the frame was read");
        }
    }
    match &action.exit {
        ActionExit::Node { to, tunnel, .. } => {
            let TxRef { batch, volume } = share;
            let key = GsoKey { flow_hash, to: *to, kind: *tunnel, batch };
            Ok(gso.pack_plain(buffer, volume, key, pool, out))
        }
        ActionExit::Instance(Instance { slot, .. }) | ActionExit::Port { slot, .. } => {
            hand_out(buffer, *slot, share, out);
            Ok(share.batch)
        }
    }
}

/// Hands a frame out by a port.
#[inline]
pub(crate) fn hand_out(buffer: Buffer, to: PortSlot, share: TxRef, out: &mut Output) {
    out.frames.push(Frame { to, buffer, share });
}

/// Writes MACs over those of a frame.
#[inline]
pub(crate) fn address(
    buffer: &mut Buffer,
    destination: Option<MacAddr>,
    source: Option<MacAddr>,
) -> Result<(), DropReason> {
    let frame = buffer.bytes_mut();
    let set = destination.map_or(Ok(()), |mac| ethernet::set_destination(frame, mac));
    let set = set.and_then(|()| source.map_or(Ok(()), |mac| ethernet::set_source(frame, mac)));
    set.map_err(|_| DropReason::MalformedEthernet)
}

/// The visit of a packet at a position to an instance; `serial`: that of its path.
#[inline]
pub(crate) fn visit(
    instance: &Instance,
    position: PathPosition,
    (path, serial): (PathId, u64),
    tables: &Tables,
    epoch: Epoch,
) -> Visit {
    let hop = tables.positions.place(position).hop;
    Visit { position, path, serial, hop, instance: instance.id, epoch }
}

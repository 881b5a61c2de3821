//! Carries actions out: the steps that all packets share, and the whole of it for those that are one wire
//! packet with nothing special. What is more to a packet, the last stage sees to (`egress`). Knows what each
//! part of an action does to packet, memory and output; refuses to decide which action a packet meets.

use super::gso_batch::{GsoBatcher, GsoKey};
use super::output::{Frame, Output};
use super::{Action, ActionExit, Instance, Memory, Rewrite};
use crate::engine::account::tx_batches::TxRef;
use crate::engine::encap::{
    self, Carried, Header, PathPosition, Positions, RouteHeader, SegmentsHeader, Template,
};
use crate::engine::packet::PortSlot;
use crate::engine::state::proxy_flows::Visit;
use crate::engine::tables::Tables;
use crate::engine::vector::decision::Epoch;
use catena_io::{Buffer, BufferPool};
use catena_model::{DropReason, PathId};
use catena_wire::ethernet;
use catena_wire::scalar::MacAddr;

/// A packet that is one wire packet, fits where it goes and carries no metadata.
pub(crate) struct PlainPacket<'h> {
    pub(crate) buffer: Buffer,
    /// The header of its route, if its action writes one.
    pub(crate) route: Option<&'h Header>,
    /// Where it is, and by what it is known what is left of the header that it came with.
    pub(crate) position: PathPosition,
    pub(crate) store: (&'h Positions, &'h Carried),
    /// What its header says of its path.
    pub(crate) path: u32,
    pub(crate) ttl: u8,
    pub(crate) flow_hash: u64,
    pub(crate) share: TxRef,
}

/// The same with what tells the memory.
struct Plain<'h, F> {
    packet: PlainPacket<'h>,
    remember: F,
}

impl<F: FnMut(&Instance, &Memory) -> Result<(), DropReason>> Subject for Plain<'_, F> {
    #[inline(always)]
    fn frame(&mut self) -> &mut [u8] {
        self.packet.buffer.bytes_mut()
    }

    #[inline(always)]
    fn put_header(&mut self, template: &Template) -> Result<(), DropReason> {
        let PlainPacket { buffer, path, ttl, .. } = &mut self.packet;
        let is_written = template.put_before(buffer, *path, *ttl);
        debug_assert!(is_written, "there was room when the action was looked up");
        Ok(())
    }

    #[inline(always)]
    fn put_route(&mut self, _route: &RouteHeader, _instance: u16) -> Result<(), DropReason> {
        let PlainPacket { buffer, route, .. } = &mut self.packet;
        let is_written = route.is_some_and(|route| route.put_before(buffer));
        debug_assert!(is_written, "it was made, and there was room, when the action was looked up");
        if is_written { Ok(()) } else { Err(DropReason::UnsupportedEncapsulation) }
    }

    #[inline(always)]
    fn put_segments(
        &mut self,
        segments: Option<&SegmentsHeader>,
        _instance: u16,
    ) -> Result<(), DropReason> {
        let PlainPacket { buffer, ttl, flow_hash, .. } = &mut self.packet;
        debug_assert!(segments.is_some(), "those of flows are the slow path's");
        let segments = segments.ok_or(DropReason::UnsupportedEncapsulation)?;
        segments.put_before(buffer, *ttl, *flow_hash)
    }

    #[inline(always)]
    fn give(&mut self) -> Result<(), DropReason> {
        let PlainPacket { buffer, position, store, .. } = &mut self.packet;
        let is_written = encap::give_in_place(*store, *position, buffer);
        debug_assert!(is_written, "there was room when the action was looked up");
        if is_written { Ok(()) } else { Err(DropReason::UnsupportedEncapsulation) }
    }

    #[inline(always)]
    fn remember(&mut self, instance: &Instance, memory: &Memory) -> Result<(), DropReason> {
        (self.remember)(instance, memory)
    }
}

/// Writes what the action says into the packet and hands it out; answers the batch that it is in. `remember`:
/// tells the proxy's memory first where it goes.
///
/// # Errors
/// The packet ends here, for what `remember` says, or as it is no plain packet where frames are not carried whole.
#[inline(always)]
pub(crate) fn leave(
    packet: PlainPacket<'_>,
    action: &Action,
    gso: &mut GsoBatcher,
    pool: &mut BufferPool,
    out: &mut Output,
    remember: impl FnMut(&Instance, &Memory) -> Result<(), DropReason>,
) -> Result<u32, (Buffer, DropReason)> {
    let mut plain = Plain { packet, remember };
    if let Err(reason) = write(action, &mut plain, None) {
        return Err((plain.packet.buffer, reason));
    }
    let PlainPacket { buffer, flow_hash, share, .. } = plain.packet;
    match &action.exit {
        ActionExit::Node { to, tunnel, .. } => {
            let TxRef { batch, volume } = share;
            let key = GsoKey { flow_hash, to: *to, kind: *tunnel, batch };
            Ok(gso.pack_plain(buffer, volume, key, pool, out))
        }
        ActionExit::Instance(Instance { slot, .. })
        | ActionExit::Port { slot, .. }
        | ActionExit::Link { slot, .. } => {
            hand_out(buffer, *slot, share, out);
            Ok(share.batch)
        }
    }
}

/// A packet that an action is carried out on.
pub(crate) trait Subject {
    fn frame(&mut self) -> &mut [u8];
    /// Puts a header in front, or keeps it for each wire packet.
    fn put_header(&mut self, template: &Template) -> Result<(), DropReason>;
    /// The same with the ports of its way to an instance, by its place among those of the hop.
    fn put_route(&mut self, route: &RouteHeader, instance: u16) -> Result<(), DropReason>;
    /// The same with the segments of its way to an instance; none: they are those of its flow.
    fn put_segments(
        &mut self,
        segments: Option<&SegmentsHeader>,
        instance: u16,
    ) -> Result<(), DropReason>;
    /// Puts in what is left of its header, for a function that reads it.
    fn give(&mut self) -> Result<(), DropReason>;
    /// Tells the proxy's memory where the packet goes.
    fn remember(&mut self, instance: &Instance, memory: &Memory) -> Result<(), DropReason>;
}

/// Writes and remembers what an action says of every packet that meets it. `addressed`: the MAC that a packet is
/// addressed to where the action names none; none: its own.
///
/// # Errors
/// What the subject says; the frame has no room for MACs.
#[inline(always)]
pub(crate) fn write(
    action: &Action,
    subject: &mut impl Subject,
    addressed: Option<MacAddr>,
) -> Result<(), DropReason> {
    if let (Some(memory), ActionExit::Instance(instance)) = (action.memory(), &action.exit) {
        subject.remember(instance, &memory)?;
    }
    let (destination, source) = action.macs(addressed);
    address(subject.frame(), destination, source)?;
    match &action.rewrite {
        Rewrite::Header(template) => subject.put_header(template),
        Rewrite::Route { header, instance, .. } => subject.put_route(header, *instance),
        Rewrite::Segments { header, instance } => subject.put_segments(header.as_ref(), *instance),
        Rewrite::Given { .. } => subject.give(),
        Rewrite::Nothing | Rewrite::Macs { .. } => Ok(()),
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
    frame: &mut [u8],
    destination: Option<MacAddr>,
    source: Option<MacAddr>,
) -> Result<(), DropReason> {
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

//! Users of slices in the fast path: whose slice takes each packet that came from an endpoint in a tunnel,
//! a group at a time. Knows which slices send packets on as they came; refuses the others, which
//! hold packets back or write metadata: that is the slow path's.

use super::FastPath;
use super::context::FastPathContext;
use super::packet_meta::{Kind, PacketMeta};
use crate::engine::encap::PathPosition;
use crate::engine::packet::Packet;
use crate::engine::packet::subscriber::Subscriber;
use crate::engine::tables::slices::Scope;
use catena_model::PathId;
use catena_wire::nsh::UserContext;

impl FastPath {
    /// Finds the slices of a group's users, and asks for where their paths begin.
    pub(super) fn find_slices(&self, metas: &mut [PacketMeta], context: &FastPathContext<'_>) {
        let slices = &context.tables.slices;
        // Packets come in rows by one port.
        let mut entry = None;
        let mut asked = |meta: &PacketMeta| {
            let spots = match entry {
                Some((entry, spots)) if entry == meta.entry => spots,
                _ => {
                    let ingress = self.ingress(meta)?;
                    let places = [Scope::port(ingress.index), Scope::network(ingress.network)];
                    let spots = places.map(|place| slices.spot(place));
                    entry = Some((meta.entry, spots));
                    spots
                }
            };
            let Subscriber::Known(known) = &meta.user else { return None };
            Some((spots, UserContext::from(&known.inside)))
        };
        for meta in metas.iter().filter(|meta| meta.kind == Kind::Subscriber) {
            if let Some((spots, shown)) = asked(meta) {
                slices.prefetch(&spots, shown);
            }
        }
        for meta in metas.iter_mut().filter(|meta| meta.kind == Kind::Subscriber) {
            let asked = asked(meta);
            meta.slice = asked.and_then(|(spots, shown)| slices.find(&spots, shown));
            if let Some(slice) = meta.slice {
                slices.prefetch_direct(slice);
            }
        }
        for meta in metas.iter_mut().filter(|meta| meta.kind == Kind::Subscriber) {
            match meta.slice.and_then(|slice| slices.direct(slice)) {
                Some(PathId(path)) => {
                    meta.header.path = path;
                    context.tables.positions.prefetch(path);
                }
                None => meta.kind = Kind::SlowPath,
            }
        }
    }

    /// Asks whose packet it is, if the node looks and that is not known yet; none: who cannot be read
    /// in one go.
    #[inline(always)]
    pub(super) fn ask_user(
        packet: &Packet,
        meta: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<()> {
        // Most nodes do not look.
        if context.inspection.is_on { Self::look_inside(packet, meta, context) } else { Some(()) }
    }

    fn look_inside(
        packet: &Packet,
        meta: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<()> {
        if meta.user == Subscriber::Unknown && meta.frame.is_tunnel() {
            let frame = packet.buffer.bytes().get(usize::from(meta.header_bytes)..)?;
            meta.user = context.inspection.into_plain(frame, &meta.frame)?;
        }
        Some(())
    }

    /// Where a user's packet enters the path of its slice; none: it takes something along there.
    #[inline]
    pub(super) fn sliced(meta: &PacketMeta, context: &FastPathContext<'_>) -> Option<PathPosition> {
        let is_ordinary = !meta.frame.is_multicast_or_link_local();
        let positions = &context.tables.positions;
        let start = positions.start_bare(PathId(meta.header.path)).filter(|_| is_ordinary)?;
        context.counters.prefetch_entered(start.path());
        Some(start)
    }
}

//! Users of slices in the fast path: whose slice takes each packet that came from an endpoint in a tunnel,
//! a group at a time. Knows which slices send packets on as they came; refuses the others, which
//! hold packets back or write metadata: that is the slow path's.

use super::FastPath;
use super::act::FastPathContext;
use super::packet_meta::{Kind, PacketMeta};
use crate::engine::encap::PathPosition;
use crate::engine::packet::Packet;
use crate::engine::packet::subscriber::Shown;
use crate::engine::packet::subscriber::Subscriber;
use crate::engine::tables::slices::Scope;
use catena_model::PathId;

impl FastPath {
    /// Finds the slices of a group's users, and asks for where their paths begin.
    pub(super) fn find_slices(&self, sights: &mut [PacketMeta], context: &FastPathContext<'_>) {
        let slices = &context.tables.slices;
        // Packets come in rows by one port.
        let mut door = None;
        let mut asked = |sight: &PacketMeta| {
            let spots = match door {
                Some((entry, spots)) if entry == sight.entry => spots,
                _ => {
                    let ingress = self.ingress(sight)?;
                    let places = [Scope::port(ingress.index), Scope::network(ingress.network)];
                    let spots = places.map(|place| slices.spot(place));
                    door = Some((sight.entry, spots));
                    spots
                }
            };
            let Subscriber::Known(known) = &sight.user else { return None };
            Some((spots, Shown::from(known)))
        };
        for sight in sights.iter().filter(|sight| sight.kind == Kind::Subscriber) {
            if let Some((spots, shown)) = asked(sight) {
                slices.prefetch(&spots, shown);
            }
        }
        for sight in sights.iter_mut().filter(|sight| sight.kind == Kind::Subscriber) {
            let asked = asked(sight);
            sight.slice = asked.and_then(|(spots, shown)| slices.find(&spots, shown));
            if let Some(slice) = sight.slice {
                slices.prefetch_direct(slice);
            }
        }
        for sight in sights.iter_mut().filter(|sight| sight.kind == Kind::Subscriber) {
            match sight.slice.and_then(|slice| slices.direct(slice)) {
                Some(PathId(path)) => {
                    sight.nsh.spi = path;
                    context.tables.positions.prefetch(path);
                }
                None => sight.kind = Kind::Walk,
            }
        }
    }

    /// Asks whose packet it is, if the node looks and that is not known yet; none: who cannot be read
    /// in one go.
    #[inline]
    pub(super) fn ask_user(
        packet: &Packet,
        sight: &mut PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<()> {
        if sight.user == Subscriber::Unknown && context.inspection.is_on && sight.frame.is_tunnel()
        {
            let frame = packet.buffer.bytes().get(usize::from(sight.header_bytes)..)?;
            sight.user = context.inspection.into_plain(frame, &sight.frame)?;
        }
        Some(())
    }

    /// Where a user's packet enters the path of its slice; none: it takes something along there.
    #[inline]
    pub(super) fn sliced(
        sight: &PacketMeta,
        context: &FastPathContext<'_>,
    ) -> Option<PathPosition> {
        let is_ordinary = !sight.frame.is_multicast_or_link_local();
        let positions = &context.tables.positions;
        let start = positions.start_bare(PathId(sight.nsh.spi)).filter(|_| is_ordinary)?;
        context.counters.prefetch_entered(start.path());
        Some(start)
    }
}

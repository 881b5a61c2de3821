//! Users of slices in the lane: whose slice takes each packet that came from an endpoint in a tunnel,
//! a group at a time. Knows which slices send packets on as they came; refuses the others, which
//! hold packets back or write metadata: that is the walk's.

use super::Lane;
use super::act::Hands;
use super::sight::{Kind, Sight};
use crate::engine::encap::PathPosition;
use crate::engine::packet::Packet;
use crate::engine::packet::subscriber::Shown;
use crate::engine::packet::subscriber::User;
use crate::engine::tables::slices::Place;
use catena_model::PathId;

impl Lane {
    /// Finds the slices of a group's users, and asks for where their paths begin.
    pub(super) fn find_slices(&self, sights: &mut [Sight], hands: &Hands<'_>) {
        let slices = &hands.tables.slices;
        // Packets come in rows by one port.
        let mut door = None;
        let mut asked = |sight: &Sight| {
            let spots = match door {
                Some((entry, spots)) if entry == sight.entry => spots,
                _ => {
                    let gate = self.gate(sight)?;
                    let places = [Place::port(gate.index), Place::network(gate.network)];
                    let spots = places.map(|place| slices.spot(place));
                    door = Some((sight.entry, spots));
                    spots
                }
            };
            let User::Known(known) = &sight.user else { return None };
            Some((spots, Shown::from(known)))
        };
        for sight in sights.iter().filter(|sight| sight.kind == Kind::User) {
            if let Some((spots, shown)) = asked(sight) {
                slices.prefetch(&spots, shown);
            }
        }
        for sight in sights.iter_mut().filter(|sight| sight.kind == Kind::User) {
            let asked = asked(sight);
            sight.slice = asked.and_then(|(spots, shown)| slices.find(&spots, shown));
            if let Some(slice) = sight.slice {
                slices.prefetch_direct(slice);
            }
        }
        for sight in sights.iter_mut().filter(|sight| sight.kind == Kind::User) {
            match sight.slice.and_then(|slice| slices.direct(slice)) {
                Some(PathId(path)) => {
                    sight.nsh.spi = path;
                    hands.tables.positions.prefetch(path);
                }
                None => sight.kind = Kind::Walk,
            }
        }
    }

    /// Asks whose packet it is, if the node looks and that is not known yet; none: who cannot be read
    /// in one go.
    #[inline]
    pub(super) fn ask_user(packet: &Packet, sight: &mut Sight, hands: &Hands<'_>) -> Option<()> {
        if sight.user == User::Unknown && hands.look.is_on && sight.frame.is_tunnel() {
            let frame = packet.buffer.bytes().get(usize::from(sight.header_bytes)..)?;
            sight.user = hands.look.into_plain(frame, &sight.frame)?;
        }
        Some(())
    }

    /// Where a user's packet enters the path of its slice; none: it takes something along there.
    #[inline]
    pub(super) fn sliced(sight: &Sight, hands: &Hands<'_>) -> Option<PathPosition> {
        let is_ordinary = !sight.frame.is_multicast_or_link_local();
        let positions = &hands.tables.positions;
        let start = positions.start_bare(PathId(sight.nsh.spi)).filter(|_| is_ordinary)?;
        hands.books.prefetch_entered(start.path());
        Some(start)
    }
}

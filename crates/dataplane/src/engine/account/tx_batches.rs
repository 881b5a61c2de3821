//! What the packets of an output are booked by. A lot is of packets that follow one another between
//! the same ends, on the same path: its sum is written down once, when all of them have been sent.
//! Knows whose share is whose; refuses to know why one of them could not be sent.

use crate::engine::vector::owner::{Owner, Passage};
use catena_model::account::Volume;

/// Whose packets they were, where they went, and where they are counted on their path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Ends {
    pub(crate) owner: Owner,
    pub(crate) to: Owner,
    pub(crate) passage: Passage,
}

/// What must be booked once a transmission has succeeded or failed. The engine counts its packets
/// as held until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "packets stay held until their booking is given back"]
pub struct Booking {
    pub(crate) ends: Ends,
    pub(crate) volume: Volume,
}

impl Booking {
    /// Wire packets and bytes that the booking stands for.
    #[must_use]
    pub fn volume(&self) -> Volume {
        self.volume
    }

    /// So many packets between no ends.
    #[cfg(test)]
    pub(crate) fn of_packets(packets: u64) -> Self {
        Self { ends: Ends::default(), volume: Volume { packets, bytes: 60 * packets } }
    }
}

/// What a frame or datagram has of the lot that it is in. It means something to its own [`Lots`]
/// alone, and only until they are settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    pub(crate) lot: u32,
    pub(crate) volume: Volume,
}

impl Share {
    /// Wire packets and bytes of the frame or datagram, as the counters see them.
    #[must_use]
    #[inline]
    pub fn volume(&self) -> Volume {
        self.volume
    }
}

/// The lots of an output, in the order in which they were opened.
#[derive(Debug, Default)]
pub struct Lots(Vec<Booking>);

impl Lots {
    /// The number of the lot that the next packet between these ends is in.
    pub(crate) fn open(&mut self, ends: Ends) -> u32 {
        match self.0.last() {
            Some(last) if last.ends == ends => (self.0.len() - 1) as u32,
            _ => self.begin(ends),
        }
    }

    /// The number of a new lot, where the last is likely to have other ends.
    #[inline(always)]
    pub(crate) fn begin(&mut self, ends: Ends) -> u32 {
        self.0.push(Booking { ends, volume: Volume::default() });
        // An output has fewer packets.
        (self.0.len() - 1) as u32
    }

    /// There is more in a lot.
    #[inline]
    pub(crate) fn add(&mut self, lot: u32, volume: Volume) {
        if let Some(booking) = self.0.get_mut(lot as usize) {
            booking.volume.merge(volume);
        }
    }

    /// The ends of a lot.
    pub(crate) fn ends(&self, lot: u32) -> Option<Ends> {
        self.0.get(lot as usize).map(|booking| booking.ends)
    }

    /// Are two lots between the same ends?
    #[inline]
    pub(crate) fn are_alike(&self, one: u32, other: u32) -> bool {
        one == other || self.ends(one) == self.ends(other)
    }

    /// Takes in what is to be booked with the rest; answers its share.
    pub fn enter(&mut self, booking: Booking) -> Share {
        let lot = self.open(booking.ends);
        self.add(lot, booking.volume);
        Share { lot, volume: booking.volume }
    }

    /// Takes out what must be booked by itself, because it did not go the way of the rest.
    pub fn withdraw(&mut self, share: Share) -> Booking {
        let Share { lot, volume } = share;
        let Some(booking) = self.0.get_mut(lot as usize) else {
            debug_assert!(false, "a share of no lot");
            return Booking::default();
        };
        debug_assert!(booking.volume.packets >= volume.packets, "a share was withdrawn twice");
        booking.volume = less(booking.volume, volume);
        Booking { ends: booking.ends, volume }
    }

    /// All that is left, to be booked: each lot as one.
    pub fn settle(&mut self) -> impl Iterator<Item = Booking> {
        self.0.drain(..).filter(|booking| booking.volume.packets > 0)
    }
}

/// One volume without another that is part of it.
#[inline]
pub(crate) fn less(all: Volume, part: Volume) -> Volume {
    Volume {
        packets: all.packets.saturating_sub(part.packets),
        bytes: all.bytes.saturating_sub(part.bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_one_another_between_the_same_ends_is_one_lot() {
        let booking = |to, bytes| Booking {
            ends: Ends { to, ..Ends::default() },
            volume: Volume { packets: 1, bytes },
        };
        let port = |serial| Owner::Port { slot: crate::engine::packet::PortSlot(0), serial };
        let mut lots = Lots::default();
        let ends = [1, 1, 1, 2, 2, 1];
        let shares: Vec<Share> = (1..)
            .zip(ends)
            .map(|(bytes, serial)| lots.enter(booking(port(serial), bytes)))
            .collect();
        assert_eq!(shares.iter().map(|share| share.lot).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 2]);
        // One of the first lot and all of the second go their own way.
        assert_eq!(lots.withdraw(shares[1]), booking(port(1), 2));
        assert_eq!(lots.withdraw(shares[3]), booking(port(2), 4));
        assert_eq!(lots.withdraw(shares[4]), booking(port(2), 5));
        let settled: Vec<Booking> = lots.settle().collect();
        let left =
            |to, packets, bytes| Booking { volume: Volume { packets, bytes }, ..booking(to, 0) };
        assert_eq!(settled, [left(port(1), 2, 4), left(port(1), 1, 6)]);
        assert_eq!(lots.settle().count(), 0);
    }
}

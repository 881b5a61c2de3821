//! What the packets of an output are counted by. A batch is of packets that follow one another between
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

/// What must be counted once a transmission has succeeded or failed. The engine counts its packets
/// as held until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use = "packets stay held until their credit is given back"]
pub struct TxCredit {
    pub(crate) ends: Ends,
    pub(crate) volume: Volume,
}

impl TxCredit {
    /// Wire packets and bytes that the credit stands for.
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

/// What a frame or datagram has of the batch that it is in. It means something to its own [`TxBatches`]
/// alone, and only until they are settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxRef {
    pub(crate) batch: u32,
    pub(crate) volume: Volume,
}

impl TxRef {
    /// Wire packets and bytes of the frame or datagram, as the counters see them.
    #[must_use]
    #[inline]
    pub fn volume(&self) -> Volume {
        self.volume
    }
}

/// The batches of an output, in the order in which they were opened.
#[derive(Debug, Default)]
pub struct TxBatches(Vec<TxCredit>);

impl TxBatches {
    /// The number of the batch that the next packet between these ends is in.
    pub(crate) fn open(&mut self, ends: Ends) -> u32 {
        match self.0.last() {
            Some(last) if last.ends == ends => (self.0.len() - 1) as u32,
            _ => self.begin(ends),
        }
    }

    /// The number of a new batch, where the last is likely to have other ends.
    #[inline(always)]
    pub(crate) fn begin(&mut self, ends: Ends) -> u32 {
        self.0.push(TxCredit { ends, volume: Volume::default() });
        // An output has fewer packets.
        (self.0.len() - 1) as u32
    }

    /// There is more in a batch.
    #[inline]
    pub(crate) fn add(&mut self, batch: u32, volume: Volume) {
        if let Some(credit) = self.0.get_mut(batch as usize) {
            credit.volume.merge(volume);
        }
    }

    /// The ends of a batch.
    pub(crate) fn ends(&self, batch: u32) -> Option<Ends> {
        self.0.get(batch as usize).map(|credit| credit.ends)
    }

    /// Are two batches between the same ends?
    #[inline]
    pub(crate) fn are_alike(&self, one: u32, other: u32) -> bool {
        one == other || self.ends(one) == self.ends(other)
    }

    /// Takes in what is to be counted with the rest; answers its share.
    pub fn enter(&mut self, credit: TxCredit) -> TxRef {
        let batch = self.open(credit.ends);
        self.add(batch, credit.volume);
        TxRef { batch, volume: credit.volume }
    }

    /// Takes out what must be counted by itself, because it did not go the way of the rest.
    pub fn withdraw(&mut self, share: TxRef) -> TxCredit {
        let TxRef { batch, volume } = share;
        let Some(credit) = self.0.get_mut(batch as usize) else {
            debug_assert!(false, "a share of no lot");
            return TxCredit::default();
        };
        debug_assert!(credit.volume.packets >= volume.packets, "a share was withdrawn twice");
        credit.volume = less(credit.volume, volume);
        TxCredit { ends: credit.ends, volume }
    }

    /// All that is left, to be counted: each batch as one.
    pub fn settle(&mut self) -> impl Iterator<Item = TxCredit> {
        self.0.drain(..).filter(|credit| credit.volume.packets > 0)
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
        let credit = |to, bytes| TxCredit {
            ends: Ends { to, ..Ends::default() },
            volume: Volume { packets: 1, bytes },
        };
        let port = |serial| Owner::Port { slot: crate::engine::packet::PortSlot(0), serial };
        let mut batches = TxBatches::default();
        let ends = [1, 1, 1, 2, 2, 1];
        let shares: Vec<TxRef> = (1..)
            .zip(ends)
            .map(|(bytes, serial)| batches.enter(credit(port(serial), bytes)))
            .collect();
        assert_eq!(shares.iter().map(|share| share.batch).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 2]);
        // One of the first batch and all of the second go their own way.
        assert_eq!(batches.withdraw(shares[1]), credit(port(1), 2));
        assert_eq!(batches.withdraw(shares[3]), credit(port(2), 4));
        assert_eq!(batches.withdraw(shares[4]), credit(port(2), 5));
        let settled: Vec<TxCredit> = batches.settle().collect();
        let left =
            |to, packets, bytes| TxCredit { volume: Volume { packets, bytes }, ..credit(to, 0) };
        assert_eq!(settled, [left(port(1), 2, 4), left(port(1), 1, 6)]);
        assert_eq!(batches.settle().count(), 0);
    }
}

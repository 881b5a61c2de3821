//! Disks that fail: writes that are torn or lost unless they were synced, a process that dies
//! between any two operations, no room. Knows bytes; refuses to know what they mean.

use crate::random::Random;
use std::ops::Range;

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskFault {
    /// No room is left; nothing of it was kept.
    Full,
    /// The process died in the midst of it.
    Dead,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Death {
    /// `kill -9`: what was written stays with the kernel.
    Killed,
    /// The power goes: what was not synced may be there, in part, or not.
    PowerCut,
}

/// Lets a process die at one of its next disk operations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fuse {
    left: Option<u32>,
    is_dead: bool,
}

impl Fuse {
    pub(crate) fn light(&mut self, operations: u32) {
        self.left = Some(operations);
    }

    pub(crate) fn is_dead(self) -> bool {
        self.is_dead
    }

    /// Counts one operation. Does the process die in it?
    fn burn(&mut self) -> bool {
        match self.left {
            Some(0) => self.is_dead = true,
            Some(left) => self.left = Some(left - 1),
            None => {}
        }
        self.is_dead
    }
}

/// A file that only grows, as a journal does.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    bytes: Vec<u8>,
    synced: usize,
    /// Writes since the last sync, oldest first.
    pending: Vec<Range<usize>>,
    pub(crate) is_full: bool,
    /// Planted fault: a sync answers and does nothing.
    pub(crate) is_lying: bool,
    pub(crate) fuse: Fuse,
}

impl Journal {
    /// What a reader sees now.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What is there after any power cut.
    pub(crate) fn durable(&self) -> &[u8] {
        self.bytes.get(..self.synced).unwrap_or_default()
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), DiskFault> {
        let start = self.bytes.len();
        if self.fuse.burn() {
            // The process died in the call: the kernel has taken a part of it.
            let taken = bytes.len() / 2;
            self.bytes.extend_from_slice(bytes.get(..taken).unwrap_or_default());
            self.pending.push(start..self.bytes.len());
            return Err(DiskFault::Dead);
        }
        if self.is_full {
            return Err(DiskFault::Full);
        }
        self.bytes.extend_from_slice(bytes);
        self.pending.push(start..self.bytes.len());
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<(), DiskFault> {
        if self.fuse.burn() {
            return Err(DiskFault::Dead);
        }
        if !self.is_lying {
            self.synced = self.bytes.len();
            self.pending.clear();
        }
        Ok(())
    }

    /// Takes back what was written and not synced.
    pub(crate) fn truncate(&mut self, length: usize) {
        self.bytes.truncate(length);
        self.synced = self.synced.min(length);
        self.pending.retain(|range| range.end <= length);
    }

    pub(crate) fn crash(&mut self, death: Death, random: &mut Random) {
        self.fuse = Fuse::default();
        let pending = std::mem::take(&mut self.pending);
        if death == Death::Killed {
            self.pending = pending;
            return;
        }
        let mut length = self.synced;
        for range in pending {
            // Writes reach the platter in any order: one may be there and the one before it not.
            let kept = match random.below(4) {
                0 => range.start,
                1 => range.end,
                _ => range.start + random.index(range.len() + 1),
            };
            garble(self.bytes.get_mut(kept..range.end), random);
            if kept > range.start {
                length = kept;
            }
        }
        self.bytes.truncate(length);
        self.synced = self.bytes.len();
    }
}

/// What the disk had no time for may be anything.
fn garble(bytes: Option<&mut [u8]>, random: &mut Random) {
    for byte in bytes.unwrap_or_default() {
        *byte = if random.chance(500) { 0 } else { 0xa5 };
    }
}

/// A file that is replaced as a whole (draft, sync, rename, sync of the directory), or grows at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replaced {
    /// What a power cut leaves for certain.
    durable: Option<Vec<u8>>,
    /// What a reader sees under the file's name.
    visible: Option<Vec<u8>>,
    /// Is the content behind the name synced, if it is another than the durable one?
    is_content_synced: bool,
    pub(crate) is_full: bool,
    /// Planted fault: neither content nor directory is synced.
    pub(crate) is_lying: bool,
    pub(crate) fuse: Fuse,
}

impl Replaced {
    pub(crate) fn read(&self) -> Option<&[u8]> {
        self.visible.as_deref()
    }

    pub(crate) fn replace(&mut self, bytes: Vec<u8>) -> Result<(), DiskFault> {
        if self.fuse.burn() {
            return Err(DiskFault::Dead);
        }
        if self.is_full {
            return Err(DiskFault::Full);
        }
        // From here on the draft is whole; its sync is the next operation.
        if self.fuse.burn() {
            return Err(DiskFault::Dead);
        }
        self.visible = Some(bytes);
        self.is_content_synced = !self.is_lying;
        if self.fuse.burn() {
            return Err(DiskFault::Dead);
        }
        if !self.is_lying {
            self.durable.clone_from(&self.visible);
        }
        Ok(())
    }

    /// Adds to what is there; durable with the next sync.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), DiskFault> {
        let is_dead = self.fuse.burn();
        if self.is_full && !is_dead {
            return Err(DiskFault::Full);
        }
        // Who dies in the call leaves the part that the kernel has taken.
        let taken = if is_dead { bytes.len() / 2 } else { bytes.len() };
        let visible = self.visible.get_or_insert_default();
        visible.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        self.is_content_synced = false;
        if is_dead { Err(DiskFault::Dead) } else { Ok(()) }
    }

    pub(crate) fn sync(&mut self) -> Result<(), DiskFault> {
        if self.fuse.burn() {
            return Err(DiskFault::Dead);
        }
        self.settle();
        Ok(())
    }

    /// Cuts off what is behind these bytes.
    pub(crate) fn cut(&mut self, length: usize) {
        if let Some(visible) = &mut self.visible {
            visible.truncate(length);
        }
        self.settle();
    }

    /// Makes what a reader sees durable: whoever starts upon it must not lose it later.
    pub(crate) fn settle(&mut self) {
        if !self.is_lying {
            self.durable.clone_from(&self.visible);
            self.is_content_synced = true;
        }
    }

    pub(crate) fn crash(&mut self, death: Death, random: &mut Random) {
        self.fuse = Fuse::default();
        if death == Death::Killed || self.durable == self.visible {
            return;
        }
        let has_new_name = random.chance(500);
        match &mut self.visible {
            Some(bytes) if has_new_name => {
                if !self.is_content_synced {
                    let durable = self.durable.as_deref().unwrap_or_default();
                    let safe = if bytes.starts_with(durable) { durable.len() } else { 0 };
                    let kept = safe + random.index(bytes.len() - safe + 1);
                    bytes.truncate(kept + random.index(bytes.len() - kept + 1));
                    garble(bytes.get_mut(kept..), random);
                }
            }
            _ => self.visible.clone_from(&self.durable),
        }
        self.durable.clone_from(&self.visible);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_synced_survives_a_power_cut_and_the_rest_may_be_torn() {
        let mut torn = 0;
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut journal = Journal::default();
            journal.append(b"one").unwrap();
            journal.sync().unwrap();
            journal.append(b"two").unwrap();
            journal.append(b"three").unwrap();
            journal.crash(Death::PowerCut, &mut random);
            assert_eq!(&journal.bytes()[..3], b"one");
            assert!(journal.bytes().len() <= 11);
            torn += u32::from(journal.bytes() != b"one" && journal.bytes() != b"onetwothree");
        }
        assert!(torn > 50, "{torn} of 200 were torn");
    }

    #[test]
    fn a_killed_process_leaves_what_the_kernel_has_taken() {
        let mut journal = Journal::default();
        journal.append(b"one").unwrap();
        journal.fuse.light(0);
        assert_eq!(journal.append(b"four"), Err(DiskFault::Dead));
        journal.crash(Death::Killed, &mut Random::new(1));
        assert_eq!(journal.bytes(), b"onefo");
        assert_eq!(journal.durable(), b"");
    }

    #[test]
    fn what_a_file_had_stays_when_what_it_is_given_is_torn() {
        let mut torn = 0;
        for seed in 0..100 {
            for fuse in 0..3 {
                let mut random = Random::new(seed);
                let mut file = Replaced::default();
                file.replace(b"whole".to_vec()).unwrap();
                file.fuse.light(fuse);
                let outcome = file.append(b"change").and_then(|()| file.sync());
                file.crash(Death::PowerCut, &mut random);
                let found = file.read().unwrap();
                assert!(found.starts_with(b"whole") && found.len() <= 11);
                assert!(found == b"wholechange" || outcome.is_err());
                torn += u32::from(found != b"whole" && found != b"wholechange");
            }
        }
        assert!(torn > 20, "{torn} of 300 were torn");
    }

    #[test]
    fn a_replaced_file_is_the_former_or_the_new_one_and_never_torn() {
        for seed in 0..100 {
            for fuse in 0..4 {
                let mut random = Random::new(seed);
                let mut file = Replaced::default();
                file.replace(b"former".to_vec()).unwrap();
                file.fuse.light(fuse);
                let outcome = file.replace(b"new".to_vec());
                file.crash(Death::PowerCut, &mut random);
                let found = file.read().unwrap();
                assert!(found == b"new" || (found == b"former" && outcome.is_err()));
            }
        }
    }
}

//! Which flows are due to be forgotten. Knows the order in which they were seen, for each wait; refuses to know
//! what they are.

use super::session::Wait;

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Link {
    older: u32,
    newer: u32,
    wait: Wait,
}

/// Lists of slots, one for each wait; those that were seen longest ago are first.
#[derive(Clone, Debug)]
pub(super) struct Due {
    links: Vec<Link>,
    /// The first and the last of each list.
    ends: [(u32, u32); Wait::COUNT],
}

impl Due {
    /// Of so many slots, of which none is in a list.
    pub(super) fn new(slots: usize) -> Self {
        let none = Link { older: NONE, newer: NONE, wait: Wait::Udp };
        Self { links: vec![none; slots], ends: [(NONE, NONE); Wait::COUNT] }
    }

    /// The one of a list that was seen longest ago.
    pub(super) fn first(&self, wait: Wait) -> Option<u32> {
        self.ends.get(wait as usize).map(|(first, _)| *first).filter(|first| *first != NONE)
    }

    /// Puts a slot that is in no list at the end of one.
    pub(super) fn add(&mut self, slot: u32, wait: Wait) {
        let Some((first, last)) = self.ends.get_mut(wait as usize) else { return };
        let older = std::mem::replace(last, slot);
        if *first == NONE {
            *first = slot;
        }
        if let Some(before) = self.links.get_mut(older as usize) {
            before.newer = slot;
        }
        if let Some(link) = self.links.get_mut(slot as usize) {
            *link = Link { older, newer: NONE, wait };
        }
    }

    /// Takes a slot out of its list.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(&Link { older, newer, wait }) = self.links.get(slot as usize) else { return };
        let Some((first, last)) = self.ends.get_mut(wait as usize) else { return };
        match self.links.get_mut(older as usize) {
            Some(before) => before.newer = newer,
            None => *first = newer,
        }
        match self.links.get_mut(newer as usize) {
            Some(behind) => behind.older = older,
            None => *last = older,
        }
    }

    /// Empties all lists.
    pub(super) fn clear(&mut self) {
        self.ends = [(NONE, NONE); Wait::COUNT];
    }
}

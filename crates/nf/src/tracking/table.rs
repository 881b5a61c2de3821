//! A table of connections whose room is made once. Knows where they are and which have changed; refuses to
//! know what they are about.

use super::connection::Connection;
use super::key::{self, Way};
use crate::function::{ENTRY_COST, Portion};
use crate::packet::Time;
use catena_wire::flow::FlowKey;
use std::fmt;

/// No slot.
const NONE: u32 = u32::MAX;
/// Buckets that are looked through for one that gives way (Linux, net/netfilter/nf_conntrack_core.c).
const NEIGHBOURS: usize = 8;
/// Slots that are looked through each time that time passes.
const SWEPT: usize = 256;

/// A place in the table.
pub(super) type SlotIndex = u32;

/// A table.
#[derive(Clone)]
pub(super) struct Table {
    slots: Box<[Slot]>,
    /// The first slot of each bucket; a power of two of them.
    heads: Box<[SlotIndex]>,
    /// The first free slot.
    free: SlotIndex,
    /// Where the next sweep begins.
    swept: usize,
    /// Where the next portion of an export begins.
    portioned: usize,
    /// Connections that ended before their time since they were exported, as many as there is room for.
    forgotten: Vec<FlowKey>,
    seed: u64,
}

#[derive(Clone, Debug)]
struct Slot {
    connection: Option<Connection>,
    /// The next one of its bucket, or the next free one.
    next: SlotIndex,
    is_dirty: bool,
}

impl Slot {
    /// Tells what has changed in it, or with `all` what is there; false: nothing.
    fn tell(&mut self, all: bool, tell: &mut impl FnMut(&FlowKey, Option<&Connection>)) -> bool {
        let is_dirty = std::mem::take(&mut self.is_dirty);
        let connection = self.connection.as_ref().filter(|_| is_dirty || all);
        connection.map(|connection| tell(&connection.key, Some(connection))).is_some()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let connections = self.slots.iter().filter_map(|slot| slot.connection.as_ref());
        f.debug_list().entries(connections).finish()
    }
}

impl Table {
    /// Of so many connections.
    pub(super) fn new(connections_max: usize, seed: u64) -> Self {
        let count = u32::try_from(connections_max).unwrap_or(NONE).clamp(1, NONE - 1);
        let slot = |index: u32| Slot {
            connection: None,
            next: if index + 1 == count { NONE } else { index + 1 },
            is_dirty: false,
        };
        let slots: Box<[Slot]> = (0..count).map(slot).collect();
        let heads = vec![NONE; slots.len().next_power_of_two()].into();
        let forgotten = Vec::with_capacity(slots.len());
        Self { slots, heads, free: 0, swept: 0, portioned: 0, forgotten, seed }
    }

    pub(super) fn is_full(&self) -> bool {
        self.free == NONE
    }

    fn bucket(&self, key: &FlowKey) -> usize {
        key::hash(key, self.seed) as usize & (self.heads.len() - 1)
    }

    fn connection(&self, slot: SlotIndex) -> Option<&Connection> {
        self.slots.get(slot as usize)?.connection.as_ref()
    }

    fn chain(&self, bucket: usize) -> impl Iterator<Item = (SlotIndex, &Connection)> {
        let first = self.heads.get(bucket).copied().unwrap_or(NONE);
        let next = |slot: &SlotIndex| self.slots.get(*slot as usize).map(|slot| slot.next);
        std::iter::successors(Some(first), next)
            .map_while(|slot| Some((slot, self.connection(slot)?)))
    }

    /// The connection with this key, or with this answer, expired or not, and which way the key goes in it.
    pub(super) fn find(
        &self,
        key: &FlowKey,
        answer: &FlowKey,
    ) -> Option<(SlotIndex, Way, &Connection)> {
        self.chain(self.bucket(key)).find_map(|(slot, connection)| {
            // What answers itself is an answer.
            let way = if connection.key == *answer {
                Way::Reply
            } else if connection.key == *key {
                Way::Original
            } else {
                return None;
            };
            Some((slot, way, connection))
        })
    }

    /// One near this key that may give way: expired, else without assurance.
    pub(super) fn victim(&self, key: &FlowKey, now: Time) -> Option<SlotIndex> {
        let first = self.bucket(key);
        let near = || {
            let buckets = (first..).take(NEIGHBOURS.min(self.heads.len()));
            buckets.flat_map(|bucket| self.chain(bucket & (self.heads.len() - 1)))
        };
        let expired = near().find(|(_, connection)| connection.is_expired(now));
        let victim = expired.or_else(|| near().find(|(_, connection)| !connection.is_assured));
        victim.map(|(slot, _)| slot)
    }

    /// Puts another state in the place of a connection's, if it is still there.
    pub(super) fn put(&mut self, slot: SlotIndex, connection: Connection) {
        let slot = self.slots.get_mut(slot as usize);
        let known = slot.and_then(|slot| Some((slot.connection.as_mut()?, &mut slot.is_dirty)));
        if let Some((known, is_dirty)) = known.filter(|(known, _)| known.key == connection.key) {
            *is_dirty |= *known != connection;
            *known = connection;
        }
    }

    /// Adds a connection; false: there is no room.
    pub(super) fn add(&mut self, connection: Connection) -> bool {
        let bucket = self.bucket(&connection.key);
        let index = self.free;
        let (Some(slot), Some(head)) =
            (self.slots.get_mut(index as usize), self.heads.get_mut(bucket))
        else {
            return false;
        };
        self.free = slot.next;
        *slot = Slot { connection: Some(connection), next: *head, is_dirty: true };
        *head = index;
        true
    }

    /// Forgets a connection. Whoever has it from an export finds by itself that it has expired; of others
    /// it is told.
    pub(super) fn remove(&mut self, index: SlotIndex, is_told: bool) {
        let Some(connection) = self.connection(index).copied() else { return };
        let bucket = self.bucket(&connection.key);
        let Some(next) = self.slots.get(index as usize).map(|slot| slot.next) else { return };
        let before = self.chain(bucket).map(|(slot, _)| slot);
        let before = before
            .take_while(|slot| *slot != index)
            .last()
            .and_then(|before| self.slots.get_mut(before as usize));
        match before {
            Some(before) => before.next = next,
            None => {
                if let Some(head) = self.heads.get_mut(bucket) {
                    *head = next;
                }
            }
        }
        if let Some(slot) = self.slots.get_mut(index as usize) {
            *slot = Slot { connection: None, next: self.free, is_dirty: false };
            self.free = index;
        }
        if is_told && self.forgotten.len() < self.slots.len() {
            self.forgotten.push(connection.key);
        }
    }

    /// Forgets some of what has expired.
    pub(super) fn sweep(&mut self, now: Time) {
        for _ in 0..SWEPT.min(self.slots.len()) {
            let index = u32::try_from(self.swept).unwrap_or(NONE);
            if self.connection(index).is_some_and(|connection| connection.is_expired(now)) {
                self.remove(index, false);
            }
            self.swept = (self.swept + 1) % self.slots.len();
        }
    }

    /// What ended before its time, and what has changed, since the last time; or all that is there.
    pub(super) fn changes(
        &mut self,
        all: bool,
        mut tell: impl FnMut(&FlowKey, Option<&Connection>),
    ) {
        for key in self.forgotten.drain(..).filter(|_| !all) {
            tell(&key, None);
        }
        for slot in &mut self.slots {
            slot.tell(all, &mut tell);
        }
    }

    /// A portion of that; true: there is more.
    pub(super) fn portion(
        &mut self,
        Portion { all, is_first, mut budget }: Portion,
        mut tell: impl FnMut(&FlowKey, Option<&Connection>),
    ) -> bool {
        if is_first {
            self.portioned = 0;
        }
        if all && is_first {
            self.forgotten.clear();
        }
        while let Some(key) = self.forgotten.pop() {
            tell(&key, None);
            budget = budget.saturating_sub(ENTRY_COST);
            if budget == 0 {
                return true;
            }
        }
        for slot in self.slots.iter_mut().skip(self.portioned) {
            if budget == 0 {
                return true;
            }
            self.portioned += 1;
            let is_told = slot.tell(all, &mut tell);
            budget = budget.saturating_sub(if is_told { ENTRY_COST } else { 1 });
        }
        self.portioned = 0;
        false
    }

    /// Connections that it holds, expired ones too.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slots.iter().filter(|slot| slot.connection.is_some()).count()
    }
}

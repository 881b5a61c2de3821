//! Slots: the names of ports that outlive tables. Knows which port has which slot and which index
//! it has in the tables in force; refuses to know what a port does.

use super::counters::{Books, NO_SERIAL, Owner};
use super::packet::PortSlot;
use super::tables::{PortIndex, Tables};
use catena_model::id::PortId;
use std::collections::HashMap;

struct Slot {
    port: Option<PortId>,
    index: Option<PortIndex>,
    serial: u32,
}

/// All slots of one engine.
#[derive(Default)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    by_id: HashMap<PortId, PortSlot>,
    of_index: Vec<PortSlot>,
    last_serial: u32,
}

impl Slots {
    /// Gives the ports of new tables their slots: those that stay keep theirs, those that leave
    /// are closed in the books.
    pub(super) fn align(&mut self, tables: &Tables, books: &mut Books) {
        let staying: HashMap<PortId, PortIndex> = (0..=u16::MAX)
            .map(PortIndex)
            .zip(tables.local_ports())
            .map(|(i, (id, _))| (id, i))
            .collect();
        for (number, slot) in (0..=u16::MAX).zip(&mut self.slots) {
            slot.index = slot.port.and_then(|port| staying.get(&port).copied());
            if let Some(port) = slot.port.filter(|_| slot.index.is_none()) {
                books.close_port(PortSlot(number));
                self.by_id.remove(&port);
                *slot = Slot { port: None, index: None, serial: NO_SERIAL };
            }
        }
        self.of_index.clear();
        for (index, (id, _)) in (0..=u16::MAX).map(PortIndex).zip(tables.local_ports()) {
            let slot = self.by_id.get(&id).copied().unwrap_or_else(|| self.open(id, books));
            self.slots[slot.index()].index = Some(index);
            self.of_index.push(slot);
        }
    }

    fn open(&mut self, port: PortId, books: &mut Books) -> PortSlot {
        let free = self.slots.iter().position(|slot| slot.port.is_none());
        let place = free.unwrap_or(self.slots.len());
        // The tables hold at most NODE_PORTS_MAX ports, and slots are reused.
        let slot = PortSlot(u16::try_from(place).unwrap_or(u16::MAX));
        self.last_serial += 1;
        let opened = Slot { port: Some(port), index: None, serial: self.last_serial };
        if free.is_some() {
            self.slots[place] = opened;
        } else {
            self.slots.push(opened);
        }
        books.open_port(slot, self.last_serial);
        self.by_id.insert(port, slot);
        slot
    }

    pub(super) fn of_port(&self, port: PortId) -> Option<PortSlot> {
        self.by_id.get(&port).copied()
    }

    /// The slots of all ports, in the order of the tables.
    pub(super) fn in_order(&self) -> impl Iterator<Item = PortSlot> {
        self.of_index.iter().copied()
    }

    #[inline]
    pub(super) fn of_index(&self, index: PortIndex) -> PortSlot {
        self.of_index[usize::from(index.0)]
    }

    /// Whose account the packets of a slot are in, and the port's index; the account
    /// of a slot without a port is that of the ports that left.
    #[inline]
    pub(super) fn owner(&self, slot: PortSlot) -> (Owner, Option<PortIndex>) {
        match self.slots.get(slot.index()) {
            Some(found) => (Owner::Port { slot, serial: found.serial }, found.index),
            None => (Owner::Port { slot, serial: NO_SERIAL }, None),
        }
    }

    /// The owner's name for a port of the tables.
    #[inline]
    pub(super) fn owner_of_index(&self, index: PortIndex) -> Owner {
        self.owner(self.of_index(index)).0
    }

    /// The port that has this number now.
    pub(super) fn with_serial(&self, serial: u32) -> Option<PortIndex> {
        self.slots.iter().find(|slot| slot.serial == serial)?.index
    }

    /// A number that no other port has had or will have.
    pub(super) fn serial(&self, index: PortIndex) -> u32 {
        self.slots[self.of_index(index).index()].serial
    }
}

//! Slots: the names of ports that outlive tables. Knows which port has which slot and which index
//! it has in the tables in force; refuses to know what a port does.

use super::counters::Counters;
use crate::engine::packet::PortSlot;
use crate::engine::packet::index::PortIndex;
use crate::engine::tables::Tables;
use crate::engine::tables::descent::Changed;
use crate::engine::vector::owner::{NO_SERIAL, Owner};
use catena_model::id::PortId;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

struct Slot {
    index: Option<PortIndex>,
    is_link: bool,
    serial: u32,
}

/// All slots of one engine.
#[derive(Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    by_id: HashMap<PortId, PortSlot>,
    /// Those that no port has, the least first.
    free: BinaryHeap<Reverse<u16>>,
    of_index: Vec<PortSlot>,
    /// The links that have one.
    links: Vec<PortId>,
    last_serial: u32,
}

impl Slots {
    /// Gives the ports of new tables their slots: those that stay keep theirs, those that leave
    /// are closed in the counters, and answered. `changed`: what differs from the tables before; none:
    /// nobody knows.
    pub(crate) fn align(
        &mut self,
        tables: &Tables,
        changed: Option<&Changed>,
        counters: &mut Counters,
    ) -> Vec<PortSlot> {
        let mut closed = Vec::new();
        let gone: Vec<PortId> = match changed {
            Some(changed) => changed.gone_ports.clone(),
            None => self.by_id.keys().copied().collect(),
        };
        let gone_links = std::mem::take(&mut self.links);
        let gone = gone.into_iter().filter(|port| tables.names.port(*port).is_none());
        for port in gone.chain(gone_links).filter(|port| !tables.exits.has_link(*port)) {
            let Some(slot) = self.by_id.remove(&port) else { continue };
            counters.close_port(slot);
            self.slots[slot.index()] = Slot { index: None, is_link: false, serial: NO_SERIAL };
            self.free.push(Reverse(slot.0));
            closed.push(slot);
        }
        for (number, _) in tables.exits.links() {
            let id = number.link_id();
            let slot = self.by_id.get(&id).copied().unwrap_or_else(|| self.open(id, counters));
            self.slots[slot.index()].is_link = true;
            self.links.push(id);
        }
        let there: Vec<PortIndex> = match changed {
            Some(changed) => changed.ports.iter().copied().collect(),
            None => tables.names.all_ports().collect(),
        };
        for index in there {
            let Some(port) = tables.ports.find(index.0.into()) else { continue };
            let id = port.entry.id;
            let slot = self.by_id.get(&id).copied().unwrap_or_else(|| self.open(id, counters));
            self.slots[slot.index()].index = Some(index);
            let place = usize::from(index.0);
            if self.of_index.len() <= place {
                self.of_index.resize(place + 1, slot);
            }
            self.of_index[place] = slot;
        }
        closed
    }

    fn open(&mut self, port: PortId, counters: &mut Counters) -> PortSlot {
        let free = self.free.pop().map(|Reverse(slot)| usize::from(slot));
        let place = free.unwrap_or(self.slots.len());
        // The tables hold at most NODE_PORTS_MAX ports, and slots are reused.
        let slot = PortSlot(u16::try_from(place).unwrap_or(u16::MAX));
        self.last_serial += 1;
        let opened = Slot { index: None, is_link: false, serial: self.last_serial };
        if free.is_some() {
            self.slots[place] = opened;
        } else {
            self.slots.push(opened);
        }
        counters.open_port(slot, self.last_serial);
        self.by_id.insert(port, slot);
        slot
    }

    pub(crate) fn of_port(&self, port: PortId) -> Option<PortSlot> {
        self.by_id.get(&port).copied()
    }

    #[inline]
    pub(crate) fn of_index(&self, index: PortIndex) -> PortSlot {
        self.of_index[usize::from(index.0)]
    }

    /// Whose account the packets of a slot are in, and the port's index; the account
    /// of a slot without a port is that of the ports that left.
    #[inline]
    pub(crate) fn owner(&self, slot: PortSlot) -> (Owner, Option<PortIndex>) {
        match self.slots.get(slot.index()) {
            Some(found) => (Owner::Port { slot, serial: found.serial }, found.index),
            None => (Owner::Port { slot, serial: NO_SERIAL }, None),
        }
    }

    /// Is it a link's?
    #[inline]
    pub(crate) fn is_link(&self, slot: PortSlot) -> bool {
        self.slots.get(slot.index()).is_some_and(|found| found.is_link)
    }

    /// Has another node sent the packets of this owner?
    pub(crate) fn is_from_node(&self, owner: Owner) -> bool {
        match owner {
            Owner::Tunnels => true,
            Owner::Port { slot, serial } => self
                .slots
                .get(slot.index())
                .is_some_and(|found| found.is_link && found.serial == serial),
        }
    }

    /// The owner's name for a port of the tables.
    #[inline]
    pub(crate) fn owner_of_index(&self, index: PortIndex) -> Owner {
        self.owner(self.of_index(index)).0
    }

    /// The port that has this number now.
    pub(crate) fn with_serial(&self, serial: u32) -> Option<PortIndex> {
        self.slots.iter().find(|slot| slot.serial == serial)?.index
    }

    /// A number that no other port has had or will have.
    pub(crate) fn serial(&self, index: PortIndex) -> u32 {
        self.slots[self.of_index(index).index()].serial
    }
}

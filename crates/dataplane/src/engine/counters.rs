//! The books of the engine: what came in, what was made here and what became of each packet, per
//! port, for the tunnels and per path. Knows how the lines add up to `received + created =
//! forwarded + dropped + consumed + held`; refuses to know why a packet ended as it did.

use super::encap::PathPosition;
use super::packet::PortSlot;
use super::slots::Slots;
use super::tables::{LocalInstance, PathTable, Tables};
use catena_model::account::{
    Account, ChainCounters, Created, HopCounters, NodeCounters, PortCounters, Volume,
};
use catena_model::id::{ChainId, InstanceId, PortId};
use catena_model::{DropReason, NodeName, PathId};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Name of the line that holds the sums of ports that have left the program.
pub const RETIRED_PORTS_NAME: &str = "(removed ports)";

/// The serial of a slot without a port.
pub(super) const NO_SERIAL: u32 = 0;

/// Whose account a packet is in: that of the port it came in by, or that of the tunnels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A port; the serial tells it from a later one in the same slot.
    Port { slot: PortSlot, serial: u32 },
    /// The tunnels.
    Tunnels,
}

/// Where a packet on a path is counted when it has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passage {
    /// It is on no path, or has left it.
    Ordinary,
    /// To another node inside the encapsulation.
    Tunnelled(PathSeat),
    /// To an instance on this node.
    Delivered(PathSeat, u32),
}

/// The place of a path's counters: an index that holds while the tables do, and a serial that no
/// other path has, also not a later one with the same identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathSeat {
    pub(super) index: u32,
    pub(super) serial: u64,
}

/// What must be booked once a transmission has succeeded or failed. The engine counts its packets
/// as held until then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "packets stay held until their booking is given back"]
pub struct Booking {
    pub(super) owner: Owner,
    pub(super) to: Owner,
    pub(super) passage: Passage,
    pub(super) volume: Volume,
}

impl Booking {
    /// Wire packets and bytes that the booking stands for.
    #[must_use]
    pub fn volume(&self) -> Volume {
        self.volume
    }
}

/// An account with arrays in place of maps.
#[derive(Clone, Debug, Default)]
struct Tally {
    received: Volume,
    created: [u64; Created::ALL.len()],
    forwarded: Volume,
    dropped: Drops,
    consumed: u64,
    held: u64,
}

#[derive(Clone, Debug)]
struct Drops([u64; DropReason::COUNT]);

impl Default for Drops {
    fn default() -> Self {
        Self([0; DropReason::COUNT])
    }
}

impl Drops {
    fn add(&mut self, reason: DropReason, packets: u64) {
        self.0[reason as usize] += packets;
    }

    fn export(&self) -> BTreeMap<DropReason, u64> {
        let pairs = DropReason::ALL.iter().map(|reason| (*reason, self.0[*reason as usize]));
        pairs.filter(|(_, packets)| *packets > 0).collect()
    }
}

impl Tally {
    fn merge(&mut self, other: &Tally) {
        self.received.merge(other.received);
        self.forwarded.merge(other.forwarded);
        self.consumed += other.consumed;
        self.held += other.held;
        for (sum, n) in self.created.iter_mut().zip(other.created) {
            *sum += n;
        }
        for (sum, n) in self.dropped.0.iter_mut().zip(other.dropped.0) {
            *sum += n;
        }
    }

    fn export(&self) -> Account {
        let created = Created::ALL.iter().map(|kind| (*kind, self.created[*kind as usize]));
        Account {
            received: self.received,
            created: created.filter(|(_, packets)| *packets > 0).collect(),
            forwarded: self.forwarded,
            dropped: self.dropped.export(),
            consumed: self.consumed,
            held: self.held,
        }
    }
}

/// The counters of one port, or the sum of those that left.
#[derive(Clone, Debug, Default)]
struct PortBook {
    tally: Tally,
    transmitted: Volume,
    created_by_function: u64,
    lost_in_function: u64,
}

impl PortBook {
    fn merge(&mut self, other: &PortBook) {
        self.tally.merge(&other.tally);
        self.transmitted.merge(other.transmitted);
        self.created_by_function += other.created_by_function;
        self.lost_in_function += other.lost_in_function;
    }

    fn export(&self, port: PortId, name: String) -> PortCounters {
        PortCounters {
            port,
            name,
            account: self.tally.export(),
            transmitted: self.transmitted,
            created_by_function: self.created_by_function,
            lost_in_function: self.lost_in_function,
            ring_full: 0,
            interface: None,
        }
    }
}

struct HopBook {
    hop: u16,
    instance: InstanceId,
    name: String,
    delivered: Volume,
    returned: Volume,
    bypassed: Volume,
    rewritten: u64,
    ambiguous: u64,
    /// The port towards it, where what it gives back is expected.
    ingress: Option<Owner>,
}

impl HopBook {
    fn new(local: &LocalInstance, slots: &Slots) -> Self {
        let ingress = local.ingress.filter(|_| !local.is_tap);
        Self {
            hop: local.hop,
            instance: local.id,
            name: local.name.clone(),
            delivered: Volume::default(),
            returned: Volume::default(),
            bypassed: Volume::default(),
            rewritten: 0,
            ambiguous: 0,
            ingress: ingress.map(|port| slots.owner_of_index(port)),
        }
    }
}

struct PathBook {
    chain: ChainId,
    id: PathId,
    serial: u64,
    entered: Volume,
    finished: Volume,
    tapped: Volume,
    tunnelled_out: Volume,
    tunnelled_in: Volume,
    dropped: Drops,
    hops: Vec<HopBook>,
}

impl PathBook {
    fn new(path: &PathTable, serial: u64) -> Self {
        Self {
            chain: path.chain,
            id: path.id,
            serial,
            entered: Volume::default(),
            finished: Volume::default(),
            tapped: Volume::default(),
            tunnelled_out: Volume::default(),
            tunnelled_in: Volume::default(),
            dropped: Drops::default(),
            hops: Vec::new(),
        }
    }

    fn export(&self) -> ChainCounters {
        let hops = self.hops.iter().map(|hop| HopCounters {
            hop: hop.hop,
            instance: hop.instance,
            name: hop.name.clone(),
            delivered: hop.delivered,
            returned: hop.returned,
            rewritten: hop.rewritten,
            ambiguous: hop.ambiguous,
            bypassed: hop.bypassed,
        });
        ChainCounters {
            chain: self.chain,
            path: self.id,
            entered: self.entered,
            finished: self.finished,
            tapped: self.tapped,
            pinned_flows: 0,
            tunnelled_out: self.tunnelled_out,
            tunnelled_in: self.tunnelled_in,
            dropped: self.dropped.export(),
            hops: hops.collect(),
            is_partial: false,
        }
    }
}

struct SlotBook {
    serial: u32,
    book: PortBook,
}

/// All books of one engine.
pub(super) struct Books {
    slots: Vec<SlotBook>,
    retired: PortBook,
    has_retired: bool,
    tunnels: PortBook,
    paths: Vec<PathBook>,
    last_path_serial: u64,
}

impl Books {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            retired: PortBook::default(),
            has_retired: false,
            tunnels: PortBook::default(),
            paths: Vec::new(),
            last_path_serial: 0,
        }
    }

    /// Opens the book of a port that takes a slot, new or free.
    pub(super) fn open_port(&mut self, slot: PortSlot, serial: u32) {
        let opened = SlotBook { serial, book: PortBook::default() };
        if slot.index() == self.slots.len() {
            self.slots.push(opened);
        } else if let Some(free) = self.slots.get_mut(slot.index()) {
            *free = opened;
        }
    }

    /// Closes the book of a port that leaves the program; its sums stay in the node's.
    pub(super) fn close_port(&mut self, slot: PortSlot) {
        if let Some(left) = self.slots.get_mut(slot.index()) {
            self.retired.merge(&left.book);
            self.has_retired = true;
            *left = SlotBook { serial: NO_SERIAL, book: PortBook::default() };
        }
    }

    /// Lines the paths' books up with new tables; those of paths that stay keep their sums, and
    /// what functions still have of those that go is lost.
    pub(super) fn align_paths(&mut self, tables: &Tables, slots: &Slots) {
        let mut kept: BTreeMap<(ChainId, PathId), PathBook> =
            self.paths.drain(..).map(|book| ((book.chain, book.id), book)).collect();
        for path in tables.paths() {
            let mut old = kept.remove(&(path.chain, path.id));
            let mut old_hops =
                old.as_mut().map(|book| std::mem::take(&mut book.hops)).unwrap_or_default();
            let hops = path.local_instances.iter().map(|local| {
                let same = |book: &HopBook| book.hop == local.hop && book.instance == local.id;
                let found = old_hops.iter().position(same).map(|at| old_hops.swap_remove(at));
                let fresh = HopBook::new(local, slots);
                match found {
                    // The name may have changed, and the port may be gone or there again.
                    Some(old) => {
                        HopBook { name: fresh.name, ingress: fresh.ingress.or(old.ingress), ..old }
                    }
                    None => fresh,
                }
            });
            let hops = hops.collect();
            self.lose(&old_hops);
            let mut book = old.unwrap_or_else(|| {
                self.last_path_serial += 1;
                PathBook::new(path, self.last_path_serial)
            });
            book.hops = hops;
            self.paths.push(book);
        }
        for gone in kept.into_values() {
            self.lose(&gone.hops);
        }
    }

    /// What was delivered to the instances of a path that goes, and has not come back.
    fn lose(&mut self, hops: &[HopBook]) {
        for hop in hops {
            let lost = hop.delivered.packets.saturating_sub(hop.returned.packets);
            if let Some(ingress) = hop.ingress
                && lost > 0
            {
                self.book(ingress).lost_in_function += lost;
            }
        }
    }

    fn book(&mut self, owner: Owner) -> &mut PortBook {
        match owner {
            Owner::Tunnels => &mut self.tunnels,
            Owner::Port { slot, serial } => match self.slots.get_mut(slot.index()) {
                Some(found) if found.serial == serial && serial != NO_SERIAL => &mut found.book,
                _ => {
                    self.has_retired = true;
                    &mut self.retired
                }
            },
        }
    }

    /// The seat of the path that a position of the tables in force is on.
    pub(super) fn seat(&self, tables: &Tables, position: PathPosition) -> PathSeat {
        let index = tables.positions.place(position).path;
        PathSeat { index, serial: self.paths[index as usize].serial }
    }

    /// The serials of all paths, in the order of the tables.
    pub(super) fn serials(&self) -> impl Iterator<Item = u64> {
        self.paths.iter().map(|path| path.serial)
    }

    fn path(&mut self, seat: PathSeat) -> Option<&mut PathBook> {
        let index = seat.index as usize;
        let index = match self.paths.get(index) {
            Some(path) if path.serial == seat.serial => index,
            // The tables have been replaced since the packet was sent.
            _ => self.paths.iter().position(|path| path.serial == seat.serial)?,
        };
        self.paths.get_mut(index)
    }

    pub(super) fn received(&mut self, owner: Owner, volume: Volume) {
        self.book(owner).tally.received.merge(volume);
    }

    pub(super) fn created(&mut self, owner: Owner, kind: Created, packets: u64) {
        self.book(owner).tally.created[kind as usize] += packets;
    }

    pub(super) fn consumed(&mut self, owner: Owner, packets: u64) {
        self.book(owner).tally.consumed += packets;
    }

    pub(super) fn created_by_function(&mut self, owner: Owner, packets: u64) {
        self.book(owner).created_by_function += packets;
    }

    /// A drop, on the path's book too while the packet is on one.
    pub(super) fn dropped(
        &mut self,
        owner: Owner,
        path: Option<PathSeat>,
        reason: DropReason,
        packets: u64,
    ) {
        self.book(owner).tally.dropped.add(reason, packets);
        if let Some(book) = path.and_then(|seat| self.path(seat)) {
            book.dropped.add(reason, packets);
        }
    }

    pub(super) fn entered(&mut self, seat: PathSeat, volume: Volume) {
        if let Some(book) = self.path(seat) {
            book.entered.merge(volume);
        }
    }

    pub(super) fn finished(&mut self, seat: PathSeat, volume: Volume) {
        if let Some(book) = self.path(seat) {
            book.finished.merge(volume);
        }
    }

    pub(super) fn tapped(&mut self, seat: PathSeat, volume: Volume) {
        if let Some(book) = self.path(seat) {
            book.tapped.merge(volume);
        }
    }

    pub(super) fn tunnelled_in(&mut self, seat: PathSeat, volume: Volume) {
        if let Some(book) = self.path(seat) {
            book.tunnelled_in.merge(volume);
        }
    }

    pub(super) fn returned(&mut self, seat: PathSeat, local: u32, volume: Volume) {
        let hop = self.path(seat).and_then(|book| book.hops.get_mut(local as usize));
        if let Some(hop) = hop {
            hop.returned.merge(volume);
        }
    }

    /// A packet went past a dead instance and stays on its path.
    pub(super) fn bypassed(&mut self, seat: PathSeat, local: u32, volume: Volume) {
        let hop = self.path(seat).and_then(|book| book.hops.get_mut(local as usize));
        if let Some(hop) = hop {
            hop.bypassed.merge(volume);
        }
    }

    /// Of what came back from an instance: so many packets with bytes that nobody gave it, so many
    /// told apart from those of other paths by their order alone.
    pub(super) fn returned_unlike(
        &mut self,
        seat: PathSeat,
        local: u32,
        rewritten: u64,
        ambiguous: u64,
    ) {
        let hop = self.path(seat).and_then(|book| book.hops.get_mut(local as usize));
        if let Some(hop) = hop {
            hop.rewritten += rewritten;
            hop.ambiguous += ambiguous;
        }
    }

    /// The packets are handed out and wait for their booking.
    pub(super) fn hold(&mut self, booking: &Booking) {
        self.book(booking.owner).tally.held += booking.volume.packets;
    }

    /// The transmission went well.
    pub(super) fn sent(&mut self, booking: Booking) {
        let volume = booking.volume;
        let book = self.book(booking.owner);
        book.tally.held = book.tally.held.saturating_sub(volume.packets);
        book.tally.forwarded.merge(volume);
        self.book(booking.to).transmitted.merge(volume);
        match booking.passage {
            Passage::Ordinary => {}
            Passage::Tunnelled(seat) => {
                if let Some(book) = self.path(seat) {
                    book.tunnelled_out.merge(volume);
                }
            }
            Passage::Delivered(seat, local) => {
                let hop = self.path(seat).and_then(|book| book.hops.get_mut(local as usize));
                if let Some(hop) = hop {
                    hop.delivered.merge(volume);
                }
            }
        }
    }

    /// The transmission failed, and the packets end here.
    pub(super) fn failed(&mut self, booking: Booking, reason: DropReason) {
        let packets = booking.volume.packets;
        let book = self.book(booking.owner);
        book.tally.held = book.tally.held.saturating_sub(packets);
        let path = match booking.passage {
            Passage::Ordinary => None,
            Passage::Tunnelled(seat) | Passage::Delivered(seat, _) => Some(seat),
        };
        self.dropped(booking.owner, path, reason, packets);
    }

    /// All counters; what the rings and interfaces counted themselves is for the shell to add.
    pub(super) fn export(
        &self,
        node: &NodeName,
        tables: &Tables,
        slots: impl Iterator<Item = PortSlot>,
    ) -> NodeCounters {
        let entries = tables.local_ports().zip(slots);
        let mut ports: Vec<PortCounters> = entries
            .filter_map(|((id, entry), slot)| {
                Some(self.slots.get(slot.index())?.book.export(id, entry.name.clone()))
            })
            .collect();
        if self.has_retired {
            let nobody = PortId(Uuid::nil());
            ports.push(self.retired.export(nobody, RETIRED_PORTS_NAME.to_owned()));
        }
        NodeCounters {
            node: node.clone(),
            program: tables.number(),
            ports,
            tunnels: self.tunnels.tally.export(),
            tunnels_transmitted: self.tunnels.transmitted,
            tunnels_ring_full: 0,
            chains: self.paths.iter().map(PathBook::export).collect(),
            health: Vec::new(),
            dataplane: catena_model::DataplaneLife::default(),
        }
    }
}

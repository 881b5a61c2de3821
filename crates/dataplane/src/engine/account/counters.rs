//! The counters of the engine: what came in, what was made here and what became of each packet, per
//! port, for the tunnels and per path. Knows how the lines add up to `received + created =
//! forwarded + dropped + consumed + held`; refuses to know why a packet ended as it did.

use super::path_counters::{PathCounters, PathSums};
use super::slots::Slots;
use super::times::Sojourn;
use super::tx_batches::{Ends, TxBatches, TxCredit};
use crate::engine::encap::PathPosition;
use crate::engine::packet::PortSlot;
use crate::engine::packet::index::PortIndex;
use crate::engine::tables::Tables;
use crate::engine::tables::descent::Changed;
use crate::engine::vector::owner::{NO_SERIAL, Owner, Passage, PathRef};
use catena_model::account::{Account, Created, NodeCounters, PortCounters, Volume};
use catena_model::id::PortId;
use catena_model::{CounterScope, DropReason, NodeName};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Name of the line that holds the sums of ports that have left the program.
pub const RETIRED_PORTS_NAME: &str = "(removed ports)";

/// Are packets of the fast path counted? A build where they are not is for `cargo xtask bench engine`
/// alone, which says what counting costs: what it forwards there takes the fast path and one path, and what
/// its counters say has no meaning.
pub(crate) const IS_COUNTING: bool = !cfg!(uncounted);

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

/// Dropped packets by reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Drops([u64; DropReason::COUNT]);

impl Default for Drops {
    fn default() -> Self {
        Self([0; DropReason::COUNT])
    }
}

impl Drops {
    pub(crate) fn add(&mut self, reason: DropReason, packets: u64) {
        self.0[reason as usize] += packets;
    }

    pub(crate) fn export(&self) -> BTreeMap<DropReason, u64> {
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
struct PortSums {
    tally: Tally,
    transmitted: Volume,
    created_by_function: u64,
    lost_in_function: u64,
}

impl PortSums {
    fn merge(&mut self, other: &PortSums) {
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

struct SlotSums {
    serial: u32,
    sums: PortSums,
}

/// All counters of one engine.
pub(crate) struct Counters {
    slots: Vec<SlotSums>,
    retired: PortSums,
    has_retired: bool,
    tunnels: PortSums,
    pub(super) paths: PathCounters,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            slots: Vec::new(),
            retired: PortSums::default(),
            has_retired: false,
            tunnels: PortSums::default(),
            paths: PathCounters::default(),
        }
    }

    /// Opens the counters of a port that takes a slot, new or free.
    pub(crate) fn open_port(&mut self, slot: PortSlot, serial: u32) {
        let opened = SlotSums { serial, sums: PortSums::default() };
        if slot.index() == self.slots.len() {
            self.slots.push(opened);
        } else if let Some(free) = self.slots.get_mut(slot.index()) {
            *free = opened;
        }
    }

    /// Closes the counters of a port that leaves the program; its sums stay in the node's.
    pub(crate) fn close_port(&mut self, slot: PortSlot) {
        if let Some(left) = self.slots.get_mut(slot.index()) {
            self.retired.merge(&left.sums);
            self.has_retired = true;
            *left = SlotSums { serial: NO_SERIAL, sums: PortSums::default() };
        }
    }

    /// Lines the paths' counters up with new tables; those of paths that stay keep their sums, and
    /// what functions still have of those that go is lost.
    pub(crate) fn align_paths(
        &mut self,
        tables: &Tables,
        changed: Option<&Changed>,
        slots: &Slots,
    ) {
        for (ingress, lost) in self.paths.align(tables, changed, slots) {
            self.sums_of(ingress).lost_in_function += lost;
        }
    }

    #[inline]
    fn sums_of(&mut self, owner: Owner) -> &mut PortSums {
        match owner {
            Owner::Tunnels => &mut self.tunnels,
            Owner::Port { slot, serial } => match self.slots.get_mut(slot.index()) {
                Some(found) if found.serial == serial && serial != NO_SERIAL => &mut found.sums,
                _ => {
                    self.has_retired = true;
                    &mut self.retired
                }
            },
        }
    }

    /// The path_ref of the path that a position of the tables in force is on.
    #[inline]
    pub(crate) fn path_ref(&self, position: PathPosition) -> PathRef {
        self.paths.path_ref(position)
    }

    /// The local instance with this number took so long for so many packets of the path: together, and for each.
    pub(crate) fn timed(&mut self, (path, local): (PathRef, u32), packets: u64, ns: (u64, u64)) {
        if let Some(hop) = self.paths.hop(path, local) {
            hop.times.note(packets, ns);
        }
    }

    /// Asks for the counters of the path with this index, before it is needed.
    #[inline]
    pub(crate) fn prefetch(&self, own: u32) {
        self.paths.prefetch(own);
    }

    /// The same for a packet that enters the path.
    #[inline]
    pub(crate) fn prefetch_entered(&self, own: u32) {
        if IS_COUNTING {
            self.paths.prefetch_entered(own);
        }
    }

    /// What happened on the path of a position of the tables in force.
    pub(crate) fn path_sums(&self, position: PathPosition) -> Option<PathSums> {
        self.paths.sums(position.path())
    }

    /// The serials of all paths, by index.
    pub(crate) fn serials(&self) -> impl Iterator<Item = u64> {
        self.paths.serials()
    }

    #[inline]
    pub(super) fn received(&mut self, owner: Owner, volume: Volume) {
        self.sums_of(owner).tally.received.merge(volume);
    }

    /// So many packets of the owner wait, for whatever it is.
    #[inline]
    pub(crate) fn held(&mut self, owner: Owner, packets: u64) {
        self.sums_of(owner).tally.held += packets;
    }

    pub(super) fn created(&mut self, owner: Owner, kind: Created, packets: u64) {
        self.sums_of(owner).tally.created[kind as usize] += packets;
    }

    pub(super) fn consumed(&mut self, owner: Owner, packets: u64) {
        self.sums_of(owner).tally.consumed += packets;
    }

    pub(crate) fn created_by_function(&mut self, owner: Owner, packets: u64) {
        self.sums_of(owner).created_by_function += packets;
    }

    /// A drop, on the path's counters too while the packet is on one.
    pub(crate) fn dropped(
        &mut self,
        owner: Owner,
        path: Option<PathRef>,
        reason: DropReason,
        packets: u64,
    ) {
        self.sums_of(owner).tally.dropped.add(reason, packets);
        if let Some(path_ref) = path {
            self.paths.dropped(path_ref, reason, packets);
        }
    }

    /// Of what came back from an instance: so many packets with bytes that nobody gave it, so many
    /// told apart from those of other paths by their order alone.
    pub(crate) fn returned_unlike(
        &mut self,
        path_ref: PathRef,
        local: u32,
        rewritten: u64,
        ambiguous: u64,
    ) {
        if let Some(hop) = self.paths.hop(path_ref, local) {
            hop.rewritten += rewritten;
            hop.ambiguous += ambiguous;
        }
    }

    /// Packets that are given to an instance may be timed from now on.
    pub(crate) fn make_room(&mut self, path_ref: PathRef, local: u32) {
        if let Some(hop) = self.paths.hop(path_ref, local) {
            hop.sojourns.make_room();
        }
    }

    /// A packet that was given to an instance is timed.
    pub(crate) fn sampled(&mut self, path_ref: PathRef, local: u32) {
        if let Some(hop) = self.paths.hop(path_ref, local) {
            hop.sojourns.sampled += 1;
        }
    }

    /// One was found again behind its instance.
    pub(crate) fn sojourned(
        &mut self,
        path_ref: PathRef,
        local: u32,
        sojourn: Sojourn,
        now_ns: u64,
    ) {
        if let Some(hop) = self.paths.hop(path_ref, local) {
            hop.sojourns.note(sojourn, now_ns);
        }
    }

    /// Packets go on that have waited.
    pub(crate) fn given_back(&mut self, owner: Owner, packets: u64) {
        let tally = &mut self.sums_of(owner).tally;
        tally.held = tally.held.saturating_sub(packets);
    }

    /// The transmission went well.
    pub(crate) fn sent(&mut self, credit: TxCredit) {
        self.sent_between(&credit);
        self.sent_on_path(&credit);
    }

    /// The transmission of all that is left in the batches went well. What follows one another from one
    /// owner to one other, whatever paths it is on, is written down there as one.
    pub(crate) fn settle(&mut self, batches: &mut TxBatches) {
        let mut open: Option<TxCredit> = None;
        for batch in batches.settle() {
            self.sent_on_path(&batch);
            match &mut open {
                Some(open)
                    if (open.ends.owner, open.ends.to) == (batch.ends.owner, batch.ends.to) =>
                {
                    open.volume.merge(batch.volume);
                }
                _ => {
                    if let Some(closed) = open.replace(batch) {
                        self.sent_between(&closed);
                    }
                }
            }
        }
        if let Some(last) = open {
            self.sent_between(&last);
        }
    }

    /// In the counters of whose packets they were and of where they went.
    fn sent_between(&mut self, credit: &TxCredit) {
        let TxCredit { ends: Ends { owner, to, .. }, volume } = *credit;
        let sums = self.sums_of(owner);
        sums.tally.held = sums.tally.held.saturating_sub(volume.packets);
        sums.tally.forwarded.merge(volume);
        self.sums_of(to).transmitted.merge(volume);
    }

    /// In the counters of their path.
    #[inline]
    fn sent_on_path(&mut self, credit: &TxCredit) {
        match credit.ends.passage {
            Passage::Ordinary => {}
            Passage::Tunnelled(path_ref) => self.paths.tunnelled_out(path_ref, credit.volume),
            Passage::Delivered(path_ref, local) => {
                if let Some(hop) = self.paths.hop(path_ref, local) {
                    hop.delivered.merge(credit.volume);
                }
            }
        }
    }

    /// The transmission failed, and the packets end here.
    pub(crate) fn failed(&mut self, credit: TxCredit, reason: DropReason) {
        let TxCredit { ends: Ends { owner, passage, .. }, volume: Volume { packets, .. } } = credit;
        let sums = self.sums_of(owner);
        sums.tally.held = sums.tally.held.saturating_sub(packets);
        let path = match passage {
            Passage::Ordinary => None,
            Passage::Tunnelled(path_ref) | Passage::Delivered(path_ref, _) => Some(path_ref),
        };
        self.dropped(owner, path, reason, packets);
    }

    /// All counters, or those that are asked for; what the rings and interfaces counted themselves is
    /// for the shell to add.
    pub(crate) fn export(
        &self,
        (node, now_ns): (&NodeName, u64),
        tables: &Tables,
        slots: &Slots,
        of: Option<&CounterScope>,
    ) -> NodeCounters {
        let asked: Vec<PortIndex> = match of {
            Some(of) => of.ports.iter().filter_map(|port| tables.names.port(*port)).collect(),
            None => tables.names.all_ports().collect(),
        };
        let line = |index: PortIndex| {
            let (entry, slot) = (&tables.port(index).entry, slots.of_index(index));
            Some(self.slots.get(slot.index())?.sums.export(entry.id, entry.name.clone()))
        };
        let mut ports: Vec<PortCounters> = asked.into_iter().filter_map(line).collect();
        let is_asked = |id: PortId| of.is_none_or(|of| of.ports.contains(&id));
        let links = tables.exits.links().filter(|(number, _)| is_asked(number.link_id()));
        let links = links.filter_map(|(number, name)| {
            let slot = slots.of_port(number.link_id())?;
            Some(self.slots.get(slot.index())?.sums.export(number.link_id(), name.to_owned()))
        });
        let links = links.collect();
        if self.has_retired && of.is_none() {
            let nobody = PortId(Uuid::nil());
            ports.push(self.retired.export(nobody, RETIRED_PORTS_NAME.to_owned()));
        }
        NodeCounters {
            ports,
            links,
            tunnels: self.tunnels.tally.export(),
            tunnels_transmitted: self.tunnels.transmitted,
            chains: self.paths.export(now_ns, tables, of),
            ..NodeCounters::none(node.clone(), tables.number())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lots_count_as_each_of_their_bookings() {
        let [one, other] = [0, 1].map(PortSlot);
        let counters = || {
            let mut counters = Counters::new();
            counters.open_port(one, 1);
            counters.open_port(other, 2);
            counters.received(Owner::Tunnels, Volume { packets: 64, bytes: 64_000 });
            counters.held(Owner::Tunnels, 64);
            counters
        };
        let owners = [Owner::Port { slot: one, serial: 1 }, Owner::Port { slot: other, serial: 2 }];
        let credit = |number: usize| TxCredit {
            ends: Ends {
                owner: Owner::Tunnels,
                // Rows of one, two and four, and one that has no port any more.
                to: *owners
                    .get([0, 1, 1, 0, 0, 0, 0, 2][number % 8])
                    .unwrap_or(&Owner::Port { slot: one, serial: 9 }),
                passage: Passage::Ordinary,
            },
            volume: Volume { packets: 1, bytes: number as u64 },
        };
        let (mut each, mut row) = (counters(), counters());
        (0..64).map(credit).for_each(|credit| each.sent(credit));
        let mut batches = TxBatches::default();
        for number in 0..64 {
            batches.enter(credit(number));
        }
        row.settle(&mut batches);
        let told = |counters: &Counters| {
            let all = counters
                .slots
                .iter()
                .map(|slot| &slot.sums)
                .chain([&counters.tunnels, &counters.retired]);
            let nobody = PortId(Uuid::nil());
            all.map(|sums| sums.export(nobody, String::new())).collect::<Vec<_>>()
        };
        assert_eq!(told(&each), told(&row));
        assert_eq!(told(&row)[2].account.forwarded, Volume { packets: 64, bytes: 63 * 32 });
        assert_eq!(told(&row)[2].account.held, 0);
    }
}

//! Room for one flow more: whose it is, and who gives way. Refuses to know how a flow is put in.

use super::holdings::Holder;
use super::translate::Translation;
use super::{KernelPath, OffloadContext};
use crate::engine::packet::PortSlot;
use crate::engine::tables::descent::Dependency;

impl KernelPath {
    /// Where the kernel can take no more, a flow of who has most gives way to one of who has less.
    pub(super) fn make_room(&mut self, holder: Holder, with: &mut OffloadContext<'_>) -> bool {
        if self.flows.len() < self.kernel_tables.flows() as usize {
            return true;
        }
        let given_way = self.flows.who_gives_way(holder);
        self.count_crowded(given_way.map_or(holder, |(from, _)| from));
        if let Some((_, key)) = given_way {
            self.remove(&[key], with);
        }
        given_way.is_some()
    }

    /// Where a holder gets no account, some of who has most give way to one of a later flow: what the
    /// kernel has counted in them must be read first.
    pub(super) fn make_room_for_account(&mut self, holder: Holder, with: &mut OffloadContext<'_>) {
        let accounts = self.accounts.which_give_way(holder);
        if accounts.is_empty() {
            return self.count_crowded(holder);
        }
        let flows = self.flows.which(|flow| accounts.contains(&flow.account));
        for key in &flows {
            if let Some(holder) = self.flows.get(key).map(|flow| flow.holder) {
                self.count_crowded(holder);
            }
        }
        self.remove(&flows, with);
    }

    /// A flow of this holder was not taken, or has given way.
    pub(super) fn count_crowded(&mut self, holder: Holder) {
        let count = match holder {
            Holder::Port(port) => self.counters.crowded_ports.entry(port).or_default(),
            Holder::Path(path) => self.counters.crowded_paths.entry(path).or_default(),
            Holder::Network(network) => self.counters.crowded_networks.entry(network).or_default(),
        };
        *count += 1;
    }
}

/// Whose a flow is: that of the port of an endpoint that sends it, else that of its path or network.
pub(super) fn holder(
    slot: Option<PortSlot>,
    made: &Translation,
    with: &OffloadContext<'_>,
) -> Option<Holder> {
    if let Some(slot) = slot
        && made.back.is_none()
    {
        let (_, index) = with.slots.owner(slot);
        return Some(Holder::Port(with.tables.port(index?).entry.id));
    }
    let on = |dependency: &Dependency| match dependency {
        Dependency::Path(path) => Holder::Path(*path),
        Dependency::Network(network) | Dependency::Ordinary(network) => Holder::Network(*network),
    };
    made.dependencies.iter().map(on).min()
}

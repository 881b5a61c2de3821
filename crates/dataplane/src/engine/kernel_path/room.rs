//! Room for one flow more: whose it is, and who gives way. Refuses to know how a flow is put in.

use super::super::packet::PortSlot;
use super::guards::Dependency;
use super::holdings::Holder;
use super::recipe::Recipe;
use super::{KernelPath, Surroundings};

impl KernelPath {
    /// Where the kernel can take no more, a flow of who has most gives way to one of who has less.
    pub(super) fn make_room(&mut self, holder: Holder, with: &mut Surroundings<'_>) -> bool {
        if self.flows.len() < self.door.flows() as usize {
            return true;
        }
        let given_way = self.flows.who_gives_way(holder);
        let crowded = given_way.map_or(holder, |(from, _)| from);
        let count = match crowded {
            Holder::Port(port) => self.counters.crowded_ports.entry(port).or_default(),
            Holder::Path(path) => self.counters.crowded_paths.entry(path).or_default(),
            Holder::Network(network) => self.counters.crowded_networks.entry(network).or_default(),
        };
        *count += 1;
        if let Some((_, key)) = given_way {
            self.remove(&[key], with);
        }
        given_way.is_some()
    }
}

/// Whose a flow is: that of the port of an endpoint that sends it, else that of its path or network.
pub(super) fn holder(
    slot: Option<PortSlot>,
    recipe: &Recipe,
    with: &Surroundings<'_>,
) -> Option<Holder> {
    if let Some(slot) = slot
        && recipe.back.is_none()
    {
        let (_, index) = with.slots.owner(slot);
        return Some(Holder::Port(with.tables.port(index?).entry.id));
    }
    let on = |dependency: &Dependency| match dependency {
        Dependency::Path(path) => Holder::Path(*path),
        Dependency::Network(network) | Dependency::Ordinary(network) => Holder::Network(*network),
    };
    recipe.dependencies.iter().map(on).min()
}

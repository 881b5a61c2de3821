//! Where other nodes are for the kernel: by which interface, and whose packets have a meaning. Refuses to know
//! what they carry.

use super::transform::KernelUnderlay;
use super::{KernelPath, OffloadContext};
use crate::engine::tables::Tables;
use catena_model::program::Locator;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// The interface of the underlay that the kernel's program stands before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnderlayInterface {
    /// The interface.
    pub interface: u32,
    /// Of other nodes: packets for segments below these leave by it.
    pub locators: BTreeSet<Locator>,
}

impl KernelPath {
    /// The program stands before this interface of the underlay now; none: before none.
    pub(crate) fn serve_underlay(
        &mut self,
        place: Option<UnderlayInterface>,
        with: &mut OffloadContext<'_>,
    ) {
        if self.underlay_interface == place {
            return;
        }
        let former = std::mem::replace(&mut self.underlay_interface, place);
        self.declined.clear();
        let touched = match (&former, &self.underlay_interface) {
            (Some(former), Some(place)) if former.interface == place.interface => {
                let gone =
                    |to: Locator| former.locators.contains(&to) && !place.locators.contains(&to);
                self.flows.which(|flow| flow.segments_to.is_some_and(gone))
            }
            _ => self.flows.which(|flow| flow.origin.is_none() || flow.leaves_node),
        };
        self.counters.ended += touched.len() as u64;
        self.remove(&touched, with);
        self.tell_underlay(with.tables);
    }

    /// The underlay as the kernel uses it; none: it does not.
    pub(super) fn underlay(&self, tables: &Tables) -> Option<KernelUnderlay<'_>> {
        let IpAddr::V4(address) = tables.entries.own()?.underlay.address else { return None };
        let UnderlayInterface { interface, locators } = self.underlay_interface.as_ref()?;
        let mtu = tables.underlay_mtu;
        Some(KernelUnderlay { interface: *interface, address, locators, mtu })
    }

    /// Tells the kernel whose packets these tables give a meaning: those of tunnels from IPv4 addresses, and
    /// those of segments.
    pub(super) fn tell_underlay(&mut self, tables: &Tables) {
        let own = self.underlay(tables).map(|underlay| underlay.address);
        let locator = tables.positions.own_segments().filter(|_| own.is_some());
        let by_tunnels = tables.sources.keys().filter(|node| node.is_ipv4() && own.is_some());
        let by_segments = tables.segment_sources.keys().filter(|_| locator.is_some());
        let wanted: BTreeSet<IpAddr> = by_tunnels.chain(by_segments).copied().collect();
        let kernel_tables = &mut self.kernel_tables;
        self.sources.retain(|node, _| {
            let stays = wanted.contains(node);
            if !stays {
                kernel_tables.know_source(*node, None);
            }
            stays
        });
        for node in wanted {
            // Packets of one that there is no room or number for go up one by one.
            let number = self.last_source.checked_add(1);
            if !self.sources.contains_key(&node)
                && let Some(number) =
                    number.filter(|number| kernel_tables.know_source(node, Some(*number)))
            {
                self.last_source = number;
                self.sources.insert(node, number);
            }
        }
        self.kernel_tables.serve_underlay(own, locator.map(|own| own.locator));
    }
}

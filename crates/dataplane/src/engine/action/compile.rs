//! From the tables to the actions of a path: what is done to reach each instance of each hop, and at the end.
//! Knows what a hop asks; refuses to know packets. Where packets of a hop are not treated
//! alike, the action says so (`is_repeated`).

use super::actions::AtHop;
use super::{Action, ActionExit, Instance, Memory, Rewrite, segment_lists};
use crate::engine::account::slots::Slots;
use crate::engine::encap::{PathPosition, RouteHeader, Template};
use crate::engine::packet::index::{NodeIndex, PortIndex};
use crate::engine::state::network_mac;
use crate::engine::tables::Tables;
use crate::engine::tables::path::{HopTable, InstancePlace, InstanceTable, PathTable};
use crate::engine::tables::port::PortTable;
use crate::engine::tables::slices::Scope;
use catena_model::program::{Balance, HopKind, PROXY_MAC};
use catena_model::source_route::behind;
use catena_model::{DropReason, TunnelKind};
use catena_wire::ethernet::EthernetHeader;

/// What is done at the hops of a path, at its end, and at the instances of hops that have several, in this
/// order; how many of that are hops and end. None: no path of the program has this index.
pub(super) fn path(own: u32, tables: &Tables, slots: &Slots) -> Option<(Vec<AtHop>, usize)> {
    let path = tables.paths.find(own)?;
    let start = tables.positions.start(path.id)?;
    let maker = Maker { tables, slots, path, start };
    let hops = path.hops.len() + 1;
    let mut made = vec![AtHop::Refuse(DropReason::NoPath); hops];
    for hop in 0..hops {
        made[hop] = maker.at_hop(hop, &mut made);
    }
    Some((made, hops))
}

struct Maker<'t> {
    tables: &'t Tables,
    slots: &'t Slots,
    path: &'t PathTable,
    start: PathPosition,
}

impl Maker<'_> {
    /// What is done at a hop; what its instances ask, if there are several, is added to `more`.
    fn at_hop(&self, number: usize, more: &mut Vec<AtHop>) -> AtHop {
        let Some(hop) = self.path.hops.get(number) else {
            // Declared metadata would be lost there, and may be more than there is room for; of packets with telemetry
            // each is counted.
            let is_last = self.path.is_plain() && !self.tables.rules.leads_on(self.start.path());
            return AtHop::End { end: self.path.chain_end.map(Scope::after), is_last };
        };
        let position = u16::try_from(number)
            .ok()
            .and_then(|hop| self.tables.positions.renew(self.start, self.path.id, hop));
        let Some(position) = position else { return AtHop::Refuse(DropReason::NoPath) };
        match hop.instances.as_slice() {
            [only] if only.weight > 0 => self.to(position, hop, 0, only),
            all => {
                let first = more.len() as u32;
                let all = || all.iter().enumerate();
                more.extend(all().map(|(place, one)| self.to(position, hop, place, one)));
                let by_flow = hop.kind == HopKind::Through && hop.balance == Balance::Flow;
                AtHop::Choose { first, count: all().len() as u32, by_flow }
            }
        }
    }

    /// `place`: of the instance among those of its hop.
    fn to(
        &self,
        position: PathPosition,
        hop: &HopTable,
        place: usize,
        to: &InstanceTable,
    ) -> AtHop {
        if to.inside.is_some() {
            return AtHop::Inside;
        }
        let action = match to.place {
            InstancePlace::There(node) if self.path.encapsulation.is_source_route() => {
                self.route(position, hop, node, place)
            }
            InstancePlace::There(node) if self.path.encapsulation.is_segmented() => {
                self.segments(position, hop, (node, place))
            }
            _ => self.action(position, hop, to),
        };
        action.map_or_else(AtHop::Refuse, AtHop::Act)
    }

    /// What is done to reach an instance of another node over links.
    fn route(
        &self,
        position: PathPosition,
        hop: &HopTable,
        node: NodeIndex,
        place: usize,
    ) -> Result<Action, DropReason> {
        let (at, hops) =
            (usize::from(self.tables.positions.place(position).hop), &self.path.entry.hops);
        let entry = hops.get(at).and_then(|hop| hop.instances.get(place));
        let entry = entry.ok_or(DropReason::NoInstance)?;
        let (to, by) = ((&entry.node, entry.ingress), self.path.encapsulation);
        let route = self.tables.entries.headed(to, by).ok_or(DropReason::NoRoute)?;
        let number = *route.ports.first().ok_or(DropReason::NoRoute)?;
        let slot = self.slots.of_port(number.link_id()).ok_or(DropReason::NoRoute)?;
        let (owner, _) = self.slots.owner(slot);
        let exit = ActionExit::Link { node, number, slot, owner };
        let header = RouteHeader::of_headed(by, route).ok_or(DropReason::NoRoute)?;
        let header =
            header.with_stitches(by, self.tables.entries.stitches_to(&self.tables.node, to, by));
        let instance = u16::try_from(place).map_err(|_| DropReason::NoInstance)?;
        let by_flow = behind(hops, at).any(|hop| hops[hop].instances.len() > 1);
        let rewrite = Rewrite::Route { header, instance, by_flow };
        let is_repeated = self.is_alike(hop);
        Ok(Action { exit, rewrite, is_repeated })
    }

    /// What is done to reach an instance of another node over segments.
    fn segments(
        &self,
        position: PathPosition,
        hop: &HopTable,
        (node, place): (NodeIndex, usize),
    ) -> Result<Action, DropReason> {
        let tunnel = TunnelKind::Path(self.path.encapsulation);
        let to = self.tables.node_end(node, tunnel).ok_or(DropReason::NoSegments)?;
        let exit = ActionExit::Node { node, to, tunnel };
        let header = segment_lists::of_all((position, place), self.tables)?;
        let instance = u16::try_from(place).map_err(|_| DropReason::NoInstance)?;
        let is_repeated = self.is_alike(hop) && header.is_some();
        Ok(Action { exit, rewrite: Rewrite::Segments { header, instance }, is_repeated })
    }

    /// Is the same written into all packets? Declared metadata and records are written for each.
    fn is_alike(&self, hop: &HopTable) -> bool {
        hop.kind == HopKind::Through && self.path.is_plain()
    }

    /// What is done to reach an instance.
    fn action(
        &self,
        position: PathPosition,
        hop: &HopTable,
        to: &InstanceTable,
    ) -> Result<Action, DropReason> {
        let (tables, positions) = (self.tables, &self.tables.positions);
        let encapsulation = self.path.encapsulation;
        let is_alike = self.is_alike(hop);
        match to.place {
            InstancePlace::There(node) => {
                let header = Template::make(positions, position, None)?;
                let tunnel = TunnelKind::Path(encapsulation);
                let exit = ActionExit::Node { node, to: tables.node_address(node), tunnel };
                let is_repeated = is_alike && header.is_whole();
                Ok(Action { exit, rewrite: Rewrite::Header(header), is_repeated })
            }
            InstancePlace::Here { ingress, ingress_mac, speaks: Some(spoken), local, .. }
                if encapsulation.is_source_route() && encapsulation.spoken() == Some(spoken) =>
            {
                let exit = ActionExit::Instance(self.instance(ingress, local, to)?);
                let rewrite = Rewrite::Given { destination: ingress_mac };
                Ok(Action { exit, rewrite, is_repeated: is_alike })
            }
            InstancePlace::Here { ingress, ingress_mac, speaks: Some(spoken), local, .. }
                if spoken == encapsulation =>
            {
                let carrier = encapsulation.capabilities().ether_type;
                let carrier = carrier.ok_or(DropReason::UnsupportedEncapsulation)?;
                let ethernet = EthernetHeader::untagged(ingress_mac, PROXY_MAC, carrier);
                let header = Template::make(positions, position, Some(ethernet))?;
                let exit = ActionExit::Instance(self.instance(ingress, local, to)?);
                let is_repeated = is_alike && header.is_whole();
                Ok(Action { exit, rewrite: Rewrite::Header(header), is_repeated })
            }
            InstancePlace::Here { speaks: Some(_), .. } => {
                Err(DropReason::UnsupportedEncapsulation)
            }
            InstancePlace::Here { ingress, egress, ingress_mac, speaks: None, local } => {
                let exit = ActionExit::Instance(self.instance(ingress, local, to)?);
                let (destination, mut source, mut memory) = (ingress_mac, None, None);
                // A copy for a tap is on its way to nobody else.
                if hop.kind != HopKind::Tap {
                    source = network_mac::source_at(tables, position);
                    let (serial, network) = (self.slots.serial(egress), self.path.network);
                    memory = Some(Memory { egress, serial, network });
                }
                let is_one_by_one = hop.rewrites.is_some() || tables.port(egress).is_shared();
                let rewrite = Rewrite::Macs { destination, source, memory };
                Ok(Action { exit, rewrite, is_repeated: is_alike && !is_one_by_one })
            }
            InstancePlace::Unported => Err(DropReason::UnknownPort),
            InstancePlace::Ambiguous | InstancePlace::Nowhere => Err(DropReason::NoInstance),
        }
    }

    fn instance(
        &self,
        port: PortIndex,
        local: u32,
        instance: &InstanceTable,
    ) -> Result<Instance, DropReason> {
        let own = self.path.local_instances.get(local as usize).ok_or(DropReason::NoInstance)?;
        let back = own.egress.map(|egress| self.tables.port(egress));
        Ok(Instance {
            port,
            slot: self.slots.of_index(port),
            owner: self.slots.owner_of_index(port),
            local,
            id: own.id,
            watch: instance.watch,
            egress: own.egress,
            is_met: back.is_none_or(PortTable::is_met),
            is_shared_by_slices: back.is_none_or(PortTable::is_shared_by_slices),
        })
    }
}

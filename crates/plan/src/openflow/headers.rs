//! Headers field by field: what a node writes in front of a packet that enters a path. Knows which paths have one
//! header alone; refuses to know who enters them.

use super::{Export, link_port};
use catena_model::openflow::SwitchPort;
use catena_model::program::{ExitPlace, HopKind, InstanceEntry, PathEntry};
use catena_model::resource::Encapsulation;
use catena_model::source_route::{JoinedWay, behind};
use catena_wire::source_route::Profile;
use catena_wire::source_route::marked::{self, MarkedHeader, fields::HeaderFields};

use super::conditions::VLAN_PRESENT;

/// What is written, and the link that the packet leaves by.
pub(super) struct Writing {
    pub(super) actions: Vec<String>,
    pub(super) link: SwitchPort,
}

/// The profile of an encapsulation whose headers actions of OpenFlow 1.3 write.
///
/// # Errors
/// Why none does.
pub(super) fn written(encapsulation: Encapsulation) -> Result<Profile, String> {
    let name = encapsulation.title();
    match encapsulation.profile() {
        Some(profile) if marked::PROFILES.contains(&profile) => Ok(profile),
        Some(_) if encapsulation.route_bytes_per_port_taken() > 0 => Err(format!(
            "{name} puts labels and a word of its own in front of the whole frame, and push_mpls puts \
             labels behind its addresses"
        )),
        Some(_) => Err(format!("{name} is a header of its own, which no action of OpenFlow knows")),
        None => {
            Err(format!("{name} travels in UDP between nodes, which no action of OpenFlow writes"))
        }
    }
}

impl Export<'_> {
    /// What is written in front of a packet that enters a path here.
    ///
    /// # Errors
    /// Why no rule can say it.
    pub(super) fn writing(&self, path: &PathEntry) -> Result<Writing, String> {
        let profile = written(path.encapsulation)?;
        if self.entries.setups.contains_key(&path.id) {
            return Err("its flows are asked of the controller one by one".into());
        }
        if self.entries.pins.values().any(|pin| pin.new == path.id) {
            return Err(
                "flows that were on the path before it stay there, and no rule remembers them"
                    .into(),
            );
        }
        let way = self.way(path)?;
        let fields = header(profile, &way, path);
        let fields = fields.ok_or("no header holds its way or its identifier")?;
        let first = way.ports.first().and_then(|number| self.entries.exits.get(number));
        let link = first.and_then(|exit| link_port(exit));
        let link = link.ok_or("its way begins at no link of the node")?;
        let HeaderFields { destination, vlan, label, ttl } = fields;
        let actions = vec![
            "push_mpls:0x8847".into(),
            format!("set_field:{}->mpls_label", label.get()),
            "set_field:0->mpls_tc".into(),
            format!("set_mpls_ttl({ttl})"),
            "push_vlan:0x8100".into(),
            format!("set_field:{}->vlan_vid", vlan.get() | VLAN_PRESENT),
            "set_field:0->vlan_pcp".into(),
            format!("set_field:{destination}->eth_dst"),
        ];
        Ok(Writing { actions, link })
    }

    /// The way that stands in the one header of a path's packets here.
    fn way(&self, path: &PathEntry) -> Result<JoinedWay, String> {
        let hop = path.hops.first().ok_or("it has no function")?;
        if hop.kind == HopKind::Tap {
            return Err(format!("'{}' gets copies, each with a header of its own", hop.name));
        }
        let several = |name: &str| {
            format!(
                "'{name}' has several instances, and flows meet them by a hash that OpenFlow does not have"
            )
        };
        let to = match in_use(&hop.instances).as_slice() {
            [only] => *only,
            [] => return Err(format!("'{}' has no instance that takes flows", hop.name)),
            _ => return Err(several(&hop.name)),
        };
        if to.node == *self.node {
            return Err(format!(
                "'{}' is on this node, and what a function gives back is known by a memory of flows",
                hop.name
            ));
        }
        let mut met = vec![to];
        let mut open = None;
        for next in behind(&path.hops, 0).filter_map(|place| path.hops.get(place)) {
            match in_use(&next.instances).as_slice() {
                [only] => met.push(only),
                [] => break,
                _ => {
                    open = Some(&next.name);
                    break;
                }
            }
        }
        let count = met.len();
        let known = (self.node, self.entries);
        let number_of = |port| {
            let mut exits = self.entries.exits.values();
            exits.find(|exit| exit.to == ExitPlace::Port(port)).map(|exit| exit.number)
        };
        let way = JoinedWay::along(known, met.into_iter(), path.encapsulation, number_of);
        let (way, _) = way.ok_or_else(|| format!("no way leads to '{}'", to.name))?;
        match open.filter(|_| way.ways == count && !way.is_cut) {
            // The header might lead on to one of them, as far as there is room.
            Some(name) => Err(several(name)),
            None => Ok(way),
        }
    }
}

/// The instances that flows are sent to.
fn in_use(instances: &[InstanceEntry]) -> Vec<&InstanceEntry> {
    instances.iter().filter(|one| one.weight > 0).collect()
}

/// The header of a packet that has left this node: its first port is taken. None: there is none.
fn header(profile: Profile, way: &JoinedWay, path: &PathEntry) -> Option<HeaderFields> {
    let ports: Vec<u8> = way.ports.iter().map(|port| port.get()).collect();
    let mark = u16::try_from(path.id.0).ok()?;
    let mut bytes = [0; marked::LEN];
    MarkedHeader::new(profile, &ports, mark).ok()?.emit(&mut bytes).ok()?;
    catena_wire::source_route::advance(&mut bytes, &[]).ok()?;
    HeaderFields::of(&bytes).ok()
}

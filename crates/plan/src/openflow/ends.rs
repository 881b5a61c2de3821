//! What links bring for ports of this node: the header comes off, and the frame is made whole again. Knows which
//! frames these are and what goes into a function; refuses to know what the function gives back.

use super::conditions::vlan_words;
use super::headers::written;
use super::{Export, first};
use catena_model::id::PortId;
use catena_model::openflow::TABLE_SOURCE;
use catena_model::program::{
    ExitPlace, HopEntry, HopKind, InstanceEntry, NETWORK_MAC_PREFIX, PathEntry,
};
use catena_model::resource::IpFamily;
use catena_model::topology::PortNumber;
use catena_wire::scalar::MacAddr;
use catena_wire::source_route::marked;
use catena_wire::source_route::marked::fields::{Awaiting, Masked};

const ENDS: u16 = 0x8000;
const NOBODYS: u16 = 2;

/// A function that a header may lead to.
struct End<'p> {
    number: PortNumber,
    port: PortId,
    path: &'p PathEntry,
    hop: &'p HopEntry,
    to: &'p InstanceEntry,
}

impl<'p> Export<'p> {
    /// Every way out of a header at this node.
    pub(super) fn ends(&mut self) {
        let before = self.rules.len();
        let ends: Vec<End<'p>> = self.all_ends().collect();
        for end in &ends {
            if let Err(why) = self.end(end) {
                let path = self.path_words(end.path);
                self.unsaid(format!("what links bring for '{}' on {path}", end.to.name), why);
            }
        }
        let exits = self.entries.exits.values();
        let next = exits.filter_map(|exit| match &exit.to {
            ExitPlace::Pathlet(pathlet) => Some((exit.number, pathlet)),
            ExitPlace::Port(_) | ExitPlace::Link(_) => None,
        });
        for (number, pathlet) in next {
            self.unsaid(
                format!("the header to '{}' that is written where one ends with {number}", pathlet.node),
                "the path is written into it again, and no rule carries that over from label to label",
            );
        }
        if self.rules.len() == before {
            return;
        }
        for link in self.links() {
            let purpose = format!("what link '{}' brings for nobody here", link.name);
            let words = "vlan_vid=0x1000/0x1000,dl_type=0x8847".to_owned();
            self.rules.push(first(&purpose, NOBODYS, &link, vec![words]));
        }
    }

    fn all_ends(&self) -> impl Iterator<Item = End<'p>> + use<'p> {
        let (entries, node) = (self.entries, self.node);
        entries.exits.values().flat_map(move |exit| {
            let port = match exit.to {
                ExitPlace::Port(port) => Some(port),
                ExitPlace::Link(_) | ExitPlace::Pathlet(_) => None,
            };
            let paths = entries.paths.values().filter(|path| path.encapsulation.is_source_route());
            let hops = paths.flat_map(|path| path.hops.iter().map(move |hop| (path, hop)));
            let all =
                hops.flat_map(|(path, hop)| hop.instances.iter().map(move |to| (path, hop, to)));
            all.filter_map(move |(path, hop, to)| {
                let port = port.filter(|port| to.ingress == *port && to.node == *node)?;
                Some(End { number: exit.number, port, path, hop, to })
            })
        })
    }

    fn end(&mut self, end: &End<'_>) -> Result<(), String> {
        let End { number, port, path, hop, to } = end;
        let Some(families) = self.families.get(&path.id) else { return Ok(()) };
        let profile = written(path.encapsulation)?;
        if to.speaks.is_some() {
            return Err("the function reads headers itself".into());
        }
        let port = self.entries.ports.get(port).ok_or("the port is not there")?;
        let ether_type = match families.iter().collect::<Vec<_>>().as_slice() {
            [IpFamily::Ipv4] => "0x0800",
            [IpFamily::Ipv6] => "0x86dd",
            _ => {
                return Err(
                    "it carries IPv4 and IPv6, and no rule sees which is under a label".into()
                );
            }
        };
        let mark = u16::try_from(path.id.0).map_err(|_| "no header holds its identifier")?;
        let mut actions = vec![
            "pop_vlan".to_owned(),
            format!("pop_mpls:{ether_type}"),
            format!("set_field:{}->eth_dst", to.ingress_mac),
        ];
        let marks_network = hop.kind != HopKind::Tap && hop.keeps_mac;
        let network = self.entries.networks.get(&path.destination).filter(|_| marks_network);
        if let Some(network) = network {
            let [_, high, middle, low] = network.vni.get().to_be_bytes();
            let [a, b, c] = NETWORK_MAC_PREFIX;
            actions.push(format!("set_field:{}->eth_src", MacAddr([a, b, c, high, middle, low])));
        }
        let purpose = format!("'{}' gets its packets of {}", to.name, self.path_words(path));
        for counter in (1..).take(marked::PORTS) {
            let awaiting = Awaiting::of(profile, counter, number.get(), mark);
            let Awaiting { destination: Masked { value, mask }, label, ttl, .. } =
                awaiting.as_ref().map_err(ToString::to_string)?;
            let vlans = vlan_words(|vlan| awaiting.is_ok_and(|one| one.takes_vlan(vlan)));
            for (link, vlan) in self
                .links()
                .flat_map(|link| vlans.iter().map(move |vlan| (link.clone(), vlan.clone())))
            {
                let matches = vec![
                    "mpls".to_owned(),
                    format!("dl_dst={value}/{mask}"),
                    vlan,
                    format!("mpls_label={},mpls_bos=1,mpls_ttl={ttl}", label.get()),
                ];
                let mut rule = first(&purpose, ENDS, &link, matches);
                rule.actions.clone_from(&actions);
                rule.to = Some(self.switch_port(port));
                rule.then = network.is_none().then_some(TABLE_SOURCE);
                self.rules.push(rule);
            }
        }
        Ok(())
    }
}

//! Counters by name, so that a test can say which moved and that no other did.

use crate::town::MESH;
use catena_model::account::{Account, NodeCounters, PortCounters};
use std::collections::BTreeMap;

/// All counters of all nodes by name, in packets.
pub(crate) fn flat(nodes: &[NodeCounters]) -> BTreeMap<String, u64> {
    let mut flat = BTreeMap::new();
    for counters in nodes {
        let node = &counters.node;
        let is_mesh = |link: &&PortCounters| link.name.starts_with(MESH);
        let links = counters.links.iter().filter(|link| !is_mesh(link));
        for port in counters.ports.iter().chain(links) {
            let name = &port.name;
            flatten(&mut flat, &format!("{name} "), &port.account);
            flat.insert(format!("{name} transmitted"), port.transmitted.packets);
            flat.insert(format!("{name} created by function"), port.created_by_function);
            flat.insert(format!("{name} lost in function"), port.lost_in_function);
        }
        // One between each two nodes, they stand for tunnels.
        let mut tunnels = counters.tunnels.clone();
        let mut out = counters.tunnels_transmitted.packets;
        for link in counters.links.iter().filter(is_mesh) {
            tunnels.merge(&link.account);
            out += link.transmitted.packets;
        }
        flatten(&mut flat, &format!("{node} tunnels "), &tunnels);
        flat.insert(format!("{node} tunnels transmitted"), out);
        for path in &counters.chains {
            let name = format!("{node} path {}", path.path);
            flat.insert(format!("{name} entered"), path.entered.packets);
            flat.insert(format!("{name} finished"), path.finished.packets);
            flat.insert(format!("{name} tapped"), path.tapped.packets);
            flat.insert(format!("{name} tunnelled out"), path.tunnelled_out.packets);
            flat.insert(format!("{name} tunnelled in"), path.tunnelled_in.packets);
            for (reason, packets) in &path.dropped {
                flat.insert(format!("{name} dropped {reason}"), *packets);
            }
            for hop in &path.hops {
                flat.insert(format!("{name} to {}", hop.name), hop.delivered.packets);
                flat.insert(format!("{name} from {}", hop.name), hop.returned.packets);
                flat.insert(format!("{name} past {}", hop.name), hop.bypassed.packets);
            }
        }
    }
    flat
}

fn flatten(flat: &mut BTreeMap<String, u64>, name: &str, account: &Account) {
    flat.insert(format!("{name}received"), account.received.packets);
    flat.insert(format!("{name}forwarded"), account.forwarded.packets);
    flat.insert(format!("{name}consumed"), account.consumed);
    for (kind, packets) in &account.created {
        flat.insert(format!("{name}created {}", kind.name()), *packets);
    }
    for (reason, packets) in &account.dropped {
        flat.insert(format!("{name}dropped {reason}"), *packets);
    }
}

//! Functions that rewrite addresses or ports: by what their packets are known again. Knows which
//! fields a function may change and what it makes of them; refuses to know who is inside.

use super::proxy_flows::Key;
use crate::engine::tables::port::PortTable;
use catena_model::program::{RewriteEntry, TupleField};
use catena_search::has_ports;
use catena_wire::flow::FlowKey;
use catena_wire::scalar::PortRange;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a packet that came out of a port may be remembered by: itself, else what the functions
/// behind the port leave of it. `network`: as the packet says, see `network_mac`. `user`: whose it
/// is, if tunnels tell; where no packet of that user went in, it may have gone in before the node
/// looked into tunnels.
pub(crate) fn keys(
    port: &PortTable,
    egress: u32,
    (network, flow): (u32, FlowKey),
    user: u64,
) -> impl Iterator<Item = Key> {
    let users = [Some(user), Some(0).filter(|nobody| *nobody != user)];
    users.into_iter().flatten().flat_map(move |user| {
        let rewritten = port.rewrites().iter().filter(move |entry| may_leave(entry, &flow));
        let kept = rewritten.map(move |entry| kept(entry, flow));
        let key = move |flow| Key { egress, network, flow, user };
        std::iter::once(flow).chain(kept).map(key)
    })
}

/// The flow without what the function may change.
pub(crate) fn kept(entry: &RewriteEntry, mut flow: FlowKey) -> FlowKey {
    let nobody = |address: IpAddr| match address {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    for field in &entry.fields {
        match field {
            TupleField::Source => flow.source = nobody(flow.source),
            TupleField::Destination => flow.destination = nobody(flow.destination),
            TupleField::SourcePort => flow.source_port = 0,
            TupleField::DestinationPort => flow.destination_port = 0,
        }
    }
    flow
}

/// Does a packet look like what the function makes?
fn may_leave(entry: &RewriteEntry, flow: &FlowKey) -> bool {
    let leaves = &entry.leaves;
    let is_in = |bounds: catena_model::resource::PortBounds, port: u16| {
        let (min, max) = bounds.closed();
        bounds.is_any() || PortRange::new(min, max).is_ok_and(|range| range.contains(port))
    };
    leaves.source_prefix.is_none_or(|net| net.contains(&flow.source))
        && leaves.destination_prefix.is_none_or(|net| net.contains(&flow.destination))
        && (!has_ports(flow)
            || (is_in(leaves.source_ports, flow.source_port)
                && is_in(leaves.destination_ports, flow.destination_port)))
}

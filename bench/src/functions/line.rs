//! Nodes on one cable, source and destination at its ends.

use crate::chain_tcp::{DESTINATION_ADDRESS, Node, Plug, SOURCE_ADDRESS, TENANT_MTU, Wires};
use crate::peers::Unavailable;

/// A cable from the source over these nodes to the destination: the plugs of each step.
pub(super) fn line(wires: &mut Wires, between: &[Node]) -> Result<Vec<[Plug; 2]>, Unavailable> {
    let nodes = [&[Node::Source][..], between, &[Node::Destination]].concat();
    wires.add(&nodes)?;
    let steps = nodes.iter().zip(nodes.iter().skip(1));
    let steps: Result<Vec<_>, _> =
        steps.map(|(one, other)| wires.cable(*one, *other, TENANT_MTU)).collect();
    let steps = steps?;
    let ends = [(steps.first(), 0, SOURCE_ADDRESS), (steps.last(), 1, DESTINATION_ADDRESS)];
    for (step, side, address) in ends {
        let Some(plug) = step.map(|step| &step[side]) else { continue };
        wires.ip(plug.node, &["addr", "add", &format!("{address}/32"), "dev", &plug.device])?;
    }
    Ok(steps)
}

/// What is for `to` leaves by `near` and is taken by `far`.
pub(super) fn lead(wires: &Wires, to: &str, near: &Plug, far: &Plug) -> Result<(), Unavailable> {
    let via = format!("169.254.{}.{}", near.index >> 8, near.index & 0xff);
    let entry = ["neigh", "replace", &via, "lladdr", &far.mac, "dev", &near.device];
    wires.ip(near.node, &[&entry[..], &["nud", "permanent"]].concat())?;
    let route = ["route", "replace", to, "via", &via, "dev", &near.device, "onlink"];
    wires.ip(near.node, &route).map(drop)
}

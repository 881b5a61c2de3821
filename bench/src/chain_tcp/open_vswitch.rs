//! The bed of Open vSwitch in user space over veth, with its own segmentation offload: one switch
//! that all functions are at. Its tunnels cannot carry super-frames, so it has no second host: that
//! is easier for it than what ours does.

use super::bed::Bed;
use super::chains::{Chain, Node, way};
use super::wires::{DESTINATION_ADDRESS, SOURCE_ADDRESS, TENANT_MTU, Wires};
use crate::peers::program::find;
use crate::peers::{Daemon, Unavailable};

const SWITCH: Node = Node::Switch(1);

/// Makes the bed of one chain.
pub(super) fn lay(chain: &Chain) -> Result<Bed, Unavailable> {
    let program = find("ovs-vswitchd", "openvswitch-switch")?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let daemon =
        Daemon::start(&program, &format!("0-{}", cores - 1), &["userspace-tso-enable=true"])?;
    let stops: Vec<Node> = way(chain).into_iter().filter(|node| node.is_stop()).collect();
    let mut wires = Wires::new()?;
    wires.adopt(SWITCH, daemon.pid());
    wires.add(&stops)?;
    let (mut plugs, mut ports) = (Vec::new(), Vec::new());
    for stop in &stops {
        let [here, there] = wires.cable(*stop, SWITCH, TENANT_MTU)?;
        daemon.configure(&["add-port", "br0", &there.device])?;
        let port = daemon.configure(&["get", "Interface", &there.device, "ofport"])?;
        ports.push(port.trim().to_owned());
        plugs.push(here);
    }
    let rule = |from: &String, to: &String| format!("in_port={from},actions=output:{to}");
    let mut rules: Vec<String> =
        ports.iter().zip(ports.iter().skip(1)).map(|(from, to)| rule(from, to)).collect();
    if let ([source, ..], [destination, ..], [.., end]) = (&plugs[..], &ports[..], &plugs[..]) {
        rules.extend(ports.last().map(|last| rule(last, destination)));
        for (plug, address) in [(source, SOURCE_ADDRESS), (end, DESTINATION_ADDRESS)] {
            let address = format!("{address}/24");
            wires.ip(plug.node, &["addr", "add", &address, "dev", &plug.device])?;
        }
        wires.address_stops(&[end.clone(), source.clone()], SOURCE_ADDRESS)?;
    }
    wires.address_stops(&plugs, DESTINATION_ADDRESS)?;
    daemon.set_rules(&rules)?;
    Ok(Bed::of(wires, Some(daemon)))
}

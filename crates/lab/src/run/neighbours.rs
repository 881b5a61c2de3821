//! Lets functions learn the link-layer addresses of those that their packets go to before packets are judged by
//! their order: what a Linux router holds back meanwhile goes on after what has come later, and what does not find
//! room there ends in it.

use crate::error::Result;
use crate::up::RunningLab;
use crate::vocabulary::Updates;
use catena_client::deploy::ChainStep;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

/// Nobody listens there in a lab, so that an answer comes (discard, RFC 863).
const PORT: u16 = 9;
/// How long an answer is waited for; one that does not come is no failure.
const PATIENCE: Duration = Duration::from_secs(1);

/// Lets each function of these updates speak with each end of the lab's traffic that it has a network with.
///
/// # Errors
/// A function's namespace cannot be entered.
pub(super) fn learn(running: &RunningLab, updates: &Updates) -> Result<()> {
    let of_chain = running.lab.chain(&updates.chain).map(|chain| &chain.document.chain);
    let versions = updates.versions.iter().map(|version| &version.steps).chain(of_chain);
    let instances = versions.flatten().flat_map(ChainStep::all_instances);
    let with_interface = |name: &String| running.lab.functions.contains(name);
    let functions: BTreeSet<String> =
        instances.map(|instance| instance.name).filter(with_interface).collect();
    let ends: BTreeSet<&str> = running
        .lab
        .traffic
        .iter()
        .flat_map(|traffic| [traffic.from.as_str(), traffic.to.as_str()])
        .collect();
    for function in &functions {
        let doorway = running.doorway(function)?;
        for to in addresses_beside(running, function, &ends) {
            // The answer is a refusal, and who has it knows the way.
            let _ = doorway.inside(|| speak_to(to))?;
        }
    }
    Ok(())
}

/// Addresses of these ends on the networks of a function.
fn addresses_beside<'r>(
    running: &'r RunningLab,
    function: &'r str,
    ends: &'r BTreeSet<&str>,
) -> impl Iterator<Item = IpAddr> + 'r {
    let ports = &running.plan.ports;
    let has = move |device: &str, network: &str| {
        ports.iter().any(|port| port.device == device && port.network == network)
    };
    let is_beside =
        move |device: &str, network: &str| ends.contains(device) && has(function, network);
    let beside = ports.iter().filter(move |port| is_beside(&port.device, &port.network));
    beside.flat_map(|port| port.addresses.iter().copied())
}

fn speak_to(to: IpAddr) -> std::io::Result<usize> {
    let to = SocketAddr::new(to, PORT);
    let socket = UdpSocket::bind(match to {
        SocketAddr::V4(_) => "0.0.0.0:0",
        SocketAddr::V6(_) => "[::]:0",
    })?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(to)?;
    socket.send(&[])?;
    socket.recv(&mut [0])
}

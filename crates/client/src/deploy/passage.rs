//! Which ports a chain's traffic takes: from the directions of the study to ingress and egress of
//! each function. Pure; refuses to know who asks for the ports.

use super::{ChainDocument, DeployError, Direction};
use catena_model::id::{NetworkId, PortId};
use serde::Deserialize;

/// A port as a deployment needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct PortAt {
    pub(super) id: PortId,
    pub(super) network_id: NetworkId,
}

/// Ingress and egress of one function in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) ingress: PortId,
    pub(super) egress: PortId,
    pub(super) is_tap: bool,
}

type PortsOf<'p> = dyn Fn(&str) -> Result<Vec<PortAt>, DeployError> + 'p;

/// The source's port, and where the traffic enters and leaves each function.
pub(super) fn passages(
    document: &ChainDocument,
    ports_of: &PortsOf<'_>,
) -> Result<(PortId, Vec<Passage>), DeployError> {
    let sources = ports_of(&document.source)?;
    let destinations = ports_of(&document.destination)?;
    let is_shared =
        |port: &&PortAt| destinations.iter().any(|other| other.network_id == port.network_id);
    let source = sources.iter().find(is_shared).ok_or_else(|| DeployError::NoSharedNetwork {
        source_name: document.source.clone(),
        destination: document.destination.clone(),
    })?;
    let outer = source.network_id;
    let mut current = outer;
    let mut passages = Vec::new();
    for (index, step) in document.chain.iter().enumerate() {
        let ports = ports_of(&step.name)?;
        let (passage, next) = pass(step.direction, &ports, current, outer).map_err(|problem| {
            DeployError::NoPassage {
                step: index + 1,
                name: step.name.clone(),
                direction: step.direction,
                problem,
            }
        })?;
        passages.push(passage);
        current = next;
    }
    Ok((source.id, passages))
}

/// The passage through one function that traffic reaches on network `current`, and the network
/// that it goes on by; `outer` is the endpoints' network.
fn pass(
    direction: Direction,
    ports: &[PortAt],
    current: NetworkId,
    outer: NetworkId,
) -> Result<(Passage, NetworkId), &'static str> {
    let on = |network: NetworkId| ports.iter().find(|port| port.network_id == network);
    let ingress = on(current).ok_or(
        "it has no port on the network that the traffic arrives by; attach it there, or change \
         the direction of the function before it",
    )?;
    let egress = match direction {
        Direction::Same | Direction::Tap => ingress,
        Direction::Out => on(outer).ok_or("it has no port on the endpoints' network")?,
        Direction::In => {
            let mut inner = ports.iter().filter(|port| port.network_id != outer);
            match (inner.next(), inner.next()) {
                (Some(port), None) => port,
                (None, _) => return Err("it has no port on an internal network; use 'same'"),
                _ => return Err("it has ports on several internal networks; 'in' means only one"),
            }
        }
    };
    let is_tap = direction == Direction::Tap;
    Ok((Passage { ingress: ingress.id, egress: egress.id, is_tap }, egress.network_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Network 1 is the endpoints', 2 is internal; a port's number is device * 10 + network.
    fn port(device: u8, network: u8) -> PortAt {
        let id = |n: u8| format!("\"00000000-0000-0000-0000-0000000000{n:02}\"");
        PortAt {
            id: serde_json::from_str(&id(device * 10 + network)).unwrap(),
            network_id: serde_json::from_str(&id(network)).unwrap(),
        }
    }

    fn two_networks(name: &str) -> Result<Vec<PortAt>, DeployError> {
        match name {
            "S" => Ok(vec![port(8, 1)]),
            "D" => Ok(vec![port(9, 1)]),
            "lonely" => Ok(vec![port(7, 2)]),
            "outer" => Ok(vec![port(6, 1)]),
            "v1" | "v2" | "v3" => {
                let device = name.as_bytes()[1] - b'0';
                Ok(vec![port(device, 1), port(device, 2)])
            }
            other => Err(DeployError::NoInstance { name: other.into() }),
        }
    }

    fn document(steps: &str) -> ChainDocument {
        serde_json::from_str(&format!(
            r#"{{"source": "S", "destination": "D",
                "match_fields": {{"protocol": "udp", "destination_port": 5001}},
                "chain": {steps}}}"#
        ))
        .unwrap()
    }

    fn ports(steps: &str) -> Result<Vec<(PortId, PortId)>, String> {
        match passages(&document(steps), &two_networks) {
            Ok((_, passages)) => Ok(passages.iter().map(|p| (p.ingress, p.egress)).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn directions_choose_ingress_and_egress_as_in_the_study() {
        let steps = r#"[{"name": "v1", "direction": "in"}, {"name": "v2", "direction": "same"},
                        {"name": "v3", "direction": "out"}]"#;
        let expected = vec![
            (port(1, 1).id, port(1, 2).id),
            (port(2, 2).id, port(2, 2).id),
            (port(3, 2).id, port(3, 1).id),
        ];
        assert_eq!(ports(steps), Ok(expected));
    }

    #[test]
    fn a_tap_leaves_the_traffic_where_it_was() {
        let steps = r#"[{"name": "v1", "direction": "tap"}, {"name": "v2", "direction": "same"}]"#;
        let (source, passages) = passages(&document(steps), &two_networks).unwrap();
        assert_eq!(source, port(8, 1).id);
        assert_eq!(passages.iter().map(|p| p.is_tap).collect::<Vec<_>>(), [true, false]);
        assert_eq!(passages[1].ingress, port(2, 1).id);
    }

    #[test]
    fn a_function_without_the_port_it_needs_is_named_with_the_remedy() {
        let cases = [
            (r#"[{"name": "lonely", "direction": "same"}]"#, "function 1 ('lonely'"),
            (r#"[{"name": "outer", "direction": "in"}]"#, "no port on an internal network"),
            (r#"[{"name": "nobody", "direction": "in"}]"#, "no port belongs to 'nobody'"),
            (
                r#"[{"name": "v1", "direction": "in"}, {"name": "outer", "direction": "same"}]"#,
                "function 2 ('outer'",
            ),
        ];
        for (steps, expected) in cases {
            let problem = ports(steps).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
    }
}

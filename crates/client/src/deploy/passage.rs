//! Which ports a chain's traffic takes: from the directions of the study to ingress and egress of
//! each function. Pure; refuses to know who asks for the ports.

use super::{ChainDocument, ChainStep, DeployError, Direction};
use catena_model::id::{NetworkId, PortId};
use catena_model::resource::Encapsulation;
use serde::{Deserialize, Deserializer};

/// Who owns ports that were made for a function from its template.
const MADE_OWNER: &str = "catena:function";
/// The name of the port by which packets leave such a function, where it has two, ends so.
const OUT_SUFFIX: &str = "-out";

/// A port as a deployment needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct PortAt {
    pub(super) id: PortId,
    pub(super) network_id: NetworkId,
    /// It was made for a function from its template.
    #[serde(default, rename = "device_owner", deserialize_with = "is_made")]
    pub(super) is_made: bool,
    /// If so, packets leave by it.
    #[serde(default, rename = "name", deserialize_with = "is_out")]
    pub(super) is_out: bool,
}

fn is_made<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    String::deserialize(deserializer).map(|owner| owner == MADE_OWNER)
}

fn is_out<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    String::deserialize(deserializer).map(|name| name.ends_with(OUT_SUFFIX))
}

/// Ingress and egress of one instance in a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    pub(super) name: String,
    pub(super) weight: u32,
    pub(super) speaks: Option<Encapsulation>,
    pub(super) ingress: PortId,
    pub(super) egress: PortId,
}

/// The ends of a chain, and the instances of each function in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) source: PortId,
    /// None: the document does not say where it ends.
    pub(super) destination: Option<PortId>,
    pub(super) functions: Vec<Vec<Passage>>,
}

type PortsOf<'p> = dyn Fn(&str) -> Result<Vec<PortAt>, DeployError> + 'p;

/// The ends' ports, and where the traffic enters and leaves each instance of each function.
pub(super) fn route(
    document: &ChainDocument,
    ports_of: &PortsOf<'_>,
) -> Result<Route, DeployError> {
    if leads_elsewhere(document, ports_of) {
        return route_between_networks(document, ports_of);
    }
    let (source, destination) = ends(document, ports_of)?;
    let (functions, _) = passages(document, ports_of, source.network_id)?;
    Ok(Route { source: source.id, destination, functions })
}

/// The passages through all functions, and the network behind them.
fn passages(
    document: &ChainDocument,
    ports_of: &PortsOf<'_>,
    outer: NetworkId,
) -> Result<(Vec<Vec<Passage>>, NetworkId), DeployError> {
    let mut current = outer;
    let mut functions = Vec::new();
    for (index, step) in document.chain.iter().enumerate() {
        let (instances, next) = step_passages((index, step), ports_of, current, outer)?;
        functions.push(instances);
        current = next;
    }
    Ok((functions, current))
}

/// Does a function that was made from its template lead from one network into another?
fn leads_elsewhere(document: &ChainDocument, ports_of: &PortsOf<'_>) -> bool {
    document.chain.iter().filter(|step| step.direction == Direction::Same).any(|step| {
        let mut instances = step.all_instances().into_iter();
        // Who is not there is told of where passages are looked for.
        instances.any(|instance| ports_of(&instance.name).is_ok_and(|ports| is_crossing(&ports)))
    })
}

fn is_crossing(ports: &[PortAt]) -> bool {
    is_made_pair(ports) && matches!(ports, [one, other] if one.network_id != other.network_id)
}

fn is_made_pair(ports: &[PortAt]) -> bool {
    matches!(ports, [one, other] if one.is_made && other.is_made)
}

/// The route from a port of the source, on whichever of its networks the functions lead on to one of the destination.
fn route_between_networks(
    document: &ChainDocument,
    ports_of: &PortsOf<'_>,
) -> Result<Route, DeployError> {
    let sources = ports_of(&document.source).map_err(|error| error.at("source"))?;
    let destinations = match document.destination.as_str() {
        "" => None,
        name => Some(ports_of(name).map_err(|error| error.at("destination"))?),
    };
    let mut problem = None;
    for source in &sources {
        let (functions, last) = match passages(document, ports_of, source.network_id) {
            Ok(found) => found,
            Err(error) => {
                problem.get_or_insert(error);
                continue;
            }
        };
        let partner = |ports: &Vec<PortAt>| {
            ports.iter().find(|port| port.network_id == last).map(|port| port.id)
        };
        let destination = destinations.as_ref().map(partner);
        if let None | Some(Some(_)) = destination {
            return Ok(Route { source: source.id, destination: destination.flatten(), functions });
        }
        problem = Some(
            DeployError::NotLedTo { destination: document.destination.clone() }.at("destination"),
        );
    }
    Err(problem
        .unwrap_or_else(|| DeployError::NoInstance { name: document.source.clone() }.at("source")))
}

/// The port that the traffic begins at, and the one that it ends at, on one network.
fn ends(
    document: &ChainDocument,
    ports_of: &PortsOf<'_>,
) -> Result<(PortAt, Option<PortId>), DeployError> {
    let sources = ports_of(&document.source).map_err(|error| error.at("source"))?;
    if document.destination.is_empty() {
        return match sources.as_slice() {
            [source] => Ok((*source, None)),
            _ => Err(DeployError::NoDestination {
                chain: document.name(),
                problem: "its source is on several networks",
            }),
        };
    }
    let destinations = ports_of(&document.destination).map_err(|error| error.at("destination"))?;
    let partner =
        |port: &PortAt| destinations.iter().find(|other| other.network_id == port.network_id);
    let ends = sources.iter().find_map(|port| Some((*port, Some(partner(port)?.id))));
    ends.ok_or_else(|| {
        let error = DeployError::NoSharedNetwork {
            source_name: document.source.clone(),
            destination: document.destination.clone(),
        };
        error.at("destination")
    })
}

/// The passages through all instances of one function; they must lead to one network.
fn step_passages(
    (index, step): (usize, &ChainStep),
    ports_of: &PortsOf<'_>,
    current: NetworkId,
    outer: NetworkId,
) -> Result<(Vec<Passage>, NetworkId), DeployError> {
    let mut instances: Vec<Passage> = Vec::new();
    let mut onward = None;
    for (place, instance) in step.all_instances().into_iter().enumerate() {
        let key = match step.instances.is_empty() {
            true => format!("through[{index}]"),
            false => format!("through[{index}].instances[{place}]"),
        };
        let told = |problem| {
            let error = DeployError::NoPassage {
                step: index + 1,
                name: step.name.clone(),
                instance: instance.name.clone(),
                direction: step.direction,
                problem,
            };
            error.at(key.as_str())
        };
        if instances.iter().any(|before| before.name == instance.name) {
            return Err(told("it is named twice among the instances; name it once"));
        }
        let ports = ports_of(&instance.name).map_err(|error| error.at(key.as_str()))?;
        let (ingress, egress, next) = pass(step.direction, &ports, current, outer).map_err(told)?;
        if *onward.get_or_insert(next) != next {
            return Err(told("it leads to another network than the instances before it"));
        }
        let (name, weight) = (instance.name, instance.weight);
        instances.push(Passage { name, weight, speaks: step.speaks, ingress, egress });
    }
    Ok((instances, onward.unwrap_or(current)))
}

/// The ports of one instance that traffic reaches on network `current`, and the network that it
/// goes on by; `outer` is the endpoints' network.
fn pass(
    direction: Direction,
    ports: &[PortAt],
    current: NetworkId,
    outer: NetworkId,
) -> Result<(PortId, PortId, NetworkId), &'static str> {
    let is_pair_of_one = is_made_pair(ports) && !is_crossing(ports);
    let is_end = |port: &PortAt, is_out| !is_pair_of_one || port.is_out == is_out;
    let on = |network: NetworkId| {
        ports.iter().find(|port| port.network_id == network && is_end(port, false))
    };
    let ingress = on(current).ok_or(
        "it has no port on the network that the traffic arrives by; attach it there, or change \
         the direction of the function before it",
    )?;
    let egress = match direction {
        // It leads on by its other port; backward that is the one that packets come by.
        Direction::Same if is_crossing(ports) => {
            ports.iter().find(|port| port.network_id != current).unwrap_or(ingress)
        }
        Direction::Same if is_pair_of_one => {
            ports.iter().find(|port| is_end(port, true)).unwrap_or(ingress)
        }
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
    Ok((ingress.id, egress.id, egress.network_id))
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
            is_made: false,
            is_out: false,
        }
    }

    fn two_networks(name: &str) -> Result<Vec<PortAt>, DeployError> {
        match name {
            "S" => Ok(vec![port(8, 1)]),
            "D" => Ok(vec![port(9, 1)]),
            "lonely" => Ok(vec![port(7, 2)]),
            "outer" => Ok(vec![port(6, 1)]),
            "inside" => Ok(vec![port(9, 2)]),
            "nat" => {
                let bundled = |network| PortAt { is_made: true, ..port(4, network) };
                Ok(vec![bundled(1), bundled(2)])
            }
            // Of one network, the port by which packets leave first.
            "process" => {
                let way = |port: PortAt, is_out| PortAt {
                    is_made: true,
                    is_out,
                    network_id: self::port(5, 1).network_id,
                    ..port
                };
                Ok(vec![way(port(5, 3), true), way(port(5, 1), false)])
            }
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
        match route(&document(steps), &two_networks) {
            Ok(route) => {
                Ok(route.functions.iter().flatten().map(|p| (p.ingress, p.egress)).collect())
            }
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
    fn a_bundled_function_of_two_networks_leads_from_the_one_to_a_destination_on_the_other() {
        let steps = r#"[{"name": "v1", "direction": "same"}, {"name": "nat", "direction": "same"},
                        {"name": "v2", "direction": "same"}]"#;
        let to = |destination: &str| {
            let document = ChainDocument { destination: destination.into(), ..document(steps) };
            route(&document, &two_networks)
        };
        let route = to("inside").unwrap();
        assert_eq!((route.source, route.destination), (port(8, 1).id, Some(port(9, 2).id)));
        let ends = |at: usize| (route.functions[at][0].ingress, route.functions[at][0].egress);
        assert_eq!(ends(0), (port(1, 1).id, port(1, 1).id));
        assert_eq!(ends(1), (port(4, 1).id, port(4, 2).id));
        assert_eq!(ends(2), (port(2, 2).id, port(2, 2).id));
        let told = to("outer").unwrap_err().to_string();
        assert!(told.contains("'outer' has no port on the network into which"), "{told}");
    }

    #[test]
    fn a_process_of_one_network_is_entered_by_one_port_and_left_by_the_other() {
        let steps =
            r#"[{"name": "process", "direction": "same"}, {"name": "outer", "direction": "same"}]"#;
        let expected = vec![(port(5, 1).id, port(5, 3).id), (port(6, 1).id, port(6, 1).id)];
        assert_eq!(ports(steps), Ok(expected));
    }

    #[test]
    fn a_tap_leaves_the_traffic_where_it_was() {
        let steps = r#"[{"name": "v1", "direction": "tap"}, {"name": "v2", "direction": "same"}]"#;
        let route = route(&document(steps), &two_networks).unwrap();
        assert_eq!((route.source, route.destination), (port(8, 1).id, Some(port(9, 1).id)));
        assert_eq!(route.functions[1][0].ingress, port(2, 1).id);
    }

    #[test]
    fn the_instances_of_a_function_share_its_place_and_must_agree_on_the_way_on() {
        let steps = r#"[{"name": "web", "direction": "in", "instances":
                            [{"name": "v1", "weight": 3}, {"name": "v2"}]},
                        {"name": "v3", "direction": "out"}]"#;
        let route = route(&document(steps), &two_networks).unwrap();
        let found: Vec<Vec<(&str, u32)>> = route
            .functions
            .iter()
            .map(|instances| instances.iter().map(|p| (p.name.as_str(), p.weight)).collect())
            .collect();
        assert_eq!(found, [vec![("v1", 3), ("v2", 1)], vec![("v3", 1)]]);
        assert_eq!(route.functions[0][1].egress, port(2, 2).id);
        for (instances, expected) in [
            (
                r#"[{"name": "v1"}, {"name": "v1"}]"#,
                "function 1 ('web', direction 'in'), instance 'v1': it is named twice",
            ),
            (r#"[{"name": "v1"}, {"name": "outer"}]"#, "direction 'in'), instance 'outer': "),
        ] {
            let steps =
                format!(r#"[{{"name": "web", "direction": "in", "instances": {instances}}}]"#);
            let problem = ports(&steps).unwrap_err();
            assert!(problem.contains(expected), "{problem}");
        }
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

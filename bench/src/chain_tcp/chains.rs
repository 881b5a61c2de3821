//! The chains that are measured, and the way of each over four hosts and two switches: the same for
//! ours and for every peer.

/// Host of each function, as in `labs/openstack-testbed.yaml`.
const PLACES: [(&str, u8); 6] = [("v1", 1), ("v2", 2), ("v3", 2), ("v4", 3), ("v5", 1), ("v6", 4)];
/// Hosts of the two ends.
const SOURCE_HOST: u8 = 1;
const DESTINATION_HOST: u8 = 4;
/// Hosts up to this one are at the first switch, the others at the second.
const FIRST_SWITCH_LAST: u8 = 2;

/// A chain of `labs/bench-chain-tcp.yaml`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) name: &'static str,
    pub(super) functions: &'static [&'static str],
    /// First of the ten destination ports that lead into it.
    pub(super) port: u16,
}

/// By length, none to six functions: figure 7 of the study.
pub(super) const LENGTHS: [Chain; 7] = [
    Chain { name: "c0", functions: &[], port: 5_200 },
    Chain { name: "c1", functions: &["v1"], port: 5_210 },
    Chain { name: "c2", functions: &["v1", "v6"], port: 5_220 },
    Chain { name: "c3", functions: &["v1", "v2", "v6"], port: 5_230 },
    Chain { name: "c4", functions: &["v1", "v2", "v4", "v6"], port: 5_240 },
    Chain { name: "c5", functions: &["v1", "v2", "v4", "v3", "v6"], port: 5_250 },
    Chain { name: "c6", functions: &["v1", "v2", "v4", "v3", "v5", "v6"], port: 5_260 },
];
/// One function beside the destination, and on a host of neither; beside the source it is `c1`.
pub(super) const BESIDE_DESTINATION: Chain =
    Chain { name: "destination", functions: &["v6"], port: 5_270 };
pub(super) const ELSEWHERE: Chain = Chain { name: "elsewhere", functions: &["v2"], port: 5_280 };

/// Where a packet is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Source,
    Destination,
    Host(u8),
    Switch(u8),
    Function(&'static str),
}

impl Node {
    /// Its name in a namespace.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Source => "S".into(),
            Self::Destination => "D".into(),
            Self::Host(number) => format!("h{number}"),
            Self::Switch(number) => format!("s{number}"),
            Self::Function(name) => name.into(),
        }
    }

    /// Does it end or serve a flow, instead of passing it on?
    pub(super) fn is_stop(self) -> bool {
        matches!(self, Self::Source | Self::Destination | Self::Function(_))
    }
}

/// The way of a chain through hosts and stops, without the switches.
pub(super) fn way(chain: &Chain) -> Vec<Node> {
    let mut way = vec![Node::Source, Node::Host(SOURCE_HOST)];
    let mut at = SOURCE_HOST;
    let mut go = |way: &mut Vec<Node>, host: u8| {
        if host != at {
            way.push(Node::Host(host));
            at = host;
        }
    };
    for function in chain.functions {
        let place = PLACES.iter().find(|(name, _)| name == function);
        let host = place.map_or(SOURCE_HOST, |(_, host)| *host);
        go(&mut way, host);
        way.extend([Node::Function(function), Node::Host(host)]);
    }
    go(&mut way, DESTINATION_HOST);
    way.push(Node::Destination);
    way
}

/// The way of the answers: straight.
pub(super) fn way_back() -> Vec<Node> {
    let hosts = [Node::Host(DESTINATION_HOST), Node::Host(SOURCE_HOST)];
    [&[Node::Destination][..], &hosts, &[Node::Source]].concat()
}

/// The same way with the switches between hosts.
pub(super) fn with_switches(way: &[Node]) -> Vec<Node> {
    let mut all: Vec<Node> = Vec::new();
    for node in way {
        if let (Some(Node::Host(from)), Node::Host(to)) = (all.last().copied(), *node) {
            let (first, last) = (switch_of(from), switch_of(to));
            all.push(Node::Switch(first));
            if first != last {
                all.push(Node::Switch(last));
            }
        }
        all.push(*node);
    }
    all
}

/// The switch that a host is at.
pub(super) fn switch_of(host: u8) -> u8 {
    if host <= FIRST_SWITCH_LAST { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_of_a_chain_goes_by_every_host_and_switch_between_its_functions() {
        let text =
            |nodes: Vec<Node>| nodes.into_iter().map(Node::name).collect::<Vec<_>>().join(" ");
        assert_eq!(text(with_switches(&way(&LENGTHS[0]))), "S h1 s1 s2 h4 D");
        assert_eq!(text(with_switches(&way(&ELSEWHERE))), "S h1 s1 h2 v2 h2 s1 s2 h4 D");
        assert_eq!(
            text(way(&LENGTHS[6])),
            "S h1 v1 h1 h2 v2 h2 h3 v4 h3 h2 v3 h2 h1 v5 h1 h4 v6 h4 D"
        );
        assert_eq!(text(with_switches(&way_back())), "D h4 s2 s1 h1 S");
    }

    #[test]
    fn the_lab_has_each_chain_at_its_ports() {
        let text = std::fs::read_to_string(crate::folder().join("../labs/bench-chain-tcp.yaml"));
        let text = text.unwrap();
        for chain in LENGTHS.iter().skip(1).chain([&BESIDE_DESTINATION, &ELSEWHERE]) {
            let (_, rest) = text.split_once(&format!("port_range_min: {},", chain.port)).unwrap();
            let steps = rest.split("- name: ").next().unwrap();
            let names: Vec<&str> =
                steps.split("{name: ").skip(1).filter_map(|step| step.split(',').next()).collect();
            assert_eq!(names, chain.functions, "{}", chain.name);
        }
    }
}

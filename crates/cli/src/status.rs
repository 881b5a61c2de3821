//! `catena status`: how everything stands, in one look.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::kernel_path;
use crate::output::say;
use catena_model::Absences;
use catena_model::DropReason;
use catena_model::account::Account;
use catena_model::status::{ChainState, ChainSummary, NodeReport, NodeStatus};
use serde_json::Value;
use std::collections::BTreeMap;

/// Ports without an interface that are told one by one.
const UNBOUND_PORTS_MAX: usize = 8;

pub(crate) fn run(connection: &Connection) -> Result<(), Failure> {
    let client = connection.client()?;
    let seen = Seen { nodes: client.nodes()?, chains: client.chains()?, status: client.status()? };
    say!("controller   ok    {}", client.base());
    for line in seen.well_being() {
        say!("{line}");
    }
    print_data_planes(&seen.nodes);
    print_kernel_paths(&seen.nodes);
    for line in seen.chain_lines().into_iter().chain(seen.port_lines()) {
        say!("{line}");
    }
    print_account(&seen.nodes);
    if let Some(next) = seen.next() {
        say!("next         {next}");
    }
    Ok(())
}

/// What the controller told.
struct Seen {
    nodes: Vec<NodeReport>,
    chains: Vec<ChainSummary>,
    status: Value,
}

impl Seen {
    /// The nodes and their programs, in as few words as the case allows. That every program is
    /// acknowledged is said where nothing speaks against it.
    fn well_being(&self) -> Vec<String> {
        let count = self.nodes.len();
        let connected = self.nodes.iter().filter(|node| node.status.is_connected).count();
        let away = self.nodes.iter().filter(|node| !node.status.is_connected);
        let away: Vec<&str> = away.map(|node| node.status.node.as_str()).collect();
        let mut said = match away.as_slice() {
            _ if count == 0 => "   no node has ever connected".to_owned(),
            [] => String::new(),
            away => format!("   away: {}", away.join(", ")),
        };
        let doubts: Vec<String> =
            self.nodes.iter().filter_map(|node| doubt(&node.status)).collect();
        let are_chains_well = self.chains.iter().all(is_well);
        let are_ports_up = self.nodes.iter().all(|node| node.status.unbound.is_empty());
        if count > 0 && doubts.is_empty() {
            said.push_str(match (are_chains_well, are_ports_up) {
                (true, true) => "   every program acknowledged",
                (false, _) => "   at their programs, but not every chain is well",
                (true, false) => "   at their programs, but not every port is up",
            });
        }
        let mut lines = vec![format!("nodes        {connected}/{count}{said}")];
        lines.extend(doubts.into_iter().map(|doubt| format!("             {doubt}")));
        if let Some(trouble) = self.status["trouble"].as_str() {
            lines.push(format!("trouble      nothing is planned: {trouble}"));
        }
        let warnings = self.status["warnings"].as_array().into_iter().flatten();
        let warnings = warnings.filter_map(Value::as_str);
        lines.extend(warnings.map(|warning| format!("warning      {warning}")));
        lines
    }

    fn chain_lines(&self) -> Vec<String> {
        let is_active = |chain: &&ChainSummary| chain.status.state == ChainState::Active;
        let active = self.chains.iter().filter(is_active).count();
        let mut lines = vec![format!("chains       {active} of {} active", self.chains.len())];
        for ChainSummary { name, status } in self.chains.iter().filter(|chain| !is_well(chain)) {
            lines.push(format!("             {name}: {}, {}", status.state.name(), status.reason));
        }
        for gone in self.status["withdrawing"].as_array().into_iter().flatten() {
            let nodes = gone["nodes"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let nodes: Vec<&str> = nodes.collect();
            let chain = gone["chain"].as_str().unwrap_or_default();
            let nodes = nodes.join(", ");
            lines.push(format!("             {chain}: removed, but still in force on {nodes}"));
        }
        lines
    }

    /// The ports without an interface, or whose packets do not come up to the engine, and why.
    fn port_lines(&self) -> Vec<String> {
        let nodes = self.nodes.iter().filter(|node| node.status.is_connected);
        let unbound =
            nodes.flat_map(|node| node.status.unbound.iter().map(move |port| (node, port)));
        let mut lines: Vec<String> = unbound
            .map(|(node, port)| {
                let (node, name) = (&node.status.node, port.words());
                format!("{node}: port {name} is DOWN: {}", port.reason)
            })
            .collect();
        let more = lines.len().saturating_sub(UNBOUND_PORTS_MAX);
        lines.truncate(UNBOUND_PORTS_MAX);
        if more > 0 {
            lines.push(format!("and {more} more: catena node show NODE"));
        }
        let heads = std::iter::once("ports        ").chain(std::iter::repeat("             "));
        heads.zip(lines).map(|(head, line)| format!("{head}{line}")).collect()
    }

    /// The command that tells more about what is not well.
    fn next(&self) -> Option<String> {
        let unwell = self.chains.iter().find(|chain| !is_well(chain));
        let unwell = unwell.map(|chain| format!("catena chain show {}", self.name_of(chain)));
        unwell
            .or_else(|| {
                let doubtful = self.nodes.iter().any(|node| doubt(&node.status).is_some());
                doubtful.then(|| "catena node list".into())
            })
            .or_else(|| {
                let node = self.nodes.iter().find(|node| !node.status.unbound.is_empty())?;
                Some(format!("catena node show {}", node.status.node))
            })
    }

    /// What commands find a chain by: its name says too little where several projects use it.
    fn name_of(&self, chain: &ChainSummary) -> String {
        let namesakes = self.chains.iter().filter(|other| other.name == chain.name);
        match namesakes.count() {
            1 if !chain.name.is_empty() => chain.name.clone(),
            _ => chain.status.chain.to_string(),
        }
    }
}

/// An active chain may have something to say, too: a node on its way is away, a function gives
/// nothing back.
fn is_well(chain: &ChainSummary) -> bool {
    chain.status.state == ChainState::Active && chain.status.reason.is_empty()
}

/// Why it is not known that a node does as it should.
fn doubt(status: &NodeStatus) -> Option<String> {
    let NodeStatus { node, acknowledged, wanted, .. } = status;
    if status.is_contested {
        return Some(format!(
            "{node}: two agents of this name take the session from each other; what is told of it \
             is of the one or the other. Stop one, or enroll it under a name of its own"
        ));
    }
    match (status.is_connected, acknowledged < wanted) {
        (true, false) => None,
        (true, true) => Some(format!("{node}: program {acknowledged} of {wanted}")),
        (false, is_behind) => {
            let of = if is_behind { format!(" of {wanted}") } else { String::new() };
            Some(format!("{node}: program {acknowledged}{of} when it was heard last"))
        }
    }
}

/// What went wrong with data planes, if anything did.
fn print_data_planes(nodes: &[NodeReport]) {
    for counters in nodes.iter().filter_map(|node| node.counters.as_ref()) {
        let (node, life) = (&counters.node, &counters.dataplane);
        for line in absences(&life.absences).iter().chain(&life.troubles) {
            say!("data plane   {node}: {line}");
        }
    }
}

fn print_kernel_paths(nodes: &[NodeReport]) {
    let counters = nodes.iter().filter_map(|node| node.counters.as_ref());
    for line in counters.filter_map(kernel_path::in_one_line) {
        say!("kernel path  {line}");
    }
}

fn absences(known: &Absences) -> Option<String> {
    let Absences { seen, unseen, last_ms, total_ms, missed_at_ports, missed_at_tunnels } = known;
    let times = |n: &u64| if *n == 1 { "once".to_owned() } else { format!("{n} times") };
    let mut said = Vec::new();
    if *seen > 0 {
        said.push(format!(
            "died {}, away {last_ms} ms the last time, {total_ms} ms in all; missed meanwhile: \
             {missed_at_ports} packets at ports, {missed_at_tunnels} at tunnels",
            times(seen)
        ));
    }
    if *unseen > 0 {
        said.push(format!("had died {} before its agent came; nobody counted", times(unseen)));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

fn print_account(nodes: &[NodeReport]) {
    let mut total = Account::default();
    let mut ring_full = 0_u64;
    for counters in nodes.iter().filter_map(|node| node.counters.as_ref()) {
        total.merge(&counters.total());
        ring_full = counters.ring_full().saturating_add(ring_full);
    }
    let created = total.created.values().copied().fold(0, u64::saturating_add);
    say!(
        "packets      received {} + created {created} = forwarded {} + dropped {} + consumed {} + held {}      unaccounted {}",
        total.received.packets,
        total.forwarded.packets,
        total.dropped_total(),
        total.consumed,
        total.held,
        total.unaccounted(),
    );
    let silent = nodes.iter().filter(|node| node.counters.is_none());
    let silent: Vec<&str> = silent.map(|node| node.status.node.as_str()).collect();
    if !silent.is_empty() {
        say!("             without {}: no counters came", silent.join(", "));
    }
    say!("drops        {}", drops(&total.dropped));
    say!("ring full    {ring_full}");
}

fn drops(dropped: &BTreeMap<DropReason, u64>) -> String {
    let mut named: Vec<(u64, DropReason)> =
        dropped.iter().filter(|(_, n)| **n > 0).map(|(reason, n)| (*n, *reason)).collect();
    named.sort_by(|a, b| b.cmp(a));
    let named: Vec<String> = named.iter().map(|(n, reason)| format!("{reason} {n}")).collect();
    if named.is_empty() { "none".into() } else { named.join(" · ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::{BlueprintNumber, ChainId, InstanceId, PathId, PortId};
    use catena_model::status::{ChainStatus, UnboundPort};
    use catena_plan::{Direction, Silent};
    use serde_json::json;

    const ALL_IS_WELL: &str = "every program acknowledged";

    fn node(name: &str, is_connected: bool, acknowledged: u64) -> NodeReport {
        let status = NodeStatus {
            node: name.parse().unwrap(),
            is_connected,
            role: catena_model::topology::NodeRole::Host,
            is_edge: false,
            is_contested: false,
            wanted: BlueprintNumber(9),
            acknowledged: BlueprintNumber(acknowledged),
            bound: Vec::new(),
            unbound: Vec::new(),
            identities: Vec::new(),
            capacity: None,
            taken: Default::default(),
        };
        NodeReport { status, counters: None }
    }

    fn chain(state: ChainState, reason: &str) -> ChainSummary {
        let chain = ChainId(uuid::Uuid::from_u128(1));
        let status = ChainStatus { chain, state, reason: reason.into(), path: Some(PathId(4)) };
        ChainSummary { name: "web".into(), status }
    }

    /// What the controller says of a symmetric chain whose way back is dead.
    fn no_way_back() -> String {
        let silent = Silent {
            function: "v7".into(),
            id: InstanceId::MIN,
            instance: "v7a".into(),
            direction: Some(Direction::Reverse),
            since: "2026-11-25T09:00:00Z",
        };
        silent.words(ToString::to_string)
    }

    fn seen(nodes: Vec<NodeReport>, chains: Vec<ChainSummary>) -> Seen {
        Seen { nodes, chains, status: json!({"withdrawing": [], "trouble": null}) }
    }

    fn said(seen: &Seen) -> String {
        [seen.well_being(), seen.chain_lines()].concat().join("\n")
    }

    #[test]
    fn all_is_well_is_said_where_nothing_speaks_against_it() {
        let active = || vec![chain(ChainState::Active, "")];
        let well = seen(vec![node("n1", true, 9), node("n2", true, 9)], active());
        assert_eq!(well.well_being(), [format!("nodes        2/2   {ALL_IS_WELL}")]);
        assert_eq!(well.next(), None);

        let mut contested = node("n2", true, 9);
        contested.status.is_contested = true;
        let way_back = no_way_back();
        let cases = [
            (seen(Vec::new(), active()), "no node has ever connected", None),
            // It had acknowledged the newest program before it went.
            (seen(vec![node("n1", false, 9)], active()), "away: n1", Some("catena node list")),
            (
                seen(vec![node("n1", false, 7)], active()),
                "n1: program 7 of 9 when it was heard last",
                Some("catena node list"),
            ),
            (
                seen(vec![node("n1", true, 8)], active()),
                "n1: program 8 of 9",
                Some("catena node list"),
            ),
            (
                seen(vec![node("n1", true, 9), contested], active()),
                "n2: two agents of this name",
                Some("catena node list"),
            ),
            (
                seen(vec![node("n1", true, 9)], vec![chain(ChainState::Active, &way_back)]),
                "web: active, instance 'v7a' of function 'v7' gives nothing back of what it is \
                 given on the reverse path since 2026-",
                Some("catena chain show web"),
            ),
            (
                seen(vec![node("n1", true, 9)], vec![chain(ChainState::Degraded, "dead")]),
                "web: degraded, dead",
                Some("catena chain show web"),
            ),
        ];
        for (seen, words, next) in cases {
            let said = said(&seen);
            assert!(said.contains(words), "{words}: {said}");
            assert!(!said.contains(ALL_IS_WELL), "{words}: {said}");
            assert_eq!(seen.next().as_deref(), next, "{words}");
        }
    }

    #[test]
    fn of_chains_with_one_name_the_next_command_names_the_id() {
        let mut other = chain(ChainState::Degraded, "dead");
        other.status.chain = ChainId(uuid::Uuid::from_u128(2));
        let id = other.status.chain;
        let seen = seen(vec![node("n1", true, 9)], vec![chain(ChainState::Active, ""), other]);
        assert_eq!(seen.next(), Some(format!("catena chain show {id}")));
    }

    #[test]
    fn ports_that_could_not_be_attached_are_told_with_the_reason() {
        let mut lacking = node("n1", true, 9);
        let port = |number: u128| UnboundPort {
            port: PortId(uuid::Uuid::from_u128(number)),
            name: format!("p{number}"),
            reason: "'lo' is no Ethernet interface".into(),
        };
        lacking.status.unbound = (1..=10).map(port).collect();
        let seen = seen(vec![lacking], Vec::new());
        let lines = seen.port_lines();
        assert_eq!(lines[0], "ports        n1: port 'p1' is DOWN: 'lo' is no Ethernet interface");
        assert_eq!(lines.last().unwrap(), "             and 2 more: catena node show NODE");
        assert_eq!(lines.len(), UNBOUND_PORTS_MAX + 1);
        assert_eq!(seen.next().as_deref(), Some("catena node show n1"));
        assert!(!said(&seen).contains(ALL_IS_WELL), "{}", said(&seen));
    }

    #[test]
    fn what_is_removed_but_in_force_and_what_stops_the_planner_is_told() {
        let mut seen = seen(vec![node("n1", true, 9)], Vec::new());
        seen.status = json!({
            "withdrawing": [{"chain": "old", "nodes": ["n2", "n3"]}], "trouble": "disk full",
        });
        let said = said(&seen);
        assert!(said.contains("old: removed, but still in force on n2, n3"), "{said}");
        assert!(said.contains("nothing is planned: disk full"), "{said}");
        assert!(!said.contains("warning"), "{said}");
    }

    #[test]
    fn what_is_not_as_it_should_be_is_told_in_a_line_each() {
        let mut seen = seen(vec![node("n1", true, 9)], Vec::new());
        seen.status = json!({"warnings": ["one", "another"]});
        let said = said(&seen);
        assert!(
            said.contains("warning      one") && said.contains("warning      another"),
            "{said}"
        );
    }
}

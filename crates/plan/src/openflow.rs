//! A node's classifier and its edge of source routes as rules of OpenFlow 1.3, made from the program that the node
//! runs. Knows which of it rules can say; refuses to know the bits of headers, which are written by `wire`.
//!
//! A rule takes a packet where the node's own classifier does, and writes the same header. What cannot be said is
//! told by name, and its packets go to a table of their own: none gets past the functions of its chain.

mod conditions;
mod ends;
mod headers;
mod places;

use crate::blueprint::Blueprint;
use crate::inventory::Inventory;
use catena_model::NodeName;
use catena_model::entry::{Entries, Program};
use catena_model::id::PathId;
use catena_model::openflow::{
    OpenFlowRule, OpenFlowRules, SwitchPort, TABLE_FIRST, TABLE_SOURCE, Unsaid,
};
use catena_model::program::{ExitEntry, PathEntry, PortEntry};
use catena_model::resource::{Attachment, InterfaceRef, IpFamily};
use catena_model::topology::NodeRole;
use std::collections::{BTreeMap, BTreeSet};

/// What packets of each path are, by the rules that send into it.
pub type PathFamilies = BTreeMap<PathId, BTreeSet<IpFamily>>;

/// What a node does, in OpenFlow; none: there is no such node, or nothing was planned for it yet.
#[must_use]
pub fn node_openflow(
    blueprint: &Blueprint,
    inventory: &Inventory,
    node: &NodeName,
) -> Option<OpenFlowRules> {
    let program = blueprint.programs.get(node)?;
    let role = inventory.role(node).unwrap_or_default();
    let all = blueprint.programs.iter().map(|(_, program)| &program.entries);
    Some(openflow((node, role), program, &path_families(all)))
}

/// What packets of paths are, by the programs of all nodes.
#[must_use]
pub fn path_families<'e>(programs: impl Iterator<Item = &'e Entries>) -> PathFamilies {
    let mut found = PathFamilies::new();
    for rule in programs.flat_map(|entries| entries.rules.values()) {
        found.entry(rule.path).or_default().insert(rule.matches.family);
    }
    found
}

/// What a node with this program does, in OpenFlow. `families`: as [`path_families`] finds it, for the edge where a
/// header ends, since no rule sees what is under labels.
#[must_use]
pub fn openflow(
    (node, role): (&NodeName, NodeRole),
    program: &Program,
    families: &PathFamilies,
) -> OpenFlowRules {
    let mut export = Export {
        node,
        entries: &program.entries,
        families,
        rules: Vec::new(),
        unsaid: BTreeSet::new(),
    };
    export.places();
    export.classifier();
    export.ends();
    if role == NodeRole::Switch && export.links().next().is_some() {
        export.unsaid(
            "frames that only pass (transit)",
            "labels have no mask, so no rule finds the next port where the path is not known, and \
             the classic of two profiles cannot be told from the other",
        );
    }
    export.turn_sources();
    let Export { mut rules, unsaid, .. } = export;
    rules.sort_by_key(|rule| (rule.table, std::cmp::Reverse(rule.priority)));
    OpenFlowRules {
        node: node.clone(),
        number: program.number,
        rules,
        unsaid: unsaid.into_iter().collect(),
    }
}

/// Rules in the making.
struct Export<'p> {
    node: &'p NodeName,
    entries: &'p Entries,
    families: &'p PathFamilies,
    rules: Vec<OpenFlowRule>,
    unsaid: BTreeSet<Unsaid>,
}

impl<'p> Export<'p> {
    fn unsaid(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.unsaid.insert(Unsaid { what: what.into(), why: why.into() });
    }

    /// The links of the node.
    fn links(&self) -> impl Iterator<Item = SwitchPort> + use<'p> {
        let interfaces = self.entries.exits.values().filter_map(|exit| exit.link());
        interfaces
            .map(|interface| SwitchPort { name: interface.into(), at_switch: interface.into() })
    }

    /// What a port of the node is at a switch: the end that the node has is known only where it is the one that was
    /// declared. Two ports may have one name, of different people, and so may a port and a link: then it is told by its
    /// identity.
    fn switch_port(&self, port: &PortEntry) -> SwitchPort {
        let links = self.entries.exits.values().filter_map(|exit| exit.link());
        let ports = self.entries.ports.values().map(|port| port.name.as_str());
        let is_its_alone = ports.chain(links).filter(|name| *name == port.name).count() == 1;
        let name = if is_its_alone && !port.name.is_empty() {
            port.name.clone()
        } else {
            port.id.to_string()
        };
        let at_switch = match &port.attachment {
            Attachment::Interface(InterfaceRef { namespace: None, interface }) => interface.clone(),
            Attachment::Interface(_) | Attachment::Inside => name.clone(),
        };
        SwitchPort { name, at_switch }
    }

    /// The words for a path.
    fn path_words(&self, path: &PathEntry) -> String {
        let chain = self.entries.chains.get(&path.chain);
        let chain = chain.map_or_else(|| path.chain.to_string(), |chain| chain.name.clone());
        format!("path {} of chain '{chain}'", path.id)
    }

    /// Whatever goes to a link or comes from one goes through here last.
    fn turn_sources(&mut self) {
        let is_needed = self.rules.iter().any(|rule| rule.then == Some(TABLE_SOURCE));
        let local = ["00:00:00:00:00:00", "02:00:00:00:00:00"];
        for (is, becomes) in [(local[0], local[1]), (local[1], local[0])] {
            if is_needed {
                self.rules.push(OpenFlowRule {
                    purpose: "on links no source is anybody's destination: its local bit is turned"
                        .into(),
                    table: TABLE_SOURCE,
                    priority: 1,
                    from: None,
                    matches: vec![format!("dl_src={is}/{}", local[1])],
                    actions: vec![format!("set_field:{becomes}/{}->eth_src", local[1])],
                    to: None,
                    then: None,
                });
            }
        }
    }
}

/// The interface of a link.
fn link_port(exit: &ExitEntry) -> Option<SwitchPort> {
    exit.link().map(|interface| SwitchPort { name: interface.into(), at_switch: interface.into() })
}

/// A rule of the first table.
fn first(purpose: &str, priority: u16, from: &SwitchPort, matches: Vec<String>) -> OpenFlowRule {
    OpenFlowRule {
        purpose: purpose.to_owned(),
        table: TABLE_FIRST,
        priority,
        from: Some(from.clone()),
        matches,
        actions: Vec::new(),
        to: None,
        then: None,
    }
}

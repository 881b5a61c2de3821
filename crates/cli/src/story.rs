//! Puts the events of a change together into one line. Knows which events belong together; refuses
//! to know how long a pause is.

use crate::receipt;
use crate::watch::{sentence, state, withdrawing};
use catena_model::event::{Declaration, EventLine};
use catena_model::status::{ChainState, ChainStatus, Receipt};
use catena_model::{Event, NodeName};
use std::collections::{BTreeMap, BTreeSet};

/// Resources that a line names; of more it tells how many.
const NAMES_MAX: usize = 6;

/// What has been heard and is not told yet.
#[derive(Default)]
pub(crate) struct Story {
    /// Each node as it was told of last.
    nodes: BTreeMap<NodeName, (bool, Option<String>)>,
    declared: Declared,
    /// By name.
    chains: BTreeMap<String, Heard>,
}

/// Resources that were made, changed or removed.
#[derive(Default)]
struct Declared {
    resources: Vec<String>,
    first: u64,
    last: u64,
}

/// What was heard of a chain.
#[derive(Default)]
struct Heard {
    status: Option<ChainStatus>,
    /// No longer declared; in force on these nodes.
    withdrawing: Option<BTreeSet<NodeName>>,
    is_gone: bool,
    receipt: Option<Receipt>,
}

impl Heard {
    /// Is the change over, with all that is told of it?
    fn is_over(&self) -> bool {
        let is_active =
            self.status.as_ref().is_some_and(|status| status.state == ChainState::Active);
        self.receipt.is_some() && (self.is_gone || is_active)
    }

    fn text(&self, name: &str) -> String {
        let now = match (&self.withdrawing, &self.status) {
            _ if self.is_gone => Some("gone".to_owned()),
            (Some(nodes), _) => Some(withdrawing(nodes)),
            (None, Some(status)) => Some(state(status)),
            (None, None) => None,
        };
        let receipt = self.receipt.as_ref().map(receipt::line);
        let parts: Vec<String> = now.into_iter().chain(receipt).collect();
        format!("chain {name}   {}", parts.join(" · "))
    }
}

impl Declared {
    fn take(&mut self) -> Option<String> {
        let Self { mut resources, first, last } = std::mem::take(self);
        let more = resources.len().saturating_sub(NAMES_MAX);
        resources.truncate(NAMES_MAX);
        let revisions = match first == last {
            true => format!("revision {first}"),
            false => format!("revisions {first} to {last}"),
        };
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        (!resources.is_empty()).then(|| format!("{revisions}: {}{more}", resources.join(", ")))
    }
}

impl Story {
    /// Takes an event; answers what is to be told at once.
    pub(crate) fn hear(&mut self, line: &EventLine) -> Vec<String> {
        match &line.event {
            Event::Declared(declaration) => self.declare(line.revision, declaration),
            Event::Node { node, is_connected, refusal, .. } => {
                let state = (*is_connected, refusal.clone());
                // That a node took the next program belongs to a change.
                let is_known = self.nodes.insert(node.clone(), state.clone()) == Some(state);
                return if is_known { Vec::new() } else { vec![sentence(line)] };
            }
            Event::Chain { name, status } => {
                let heard = self.chains.entry(name.clone()).or_default();
                heard.status = Some(status.clone());
                (heard.withdrawing, heard.is_gone) = (None, false);
            }
            Event::ChainWithdrawing { name, nodes, .. } => {
                let heard = self.chains.entry(name.clone()).or_default();
                (heard.status, heard.withdrawing) = (None, Some(nodes.clone()));
            }
            Event::ChainGone { name, .. } => {
                self.chains.entry(name.clone()).or_default().is_gone = true;
            }
            Event::Changed { receipt } => {
                let heard = self.chains.entry(receipt.name.clone()).or_default();
                heard.receipt = Some(receipt.clone());
            }
            Event::Trouble { .. } => return vec![sentence(line)],
        }
        self.tell(Heard::is_over)
    }

    /// Nothing more has come for a while: what is not over is told as it is.
    pub(crate) fn pause(&mut self) -> Vec<String> {
        let mut said = self.tell(|_| true);
        said.extend(self.declared.take());
        said
    }

    fn declare(&mut self, revision: u64, declaration: &Declaration) {
        let Declaration { is_removed, kind, id, name } = declaration;
        let name = name.as_ref().unwrap_or(id);
        let gone = if *is_removed { " removed" } else { "" };
        let resource = format!("{kind} {name}{gone}");
        let declared = &mut self.declared;
        if declared.resources.is_empty() {
            declared.first = revision;
        }
        declared.last = revision;
        if !declared.resources.contains(&resource) {
            declared.resources.push(resource);
        }
    }

    fn tell(&mut self, is_told: impl Fn(&Heard) -> bool) -> Vec<String> {
        let mut said = Vec::new();
        self.chains.retain(|name, heard| {
            let is_told = is_told(heard);
            if is_told {
                let declared = self.declared.take().map(|what| format!(" · {what}"));
                said.push(heard.text(name) + &declared.unwrap_or_default());
            }
            !is_told
        });
        said
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::{BlueprintNumber, ChainId, PathId};

    const WEB: ChainId = ChainId(uuid::Uuid::from_u128(1));

    fn heard(story: &mut Story, revision: u64, event: Event) -> Vec<String> {
        story.hear(&EventLine { revision, event })
    }

    fn node(acknowledged: u64, is_connected: bool) -> Event {
        Event::Node {
            node: "host1".parse().unwrap(),
            is_connected,
            acknowledged: BlueprintNumber(acknowledged),
            refusal: None,
        }
    }

    fn chain(state: ChainState, reason: &str) -> Event {
        let status =
            ChainStatus { chain: WEB, state, reason: reason.into(), path: Some(PathId(42)) };
        Event::Chain { name: "web".into(), status }
    }

    fn declared(kind: &str, name: &str, is_removed: bool) -> Event {
        Event::Declared(Declaration {
            is_removed,
            kind: kind.into(),
            id: "7".into(),
            name: Some(name.into()),
        })
    }

    fn changed(paths: Vec<PathId>) -> Event {
        let blueprint = BlueprintNumber(9);
        let receipt = Receipt {
            chain: WEB,
            name: "web".into(),
            blueprint,
            paths,
            drained: vec![],
            took_ms: 31,
        };
        Event::Changed { receipt }
    }

    #[test]
    fn a_change_is_one_line_when_it_is_over() {
        let mut story = Story::default();
        assert_eq!(heard(&mut story, 1, node(7, true)), ["node host1   connected, program 7"]);
        for (revision, event) in [
            (2, declared("rule", "http", false)),
            (3, declared("chain", "web", false)),
            (3, chain(ChainState::Building, "node 'host1' has not acknowledged its program yet")),
            (3, node(8, true)),
            (3, node(9, true)),
        ] {
            assert_eq!(heard(&mut story, revision, event), [""; 0]);
        }
        // The receipt and the state of a chain come in any order.
        assert_eq!(heard(&mut story, 3, changed(vec![PathId(42)])), [""; 0]);
        assert_eq!(
            heard(&mut story, 3, chain(ChainState::Active, "")),
            [
                "chain web   active, path 42 · receipt 1 path in use · in flight 0 · lost 0 · nothing \
              to drain · 31 ms · revisions 2 to 3: rule http, chain web"
            ]
        );
        assert_eq!(story.pause(), [""; 0]);

        heard(&mut story, 4, declared("chain", "web", true));
        let nodes: BTreeSet<NodeName> = ["host1".parse().unwrap()].into();
        let on_its_way =
            || Event::ChainWithdrawing { chain: WEB, name: "web".into(), nodes: nodes.clone() };
        assert_eq!(heard(&mut story, 4, on_its_way()), [""; 0]);
        heard(&mut story, 4, Event::ChainGone { chain: WEB, name: "web".into() });
        let said = heard(&mut story, 4, changed(Vec::new()));
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("chain web   gone · receipt "), "{said:?}");
        assert!(said[0].ends_with("revision 4: chain web removed"), "{said:?}");

        // A node that is away goes on with it.
        assert_eq!(heard(&mut story, 5, on_its_way()), [""; 0]);
        assert_eq!(story.pause(), ["chain web   removed, but still in force on host1"]);
    }

    #[test]
    fn what_is_not_over_is_told_as_it_is_when_nothing_more_comes() {
        let mut story = Story::default();
        heard(&mut story, 1, chain(ChainState::Building, "no port"));
        heard(&mut story, 1, chain(ChainState::Building, "node 'n' is not connected"));
        assert_eq!(story.pause(), ["chain web   building, path 42: node 'n' is not connected"]);
        for port in 0..8 {
            heard(&mut story, 2, declared("port", &format!("p{port}"), false));
        }
        let all = "revision 2: port p0, port p1, port p2, port p3, port p4, port p5 and 2 more";
        assert_eq!(story.pause(), [all]);
        assert_eq!(story.pause(), [""; 0]);
    }

    #[test]
    fn a_node_that_goes_or_refuses_is_told_at_once() {
        let mut story = Story::default();
        heard(&mut story, 1, node(7, true));
        assert_eq!(heard(&mut story, 1, node(7, false)), ["node host1   away, program 7"]);
        let trouble = Event::Trouble { reason: Some("disk full".into()) };
        assert_eq!(heard(&mut story, 1, trouble), ["trouble   disk full"]);
    }
}

//! What differs in links and cables between two looks, as events. Refuses to know who is told.

use catena_model::discovery::{LinkCondition, LinkReport};
use catena_model::topology::{Cable, CableEnd, PortNumber};
use catena_model::{Event, NodeName};
use std::collections::{BTreeMap, BTreeSet};

/// What is news of a link when it differs.
type LinkFacts = (Option<PortNumber>, LinkCondition, Option<String>);

/// What a reader has been told of links.
#[derive(Default)]
pub(super) struct KnownLinks {
    links: BTreeMap<(NodeName, String), LinkFacts>,
    cables: BTreeSet<[CableEnd; 2]>,
}

impl KnownLinks {
    /// What is to be told of these links.
    pub(super) fn take(&mut self, reports: Vec<LinkReport>) -> Vec<Event> {
        let cables = catena_plan::cables(&reports).into_iter().map(|Cable { ends, .. }| ends);
        let cables: BTreeSet<[CableEnd; 2]> = cables.collect();
        let lost = self.cables.difference(&cables).map(|ends| (ends, true));
        let found = cables.difference(&self.cables).map(|ends| (ends, false));
        let cable =
            |(ends, is_gone): (&[CableEnd; 2], bool)| Event::Cable { ends: ends.clone(), is_gone };
        let mut events: Vec<Event> = lost.chain(found).map(cable).collect();
        self.cables = cables;
        let links: BTreeMap<_, _> = reports.into_iter().map(facts).collect();
        for ((node, interface), facts) in &links {
            if self.links.get(&(node.clone(), interface.clone())) != Some(facts) {
                let (number, state, trouble) = facts.clone();
                let (node, interface) = (node.clone(), interface.clone());
                events.push(Event::Link { node, interface, number, state, trouble });
            }
        }
        let gone = self.links.keys().filter(|link| !links.contains_key(*link)).cloned();
        events.extend(gone.map(|(node, interface)| Event::LinkGone { node, interface }));
        self.links = links;
        events
    }
}

fn facts(link: LinkReport) -> ((NodeName, String), LinkFacts) {
    ((link.node, link.interface), (link.number, link.state, link.trouble))
}

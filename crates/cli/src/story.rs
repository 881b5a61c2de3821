//! Puts the events of a change together into one line. Knows which events belong together and how
//! long one that is not over is waited for; refuses to know clocks: time is an argument.

use crate::chain_names::ChainNames;
use crate::receipt;
use crate::watch::{sentence, state, withdrawing};
use catena_model::event::{Declaration, EventLine};
use catena_model::id::ChainId;
use catena_model::status::{ChainState, ChainStatus, Receipt};
use catena_model::{Event, NodeName};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// What is not over so long after its first event is told as it is, whatever else happens.
const PATIENCE: Duration = Duration::from_millis(500);
/// Resources that a line names; of more it tells how many.
const NAMES_MAX: usize = 6;
/// Chains, and resources, that wait to be told; with one more all of them are told at once.
const UNTOLD_MAX: usize = 1_024;

/// What has been heard and is not told yet.
#[derive(Default)]
pub(crate) struct Story {
    /// Each node as it was told of last.
    nodes: BTreeMap<NodeName, (bool, Option<String>)>,
    names: ChainNames,
    declared: Option<Declared>,
    chains: BTreeMap<ChainId, Heard>,
}

/// Resources that were made, changed or removed.
struct Declared {
    since: Instant,
    first: u64,
    last: u64,
    /// Kind, identity, and whether it is gone.
    resources: BTreeSet<(String, String, bool)>,
    /// The first of them.
    named: Vec<Declaration>,
}

/// What was heard of a chain.
struct Heard {
    since: Instant,
    name: String,
    status: Option<ChainStatus>,
    /// No longer declared; in force on these nodes.
    withdrawing: Option<BTreeSet<NodeName>>,
    is_gone: bool,
    receipt: Option<Receipt>,
}

impl Heard {
    fn begin(since: Instant) -> Self {
        let name = String::new();
        Self { since, name, status: None, withdrawing: None, is_gone: false, receipt: None }
    }

    /// Is the change over, with all that is told of it?
    fn is_over(&self) -> bool {
        let is_active =
            self.status.as_ref().is_some_and(|status| status.state == ChainState::Active);
        self.receipt.is_some() && (self.is_gone || is_active)
    }

    fn text(&self, words: &str) -> String {
        let now = match (&self.withdrawing, &self.status) {
            _ if self.is_gone => Some("gone".to_owned()),
            (Some(nodes), _) => Some(withdrawing(nodes)),
            (None, Some(status)) => Some(state(status)),
            (None, None) => None,
        };
        let receipt = self.receipt.as_ref().map(receipt::line);
        let parts: Vec<String> = now.into_iter().chain(receipt).collect();
        format!("chain {words}   {}", parts.join(" · "))
    }
}

impl Declared {
    fn begin(since: Instant, first: u64) -> Self {
        Self { since, first, last: first, resources: BTreeSet::new(), named: Vec::new() }
    }

    fn add(&mut self, revision: u64, declaration: &Declaration) {
        self.last = revision;
        let Declaration { is_removed, kind, id, .. } = declaration;
        let is_new = self.resources.insert((kind.clone(), id.clone(), *is_removed));
        if is_new && self.named.len() < NAMES_MAX {
            self.named.push(declaration.clone());
        }
    }

    fn text(&self, names: &ChainNames) -> String {
        let Self { first, last, .. } = self;
        let revisions = match first == last {
            true => format!("revision {first}"),
            false => format!("revisions {first} to {last}"),
        };
        let named: Vec<String> = self.named.iter().map(|one| self.resource(one, names)).collect();
        let more = match self.resources.len().saturating_sub(self.named.len()) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{revisions}: {}{more}", named.join(", "))
    }

    fn resource(&self, declaration: &Declaration, names: &ChainNames) -> String {
        let words = |declaration| names.resource(declaration);
        let said = words(declaration);
        let mut others = self.named.iter().filter(|other| other.id != declaration.id);
        let id = match others.any(|other| words(other) == said) {
            true => format!(" ({})", declaration.id),
            false => String::new(),
        };
        let gone = if declaration.is_removed { " removed" } else { "" };
        format!("{said}{id}{gone}")
    }
}

impl Story {
    /// Takes an event; answers what is to be told at once.
    pub(crate) fn hear(&mut self, line: &EventLine, now: Instant) -> Vec<String> {
        self.names.hear(&line.event);
        let chain = match &line.event {
            Event::Declared(declaration) => {
                let begin = || Declared::begin(now, line.revision);
                self.declared.get_or_insert_with(begin).add(line.revision, declaration);
                return self.make_room();
            }
            Event::Node { node, is_connected, refusal, .. } => {
                let state = (*is_connected, refusal.clone());
                // That a node took the next program belongs to a change.
                let is_known = self.nodes.insert(node.clone(), state.clone()) == Some(state);
                return if is_known { Vec::new() } else { vec![sentence(line, &self.names)] };
            }
            Event::Trouble { .. }
            | Event::Link { .. }
            | Event::LinkGone { .. }
            | Event::Cable { .. } => {
                return vec![sentence(line, &self.names)];
            }
            Event::Chain { name, status } => {
                let heard = self.heard_of(status.chain, name, now);
                heard.status = Some(status.clone());
                (heard.withdrawing, heard.is_gone) = (None, false);
                status.chain
            }
            Event::ChainWithdrawing { chain, name, nodes } => {
                let heard = self.heard_of(*chain, name, now);
                (heard.status, heard.withdrawing) = (None, Some(nodes.clone()));
                *chain
            }
            Event::ChainGone { chain, name } => {
                self.heard_of(*chain, name, now).is_gone = true;
                *chain
            }
            Event::Changed { receipt } => {
                let heard = self.heard_of(receipt.chain, &receipt.name, now);
                heard.receipt = Some(receipt.clone());
                receipt.chain
            }
        };
        match self.chains.get(&chain).is_some_and(Heard::is_over) {
            true => self.tell_chain(chain).into_iter().collect(),
            false => self.make_room(),
        }
    }

    /// When something has waited long enough, if anything waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        let chains = self.chains.values().map(|heard| heard.since);
        let declared = self.declared.as_ref().map(|declared| declared.since);
        chains.chain(declared).min().map(|since| since + PATIENCE)
    }

    /// Tells what has waited long enough, as it is.
    pub(crate) fn tell_due(&mut self, now: Instant) -> Vec<String> {
        self.tell(|since| since + PATIENCE <= now)
    }

    /// Nothing more will come: tells all that waits, as it is.
    pub(crate) fn end(&mut self) -> Vec<String> {
        self.tell(|_| true)
    }

    fn make_room(&mut self) -> Vec<String> {
        let resources = self.declared.as_ref().map_or(0, |declared| declared.resources.len());
        match self.chains.len().max(resources) > UNTOLD_MAX {
            true => self.end(),
            false => Vec::new(),
        }
    }

    fn heard_of(&mut self, chain: ChainId, name: &str, now: Instant) -> &mut Heard {
        let heard = self.chains.entry(chain).or_insert_with(|| Heard::begin(now));
        name.clone_into(&mut heard.name);
        heard
    }

    fn tell(&mut self, is_told: impl Fn(Instant) -> bool) -> Vec<String> {
        let told = self.chains.iter().filter(|(_, heard)| is_told(heard.since));
        let mut told: Vec<(String, ChainId)> =
            told.map(|(chain, heard)| (heard.name.clone(), *chain)).collect();
        told.sort();
        let mut said: Vec<String> =
            told.into_iter().filter_map(|(_, chain)| self.tell_chain(chain)).collect();
        let declared = self.declared.take_if(|declared| is_told(declared.since));
        said.extend(declared.map(|declared| declared.text(&self.names)));
        said
    }

    fn tell_chain(&mut self, chain: ChainId) -> Option<String> {
        let heard = self.chains.remove(&chain)?;
        let text = heard.text(&self.names.words(chain, &heard.name));
        let declared = self.declared.take();
        let declared = declared.map(|declared| format!(" · {}", declared.text(&self.names)));
        Some(text + &declared.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::{BlueprintNumber, PathId};

    const WEB: ChainId = ChainId(uuid::Uuid::from_u128(1));
    const OTHER_WEB: ChainId = ChainId(uuid::Uuid::from_u128(2));

    /// A story and how late it is in it.
    struct Told {
        story: Story,
        now: Instant,
    }

    impl Told {
        fn new() -> Self {
            Self { story: Story::default(), now: Instant::now() }
        }

        fn heard(&mut self, revision: u64, event: Event) -> Vec<String> {
            self.story.hear(&EventLine { revision, event }, self.now)
        }

        fn after(&mut self, time: Duration) -> Vec<String> {
            self.now += time;
            self.story.tell_due(self.now)
        }
    }

    fn node(acknowledged: u64, is_connected: bool) -> Event {
        Event::Node {
            node: "host1".parse().unwrap(),
            is_connected,
            acknowledged: BlueprintNumber(acknowledged),
            refusal: None,
        }
    }

    fn chain_of(chain: ChainId, state: ChainState, reason: &str) -> Event {
        let status = ChainStatus { chain, state, reason: reason.into(), path: Some(PathId(42)) };
        Event::Chain { name: "web".into(), status }
    }

    fn chain(state: ChainState, reason: &str) -> Event {
        chain_of(WEB, state, reason)
    }

    fn declared_as(kind: &str, id: &str, name: &str, is_removed: bool) -> Event {
        let (kind, id, name) = (kind.into(), id.into(), Some(name.into()));
        Event::Declared(Declaration { is_removed, kind, id, name })
    }

    fn declared(kind: &str, name: &str, is_removed: bool) -> Event {
        declared_as(kind, name, name, is_removed)
    }

    fn changed_of(chain: ChainId, paths: Vec<PathId>) -> Event {
        let (name, blueprint) = ("web".into(), BlueprintNumber(9));
        let drained = vec![];
        let receipt = Receipt { chain, name, blueprint, paths, drained, took_ms: 31 };
        Event::Changed { receipt }
    }

    fn changed(paths: Vec<PathId>) -> Event {
        changed_of(WEB, paths)
    }

    #[test]
    fn a_change_is_one_line_when_it_is_over() {
        let mut told = Told::new();
        assert_eq!(told.heard(1, node(7, true)), ["node host1   connected, program 7"]);
        for (revision, event) in [
            (2, declared("rule", "http", false)),
            (3, declared("chain", "web", false)),
            (3, chain(ChainState::Building, "node 'host1' has not acknowledged its program yet")),
            (3, node(8, true)),
            (3, node(9, true)),
        ] {
            assert_eq!(told.heard(revision, event), [""; 0]);
        }
        // The receipt and the state of a chain come in any order.
        assert_eq!(told.heard(3, changed(vec![PathId(42)])), [""; 0]);
        assert_eq!(
            told.heard(3, chain(ChainState::Active, "")),
            [
                "chain web   active, path 42 · receipt 1 path in use · in flight 0 · lost 0 · nothing \
              to drain · 31 ms · revisions 2 to 3: rule http, chain web"
            ]
        );
        assert_eq!(told.story.due(), None);

        told.heard(4, declared("chain", "web", true));
        let nodes: BTreeSet<NodeName> = ["host1".parse().unwrap()].into();
        let on_its_way =
            || Event::ChainWithdrawing { chain: WEB, name: "web".into(), nodes: nodes.clone() };
        assert_eq!(told.heard(4, on_its_way()), [""; 0]);
        told.heard(4, Event::ChainGone { chain: WEB, name: "web".into() });
        let said = told.heard(4, changed(Vec::new()));
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("chain web   gone · receipt "), "{said:?}");
        assert!(said[0].ends_with("revision 4: chain web removed"), "{said:?}");

        // A node that is away goes on with it.
        assert_eq!(told.heard(5, on_its_way()), [""; 0]);
        assert_eq!(told.after(PATIENCE), ["chain web   removed, but still in force on host1"]);
    }

    #[test]
    fn what_is_not_over_is_told_as_it_is_when_nothing_more_comes() {
        let mut told = Told::new();
        told.heard(1, chain(ChainState::Building, "no port"));
        told.heard(1, chain(ChainState::Building, "node 'n' is not connected"));
        let said = ["chain web   building, path 42: node 'n' is not connected"];
        assert_eq!(told.after(PATIENCE), said);
        for port in 0..8 {
            told.heard(2, declared("port", &format!("p{port}"), false));
        }
        let all = "revision 2: port p0, port p1, port p2, port p3, port p4, port p5 and 2 more";
        assert_eq!(told.after(PATIENCE), [all]);
        assert_eq!(told.after(PATIENCE), [""; 0]);
    }

    #[test]
    fn what_is_not_over_is_told_in_time_however_much_else_happens() {
        let mut told = Told::new();
        told.heard(1, chain(ChainState::Building, "no port"));
        let (first, step) = (told.now, PATIENCE / 5);
        for revision in 2..6 {
            assert_eq!(told.after(step), [""; 0], "of revision {revision}");
            told.heard(revision, chain_of(OTHER_WEB, ChainState::Building, "no port"));
            told.heard(revision, chain(ChainState::Building, "no port"));
        }
        assert_eq!(told.story.due(), Some(first + PATIENCE));
        let said = told.after(step);
        assert_eq!(said, [format!("chain web ({WEB})   building, path 42: no port")]);
        assert_eq!(told.story.due(), Some(first + step + PATIENCE), "the other one's");
    }

    #[test]
    fn chains_of_one_name_are_told_apart() {
        let mut told = Told::new();
        told.heard(1, declared_as("chain", &WEB.to_string(), "web", false));
        told.heard(2, declared_as("chain", &OTHER_WEB.to_string(), "web", false));
        told.heard(2, chain(ChainState::Building, "no port"));
        told.heard(2, chain_of(OTHER_WEB, ChainState::Active, ""));
        // One has a receipt and the other is active: none of them is over.
        assert_eq!(told.heard(2, changed(vec![PathId(42)])), [""; 0]);
        let said = told.heard(2, changed_of(OTHER_WEB, vec![PathId(43)]));
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with(&format!("chain web ({OTHER_WEB})   active")), "{said:?}");
        let named = format!("revisions 1 to 2: chain web ({WEB}), chain web ({OTHER_WEB})");
        assert!(said[0].ends_with(&named), "{said:?}");

        let said = told.after(PATIENCE);
        assert!(said[0].starts_with(&format!("chain web ({WEB})   building")), "{said:?}");

        // What is gone is told apart as long as anything of it is told, the other no longer.
        told.heard(3, Event::ChainGone { chain: WEB, name: "web".into() });
        let said = told.heard(3, changed(Vec::new()));
        assert!(said[0].starts_with(&format!("chain web ({WEB})   gone")), "{said:?}");
        told.heard(4, chain_of(OTHER_WEB, ChainState::Building, "no port"));
        assert_eq!(told.after(PATIENCE), ["chain web   building, path 42: no port"]);

        for id in ["p1", "p2"] {
            told.heard(5, declared_as("port", id, "in", false));
        }
        assert_eq!(told.after(PATIENCE), ["revision 5: port in (p1), port in (p2)"]);
    }

    #[test]
    fn what_waits_to_be_told_is_bounded() {
        let mut told = Told::new();
        let many = u128::try_from(UNTOLD_MAX).unwrap();
        for number in 1..=many {
            let chain = ChainId(uuid::Uuid::from_u128(number));
            assert_eq!(told.heard(1, chain_of(chain, ChainState::Building, "")), [""; 0]);
            assert_eq!(told.heard(1, declared("port", &number.to_string(), false)), [""; 0]);
        }
        // What is known already needs no place.
        assert_eq!(told.heard(1, declared("port", "1", false)), [""; 0]);
        let said = told.heard(1, declared("port", "one more", false));
        assert_eq!(said.len(), UNTOLD_MAX, "all chains, the first with what was declared");
        assert!(said[0].ends_with(&format!("port 6 and {} more", UNTOLD_MAX - 5)), "{}", said[0]);
        assert_eq!(told.story.due(), None);
    }

    #[test]
    fn a_node_that_goes_or_refuses_is_told_at_once() {
        let mut told = Told::new();
        told.heard(1, node(7, true));
        assert_eq!(told.heard(1, node(7, false)), ["node host1   away, program 7"]);
        let trouble = Event::Trouble { reason: Some("disk full".into()) };
        assert_eq!(told.heard(1, trouble), ["trouble   disk full"]);
    }
}

//! Random operations of all five resources beside a model so simple that it can be read: the
//! controller answers each as the model does, and what is left is what the model has left.

use crate::support::lab::{Lab, id};
use crate::support::{Controller, open};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Things of each kind, at most.
const SLOTS: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Rule,
    Pair,
    Group,
    Chain,
    Graph,
}

impl Kind {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Rule => ("flow_classifiers", "flow_classifier"),
            Self::Pair => ("port_pairs", "port_pair"),
            Self::Group => ("port_pair_groups", "port_pair_group"),
            Self::Chain => ("port_chains", "port_chain"),
            Self::Graph => ("service_graphs", "service_graph"),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// A rule over destination ports.
    Rule(u8, u16, u16),
    /// A pair whose both ends are this port.
    Pair(u8, u8),
    Group(u8, Vec<u8>),
    Regroup(u8, Vec<u8>),
    Chain(u8, Vec<u8>, Vec<u8>, u32),
    Rechain(u8, Vec<u8>, Vec<u8>),
    /// The first branches into the second.
    Graph(u8, u8, u8),
    Delete(Kind, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let slot = || 0..SLOTS;
    let some = || prop::sample::subsequence((0..SLOTS).collect::<Vec<_>>(), 0..3).prop_shuffle();
    let one = || prop::sample::subsequence((0..SLOTS).collect::<Vec<_>>(), 1..3).prop_shuffle();
    let kind =
        prop::sample::select(vec![Kind::Rule, Kind::Pair, Kind::Group, Kind::Chain, Kind::Graph]);
    prop_oneof![
        3 => (slot(), 0..40u16, 0..6u16).prop_map(|(n, min, more)| Step::Rule(n, min, min + more)),
        3 => (slot(), slot()).prop_map(|(n, port)| Step::Pair(n, port)),
        3 => (slot(), some()).prop_map(|(n, pairs)| Step::Group(n, pairs)),
        2 => (slot(), some()).prop_map(|(n, pairs)| Step::Regroup(n, pairs)),
        4 => (slot(), one(), some(), 0..4u32).prop_map(|(n, g, r, w)| Step::Chain(n, g, r, w)),
        2 => (slot(), one(), some()).prop_map(|(n, g, r)| Step::Rechain(n, g, r)),
        2 => (slot(), slot(), slot()).prop_map(|(n, a, b)| Step::Graph(n, a, b)),
        4 => (kind, slot()).prop_map(|(kind, n)| Step::Delete(kind, n)),
    ]
}

#[derive(Clone, Debug, PartialEq)]
struct ModelChain {
    groups: Vec<u8>,
    rules: Vec<u8>,
    number: u32,
}

/// What there is, by slot.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    rules: BTreeMap<u8, (u16, u16)>,
    pairs: BTreeMap<u8, u8>,
    groups: BTreeMap<u8, (Vec<u8>, u32)>,
    chains: BTreeMap<u8, ModelChain>,
    graphs: BTreeMap<u8, (u8, u8)>,
}

fn lowest_free(taken: impl Iterator<Item = u32>) -> u32 {
    let taken: BTreeSet<u32> = taken.collect();
    (1..).find(|number| !taken.contains(number)).unwrap()
}

impl Model {
    /// The status that the step is answered with; a step into a slot that is taken is not made.
    fn apply(&mut self, step: &Step) -> Option<u16> {
        match step {
            Step::Rule(n, min, max) => {
                let is_overlapping = |(a, b): &(u16, u16)| a <= max && min <= b;
                let is_free = !self.rules.values().any(is_overlapping);
                self.create(!self.rules.contains_key(n), is_free, 400, |model| {
                    model.rules.insert(*n, (*min, *max));
                })
            }
            Step::Pair(n, port) => {
                let is_free = !self.pairs.values().any(|taken| taken == port);
                self.create(!self.pairs.contains_key(n), is_free, 400, |model| {
                    model.pairs.insert(*n, *port);
                })
            }
            Step::Group(n, pairs) => {
                let status = self.judge_pairs(None, pairs);
                let number = lowest_free(self.groups.values().map(|(_, number)| *number));
                self.create(!self.groups.contains_key(n), status.is_ok(), err(status), |model| {
                    model.groups.insert(*n, (pairs.clone(), number));
                })
            }
            Step::Regroup(n, pairs) => Some(self.regroup(*n, pairs)),
            Step::Chain(n, groups, rules, wanted) => {
                let mut status = self.judge_chain(None, groups, rules);
                let taken = || self.chains.values().map(|chain| chain.number);
                if status.is_ok() && *wanted > 0 && taken().any(|number| number == *wanted) {
                    status = Err(400);
                }
                let number = if *wanted > 0 { *wanted } else { lowest_free(taken()) };
                let (groups, rules) = (groups.clone(), rules.clone());
                let chain = ModelChain { groups, rules, number };
                self.create(!self.chains.contains_key(n), status.is_ok(), err(status), |model| {
                    model.chains.insert(*n, chain);
                })
            }
            Step::Rechain(n, groups, rules) => Some(self.rechain(*n, groups, rules)),
            Step::Graph(n, from, into) => {
                let status = self.judge_graph(*from, *into);
                self.create(!self.graphs.contains_key(n), status.is_ok(), err(status), |model| {
                    model.graphs.insert(*n, (*from, *into));
                })
            }
            Step::Delete(kind, n) => Some(self.delete(*kind, *n)),
        }
    }

    fn create(
        &mut self,
        is_slot_free: bool,
        is_legal: bool,
        refusal: u16,
        make: impl FnOnce(&mut Self),
    ) -> Option<u16> {
        if !is_slot_free {
            return None;
        }
        if !is_legal {
            return Some(refusal);
        }
        make(self);
        Some(201)
    }

    fn judge_pairs(&self, own: Option<u8>, pairs: &[u8]) -> Result<(), u16> {
        for pair in pairs {
            if !self.pairs.contains_key(pair) {
                return Err(404);
            }
            let mut others = self.groups.iter().filter(|(n, _)| Some(**n) != own);
            if others.any(|(_, (pairs, _))| pairs.contains(pair)) {
                return Err(409);
            }
        }
        Ok(())
    }

    fn regroup(&mut self, n: u8, pairs: &[u8]) -> u16 {
        if !self.groups.contains_key(&n) {
            return 404;
        }
        if let Err(status) = self.judge_pairs(Some(n), pairs) {
            return status;
        }
        self.groups.get_mut(&n).unwrap().0 = pairs.to_vec();
        200
    }

    fn judge_chain(&self, own: Option<u8>, groups: &[u8], rules: &[u8]) -> Result<(), u16> {
        let others = || self.chains.iter().filter(|(n, _)| Some(**n) != own).map(|(_, c)| c);
        if groups.iter().any(|group| !self.groups.contains_key(group)) {
            return Err(404);
        }
        if others().any(|other| other.groups == groups) {
            return Err(409);
        }
        for rule in rules {
            if !self.rules.contains_key(rule) {
                return Err(404);
            }
            if others().any(|other| other.rules.contains(rule)) {
                return Err(409);
            }
        }
        Ok(())
    }

    fn is_in_graph(&self, chain: u8) -> bool {
        self.graphs.values().any(|(from, into)| *from == chain || *into == chain)
    }

    /// What a graph is made of stays as it is; names aside, and nothing here changes a name.
    fn rechain(&mut self, n: u8, groups: &[u8], rules: &[u8]) -> u16 {
        if !self.chains.contains_key(&n) {
            return 404;
        }
        if self.is_in_graph(n) {
            return 409;
        }
        if let Err(status) = self.judge_chain(Some(n), groups, rules) {
            return status;
        }
        let chain = self.chains.get_mut(&n).unwrap();
        (chain.groups, chain.rules) = (groups.to_vec(), rules.to_vec());
        200
    }

    fn judge_graph(&self, from: u8, into: u8) -> Result<(), u16> {
        if self.is_in_graph(from) || self.is_in_graph(into) {
            return Err(409);
        }
        if !self.chains.contains_key(&from) || !self.chains.contains_key(&into) {
            return Err(404);
        }
        if from == into { Err(400) } else { Ok(()) }
    }

    fn delete(&mut self, kind: Kind, n: u8) -> u16 {
        let (is_there, is_used) = match kind {
            Kind::Rule => (
                self.rules.contains_key(&n),
                self.chains.values().any(|chain| chain.rules.contains(&n)),
            ),
            Kind::Pair => (
                self.pairs.contains_key(&n),
                self.groups.values().any(|(pairs, _)| pairs.contains(&n)),
            ),
            Kind::Group => (
                self.groups.contains_key(&n),
                self.chains.values().any(|chain| chain.groups.contains(&n)),
            ),
            Kind::Chain => (self.chains.contains_key(&n), self.is_in_graph(n)),
            Kind::Graph => (self.graphs.contains_key(&n), false),
        };
        match (is_there, is_used) {
            (false, _) => return 404,
            (true, true) => return 409,
            (true, false) => {}
        }
        match kind {
            Kind::Rule => drop(self.rules.remove(&n)),
            Kind::Pair => drop(self.pairs.remove(&n)),
            Kind::Group => drop(self.groups.remove(&n)),
            Kind::Chain => drop(self.chains.remove(&n)),
            Kind::Graph => drop(self.graphs.remove(&n)),
        }
        204
    }
}

fn err(status: Result<(), u16>) -> u16 {
    status.err().unwrap_or_default()
}

/// The real one, and which of its things is in which slot.
struct Real<'c> {
    controller: &'c Controller,
    ports: Vec<String>,
    ids: BTreeMap<(Kind, u8), String>,
}

impl Real<'_> {
    fn id(&self, kind: Kind, slot: u8) -> String {
        let nobody = || format!("00000000-0000-4000-8000-00000000000{slot}");
        self.ids.get(&(kind, slot)).cloned().unwrap_or_else(nobody)
    }

    fn ids(&self, kind: Kind, slots: &[u8]) -> Vec<String> {
        slots.iter().map(|slot| self.id(kind, *slot)).collect()
    }

    fn create(&mut self, kind: Kind, slot: u8, body: &Value) -> (u16, Value) {
        let (status, answer) = self.controller.post(&format!("/v2.0/sfc/{}", kind.words().0), body);
        if status == 201 {
            self.ids.insert((kind, slot), id(&answer));
        }
        (status, answer)
    }

    fn update(&self, kind: Kind, slot: u8, body: &Value) -> (u16, Value) {
        let path = format!("/v2.0/sfc/{}/{}", kind.words().0, self.id(kind, slot));
        self.controller.put(&path, body)
    }

    fn apply(&mut self, step: &Step) -> (u16, Value) {
        match step {
            Step::Rule(n, min, max) => {
                let rule = json!({"protocol": "tcp", "destination_port_range_min": min,
                                  "destination_port_range_max": max});
                self.create(Kind::Rule, *n, &rule)
            }
            Step::Pair(n, port) => {
                let port = &self.ports[*port as usize];
                let pair = json!({"ingress": port, "egress": port,
                                  "service_function_parameters": {"correlation": "mpls"}});
                self.create(Kind::Pair, *n, &pair)
            }
            Step::Group(n, pairs) => {
                let group = json!({"port_pairs": self.ids(Kind::Pair, pairs)});
                self.create(Kind::Group, *n, &group)
            }
            Step::Regroup(n, pairs) => {
                let group = json!({"port_pairs": self.ids(Kind::Pair, pairs)});
                self.update(Kind::Group, *n, &group)
            }
            Step::Chain(n, groups, rules, wanted) => {
                let chain = json!({"port_pair_groups": self.ids(Kind::Group, groups),
                                   "flow_classifiers": self.ids(Kind::Rule, rules),
                                   "chain_id": wanted});
                self.create(Kind::Chain, *n, &chain)
            }
            Step::Rechain(n, groups, rules) => {
                let chain = json!({"port_pair_groups": self.ids(Kind::Group, groups),
                                   "flow_classifiers": self.ids(Kind::Rule, rules)});
                self.update(Kind::Chain, *n, &chain)
            }
            Step::Graph(n, from, into) => {
                let branches = json!({self.id(Kind::Chain, *from): [self.id(Kind::Chain, *into)]});
                self.create(Kind::Graph, *n, &json!({"port_chains": branches}))
            }
            Step::Delete(kind, n) => {
                let path = format!("/v2.0/sfc/{}/{}", kind.words().0, self.id(*kind, *n));
                let (status, answer) = self.controller.call("DELETE", &path, None);
                if status == 204 {
                    self.ids.remove(&(*kind, *n));
                }
                (status, answer)
            }
        }
    }

    /// What there is, in the words of the model.
    fn read(&self) -> Model {
        let slot = |kind: Kind, id: &Value| -> u8 {
            let found = self.ids.iter().find(|((k, _), known)| *k == kind && *id == ***known);
            found.unwrap_or_else(|| panic!("nobody made {kind:?} {id}")).0.1
        };
        let slots = |kind: Kind, ids: &Value| -> Vec<u8> {
            ids.as_array().unwrap().iter().map(|id| slot(kind, id)).collect()
        };
        let list = |kind: Kind| -> Vec<(u8, Value)> {
            let plural = kind.words().0;
            let listed = self.controller.get(&format!("/v2.0/sfc/{plural}"))[plural].clone();
            let listed = listed.as_array().unwrap().clone();
            listed.into_iter().map(|item| (slot(kind, &item["id"]), item)).collect()
        };
        let port = |value: &Value| u16::try_from(value.as_u64().unwrap()).unwrap();
        let number = |value: &Value| u32::try_from(value.as_u64().unwrap()).unwrap();
        let window = |rule: &Value| {
            (port(&rule["destination_port_range_min"]), port(&rule["destination_port_range_max"]))
        };
        let position = |pair: &Value| {
            self.ports.iter().position(|port| pair["ingress"] == **port).unwrap() as u8
        };
        let chain = |chain: &Value| ModelChain {
            groups: slots(Kind::Group, &chain["port_pair_groups"]),
            rules: slots(Kind::Rule, &chain["flow_classifiers"]),
            number: number(&chain["chain_id"]),
        };
        let graph = |graph: &Value| {
            let (from, into) = graph["port_chains"].as_object().unwrap().iter().next().unwrap();
            (slot(Kind::Chain, &json!(from)), slots(Kind::Chain, into)[0])
        };
        let group = |g: &Value| (slots(Kind::Pair, &g["port_pairs"]), number(&g["group_id"]));
        Model {
            rules: list(Kind::Rule).iter().map(|(n, rule)| (*n, window(rule))).collect(),
            pairs: list(Kind::Pair).iter().map(|(n, pair)| (*n, position(pair))).collect(),
            groups: list(Kind::Group).iter().map(|(n, g)| (*n, group(g))).collect(),
            chains: list(Kind::Chain).iter().map(|(n, c)| (*n, chain(c))).collect(),
            graphs: list(Kind::Graph).iter().map(|(n, g)| (*n, graph(g))).collect(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn any_operations_are_answered_as_by_the_model_and_leave_what_it_leaves(
        steps in prop::collection::vec(step(), 60..120),
    ) {
        let data = tempfile::tempdir().unwrap();
        let controller = Controller::start(open(data.path()));
        let lab = Lab::new(&controller);
        let port = |number| lab.loose_port(&format!("p{number}"), &format!("d{number}"));
        let ports: Vec<String> = (0..SLOTS).map(port).collect();
        let mut real = Real { controller: &controller, ports, ids: BTreeMap::new() };
        let mut model = Model::default();
        for step in &steps {
            if let Some(expected) = model.apply(step) {
                let (status, answer) = real.apply(step);
                prop_assert_eq!(status, expected, "{:?}: {}\n{:#?}", step, answer, model);
            }
        }
        prop_assert_eq!(real.read(), model.clone());
        // The same after a restart: what was answered is on disk.
        let ids = std::mem::take(&mut real.ids);
        let ports = std::mem::take(&mut real.ports);
        controller.stop();
        let controller = Controller::start(open(data.path()));
        let real = Real { controller: &controller, ports, ids };
        prop_assert_eq!(real.read(), model);
    }
}

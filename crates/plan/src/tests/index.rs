//! The index says what a scan says, and the check of what was written decides as that of everything.

#![allow(clippy::unwrap_used)]

use super::rig::{id, next, node};
use crate::check::tests::check;
use crate::{
    IndexedIntent, Intent, Ledger, News, NodeNews, Reconciler, Resource, overlap, tuples_overlap,
};
use catena_model::id::{
    ChainId, FunctionId, GraphId, InstanceId, NetworkId, PortId, RuleId, SliceId, SubnetId,
};
use catena_model::resource::{
    Chain, ChainGraph, ClassificationRule, Conduct, Encapsulation, FailurePolicy, FixedIp,
    Instance, InterfaceRef, IpFamily, Label, Network, OwnTraffic, Port, PortBounds,
    ServiceFunction, Subnet, Transport, TupleMapping,
};
use catena_model::slice::{Slice, TunnelId};
use catena_model::{NodeName, ProjectId};
use catena_wire::scalar::{MacAddr, Vni};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A write: what kind of thing, which one, and the dice for everything else of it.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) kind: u8,
    pub(crate) number: u32,
    pub(crate) is_removal: bool,
    pub(crate) dice: u64,
}

pub(crate) fn writes(length: usize) -> impl Strategy<Value = Vec<Write>> {
    let kinds = prop_oneof![
        1 => Just(0u8), 1 => Just(1u8), 3 => Just(2u8), 5 => Just(3u8), 4 => Just(4u8),
        4 => Just(5u8), 6 => Just(6u8), 1 => Just(7u8), 3 => Just(8u8)
    ];
    let write = (kinds, 0..5u32, prop::bool::weighted(0.2), any::<u64>());
    let write =
        write.prop_map(|(kind, number, is_removal, dice)| Write { kind, number, is_removal, dice });
    prop::collection::vec(write, 1..length)
}

/// Reads small numbers off one large one.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u32 {
        let thrown = self.0 % sides;
        self.0 = (self.0 / sides) ^ self.0.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        u32::try_from(thrown).unwrap()
    }

    fn flag(&mut self) -> bool {
        self.below(2) == 0
    }

    fn ids<T: From<uuid::Uuid>>(&mut self, kind: u128, most: u64) -> Vec<T> {
        let count = self.below(most + 1);
        let mut numbers: Vec<u32> = (0..count).map(|_| self.below(5)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        if self.flag() {
            numbers.reverse();
        }
        numbers.into_iter().map(|number| T::from(id(kind, number))).collect()
    }
}

fn label(dice: &mut Dice) -> Label {
    let project = ProjectId(["p", "q"][dice.below(2) as usize].into());
    Label { name: format!("n{}", dice.below(3)), description: String::new(), project }
}

fn rule(number: u32, dice: &mut Dice) -> ClassificationRule {
    let prefixes = ["10.0.0.0/8", "10.1.0.0/16", "10.1.1.1/32", "10.2.0.0/16", "0.0.0.0/0"];
    let prefixes_v6 =
        ["2001:db8::/32", "2001:db8:1::/48", "2001:db8:2::1/128", "::/0", "fe80::/10"];
    let family = if dice.below(4) == 0 { IpFamily::Ipv6 } else { IpFamily::Ipv4 };
    let prefix = |dice: &mut Dice| {
        let chosen = dice.below(8) as usize;
        let from = if family == IpFamily::Ipv4 { prefixes } else { prefixes_v6 };
        from.get(chosen).map(|text| text.parse().unwrap())
    };
    let bounds = |dice: &mut Dice| {
        let (a, b) = (dice.below(20) as u16, dice.below(20) as u16);
        let (min, max) = (a.min(b), a.max(b));
        match dice.below(6) {
            0 => PortBounds { min: Some(min), max: None },
            1 => PortBounds { min: None, max: Some(max) },
            2 => PortBounds { min: Some(min), max: Some(max) },
            _ => PortBounds::default(),
        }
    };
    let port = |dice: &mut Dice| dice.flag().then(|| PortId(id(3, dice.below(5))));
    let transports = [Transport::Tcp, Transport::Udp, Transport::Icmp];
    let looks = ["{}", "{}", r#"{"dscp": "ef"}"#, r#"{"dscp": "cs1"}"#];
    ClassificationRule {
        id: RuleId(id(6, number)),
        label: label(dice),
        family,
        transport: transports.get(dice.below(4) as usize).copied(),
        source_ports: bounds(dice),
        destination_ports: bounds(dice),
        source_prefix: prefix(dice),
        destination_prefix: prefix(dice),
        source_port: port(dice),
        destination_port: port(dice),
        fields: serde_json::from_str(looks[dice.below(4) as usize]).unwrap(),
    }
}

fn port(number: u32, dice: &mut Dice) -> Port {
    let address = |dice: &mut Dice| format!("10.0.0.{}", dice.below(4)).parse().unwrap();
    let fixed = |dice: &mut Dice| FixedIp {
        subnet: SubnetId(id(2, dice.below(3))),
        address: address(dice),
    };
    let attachment = || InterfaceRef { namespace: None, interface: format!("n{number}") }.into();
    Port {
        id: PortId(id(3, number)),
        label: label(dice),
        network: NetworkId(id(1, dice.below(2))),
        mac: MacAddr([2, 0, 0, 0, 0, dice.below(3) as u8]),
        fixed_ips: (0..dice.below(3)).map(|_| fixed(dice)).collect(),
        device_id: ["", "m0", "m1"][dice.below(3) as usize].into(),
        device_owner: String::new(),
        own_traffic: if dice.below(4) == 0 { OwnTraffic::All } else { OwnTraffic::Own },
        node: (dice.below(4) > 0).then(|| node(dice.below(2) + 1)),
        attachment: dice.flag().then(attachment),
        admin_state_up: dice.flag(),
    }
}

fn chain(number: u32, dice: &mut Dice) -> Chain {
    let encapsulation = if dice.below(3) == 0 { Encapsulation::Mpls } else { Encapsulation::Nsh };
    Chain {
        id: ChainId(id(7, number)),
        label: label(dice),
        functions: dice.ids(5, 3),
        rules: dice.ids(6, 2),
        encapsulation,
        declared_correlation: None,
        setup: catena_model::setup::Setup::default(),
        is_symmetric: dice.flag(),
        context: Vec::new(),
        telemetry: None,
        via: [].into(),
        number: dice.below(4),
    }
}

fn function(number: u32, dice: &mut Dice) -> ServiceFunction {
    ServiceFunction {
        id: FunctionId(id(5, number)),
        label: label(dice),
        instances: dice.ids(4, 2),
        is_tap: dice.below(4) == 0,
        on_failure: FailurePolicy::default(),
        balance: Vec::new(),
        mapping: mapping(dice),
        keeps_mac: dice.below(4) == 0,
        template: None,
        conduct: Conduct::default(),
        number: dice.below(4),
        declared: serde_json::Value::Null,
    }
}

/// Now and then it changes sources.
fn mapping(dice: &mut Dice) -> TupleMapping {
    let mut mapping = TupleMapping::default();
    mapping.egress.source_prefix = (dice.below(6) == 0).then(|| "192.0.2.1/32".parse().unwrap());
    mapping
}

fn instance(number: u32, dice: &mut Dice) -> Instance {
    Instance {
        id: InstanceId(id(4, number)),
        label: label(dice),
        ingress: PortId(id(3, dice.below(5))),
        egress: PortId(id(3, dice.below(5))),
        speaks: Encapsulation::SPOKEN.get(dice.below(9) as usize).copied(),
        weight: dice.below(2),
        is_draining: dice.below(4) == 0,
        declared: serde_json::Value::Null,
    }
}

fn slice(number: u32, dice: &mut Dice) -> Slice {
    let place = dice.below(4);
    Slice {
        id: SliceId(id(9, number)),
        label: label(dice),
        chain: ChainId(id(7, dice.below(5))),
        source_port: (place == 1).then(|| PortId(id(3, dice.below(5)))),
        after: (place > 1).then(|| ChainId(id(7, dice.below(5)))),
        tunnel_id: Some(TunnelId::Vni(Vni::new(dice.below(3)).unwrap())),
        teids: None,
        qfi: None,
        carries_metadata: dice.below(4) == 0,
        policy: catena_model::program::SlicePolicy::default(),
    }
}

pub(crate) fn apply(indexed: &mut IndexedIntent, write: &Write) {
    let (number, mut dice) = (write.number, Dice(write.dice));
    let dice = &mut dice;
    if write.is_removal {
        match write.kind {
            0 => indexed.remove::<Network>(NetworkId(id(1, number))),
            1 => indexed.remove::<Subnet>(SubnetId(id(2, number))),
            2 => indexed.remove::<Port>(PortId(id(3, number))),
            3 => indexed.remove::<ClassificationRule>(RuleId(id(6, number))),
            4 => indexed.remove::<Instance>(InstanceId(id(4, number))),
            5 => indexed.remove::<ServiceFunction>(FunctionId(id(5, number))),
            6 => indexed.remove::<Chain>(ChainId(id(7, number))),
            8 => indexed.remove::<Slice>(SliceId(id(9, number))),
            _ => indexed.remove::<ChainGraph>(GraphId(id(8, number))),
        };
        return;
    }
    match write.kind {
        0 => indexed.put(Network {
            id: NetworkId(id(1, number)),
            label: label(dice),
            vni: Vni::new(dice.below(4)).unwrap(),
            mtu: 1_400,
            admin_state_up: true,
        }),
        1 => indexed.put(Subnet {
            id: SubnetId(id(2, number)),
            label: label(dice),
            network: NetworkId(id(1, dice.below(2))),
            cidr: ["10.0.0.0/24", "10.0.0.128/25", "10.1.0.0/24"][dice.below(3) as usize]
                .parse()
                .unwrap(),
            gateway: dice.flag().then(|| "10.0.0.1".parse().unwrap()),
        }),
        2 => indexed.put(port(number, dice)),
        3 => indexed.put(rule(number, dice)),
        4 => indexed.put(instance(number, dice)),
        5 => indexed.put(function(number, dice)),
        6 => indexed.put(chain(number, dice)),
        8 => indexed.put(slice(number, dice)),
        _ => indexed.put(ChainGraph {
            id: GraphId(id(8, number)),
            label: label(dice),
            branches: [(ChainId(id(7, dice.below(3))), dice.ids(7, 2))].into(),
        }),
    }
}

fn names_whom_a_scan_names<R: Resource>(indexed: &IndexedIntent) -> Result<(), TestCaseError> {
    let (all, index) = (|| R::table(indexed).values(), indexed.index());
    for name in ["n0", "n1", "n2", "n3"] {
        let scanned = all().filter(|one| one.label().name == name).map(Resource::id);
        prop_assert!(index.named::<R>(name).eq(scanned), "{} called {name}", R::TABLE);
    }
    for project in ["p", "q", "r"].map(|name| ProjectId(name.into())) {
        let own = || all().filter(|one| one.label().project == project);
        prop_assert!(index.owned::<R>(&project).eq(own().map(Resource::id)), "{}", R::TABLE);
        prop_assert_eq!(index.count_owned::<R>(&project), own().count());
    }
    Ok(())
}

fn counts_ports_as_a_scan_does(indexed: &IndexedIntent) -> Result<(), TestCaseError> {
    let nodes: BTreeSet<_> = indexed.ports.values().filter_map(|port| port.node.clone()).collect();
    for project in ["p", "q"].map(|name| ProjectId(name.into())) {
        let own = || indexed.ports.values().filter(|port| port.label.project == project);
        let at = |node: &NodeName| own().filter(|port| port.node.as_ref() == Some(node)).count();
        for node in &nodes {
            prop_assert_eq!(indexed.index().ports_at(node, &project), at(node));
        }
        let most = nodes.iter().map(at).max().unwrap_or_default();
        prop_assert_eq!(indexed.index().most_ports_at(&project), most);
    }
    Ok(())
}

fn says_what_a_scan_says(indexed: &IndexedIntent) -> Result<(), TestCaseError> {
    names_whom_a_scan_names::<Network>(indexed)?;
    names_whom_a_scan_names::<Subnet>(indexed)?;
    names_whom_a_scan_names::<Port>(indexed)?;
    names_whom_a_scan_names::<ClassificationRule>(indexed)?;
    names_whom_a_scan_names::<Instance>(indexed)?;
    names_whom_a_scan_names::<ServiceFunction>(indexed)?;
    names_whom_a_scan_names::<Chain>(indexed)?;
    names_whom_a_scan_names::<ChainGraph>(indexed)?;
    names_whom_a_scan_names::<Slice>(indexed)?;
    counts_ports_as_a_scan_does(indexed)?;
    let (intent, index) = (indexed.intent(), indexed.index());
    for number in 0..5 {
        let rule = RuleId(id(6, number));
        let with = |chain: &&Chain| chain.rules.contains(&rule);
        let scanned: Vec<_> = intent.chains.values().filter(with).map(|c| c.id).collect();
        prop_assert_eq!(index.chains_of_rule(rule).collect::<Vec<_>>(), scanned);
        let function = FunctionId(id(5, number));
        let over = |chain: &&Chain| chain.functions.contains(&function);
        let scanned: Vec<_> = intent.chains.values().filter(over).map(|c| c.id).collect();
        prop_assert_eq!(index.chains_of_function(function).collect::<Vec<_>>(), scanned);
        let instance = InstanceId(id(4, number));
        let has = |function: &&ServiceFunction| function.instances.contains(&instance);
        let scanned: Vec<_> = intent.functions.values().filter(has).map(|f| f.id).collect();
        prop_assert_eq!(index.functions_of_instance(instance).collect::<Vec<_>>(), scanned);
        let port = PortId(id(3, number));
        let uses = |i: &&Instance| i.ingress == port || i.egress == port;
        let scanned: Vec<_> = intent.instances.values().filter(uses).map(|i| i.id).collect();
        prop_assert_eq!(index.instances_of_port(port).collect::<Vec<_>>(), scanned);
        let names = |r: &&ClassificationRule| {
            r.source_port == Some(port) || r.destination_port == Some(port)
        };
        let scanned: Vec<_> = intent.rules.values().filter(names).map(|r| r.id).collect();
        prop_assert_eq!(index.rules_of_port(port).collect::<Vec<_>>(), scanned);
        let network = NetworkId(id(1, number));
        let inside = |p: &&Port| p.network == network;
        let scanned: Vec<_> = intent.ports.values().filter(inside).map(|p| p.id).collect();
        prop_assert_eq!(index.ports_of_network(network).collect::<Vec<_>>(), scanned);
        let chain = ChainId(id(7, number));
        let named = |g: &&ChainGraph| {
            g.branches.iter().any(|(from, into)| *from == chain || into.contains(&chain))
        };
        let scanned: Vec<_> = intent.graphs.values().filter(named).map(|g| g.id).collect();
        prop_assert_eq!(index.graphs_of_chain(chain).collect::<Vec<_>>(), scanned);
        let of = |slice: &&Slice| slice.chain == chain;
        let scanned: Vec<_> = intent.slices.values().filter(of).map(|s| s.id).collect();
        prop_assert_eq!(index.slices_of_chain(chain).collect::<Vec<_>>(), scanned);
        let after = |slice: &&Slice| slice.after == Some(chain);
        let scanned: Vec<_> = intent.slices.values().filter(after).map(|s| s.id).collect();
        prop_assert_eq!(index.slices_after_chain(chain).collect::<Vec<_>>(), scanned);
    }
    let is_free = |n: &u32| !intent.chains.values().any(|chain| chain.number == *n);
    prop_assert_eq!(index.lowest_free_chain_number(), (1..).find(is_free));
    let is_free = |n: &u32| !intent.functions.values().any(|function| function.number == *n);
    prop_assert_eq!(index.lowest_free_function_number(), (1..).find(is_free));
    Ok(())
}

/// The same question, asked of every rule.
fn overlaps_by_scan(
    intent: &Intent,
    wanted: &ClassificationRule,
    project: Option<&ProjectId>,
) -> bool {
    intent.rules.values().any(|other| {
        other.id != wanted.id
            && project.is_none_or(|project| other.label.project == *project)
            && overlap(wanted, other)
    })
}

fn overlaps_in_chains_by_scan(
    intent: &Intent,
    wanted: &ClassificationRule,
    project: Option<&ProjectId>,
    own: ChainId,
) -> bool {
    let others = intent.chains.values().filter(|chain| {
        chain.id != own && project.is_none_or(|project| chain.label.project == *project)
    });
    let mut rules = others.flat_map(|c| &c.rules).filter_map(|id| intent.rules.get(id));
    rules.any(|other| tuples_overlap(wanted, other))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn after_any_writes_the_index_is_that_of_a_scan(writes in writes(60)) {
        let mut indexed = IndexedIntent::default();
        for write in &writes {
            apply(&mut indexed, write);
            says_what_a_scan_says(&indexed)?;
        }
        // What was refused or accepted plays no part here: only that nothing is left over.
        let _ = indexed.check();
        let anew = IndexedIntent::from(indexed.intent().clone());
        if check(indexed.intent()).is_ok() {
            prop_assert_eq!(&indexed, &anew);
        }
    }

    #[test]
    fn what_was_written_is_judged_as_the_whole_would_be(
        changes in prop::collection::vec(writes(5), 1..40),
    ) {
        let mut indexed = IndexedIntent::default();
        for change in &changes {
            let mut draft = indexed.clone();
            // One slice may be asked about before it is written.
            let asked = match change.as_slice() {
                [Write { kind: 8, number, is_removal: false, dice }] => {
                    Some(draft.check_slice(&slice(*number, &mut Dice(*dice))))
                }
                _ => None,
            };
            change.iter().for_each(|write| apply(&mut draft, write));
            let verdict = draft.check();
            let reference = check(draft.intent());
            if let Some(asked) = asked {
                prop_assert_eq!(
                    asked.is_ok(), reference.is_ok(), "{:?}, but {:?}", asked, reference
                );
            }
            prop_assert_eq!(
                verdict.is_ok(), reference.is_ok(), "{:?}, but {:?}", verdict, reference
            );
            if verdict.is_ok() {
                prop_assert_eq!(&draft, &IndexedIntent::from(draft.intent().clone()));
                indexed = draft;
            }
        }
    }

    #[test]
    fn overlapping_rules_are_found_as_by_a_scan(
        writes in writes(60), wanted in any::<u64>(), number in 0..7u32, all in any::<bool>(),
    ) {
        let mut indexed = IndexedIntent::default();
        writes.iter().for_each(|write| apply(&mut indexed, write));
        let (intent, index) = (indexed.intent(), indexed.index());
        let wanted = rule(number, &mut Dice(wanted));
        let project = (!all).then_some(&wanted.label.project);
        let found = index.overlapping(intent, &wanted, project);
        prop_assert_eq!(found.is_some(), overlaps_by_scan(intent, &wanted, project));
        if let Some(found) = found {
            prop_assert!(overlap(&wanted, found) && found.id != wanted.id);
            prop_assert!(project.is_none_or(|project| found.label.project == *project));
        }
        let own = ChainId(id(7, number));
        let found = index.overlapping_in_chains(intent, &wanted, project, own);
        let scanned = overlaps_in_chains_by_scan(intent, &wanted, project, own);
        prop_assert_eq!(found.is_some(), scanned);
        if let Some((chain, rule)) = found {
            prop_assert!(intent.chains[&chain].rules.contains(&rule) && chain != own);
        }
    }
}

/// A domain whose nodes do at once what they are told.
pub(crate) fn domain(nodes: u32) -> Reconciler {
    let mut reconciler = Reconciler::resume(Ledger::default(), [], Default::default());
    for number in 1..=nodes {
        let underlay = catena_model::program::Underlay {
            address: [192, 0, 2, number as u8].into(),
            mtu: 1_500,
        };
        let place = catena_model::topology::NodePlace::host(underlay);
        tell(&mut reconciler, number, NodeNews::Met { place, running: Default::default() });
    }
    reconciler
}

pub(crate) fn tell(reconciler: &mut Reconciler, number: u32, news: NodeNews) {
    let _ = reconciler.accept(News::Node { node: node(number), session: 1, news });
}

/// Plans until nothing changes; was there anything to plan?
fn settle(reconciler: &mut Reconciler, intent: &IndexedIntent) -> bool {
    let mut has_planned = false;
    // Compared with whoever looks at everything.
    let _ = next(reconciler.blueprint(), intent, reconciler.inventory());
    while let Some(planned) = reconciler.plan(intent) {
        has_planned = true;
        reconciler.adopt(planned);
        for (name, program) in reconciler.hand_out() {
            let number = u32::from(name != node(1)) + 1;
            let bound = program.entries.ports.keys().copied().collect();
            let unbound = std::collections::BTreeMap::new();
            tell(reconciler, number, NodeNews::Ports { bound, unbound });
            tell(reconciler, number, NodeNews::Acknowledged(program.number));
        }
    }
    has_planned
}

/// Does anything refer to what is not there? Whoever writes does not let it come to that.
pub(crate) fn dangles(intent: &Intent) -> bool {
    let rules = intent.rules.values().flat_map(|rule| [rule.source_port, rule.destination_port]);
    let instances = intent.instances.values().flat_map(|i| [i.ingress, i.egress]);
    let members = intent.functions.values().flat_map(|function| &function.instances);
    let hops = intent.chains.values().flat_map(|chain| &chain.functions);
    let classifiers = intent.chains.values().flat_map(|chain| &chain.rules);
    rules.flatten().chain(instances).any(|port| !intent.ports.contains_key(&port))
        || intent.ports.values().any(|port| !intent.networks.contains_key(&port.network))
        || members.into_iter().any(|id| !intent.instances.contains_key(id))
        || hops.into_iter().any(|id| !intent.functions.contains_key(id))
        || classifiers.into_iter().any(|id| !intent.rules.contains_key(id))
}

/// Applies changes to two domains, one of which remembers what it came to rest with: both plan alike.
fn plans_as_without_rest(changes: &[Vec<Write>], nodes: u32) -> Result<(), TestCaseError> {
    let mut indexed = IndexedIntent::default();
    for (kind, number) in (0..=5u8).flat_map(|kind| (0..5).map(move |number| (kind, number))) {
        let mut draft = indexed.clone();
        let dice = u64::from(number) * 0x0123_4567_89ab + u64::from(kind);
        apply(&mut draft, &Write { kind, number, is_removal: false, dice });
        if draft.check().is_ok() && !dangles(&draft) {
            indexed = draft;
        }
    }
    let (mut resting, mut restless) = (domain(nodes), domain(nodes));
    for change in changes {
        let mut draft = indexed.clone();
        change.iter().for_each(|write| apply(&mut draft, write));
        if draft.check().is_err() || dangles(&draft) {
            continue;
        }
        indexed = draft;
        let has_planned = settle(&mut resting, &indexed);
        prop_assert_eq!(has_planned, settle(&mut restless, &indexed));
        resting.converged(&indexed);
        let (left, right) = (resting.blueprint(), restless.blueprint());
        prop_assert_eq!((left.number, left.parent), (right.number, right.parent));
        prop_assert_eq!(&left.programs, &right.programs);
        prop_assert_eq!(&left.ledger, &right.ledger);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn what_is_passed_over_without_planning_needs_no_plan(
        changes in prop::collection::vec(writes(4), 1..40), nodes in 0..3u32,
    ) {
        plans_as_without_rest(&changes, nodes)?;
    }
}

/// Found by the property: without any node a graph, or the rules of another chain, let packets into a
/// chain over no function, which was passed over.
#[test]
fn what_lets_packets_into_a_chain_over_no_function_is_planned_without_any_node() {
    let put = |kind, number, dice| Write { kind, number, is_removal: false, dice };
    let by_a_graph = [
        vec![put(7, 0, 5_735_702_785_334_703_174)],
        vec![put(4, 4, 1_534_526_241_058_070_474), put(6, 2, 907_514_181_432_364_986)],
        vec![put(6, 1, 8_630_834_048_621_714_839)],
        vec![put(7, 1, 884_581_499_738_772_032)],
    ];
    let by_another_chain = [
        vec![put(3, 0, 5_936_719_848_022_608_555)],
        vec![put(0, 0, 0)],
        vec![put(6, 3, 9_792_084_569_727_592_996)],
        vec![put(7, 0, 0)],
        vec![put(4, 4, 153_829_465_816_918_248)],
        vec![put(7, 0, 12_239_913_107_594_201_468)],
        vec![put(7, 1, 6_149_170_261_875_869_020)],
        vec![put(6, 0, 1_970_463_625_490_677_590)],
    ];
    plans_as_without_rest(&by_a_graph, 0).unwrap();
    plans_as_without_rest(&by_another_chain, 0).unwrap();
}

#[test]
fn a_node_that_is_full_is_refused_by_the_sum_over_all_writes() {
    let mut indexed = IndexedIntent::default();
    let limit = catena_model::limits::NODE_PORTS_MAX;
    let host: NodeName = node(1);
    for number in 0..=limit {
        let mut port = port(u32::try_from(number).unwrap(), &mut Dice(0));
        port.node = Some(host.clone());
        indexed.put(port);
        let verdict = indexed.check();
        assert_eq!(verdict.is_ok(), number < limit, "{number}: {verdict:?}");
    }
    indexed.remove::<Port>(PortId(id(3, 0)));
    indexed.check().unwrap();
}

#[test]
fn more_addresses_of_a_network_than_a_node_can_be_told_are_refused_and_other_networks_are_not() {
    let limit = catena_model::limits::NODE_ADDRESSES_MAX;
    let fixed = |number: usize| FixedIp {
        subnet: SubnetId(id(2, 0)),
        address: std::net::Ipv6Addr::from_bits(number as u128).into(),
    };
    let mut indexed = IndexedIntent::default();
    let mut wide = port(0, &mut Dice(0));
    wide.fixed_ips = (0..limit).map(fixed).collect();
    indexed.put(wide);
    indexed.check().unwrap();
    let mut other = port(1, &mut Dice(0));
    other.fixed_ips = vec![fixed(limit)];
    other.node = Some(node(1));
    indexed.put(other);
    for refused in [indexed.check(), check(indexed.intent())] {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("524289 IP addresses of ports in network"), "{text}");
        assert!(text.contains("524288"), "{text}");
    }
    let mut elsewhere = port(1, &mut Dice(0));
    elsewhere.network = NetworkId(id(1, 9));
    elsewhere.fixed_ips = vec![fixed(limit)];
    indexed.put(elsewhere);
    indexed.check().unwrap();
}

//! Random towns with one node that is looked at: endpoints and functions there, some elsewhere, and
//! chains over them that change.

use crate::dice::Dice;
use crate::town::{Town, condition, rule};
use catena_model::classifier::FieldMatch;
use catena_model::program::{
    DelayClass, RulePlace, SliceEntry, SliceMatch, SlicePathEntry, SlicePolicy, SliceRate,
};
use catena_model::resource::{Encapsulation, FailurePolicy, IpFamily, Transport};
use catena_model::slice::SlicePlace;
use catena_model::{PathId, SliceId};
use catena_wire::scalar::{Teid, TeidRange};
use std::net::IpAddr;
use uuid::Uuid;

/// Destination ports that chains may take; others take none.
pub(crate) const CHAINED_PORTS: [u16; 4] = [5_001, 5_002, 5_003, 5_004];

/// Endpoints at the node: name and last byte of the address in both families.
pub(crate) const ENDPOINTS: [(&str, u8); 3] = [("A", 1), ("B", 2), ("C", 3)];
/// The endpoint at the other node.
pub(crate) const FAR: (&str, u8) = ("F", 9);
pub(crate) const FUNCTIONS: [&str; 5] = ["f1", "f2", "f3", "f4", "f5"];
const FAR_FUNCTION: &str = "far";
/// The function that speaks an encapsulation in some towns.
const AWARE: &str = "f5";
/// The network that nobody is in but functions.
const EMPTY_NETWORK: usize = 1;
/// A network that has addresses of some endpoints.
const OTHER_NETWORK: usize = 2;
/// Kinds of towns, one after the other.
const KINDS: u64 = 6;

/// What sets towns apart that differ in their number.
#[derive(Clone, Copy)]
pub(crate) struct TownKind {
    /// Users of slices: beside them the kernel carries only what cannot hide any.
    pub(crate) has_slices: bool,
    /// More flows and contents than the engine remembers, in less time than it forgets any: later the
    /// kernel goes on with flows whose place in the engine's memory others have.
    pub(crate) is_crowded: bool,
    /// The engine watches functions, and some die.
    pub(crate) is_watched: bool,
    /// The engine has its lane: every second town of each kind.
    pub(crate) has_fast_path: bool,
    /// Most chains go by segments: two of four, with the lane and without.
    pub(crate) is_segmented: bool,
}

impl TownKind {
    pub(crate) fn of(seed: u64) -> Self {
        let number = seed % KINDS;
        Self {
            has_slices: number == 0,
            is_crowded: number == 1,
            is_watched: number == 2,
            has_fast_path: (seed + seed / KINDS).is_multiple_of(2),
            is_segmented: (seed / KINDS / 2).is_multiple_of(2),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self { has_slices: true, .. } => "sliced",
            Self { is_crowded: true, .. } => "crowded",
            Self { is_watched: true, .. } => "watched",
            _ => "ordinary",
        }
    }
}

/// The ports and functions; no chain yet.
pub(crate) fn empty() -> Town {
    let mut town = Town::new(2);
    town.network(100, &["10.0.0.0/24", "2001:db8::/64"]);
    town.network(200, &["10.1.0.0/24", "2001:db8:1::/64"]);
    town.network(300, &["10.0.0.1/32", "2001:db8::/64"]);
    for (place, (name, last)) in ENDPOINTS.into_iter().chain([FAR]).enumerate() {
        let (v4, v6) = (format!("10.0.0.{last}"), format!("2001:db8::{last}"));
        town.endpoint(name, usize::from(place == ENDPOINTS.len()), 0, &[&v4, &v6]);
    }
    for (name, last) in FUNCTIONS.into_iter().zip(101..) {
        town.function(name, 0, (0, 1));
        // Whose presence the engine may ask for.
        let ingress = town.instances.last().expect("it was just built").ingress;
        town.ports[ingress].addresses = vec![IpAddr::from([10, 0, 0, last])];
    }
    town.function(FAR_FUNCTION, 1, (0, 1));
    town
}

/// Changes a chain, and now and then what functions take and speak and who is there.
pub(crate) fn change(town: &mut Town, seed: u64, dice: &mut Dice) {
    town.number += 1;
    // Some domains have one.
    town.choice_seed = (seed % 2).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    leave_or_return(town, dice);
    let kind = TownKind::of(seed);
    change_chains(town, kind, dice);
    if kind.is_watched {
        let policies = [FailurePolicy::Block, FailurePolicy::Bypass, FailurePolicy::Reroute];
        town.chains
            .iter_mut()
            .for_each(|chain| chain.on_failure = policies[chain.path as usize % 3]);
    }
    if dice.once_in(4) {
        change_functions(town, dice);
    }
    // In some towns what goes into a function is marked, which the kernel leaves to the engine.
    let keeps = (seed % (2 * KINDS) == KINDS + 4).then(|| FUNCTIONS[0].to_owned());
    town.keeping = keeps.into_iter().collect();
    if kind.has_slices {
        set_slices(town);
    }
}

/// Now and then an endpoint leaves the program, until the next change.
fn leave_or_return(town: &mut Town, dice: &mut Dice) {
    if town.absent.pop_first().is_none() && dice.once_in(8) {
        town.absent.insert(dice.pick(&ENDPOINTS).0.to_owned());
    }
}

/// At most one function takes nothing, and one may speak an encapsulation.
fn change_functions(town: &mut Town, dice: &mut Dice) {
    town.instances.iter_mut().for_each(|instance| instance.weight = 1);
    let idle = dice.below(town.instances.len() * 3);
    if let Some(instance) = town.instances.get_mut(idle) {
        instance.weight = 0;
    }
    let spoken = dice.pick(&[None, Some(Encapsulation::Nsh), Some(Encapsulation::Mpls)]);
    let aware = town.instances.iter_mut().find(|instance| instance.name == AWARE);
    aware.expect("it is built").speaks = spoken;
}

/// The users of one slice, on a path like that of a chain; behind it half of them go on by another.
fn set_slices(town: &mut Town) {
    // Users stay on their paths as long as these have their chains.
    let is_there =
        |path: &SlicePathEntry| town.chains.iter().any(|chain| PathId(chain.path) == path.like);
    let are_there = !town.slice_paths.is_empty() && town.slice_paths.iter().all(is_there);
    if are_there && !town.number.is_multiple_of(8) {
        return;
    }
    town.slices.clear();
    town.slice_paths.clear();
    // For a while there are none, and users are still told apart by what is in their tunnels.
    if town.number.is_multiple_of(16) {
        return;
    }
    let (Some(first), Some(last)) = (town.chains.first(), town.chains.last()) else { return };
    let behind = SlicePlace::After(town.chain_id(first));
    let likes = [first, last].map(|chain| PathId(chain.path));
    // Two of three have a rate, that of one packet now and then; the packets of others wait.
    let rate = SliceRate { bits_per_second: 80_000, burst_bytes: 180 };
    let rate = Some(rate).filter(|_| !town.number.is_multiple_of(3));
    let waits = rate.is_none();
    let whose = [(SlicePlace::Endpoints, 1_000, rate), (behind, 500, None)];
    for ((number, (place, last_user, rate)), like) in (1..).zip(whose).zip(likes) {
        let id = SliceId(Uuid::from_u128(number.into()));
        let path = PathId(500_000 + 2 * town.number as u32 + number);
        let teids = TeidRange::new(Teid(1), Teid(last_user)).unwrap();
        let matches = SliceMatch { place, tunnel_id: None, teids: Some(teids), qfi: None };
        let class = if waits { DelayClass::Urgent } else { DelayClass::Unscheduled };
        let (policy, name) = (SlicePolicy { rate, class }, "users".to_owned());
        town.slices.push(SliceEntry { id, name, matches, path, policy, is_injected: false });
        let carries_metadata = false;
        town.slice_paths.push(SlicePathEntry { id: path, slice: id, like, carries_metadata });
    }
}

/// Adds, takes away or rebuilds a chain.
fn change_chains(town: &mut Town, kind: TownKind, dice: &mut Dice) {
    if town.chains.len() > 3 || (!town.chains.is_empty() && dice.once_in(4)) {
        let gone = dice.below(town.chains.len());
        town.chains.remove(gone);
        // Those behind it have other identifiers, and no path of a slice goes from one chain to another.
        town.slice_paths.clear();
        return;
    }
    if !town.chains.is_empty() && dice.once_in(3) {
        // A changed chain is a new path.
        let place = dice.below(town.chains.len());
        let hops = hops(dice);
        let path = path_of(town);
        let chain = &mut town.chains[place];
        chain.path = path;
        chain.taps.clear();
        chain.hops = hops;
        return;
    }
    let number = town.number;
    let port = dice.pick(&CHAINED_PORTS);
    let family = dice.pick(&[IpFamily::Ipv4, IpFamily::Ipv4, IpFamily::Ipv6]);
    let rules = [Transport::Tcp, Transport::Udp].map(|transport| rule(family, transport, port));
    let encapsulation = match kind.is_segmented {
        true if dice.once_in(8) => Encapsulation::Srv6Ethernet,
        true if !dice.once_in(3) => Encapsulation::Srv6,
        _ => dice.pick(&Encapsulation::TUNNELLED),
    };
    let hops = hops(dice);
    let is_tapped = dice.once_in(2) && hops.len() > 1;
    let path = path_of(town);
    let source = town.port_named(dice.pick(&ENDPOINTS).0).id;
    let chain = town.chain(&format!("c{number}"), encapsulation, &[], &rules);
    chain.path = path;
    if is_tapped {
        chain.taps.push(dice.below(hops.len()));
    }
    chain.hops = hops;
    if dice.once_in(8) {
        chain.destination = EMPTY_NETWORK;
    } else if dice.once_in(6) {
        // Packets of two networks in its functions.
        chain.destination = OTHER_NETWORK;
        chain.rules.iter_mut().for_each(|(_, matches)| matches.place = RulePlace::Port(source));
    }
    let priority = 10 + dice.below(3) as u32;
    // What differs within a flow, no kernel looks at.
    let fields = if dice.once_in(8) { condition("dscp", "ef") } else { FieldMatch::default() };
    for (of, matches) in &mut chain.rules {
        (*of, matches.fields) = (priority, fields);
    }
}

/// One to four functions, none twice; now and then two share a hop, or one is elsewhere.
fn hops(dice: &mut Dice) -> Vec<Vec<String>> {
    let mut left: Vec<&str> = FUNCTIONS.to_vec();
    let mut hops = Vec::new();
    for _ in 0..1 + dice.below(3) {
        let mut hop = vec![left.swap_remove(dice.below(left.len())).to_owned()];
        if dice.once_in(4) && left.len() > 1 {
            hop.push(left.swap_remove(dice.below(left.len())).to_owned());
        }
        hops.push(hop);
    }
    if dice.once_in(2) {
        let place = dice.below(hops.len() + 1);
        hops.insert(place, vec![FAR_FUNCTION.to_owned()]);
    }
    hops
}

/// A number that no path has had: the program's number is in it.
fn path_of(town: &Town) -> u32 {
    10_000 + town.number as u32
}

//! What counters of nodes say of functions: which were given packets and gave none back, and whose
//! machines send past the paths. Pure: time is an argument, of whatever kind its caller counts in.

use crate::blueprint::Blueprint;
use crate::drain::Counted;
use crate::ledger::{Direction, PathPhase};
use catena_model::id::{ChainId, InstanceId, PortId};
use catena_model::program::HopKind;
use catena_model::{DropReason, HopCounters, NodeName, PathId};
use std::collections::BTreeMap;
use std::ops::Add;
use std::time::Duration;

/// A hop that has given nothing back for so long since it was given something is told.
const SILENCE_TOLD_AFTER: Duration = Duration::from_secs(1);
/// Drops as `undeclared_port` are told for so long after the last one was counted.
const UNDECLARED_TOLD_FOR: Duration = Duration::from_secs(10);

/// What was observed, as far as people should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed<T> {
    /// The hops of each chain that give nothing back.
    pub silent: BTreeMap<ChainId, Vec<Silent<T>>>,
    /// The ports at which packets end as `undeclared_port`, and since when.
    pub undeclared: BTreeMap<PortId, T>,
}

impl<T> Default for Observed<T> {
    fn default() -> Self {
        Self { silent: BTreeMap::new(), undeclared: BTreeMap::new() }
    }
}

/// A hop that was given packets and gave none back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Silent<T> {
    /// Name of the function.
    pub function: String,
    /// The instance.
    pub id: InstanceId,
    /// Its name.
    pub instance: String,
    /// The way of its path, if its chain has two.
    pub direction: Option<Direction>,
    /// The first look at the counters that showed it.
    pub since: T,
}

impl<T> Silent<T> {
    /// In words, with the moment as people read it.
    pub fn words(&self, moment: impl Fn(&T) -> String) -> String {
        let Self { function, instance, direction, since, .. } = self;
        let way = match direction {
            None => "",
            Some(Direction::Forward) => " on the forward path",
            Some(Direction::Reverse) => " on the reverse path",
        };
        format!(
            "instance '{instance}' of function '{function}' gives nothing back of what it is given{way} \
             since {}",
            moment(since)
        )
    }
}

/// Remembers counters from one look to the next.
#[derive(Debug)]
pub struct FunctionWatch<T> {
    hops: BTreeMap<HopKey, Hop<T>>,
    ports: BTreeMap<(NodeName, PortId), Dropping<T>>,
}

impl<T> Default for FunctionWatch<T> {
    fn default() -> Self {
        Self { hops: BTreeMap::new(), ports: BTreeMap::new() }
    }
}

/// A node, a path, the place of a function on it, and the instance.
type HopKey = (NodeName, PathId, (u16, u8), InstanceId);

/// The packets of a hop as of the last look.
#[derive(Debug)]
struct Hop<T> {
    delivered: u64,
    returned: u64,
    silent_since: Option<T>,
}

/// The drops of a port as of the last look.
#[derive(Debug)]
struct Dropping<T> {
    count: u64,
    /// When they began to rise, and rose last.
    rising: Option<(T, T)>,
}

impl<T: Copy + Ord + Add<Duration, Output = T>> FunctionWatch<T> {
    /// Takes what nodes counted. Nodes that gave no answer are believed as before.
    pub fn look(&mut self, blueprint: &Blueprint, counters: &Counted, now: T) -> Observed<T> {
        let mut hops = std::mem::take(&mut self.hops);
        let mut ports = std::mem::take(&mut self.ports);
        for (node, counted) in counters {
            for chain in &counted.chains {
                for hop in &chain.hops {
                    let place = (hop.hop, hop.member);
                    let key = (node.clone(), chain.path, place, hop.instance);
                    let before = hops.remove(&key);
                    self.hops.insert(key, Hop::after(before, hop, now));
                }
            }
            for port in &counted.ports {
                let key = (node.clone(), port.port);
                let before = ports.remove(&key);
                let count = port.account.dropped.get(&DropReason::UndeclaredPort).copied();
                self.ports.insert(key, Dropping::after(before, count.unwrap_or_default(), now));
            }
        }
        hops.retain(|(node, ..), _| !counters.contains_key(node));
        ports.retain(|(node, _), _| !counters.contains_key(node));
        self.hops.append(&mut hops);
        self.ports.append(&mut ports);
        self.told(blueprint, now)
    }

    fn told(&self, blueprint: &Blueprint, now: T) -> Observed<T> {
        let mut told = Observed::default();
        for ((_, path, place, instance), hop) in &self.hops {
            let Some(since) = hop.silent_since.filter(|since| *since + SILENCE_TOLD_AFTER <= now)
            else {
                continue;
            };
            // What is being installed or drained says nothing of the chain as it is.
            let path = blueprint.ledger.paths.get(path);
            let Some(path) = path.filter(|path| path.phase == PathPhase::Classified) else {
                continue;
            };
            // From a tap nothing returns.
            let function = path.functions().find(|one| (one.hop, one.member) == *place);
            let Some(function) = function.filter(|one| one.kind == HopKind::Through) else {
                continue;
            };
            let way_back =
                blueprint.ledger.path_in(path.chain, Direction::Reverse, PathPhase::Classified);
            let named = function.instances.iter().find(|one| one.id == *instance);
            let silent = Silent {
                function: function.name.to_owned(),
                id: *instance,
                instance: named.map_or_else(|| instance.to_string(), |one| one.name.to_owned()),
                direction: way_back.map(|_| path.direction),
                since,
            };
            told.silent.entry(path.chain).or_default().push(silent);
        }
        for ((_, port), dropping) in &self.ports {
            if let Some((since, last)) = dropping.rising
                && now < last + UNDECLARED_TOLD_FOR
            {
                told.undeclared.insert(*port, since);
            }
        }
        told
    }
}

impl<T: Copy> Hop<T> {
    /// Of a hop that is seen for the first time, the counters began at zero.
    fn after(before: Option<Self>, hop: &HopCounters, now: T) -> Self {
        let (delivered, returned) = (hop.delivered.packets, hop.returned.packets);
        let before = before.unwrap_or(Self { delivered: 0, returned: 0, silent_since: None });
        // Counters that fell are those of another data plane.
        let has_answered = returned != before.returned || delivered < before.delivered;
        let was_given = delivered > before.delivered;
        let silent_since =
            before.silent_since.or(was_given.then_some(now)).filter(|_| !has_answered);
        Self { delivered, returned, silent_since }
    }
}

impl<T: Copy + Ord + Add<Duration, Output = T>> Dropping<T> {
    /// When what is there at the first look was dropped, nobody knows.
    fn after(before: Option<Self>, count: u64, now: T) -> Self {
        let Some(before) = before else { return Self { count, rising: None } };
        let lasting = before.rising.filter(|(_, last)| now < *last + UNDECLARED_TOLD_FOR);
        let rising = if count > before.count {
            Some((lasting.map_or(now, |(since, _)| since), now))
        } else {
            lasting
        };
        Self { count, rising }
    }
}

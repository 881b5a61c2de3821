//! The numbers of nodes in telemetry, unique in the domain. A number stays with its node over restarts, and rests when
//! that has no place in the IPv6 underlay any more: packets may still carry it. Knows names and numbers; refuses to
//! know what nodes write beside them.

use crate::inventory::{Inventory, NodeFacts};
use crate::programs::Programs;
use catena_model::limits::PATH_ID_QUARANTINE_BLUEPRINTS;
use catena_model::telemetry::DeviceId;
use catena_model::{BlueprintNumber, NodeName};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The numbers that nodes have, and those that rest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    given: BTreeMap<NodeName, DeviceId>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    resting: BTreeMap<DeviceId, RestingDevice>,
}

/// A number whose node writes it no more, or soon will not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RestingDevice {
    /// Whose it was: when that is there again, it has its number again.
    of: NodeName,
    /// The first blueprint that may give the number to another.
    until: BlueprintNumber,
    /// The program by which its node forgets it.
    needs: BlueprintNumber,
}

impl RestingDevice {
    fn rests(&self, inventory: &Inventory, number: BlueprintNumber) -> bool {
        number < self.until || !inventory.has_let_go(&self.of, self.needs)
    }
}

impl Devices {
    /// The number of a node; none: it has none.
    #[must_use]
    pub fn of(&self, node: &NodeName) -> Option<DeviceId> {
        self.given.get(node).copied()
    }

    /// The nodes with a number.
    pub fn given(&self) -> impl Iterator<Item = (&NodeName, DeviceId)> {
        self.given.iter().map(|(node, number)| (node, *number))
    }

    /// How many numbers rest.
    pub(crate) fn resting(&self) -> usize {
        self.resting.len()
    }

    /// Has each node the number that it has there?
    pub(crate) fn are_given_as(&self, other: &Self) -> bool {
        self.given == other.given
    }

    /// Gives up what has rested, lets the numbers of nodes that have lost their place rest, and gives numbers to those
    /// that have none, as long as there are any.
    fn follow(&mut self, inventory: &Inventory, number: BlueprintNumber) {
        self.resting.retain(|_, resting| resting.rests(inventory, number));
        let gone: Vec<NodeName> =
            self.given.keys().filter(|node| !is_placed(inventory, node)).cloned().collect();
        for node in gone {
            let device = self.given.remove(&node);
            // Two nodes of one number: it stays with the other.
            let is_single = |device: &DeviceId| !self.given.values().any(|other| other == device);
            if let Some(device) = device.filter(is_single) {
                let until = BlueprintNumber(number.0 + PATH_ID_QUARANTINE_BLUEPRINTS);
                self.resting.insert(device, RestingDevice { of: node, until, needs: number });
            }
        }
        let lacks = |node: &&NodeName| !self.given.contains_key(*node);
        let lacking: Vec<NodeName> = placed(inventory).filter(lacks).cloned().collect();
        let had: BTreeMap<NodeName, DeviceId> =
            self.resting.iter().map(|(device, one)| (one.of.clone(), *device)).collect();
        // Those first that had one: it is not given to another that comes with its node.
        let (known, new): (Vec<_>, Vec<_>) =
            lacking.into_iter().partition(|node| had.contains_key(node));
        for (node, own) in known.into_iter().filter_map(|node| had.get_key_value(&node)) {
            self.resting.remove(own);
            self.given.insert(node.clone(), *own);
        }
        let taken: BTreeSet<DeviceId> =
            self.given.values().chain(self.resting.keys()).copied().collect();
        let free = (1..=u16::MAX).map(DeviceId).filter(|device| !taken.contains(device));
        self.given.extend(new.into_iter().zip(free));
    }

    /// Is there nothing to give, to take away, or to give up?
    fn is_settled(&self, inventory: &Inventory) -> bool {
        self.resting.is_empty() && self.given.keys().eq(placed(inventory))
    }
}

/// The hosts with a place in the IPv6 underlay.
fn placed(inventory: &Inventory) -> impl Iterator<Item = &NodeName> {
    let placed = inventory.nodes.iter().filter(|(_, facts)| facts.segments.is_some());
    placed.map(|(node, _)| node)
}

fn is_placed(inventory: &Inventory, node: &NodeName) -> bool {
    let has_place = |facts: &NodeFacts| facts.segments.is_some();
    inventory.nodes.get(node).is_some_and(has_place)
}

/// Brings the numbers to the nodes that have a place now.
pub(crate) fn number_nodes(
    devices: &mut Arc<Devices>,
    inventory: &Inventory,
    number: BlueprintNumber,
) {
    if devices.is_settled(inventory) {
        return;
    }
    let mut followed = Devices::clone(devices);
    followed.follow(inventory, number);
    if followed != **devices {
        *devices = Arc::new(followed);
    }
}

/// Notes by which programs nodes forget the numbers that this blueprint has taken away.
pub(crate) fn note_needs(devices: &mut Arc<Devices>, programs: &Programs, number: BlueprintNumber) {
    let until = BlueprintNumber(number.0 + PATH_ID_QUARANTINE_BLUEPRINTS);
    if !devices.resting.values().any(|resting| resting.until == until) {
        return;
    }
    let new = Arc::make_mut(devices).resting.values_mut().filter(|resting| resting.until == until);
    for resting in new {
        resting.needs = programs.get(&resting.of).map_or(number, |program| program.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::program::{Locator, SegmentPlace, Underlay};
    use proptest::prelude::*;

    fn name(number: u32) -> NodeName {
        NodeName::new(format!("host{number:05}")).unwrap()
    }

    /// These hosts, all with a place.
    fn placed_at(numbers: impl IntoIterator<Item = u32>) -> Inventory {
        let mut inventory = Inventory::default();
        for number in numbers {
            let mut facts = NodeFacts::new(Underlay::default());
            facts.segments = Some(SegmentPlace {
                address: "2001:db8::1".parse().unwrap(),
                locator: Locator::new([0x5f, 0, 0, 0, 0, 1]).unwrap(),
            });
            inventory.nodes.insert(name(number), facts);
        }
        inventory
    }

    fn follow(devices: &mut Arc<Devices>, inventory: &Inventory, number: u64) {
        number_nodes(devices, inventory, BlueprintNumber(number));
        note_needs(devices, &Programs::default(), BlueprintNumber(number));
    }

    #[test]
    fn the_lowest_number_is_given_that_nobody_has_or_had_lately() {
        let mut devices = Arc::default();
        follow(&mut devices, &placed_at([1, 2, 3]), 1);
        let of = |devices: &Devices, number| devices.of(&name(number)).map(|device| device.0);
        assert_eq!([1, 2, 3].map(|number| of(&devices, number)), [Some(1), Some(2), Some(3)]);
        // One goes, and is not known any more.
        follow(&mut devices, &placed_at([1, 3, 4]), 2);
        assert_eq!(
            [1, 2, 3, 4].map(|number| of(&devices, number)),
            [Some(1), None, Some(3), Some(4)]
        );
        // It comes back to its own.
        follow(&mut devices, &placed_at([0, 1, 2, 3, 4]), 3);
        assert_eq!((of(&devices, 2), of(&devices, 0)), (Some(2), Some(5)));
        let rested = 4 + PATH_ID_QUARANTINE_BLUEPRINTS;
        follow(&mut devices, &placed_at([0, 1, 3, 4]), 4);
        follow(&mut devices, &placed_at([0, 1, 3, 4, 6]), rested - 1);
        assert_eq!(of(&devices, 6), Some(6), "it rests");
        follow(&mut devices, &placed_at([0, 1, 3, 4, 6, 7]), rested);
        assert_eq!(of(&devices, 7), Some(2));
    }

    #[test]
    fn a_number_rests_while_its_node_may_write_it() {
        let mut devices = Arc::default();
        follow(&mut devices, &placed_at([1]), 1);
        let mut inventory = placed_at([1, 2]);
        inventory.nodes.get_mut(&name(1)).unwrap().segments = None;
        follow(&mut devices, &inventory, 2);
        let late = 2 + 2 * PATH_ID_QUARANTINE_BLUEPRINTS;
        inventory.nodes.extend(placed_at([3]).nodes);
        follow(&mut devices, &inventory, late);
        assert_eq!(devices.of(&name(3)), Some(DeviceId(3)), "it has not let go");
        inventory.nodes.get_mut(&name(1)).unwrap().acknowledged = BlueprintNumber(2);
        inventory.nodes.extend(placed_at([4]).nodes);
        follow(&mut devices, &inventory, late + 1);
        assert_eq!(devices.of(&name(4)), Some(DeviceId(1)));
    }

    #[test]
    fn who_comes_when_all_numbers_are_given_has_none_until_one_has_rested() {
        let most = u32::from(u16::MAX);
        let mut devices = Arc::default();
        follow(&mut devices, &placed_at(1..=most), 1);
        assert_eq!(devices.given().count(), 65_535);
        let given: BTreeSet<DeviceId> = devices.given().map(|(_, device)| device).collect();
        assert_eq!((given.len(), given.first()), (65_535, Some(&DeviceId(1))));
        follow(&mut devices, &placed_at(2..=most + 1), 2);
        assert_eq!((devices.of(&name(most + 1)), devices.resting()), (None, 1));
        follow(&mut devices, &placed_at(2..=most + 1), 2 + PATH_ID_QUARANTINE_BLUEPRINTS);
        assert_eq!((devices.of(&name(most + 1)), devices.resting()), (Some(DeviceId(1)), 0));
    }

    #[derive(Clone, Debug)]
    enum Turn {
        /// A host has a place, or none any more.
        Place(u32, bool),
        Acknowledge(u32),
        Forget(u32),
        Restart,
    }

    fn turns() -> impl Strategy<Value = Vec<Turn>> {
        let host = || 1..=4_u32;
        let turn = prop_oneof![
            6 => (host(), any::<bool>()).prop_map(|(host, is_placed)| Turn::Place(host, is_placed)),
            6 => host().prop_map(Turn::Acknowledge),
            1 => host().prop_map(Turn::Forget),
            1 => Just(Turn::Restart),
        ];
        prop::collection::vec(turn, 1..150)
    }

    proptest! {
        #[test]
        fn no_number_is_two_nodes_or_anothers_before_it_has_rested(turns in turns()) {
            let (mut devices, mut inventory) = (Arc::<Devices>::default(), Inventory::default());
            // Whose each was last, and the blueprint that took it away, if one has.
            let mut lasts: BTreeMap<DeviceId, (NodeName, Option<u64>)> = BTreeMap::new();
            let mut acknowledged: BTreeMap<NodeName, u64> = BTreeMap::new();
            for (turn, number) in turns.into_iter().zip(1..) {
                match turn {
                    Turn::Place(host, is_placed) => {
                        let placed = placed_at([host]).nodes;
                        for (name, facts) in placed {
                            let segments = facts.segments.filter(|_| is_placed);
                            inventory.nodes.entry(name).or_insert(facts).segments = segments;
                        }
                    }
                    Turn::Acknowledge(host) => {
                        if let Some(facts) = inventory.nodes.get_mut(&name(host)) {
                            facts.acknowledged = BlueprintNumber(number - 1);
                            acknowledged.insert(name(host), number - 1);
                        }
                    }
                    Turn::Forget(host) => {
                        inventory.nodes.remove(&name(host));
                        acknowledged.insert(name(host), u64::MAX);
                    }
                    Turn::Restart => {
                        let written = serde_json::to_string(&*devices).unwrap();
                        devices = Arc::new(serde_json::from_str(&written).unwrap());
                    }
                }
                follow(&mut devices, &inventory, number);
                prop_assert!(devices.given.keys().eq(placed(&inventory)));
                let held: BTreeSet<DeviceId> = devices.given.values().copied().collect();
                prop_assert_eq!(held.len(), devices.given.len());
                for (node, device) in devices.given() {
                    let last = lasts.insert(device, (node.clone(), None));
                    let Some((other, gone)) = last.filter(|(last, _)| last != node) else { continue };
                    let gone = gone.expect("it was taken away before it was given");
                    prop_assert!(number - gone >= PATH_ID_QUARANTINE_BLUEPRINTS);
                    let known = acknowledged.get(&other).copied().unwrap_or_default();
                    prop_assert!(known >= gone, "{other} writes {device}");
                }
                for (_, (_, gone)) in lasts.iter_mut().filter(|(device, _)| !held.contains(device)) {
                    *gone = gone.or(Some(number));
                }
            }
        }
    }
}

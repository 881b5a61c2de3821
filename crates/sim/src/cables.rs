//! Cables between hosts and switches: where each is plugged in, what becomes of frames in it, and how it dies and comes
//! back. Knows interfaces; refuses to know what nodes make of it (`discovery`, `hellos`).

use crate::agent::Agent;
use crate::config::Fabric;
use crate::random::Random;
use crate::world::{Event, World};
use catena_model::limits::HELLO_PERIOD_MS;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Links of a node that lead nowhere, and come and go: they want numbers too.
pub(crate) const SPARES: [&str; 2] = ["spare1", "spare2"];
/// A carrier that comes or goes is looked at within this, in microseconds.
const LOOK_US: u64 = 20_000;

/// An interface of a node.
pub(crate) type Plug = (usize, String);

/// What becomes of frames in a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// They come out at the other end.
    Carries,
    /// It has no carrier.
    Cut,
    /// Nothing comes out, and the carrier stays.
    Silent,
}

#[derive(Debug)]
pub(crate) struct Cable {
    pub(crate) ends: [Plug; 2],
    pub(crate) condition: Condition,
}

/// The cables of `hosts` that each are plugged into two of `switches`: whichever of them is dead, there is another way.
pub(crate) fn cables(fabric: Fabric, hosts: usize, switches: usize) -> Vec<Cable> {
    let mut pairs = Vec::new();
    for host in 0..hosts {
        let first = if fabric == Fabric::Ring { host * switches / hosts } else { host };
        pairs.extend([0, 1].map(|next| (host, hosts + (first + next) % switches)));
    }
    for one in 0..switches {
        let others = match fabric {
            Fabric::None => 0..0,
            Fabric::Mesh => one + 1..switches,
            Fabric::Ring if one + 1 == switches => 0..1,
            Fabric::Ring => one + 1..one + 2,
        };
        pairs.extend(others.map(|other| (hosts + one, hosts + other)));
    }
    let cable = |(one, other): (usize, usize)| Cable {
        ends: [(one, interface(other)), (other, interface(one))],
        condition: Condition::Carries,
    };
    pairs.into_iter().map(cable).collect()
}

/// An interface is called after the node at the other end of its cable.
fn interface(far: usize) -> String {
    format!("to{far}")
}

impl World {
    fn cable_at(&self, node: usize, interface: &str) -> Option<(usize, &Plug)> {
        self.cables.iter().enumerate().find_map(|(place, cable)| {
            let [one, other] = &cable.ends;
            let is_it = |end: &Plug| end.0 == node && end.1 == interface;
            let far = if is_it(one) { Some(other) } else { is_it(other).then_some(one) };
            Some((place, far?))
        })
    }

    /// The other end of the cable at an interface, whatever state it is in.
    pub(crate) fn far_plug(&self, node: usize, interface: &str) -> Option<&Plug> {
        self.cable_at(node, interface).map(|(_, far)| far)
    }

    fn is_plugged(&self, (node, interface): &Plug) -> bool {
        self.nodes.get(*node).is_some_and(|node| node.plugs.get(interface) == Some(&true))
    }

    /// Where a frame comes out that is sent out of an interface; none: nowhere.
    pub(crate) fn comes_out_at(&self, node: usize, interface: &str) -> Option<&Plug> {
        let (cable, far) = self.cable_at(node, interface)?;
        let carries = self.cables.get(cable)?.condition == Condition::Carries;
        let own = (node, interface.to_owned());
        (carries && self.is_plugged(far) && self.is_plugged(&own)).then_some(far)
    }

    /// Has an interface a carrier?
    pub(crate) fn has_carrier(&self, node: usize, interface: &str) -> bool {
        let Some((cable, far)) = self.cable_at(node, interface) else { return false };
        let is_cut = self.cables.get(cable).is_none_or(|one| one.condition == Condition::Cut);
        !is_cut && self.is_plugged(far)
    }

    /// Cables that carry and whose ends do not both hear each other yet, in words.
    pub(crate) fn unheard_cable(&self) -> Option<String> {
        let is_unheard = |(node, interface): &Plug| {
            let dataplane = self.nodes.get(*node).and_then(|node| node.dataplane.as_ref());
            dataplane.is_none_or(|dataplane| !dataplane.hellos.is_sound(interface))
        };
        let mut carrying = self.cables.iter().filter(|cable| cable.condition == Condition::Carries);
        let cable = carrying.find(|cable| cable.ends.iter().any(is_unheard))?;
        let [one, other] = cable.ends.each_ref().map(|(node, _)| self.name(*node));
        Some(format!("{one} and {other} do not hear each other"))
    }

    // ----- what nodes notice -----

    /// Data planes say hello at their links.
    pub(crate) fn say_hello(&mut self) {
        for index in 0..self.nodes.len() {
            let brings: BTreeSet<String> = self
                .plugged(index)
                .filter(|interface| self.is_greeted(index, interface))
                .cloned()
                .collect();
            let Some(node) = self.nodes.get_mut(index) else { continue };
            let Some(dataplane) = &mut node.dataplane else { continue };
            let told = dataplane.hellos.period(|interface| brings.contains(interface));
            if let (Some(told), Some(link)) = (told, node.link) {
                self.answer_agent(link, told);
            }
        }
        let jitter = self.wait_us(0, 5_000);
        self.after(HELLO + jitter, Event::Hellos);
    }

    /// Is a hello sent to an interface?
    fn is_greeted(&self, index: usize, interface: &str) -> bool {
        let Some((far, plug)) = self.comes_out_at(index, interface) else { return false };
        let dataplane = self.nodes.get(*far).and_then(|node| node.dataplane.as_ref());
        dataplane.is_some_and(|dataplane| dataplane.hellos.speaks_at(plug))
    }

    fn plugged(&self, index: usize) -> impl Iterator<Item = &String> {
        let plugs = self.nodes.get(index).into_iter().flat_map(|node| &node.plugs);
        plugs.filter(|(_, is_there)| **is_there).map(|(interface, _)| interface)
    }

    /// Agents say who they are at their links, and look at these.
    pub(crate) fn say_words(&mut self) {
        for index in 0..self.nodes.len() {
            self.look(index);
        }
        let now = self.now;
        for index in 0..self.nodes.len() {
            let interfaces: Vec<String> = self.plugged(index).cloned().collect();
            for interface in interfaces {
                let Some(node) = self.nodes.get_mut(index) else { continue };
                let name = node.name.clone();
                let discovery = node.agent.as_mut().and_then(Agent::discovery);
                let word = discovery.and_then(|one| one.word(name.as_str(), &interface));
                let Some((far, plug)) = self.comes_out_at(index, &interface).cloned() else {
                    continue;
                };
                let far = self.nodes.get_mut(far).and_then(|far| far.agent.as_mut());
                if let (Some(word), Some(far)) = (word, far.and_then(Agent::discovery)) {
                    far.hear(&plug, word, now);
                }
            }
        }
        (0..self.nodes.len()).for_each(|index| self.advance_agent(index));
        let jitter = self.wait_us(0, 50_000);
        self.after(WORD + jitter, Event::Words);
    }

    /// An agent looks at its interfaces.
    pub(crate) fn look(&mut self, index: usize) {
        let interfaces: Vec<String> = self.plugged(index).cloned().collect();
        let has_carrier = |interface: String| {
            let carries = self.has_carrier(index, &interface);
            (interface, carries)
        };
        let found: BTreeMap<String, bool> = interfaces.into_iter().map(has_carrier).collect();
        let agent = self.nodes.get_mut(index).and_then(|node| node.agent.as_mut());
        if let Some(discovery) = agent.and_then(Agent::discovery) {
            discovery.look(&found);
            self.advance_agent(index);
        }
    }

    // ----- faults -----

    /// Something happens to a cable, or to a link.
    pub(crate) fn fault_at_cable(&mut self) {
        let place = self.random.index(self.cables.len());
        let Some(cable) = self.cables.get(place) else { return };
        let end = cable.ends[self.random.index(2)].clone();
        match self.random.below(6) {
            0 => self.break_cable(place, Condition::Cut),
            1 => self.break_cable(place, Condition::Silent),
            2 => {
                let turns = 2 * u32::try_from(self.random.between(2, 5)).unwrap_or(2);
                self.trace.note(format_args!("fault: flap({})", self.cable_name(place)));
                self.flap(place, turns);
            }
            3 => self.unplug(end.0),
            4 => {
                // Whoever comes first takes what numbers it can.
                (0..2).for_each(|_| self.unplug(end.0));
            }
            _ => self.turn_spare(),
        }
    }

    fn break_cable(&mut self, cable: usize, condition: Condition) {
        self.trace.note(format_args!("fault: {condition:?}({})", self.cable_name(cable)));
        self.checks.tally.dead_cables += 1;
        self.set_condition(cable, condition);
        // Some stay so until everything is healed.
        if !self.random.chance(150) {
            let wait = self.wait_us(10_000, 8_000_000);
            self.after(wait, Event::Cable { cable, turns: 0 });
        }
    }

    /// A cable that comes and goes: so many turns are left; none: it stays.
    pub(crate) fn flap(&mut self, cable: usize, turns: u32) {
        if self.is_healing {
            return;
        }
        let condition = if turns.is_multiple_of(2) { Condition::Carries } else { Condition::Cut };
        self.set_condition(cable, condition);
        if let Some(turns) = turns.checked_sub(1) {
            let wait = self.wait_us(5_000, 400_000);
            self.after(wait, Event::Cable { cable, turns });
        }
    }

    fn set_condition(&mut self, place: usize, condition: Condition) {
        let Some(cable) = self.cables.get_mut(place) else { return };
        cable.condition = condition;
        for (node, _) in cable.ends.clone() {
            self.look_soon(node);
        }
    }

    fn look_soon(&mut self, node: usize) {
        let wait = self.wait_us(100, LOOK_US);
        self.after(wait, Event::Look(node));
    }

    /// One of a node's links vanishes for a while.
    fn unplug(&mut self, node: usize) {
        let ends = self.cables.iter().flat_map(|cable| &cable.ends);
        let own: Vec<Plug> = ends.filter(|end| end.0 == node).cloned().collect();
        let Some(end) = self.random.pick(&own).cloned() else { return };
        self.trace.note(format_args!("fault: unplug({}, {})", self.name(node), end.1));
        self.set_plugged(&end, false);
        let wait = self.wait_us(10_000, 8_000_000);
        self.after(wait, Event::Plug { node, interface: end.1 });
    }

    /// An interface is there (again).
    pub(crate) fn plug(&mut self, node: usize, interface: String) {
        self.set_plugged(&(node, interface), true);
    }

    fn set_plugged(&mut self, (node, interface): &Plug, is_there: bool) {
        let far = self.far_plug(*node, interface).map(|(far, _)| *far);
        if let Some(plug) = self.nodes.get_mut(*node).and_then(|node| node.plugs.get_mut(interface))
        {
            *plug = is_there;
        }
        for node in [Some(*node), far].into_iter().flatten() {
            self.look_soon(node);
        }
    }

    /// A link that leads nowhere comes or goes.
    fn turn_spare(&mut self) {
        let node = self.random.index(self.nodes.len());
        let Some(spare) = self.random.pick(&SPARES) else { return };
        let plug = (node, (*spare).to_owned());
        let is_there = !self.is_plugged(&plug);
        self.trace.note(format_args!("{}: link {spare} is there: {is_there}", self.name(node)));
        self.set_plugged(&plug, is_there);
    }

    fn cable_name(&self, cable: usize) -> String {
        let ends = self.cables.get(cable).map(|cable| cable.ends.each_ref());
        let names = ends.map(|ends| ends.map(|(node, _)| self.name(*node)));
        names.map(|names| names.join("-")).unwrap_or_default()
    }

    /// Every cable carries, but perhaps for one: chains must go round that.
    pub(crate) fn heal_cables(&mut self) {
        let all: Vec<Plug> = self.cables.iter().flat_map(|cable| cable.ends.clone()).collect();
        for end in all {
            self.set_plugged(&end, true);
        }
        let dead = dead_one(self.cables.len(), &mut self.random);
        for place in 0..self.cables.len() {
            let condition = if Some(place) == dead { Condition::Cut } else { Condition::Carries };
            self.set_condition(place, condition);
        }
        if let Some(dead) = dead {
            self.trace.note(format_args!("{} stays dead", self.cable_name(dead)));
        }
    }
}

/// One that nobody mends, in every other run.
fn dead_one(cables: usize, random: &mut Random) -> Option<usize> {
    let has_one = cables > 0 && random.chance(500);
    has_one.then(|| random.index(cables))
}

/// Between two hellos of data planes.
pub(crate) const HELLO: Duration = Duration::from_millis(HELLO_PERIOD_MS);
/// Between two words of agents.
pub(crate) const WORD: Duration = Duration::from_secs(1);

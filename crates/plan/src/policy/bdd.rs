//! Sets of assignments to Boolean variables, as reduced ordered binary decision diagrams (Bryant 1986) with complement
//! edges (Brace, Rudell and Bryant 1990): equal sets are equal numbers, and a complement costs nothing.
//!
//! Knows variables by their order; refuses to know what they stand for.

use std::collections::HashMap;
use std::ops::Not;
use thiserror::Error;

/// A set that a [`Bdd`] has made: the place of its node, and in the lowest bit whether it is the complement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Set(u32);

impl Set {
    /// All assignments.
    pub(crate) const ALL: Self = Self(0);
    /// None.
    pub(crate) const NONE: Self = Self(1);

    /// Is nothing in it?
    pub(crate) fn is_empty(self) -> bool {
        self == Self::NONE
    }

    const fn is_complement(self) -> bool {
        self.0 & 1 == 1
    }

    const fn node(self) -> usize {
        (self.0 >> 1) as usize
    }
}

impl Not for Set {
    type Output = Self;

    fn not(self) -> Self {
        Self(self.0 ^ 1)
    }
}

/// More than an analysis holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "these rules make more cases than an analysis holds ({NODES_MAX} nodes, {VISITS_MAX} visits of rules); analyse fewer or \
     simpler ones at once"
)]
pub(crate) struct TooLarge;

/// Nodes of one diagram: 12 bytes each, and up to 16 for finding them.
pub(crate) const NODES_MAX: usize = 1 << 23;
/// Rules that one analysis goes through, each as often as chains lead to it.
pub(crate) const VISITS_MAX: usize = 1 << 18;
/// Answers that are remembered, each at the one place that its question has.
const CACHED: usize = 1 << 20;

/// What is below all variables.
const LEAF: u32 = u32::MAX;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Node {
    variable: u32,
    /// Where the variable is 0; only this one may be a complement.
    low: Set,
    /// Where it is 1.
    high: Set,
}

/// Diagrams that share their nodes.
pub(crate) struct Bdd {
    nodes: Vec<Node>,
    /// Places of nodes by what they are, each at the first free place from the one its hash names; 0: free.
    places: Vec<u32>,
    cache: Vec<(Set, Set, Set)>,
    /// Of each set, one more than the length of the shortest way into it; 0, and behind the end: not known yet.
    shortest: Vec<u16>,
}

impl Bdd {
    pub(crate) fn new() -> Self {
        let leaf = Node { variable: LEAF, low: Set::ALL, high: Set::ALL };
        // The question «all and all» is never asked of it.
        let nothing = (Set::ALL, Set::ALL, Set::ALL);
        let (places, cache) = (vec![0; 1 << 12], vec![nothing; CACHED]);
        Self { nodes: vec![leaf], places, cache, shortest: Vec::new() }
    }

    /// Where a variable is 1.
    pub(crate) fn variable(&mut self, variable: u32) -> Result<Set, TooLarge> {
        self.choice(variable, Set::NONE, Set::ALL)
    }

    /// `low` where a variable is 0 and `high` where it is 1; both are about variables behind it.
    pub(crate) fn choice(&mut self, variable: u32, low: Set, high: Set) -> Result<Set, TooLarge> {
        if low == high {
            return Ok(low);
        }
        if high.is_complement() {
            return Ok(!self.choice(variable, !low, !high)?);
        }
        let node = Node { variable, low, high };
        let mut slot = self.slot_of(&node);
        while self.places[slot] != 0 {
            let place = self.places[slot];
            if self.nodes[place as usize] == node {
                return Ok(Set(place << 1));
            }
            slot = (slot + 1) & (self.places.len() - 1);
        }
        if self.nodes.len() >= NODES_MAX {
            return Err(TooLarge);
        }
        let place = u32::try_from(self.nodes.len()).map_err(|_| TooLarge)?;
        self.nodes.push(node);
        self.places[slot] = place;
        if 2 * self.nodes.len() > self.places.len() {
            self.make_room();
        }
        Ok(Set(place << 1))
    }

    fn slot_of(&self, node: &Node) -> usize {
        let pair = u64::from(node.low.0) << 32 | u64::from(node.high.0);
        // There are a power of two of them.
        mixed(pair ^ mixed(node.variable.into())) as usize & (self.places.len() - 1)
    }

    /// Twice as many places, each node at its own.
    fn make_room(&mut self) {
        self.places = vec![0; 2 * self.places.len()];
        for (place, node) in (0..).zip(&self.nodes).skip(1) {
            let mut slot = self.slot_of(node);
            while self.places[slot] != 0 {
                slot = (slot + 1) & (self.places.len() - 1);
            }
            self.places[slot] = place;
        }
    }

    /// What is in both.
    pub(crate) fn and(&mut self, a: Set, b: Set) -> Result<Set, TooLarge> {
        match (a, b) {
            (Set::NONE, _) | (_, Set::NONE) => return Ok(Set::NONE),
            (Set::ALL, other) | (other, Set::ALL) => return Ok(other),
            _ if a == b => return Ok(a),
            _ if a == !b => return Ok(Set::NONE),
            _ => {}
        }
        let (a, b) = (a.min(b), a.max(b));
        let slot = slot(a, b);
        if let Some((first, second, answer)) = self.cache.get(slot).copied()
            && (first, second) == (a, b)
        {
            return Ok(answer);
        }
        let variable = self.top(a).min(self.top(b));
        let ((a0, a1), (b0, b1)) = (self.below(a, variable), self.below(b, variable));
        let (low, high) = (self.and(a0, b0)?, self.and(a1, b1)?);
        let answer = self.choice(variable, low, high)?;
        if let Some(place) = self.cache.get_mut(slot) {
            *place = (a, b, answer);
        }
        Ok(answer)
    }

    /// Is anything in both? Makes no nodes, and ends with the first that is found.
    pub(crate) fn meets(&mut self, a: Set, b: Set) -> bool {
        match (a, b) {
            (Set::NONE, _) | (_, Set::NONE) => return false,
            (Set::ALL, _) | (_, Set::ALL) => return true,
            _ if a == b => return true,
            _ if a == !b => return false,
            _ => {}
        }
        let (a, b) = (a.min(b), a.max(b));
        let slot = slot(a, b);
        if let Some((first, second, answer)) = self.cache.get(slot).copied()
            && (first, second) == (a, b)
        {
            return !answer.is_empty();
        }
        let variable = self.top(a).min(self.top(b));
        let ((a0, a1), (b0, b1)) = (self.below(a, variable), self.below(b, variable));
        let is_met = self.meets(a0, b0) || self.meets(a1, b1);
        if let (false, Some(place)) = (is_met, self.cache.get_mut(slot)) {
            *place = (a, b, Set::NONE);
        }
        is_met
    }

    /// What is in one of them at least.
    pub(crate) fn or(&mut self, a: Set, b: Set) -> Result<Set, TooLarge> {
        Ok(!self.and(!a, !b)?)
    }

    /// What is in the first and not in the second.
    pub(crate) fn minus(&mut self, a: Set, b: Set) -> Result<Set, TooLarge> {
        self.and(a, !b)
    }

    /// What is in `then` where the condition holds, and in `otherwise` where it does not.
    pub(crate) fn if_then_else(
        &mut self,
        condition: Set,
        then: Set,
        otherwise: Set,
    ) -> Result<Set, TooLarge> {
        match (then, otherwise) {
            _ if then == otherwise => Ok(then),
            (Set::ALL, _) => self.or(condition, otherwise),
            (Set::NONE, _) => self.minus(otherwise, condition),
            (_, Set::ALL) => self.or(!condition, then),
            (_, Set::NONE) => self.and(condition, then),
            _ => {
                let (then, otherwise) =
                    (self.and(condition, then)?, self.minus(otherwise, condition)?);
                self.or(then, otherwise)
            }
        }
    }

    /// What is in a set for some values of variables, which rise.
    pub(crate) fn without(&mut self, set: Set, variables: &[u32]) -> Result<Set, TooLarge> {
        self.exists(set, variables, &mut HashMap::new())
    }

    fn exists(
        &mut self,
        set: Set,
        variables: &[u32],
        known: &mut HashMap<Set, Set>,
    ) -> Result<Set, TooLarge> {
        let top = self.top(set);
        let behind = variables.partition_point(|variable| *variable < top);
        let Some(next) = variables.get(behind).filter(|_| top != LEAF) else { return Ok(set) };
        if let Some(answer) = known.get(&set) {
            return Ok(*answer);
        }
        let (low, high) = self.below(set, top);
        let low = self.exists(low, variables, known)?;
        let high = self.exists(high, variables, known)?;
        let answer = if *next == top { self.or(low, high)? } else { self.choice(top, low, high)? };
        known.insert(set, answer);
        Ok(answer)
    }

    /// A set where a variable has a value, whatever it is otherwise.
    pub(crate) fn fixed(&mut self, set: Set, variable: u32, value: bool) -> Result<Set, TooLarge> {
        self.fix(set, (variable, value), &mut HashMap::new())
    }

    fn fix(
        &mut self,
        set: Set,
        (variable, value): (u32, bool),
        known: &mut HashMap<Set, Set>,
    ) -> Result<Set, TooLarge> {
        // The leaf is below all variables.
        let top = self.top(set);
        if top > variable {
            return Ok(set);
        }
        let (low, high) = self.below(set, top);
        if top == variable {
            return Ok(if value { high } else { low });
        }
        if let Some(fixed) = known.get(&set) {
            return Ok(*fixed);
        }
        let low = self.fix(low, (variable, value), known)?;
        let high = self.fix(high, (variable, value), known)?;
        let fixed = self.choice(top, low, high)?;
        known.insert(set, fixed);
        Ok(fixed)
    }

    /// The way to the set that asks least of variables, so the largest part of it that fixing variables describes:
    /// variables with their values; none: the set is empty.
    pub(crate) fn largest(&mut self, set: Set) -> Option<Vec<(u32, bool)>> {
        self.shortest.resize(2 * self.nodes.len(), 0);
        self.shortest_way(set)?;
        let mut fixed = Vec::new();
        let mut at = set;
        while at != Set::ALL {
            let variable = self.top(at);
            let (low, high) = self.below(at, variable);
            let [to_high, to_low] = [high, low].map(|side| self.shortest_way(side));
            let goes_high = to_high.is_some_and(|high| to_low.is_none_or(|low| high < low));
            fixed.push((variable, goes_high));
            at = if goes_high { high } else { low };
        }
        Some(fixed)
    }

    /// Variables on the shortest way into a set; none: it is empty.
    fn shortest_way(&mut self, set: Set) -> Option<u16> {
        match set {
            Set::ALL => return Some(0),
            Set::NONE => return None,
            _ => {}
        }
        let place = set.0 as usize;
        if let Some(known) = self.shortest.get(place).and_then(|known| known.checked_sub(1)) {
            return Some(known);
        }
        let (low, high) = self.below(set, self.top(set));
        let sides = [low, high].map(|side| self.shortest_way(side));
        let shortest = sides.into_iter().flatten().min()?.saturating_add(1);
        if let Some(known) = self.shortest.get_mut(place) {
            *known = shortest.saturating_add(1);
        }
        Some(shortest)
    }

    /// Is an assignment in a set?
    #[cfg(test)]
    pub(crate) fn has(&self, set: Set, value: impl Fn(u32) -> bool) -> bool {
        let mut at = set;
        while at.node() != 0 {
            let variable = self.top(at);
            let (low, high) = self.below(at, variable);
            at = if value(variable) { high } else { low };
        }
        at == Set::ALL
    }

    fn top(&self, set: Set) -> u32 {
        self.nodes[set.node()].variable
    }

    /// A set where a variable, which no other of it stands before, is 0 and where it is 1.
    fn below(&self, set: Set, variable: u32) -> (Set, Set) {
        let node = self.nodes[set.node()];
        match (node.variable == variable, set.is_complement()) {
            (false, _) => (set, set),
            (true, false) => (node.low, node.high),
            (true, true) => (!node.low, !node.high),
        }
    }
}

/// The place of a question in the cache.
fn slot(a: Set, b: Set) -> usize {
    mixed(u64::from(a.0) << 32 | u64::from(b.0)) as usize % CACHED
}

/// Spreads numbers that nobody from outside chooses.
const fn mixed(number: u64) -> u64 {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    spread ^ spread >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const VARIABLES: u32 = 6;

    /// A formula over few variables.
    #[derive(Clone, Debug)]
    enum Formula {
        Variable(u32),
        Not(Box<Formula>),
        And(Box<Formula>, Box<Formula>),
        Or(Box<Formula>, Box<Formula>),
    }

    impl Formula {
        fn holds(&self, bits: u32) -> bool {
            match self {
                Self::Variable(variable) => bits >> variable & 1 == 1,
                Self::Not(one) => !one.holds(bits),
                Self::And(a, b) => a.holds(bits) && b.holds(bits),
                Self::Or(a, b) => a.holds(bits) || b.holds(bits),
            }
        }

        fn set(&self, bdd: &mut Bdd) -> Set {
            match self {
                Self::Variable(variable) => bdd.variable(*variable).expect("small"),
                Self::Not(one) => !one.set(bdd),
                Self::And(a, b) => {
                    let (a, b) = (a.set(bdd), b.set(bdd));
                    bdd.and(a, b).expect("small")
                }
                Self::Or(a, b) => {
                    let (a, b) = (a.set(bdd), b.set(bdd));
                    bdd.or(a, b).expect("small")
                }
            }
        }
    }

    fn formula() -> impl Strategy<Value = Formula> {
        (0..VARIABLES).prop_map(Formula::Variable).prop_recursive(6, 48, 2, |inner| {
            let boxed = inner.prop_map(Box::new).boxed();
            prop_oneof![
                boxed.clone().prop_map(Formula::Not),
                (boxed.clone(), boxed.clone()).prop_map(|(a, b)| Formula::And(a, b)),
                (boxed.clone(), boxed).prop_map(|(a, b)| Formula::Or(a, b)),
            ]
        })
    }

    proptest! {
        /// A set has the assignments that a truth table has; equal tables are equal numbers; and the largest part of it
        /// lies in it.
        #[test]
        fn sets_are_truth_tables(a in formula(), b in formula()) {
            let mut bdd = Bdd::new();
            let (set_a, set_b) = (a.set(&mut bdd), b.set(&mut bdd));
            let table = |one: &Formula| -> Vec<bool> {
                (0..1 << VARIABLES).map(|bits| one.holds(bits)).collect()
            };
            let (table_a, table_b) = (table(&a), table(&b));
            for bits in 0..1 << VARIABLES {
                prop_assert_eq!(bdd.has(set_a, |variable| bits >> variable & 1 == 1), a.holds(bits));
            }
            prop_assert_eq!(set_a == set_b, table_a == table_b);
            prop_assert_eq!(bdd.meets(set_a, set_b), table_a.iter().zip(&table_b).any(|(a, b)| *a && *b));
            let chosen = bdd.variable(3).expect("small");
            let chosen = bdd.if_then_else(chosen, set_a, set_b).expect("small");
            let some = bdd.without(set_a, &[1, 4]).expect("small");
            for bits in 0..1 << VARIABLES {
                let is_in = |set: Set| bdd.has(set, |variable| bits >> variable & 1 == 1);
                prop_assert_eq!(is_in(chosen), if bits >> 3 & 1 == 1 { &a } else { &b }.holds(bits));
                let values = [0, 1 << 1, 1 << 4, 1 << 1 | 1 << 4].map(|value| bits & !(1 << 1 | 1 << 4) | value);
                prop_assert_eq!(is_in(some), values.into_iter().any(|bits| a.holds(bits)));
            }
            let fixed = bdd.fixed(set_a, 2, true).expect("small");
            for bits in 0..1 << VARIABLES {
                let is_in = bdd.has(fixed, |variable| bits >> variable & 1 == 1);
                prop_assert_eq!(is_in, a.holds(bits | 1 << 2));
            }
            prop_assert_eq!(set_a == !set_b, table_a.iter().zip(&table_b).all(|(a, b)| a != b));
            let members = table_a.iter().filter(|is_in| **is_in).count();
            match bdd.largest(set_a) {
                None => prop_assert_eq!(members, 0),
                Some(fixed) => {
                    let meets = |bits: u32| {
                        fixed.iter().all(|(variable, value)| (bits >> variable & 1 == 1) == *value)
                    };
                    let part = (0..1 << VARIABLES).filter(|bits| meets(*bits));
                    prop_assert!(part.clone().all(|bits| a.holds(bits)));
                    prop_assert_eq!(part.count(), 1 << (VARIABLES as usize - fixed.len()));
                }
            }
        }
    }
}

//! Which way the fragments of a name have gone from their port, as long as receivers may keep any
//! of them, also of packets that have passed whole. Knows names and ways; refuses to know what a
//! receiver keeps: it may have refused the first fragment and wait with the others for another.
//!
//! Nothing is forgotten before its time. Where there is no room for a name, whoever holds most of
//! the table (`shares`) gives way: his names of that set become one that stands for any of them,
//! or, where he has but one there, for any of his names. Then a name of his that is not known
//! passes only the way that all of those went.

use super::{FRAGMENT_LIFETIME_NS, FragmentName, FragmentScope};
use crate::engine::collections::shares::{Holder, Shares, must_yield};
use catena_model::PathId;
use catena_wire::flow::mix;
use std::num::NonZeroU32;
use std::ops::Range;

/// Names remembered: as many as two addresses have for one protocol over IPv4.
const NAMES_MAX: usize = 65_536;
/// Places that a name can have.
const PLACES: usize = 16;
/// Holders for whom there is room from the start.
const HOLDERS: usize = 1_024;
/// Places looked at with each fragment for what is over.
const SWEPT: usize = 4;
const SECOND_NS: u64 = 1_000_000_000;
// A moment counts as long as its second.
const LIFETIME_S: u32 = (FRAGMENT_LIFETIME_NS / SECOND_NS) as u32;

/// A way that fragments go from their port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentWay(u32);

impl FragmentWay {
    /// No chain takes them.
    pub(crate) const PLAIN: Self = Self(0);
    /// Several ways.
    const MIXED: Self = Self(1);

    /// That of a flow with this hash into a chain.
    pub(crate) fn of_flow(hash: u64) -> Self {
        Self((mix(hash) >> 32) as u32 | 2)
    }

    /// Into the path of a slice.
    pub(crate) fn of_slice(PathId(path): PathId) -> Self {
        Self::of_flow(u64::from(path) | 1 << 32)
    }

    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::MIXED }
    }
}

/// Tells the names of a set apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tag(u32);

impl Tag {
    /// All names of the holder.
    const ANY: Self = Self(0);
}

#[derive(Debug, Clone, Copy)]
struct Cell {
    holder: Holder,
    tag: Tag,
    way: FragmentWay,
    /// The second from which on no receiver keeps anything.
    over_s: NonZeroU32,
}

/// The ways of all names.
#[derive(Debug)]
pub(super) struct Passed {
    /// The sets, and behind them of each holder the place for any of his names.
    cells: Vec<Option<Cell>>,
    shares: Shares<FragmentScope>,
    swept: usize,
}

impl Passed {
    pub(super) fn new() -> Self {
        let mut cells = Vec::with_capacity(NAMES_MAX + HOLDERS);
        cells.resize(NAMES_MAX, None);
        Self { cells, shares: Shares::new(), swept: 0 }
    }

    /// Lets a fragment pass, if all that bore its name went the same way. No way: there is but one.
    pub(super) fn pass(
        &mut self,
        now_ns: u64,
        name: &FragmentName,
        way: Option<FragmentWay>,
    ) -> bool {
        let Some(way) = way else { return true };
        let now_s = seconds(now_ns);
        let over_s = NonZeroU32::MIN.saturating_add(now_s).saturating_add(LIFETIME_S);
        let (set, tag) = places(name);
        self.sweep(now_s);
        // A second time when room was made.
        for _ in 0..2 {
            let known = self.find(now_s, name.scope, tag, &set);
            if let Some(cell) = known.and_then(|at| self.cells[at].as_mut()) {
                if cell.way != way {
                    return false;
                }
                if cell.tag == tag {
                    cell.over_s = over_s;
                    return true;
                }
            }
            if let Some(at) = set.clone().find(|at| self.live(*at, now_s).is_none()) {
                self.clear(at);
                let holder = self.shares.take(name.scope);
                if self.cells.len() <= any_of(holder) {
                    self.cells.resize(any_of(holder) + 1, None);
                }
                self.cells[at] = Some(Cell { holder, tag, way, over_s });
                return true;
            }
            if let Some(cell) = known.and_then(|at| self.cells[at].as_mut()) {
                cell.over_s = over_s;
                return true;
            }
            if !self.make_room(now_s, name.scope, &set) {
                return false;
            }
        }
        false
    }

    /// Which way what bears this name must go; none: any.
    pub(super) fn way_of(&self, now_ns: u64, name: &FragmentName) -> Option<FragmentWay> {
        let (set, tag) = places(name);
        let at = self.find(seconds(now_ns), name.scope, tag, &set)?;
        self.cells[at].map(|cell| cell.way)
    }

    /// Where a name is known, or what stands for all names of its holder.
    fn find(
        &self,
        now_s: u32,
        scope: FragmentScope,
        tag: Tag,
        set: &Range<usize>,
    ) -> Option<usize> {
        let holder = self.shares.holder(&scope)?;
        let is_it = |at: usize, tag: Tag| {
            self.live(at, now_s).is_some_and(|cell| cell.holder == holder && cell.tag == tag)
        };
        let exact = set.clone().find(|at| is_it(*at, tag));
        let mut any = set.clone().chain(std::iter::once(any_of(holder)));
        exact.or_else(|| any.find(|at| is_it(*at, Tag::ANY)))
    }

    fn live(&self, at: usize, now_s: u32) -> Option<&Cell> {
        self.cells[at].as_ref().filter(|cell| now_s < cell.over_s.get())
    }

    fn clear(&mut self, at: usize) {
        if let Some(Cell { holder, .. }) = self.cells[at].take() {
            self.shares.give_back(holder);
        }
    }

    /// Gives back what is over, so that shares tell who holds most now.
    fn sweep(&mut self, now_s: u32) {
        for _ in 0..SWEPT {
            self.swept = (self.swept + 1) % self.cells.len();
            if self.live(self.swept, now_s).is_none() {
                self.clear(self.swept);
            }
        }
    }

    /// Makes room in a set without a free place, or lets one of its places stand for all names of
    /// this scope; false: all others hold less.
    fn make_room(&mut self, now_s: u32, scope: FragmentScope, set: &Range<usize>) -> bool {
        let (own, own_held) = (self.shares.holder(&scope), self.shares.held_by(&scope));
        let may_fold = |holder: &Holder| {
            Some(*holder) == own || must_yield(self.shares.held(*holder), own_held)
        };
        let holders = set.clone().filter_map(|at| self.cells[at].map(|cell| cell.holder));
        let most = holders.filter(may_fold).max_by_key(|holder| self.shares.held(*holder));
        most.is_some_and(|most| self.fold(now_s, most, set, Some(most) == own))
    }

    /// Lets one place stand for all that a holder has in a set; of one that is not `own`, a place
    /// becomes free by it.
    fn fold(&mut self, now_s: u32, holder: Holder, set: &Range<usize>, own: bool) -> bool {
        let is_his = |cell: &Cell| cell.holder == holder;
        let mut his = set.clone().filter(|at| self.cells[*at].as_ref().is_some_and(is_his));
        let Some(first) = his.next() else { return false };
        let is_alone = his.next().is_none();
        let to = if is_alone && !own { any_of(holder) } else { first };
        if self.live(to, now_s).is_none() {
            self.clear(to);
        }
        for at in set.clone() {
            let Some(cell) = self.cells[at].filter(is_his) else { continue };
            let before = self.cells[to].filter(|_| at != to);
            self.cells[at] = None;
            let merged = before.map_or(cell, |before| Cell {
                way: before.way.and(cell.way),
                over_s: before.over_s.max(cell.over_s),
                ..cell
            });
            self.cells[to] = Some(Cell { tag: Tag::ANY, ..merged });
            if before.is_some() {
                self.shares.give_back(holder);
            }
        }
        true
    }
}

/// Where any name of a holder may be remembered.
fn any_of(holder: Holder) -> usize {
    NAMES_MAX + holder.number()
}

/// The places that a name can have, and what tells it apart there.
fn places(name: &FragmentName) -> (Range<usize>, Tag) {
    let sets = NAMES_MAX / PLACES;
    let set = usize::try_from(name.hash % sets as u64).unwrap_or(0);
    (set * PLACES..(set + 1) * PLACES, Tag((name.hash >> 32) as u32 | 1))
}

fn seconds(now_ns: u64) -> u32 {
    u32::try_from(now_ns / SECOND_NS).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::flow::FlowKey;
    use catena_wire::scalar::IpProtocol;
    use std::net::{IpAddr, Ipv4Addr};

    const FLOOD: u32 = 300_000;

    fn name(port: u32, identification: u32) -> FragmentName {
        seeded_name(7, port, identification)
    }

    fn seeded_name(seed: u64, port: u32, identification: u32) -> FragmentName {
        let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        let flow = FlowKey {
            source: address(1),
            destination: address(2),
            protocol: IpProtocol::UDP,
            source_port: 0,
            destination_port: 0,
        };
        let scope = FragmentScope::Port(port);
        FragmentName { scope, vlan: None, flow, identification, hash: 0 }.hashed(seed)
    }

    fn way(number: u32) -> FragmentWay {
        if number.is_multiple_of(3) {
            FragmentWay::PLAIN
        } else {
            FragmentWay::of_flow(u64::from(number % 7))
        }
    }

    /// Of those that have passed, none passes another way.
    fn all_are_kept(passed: &mut Passed, now_ns: u64, names: &[(u32, u32)]) {
        for (port, number) in names {
            let other = Some(FragmentWay::of_flow(99));
            assert!(!passed.pass(now_ns, &name(*port, *number), other), "{port} {number}");
        }
    }

    #[test]
    fn a_name_goes_one_way_until_no_receiver_keeps_any_of_it() {
        let mut passed = Passed::new();
        let (plain, chained) = (Some(FragmentWay::PLAIN), Some(FragmentWay::of_flow(7)));
        let at = |seconds: u64| seconds * SECOND_NS;
        assert!(passed.pass(at(10), &name(1, 5), plain));
        assert!(!passed.pass(at(20), &name(1, 5), chained));
        assert!(
            passed.pass(at(20), &name(2, 5), chained) && passed.pass(at(20), &name(1, 6), chained)
        );
        assert!(passed.pass(at(50), &name(1, 5), plain), "again the same way");
        assert!(!passed.pass(at(110), &name(1, 5), chained));
        assert!(passed.pass(at(111), &name(1, 5), chained));
        assert!(passed.pass(at(111), &name(1, 5), None), "where there is but one way");
    }

    #[test]
    fn a_flood_lets_no_name_go_another_way_and_takes_nothing_from_others() {
        let mut passed = Passed::new();
        let mut kept = Vec::new();
        for number in 0..FLOOD {
            if passed.pass(SECOND_NS, &name(1, number), Some(way(number))) {
                kept.push((1, number));
            }
            if number % 100 == 0 {
                assert!(passed.pass(SECOND_NS, &name(2, number), Some(way(number / 100))));
                kept.push((2, number));
            }
        }
        assert!(kept.len() > NAMES_MAX / 2, "{}", kept.len());
        all_are_kept(&mut passed, 60 * SECOND_NS, &kept);
        // What is over has no place.
        let later = 200 * SECOND_NS;
        let fresh = (0..2_000).filter(|n| passed.pass(later, &name(1, FLOOD + n), Some(way(*n))));
        assert_eq!(fresh.count(), 2_000);
    }

    #[test]
    fn more_ports_that_flood_than_a_set_has_places_leave_room_for_a_quiet_one() {
        let mut passed = Passed::new();
        let ports = 2 * PLACES as u32;
        let mut kept = Vec::new();
        for number in 0..20_000 {
            for port in 1..=ports {
                if passed.pass(SECOND_NS, &name(port, number), Some(way(number))) {
                    kept.push((port, number));
                }
            }
        }
        let quiet = (0..500).filter(|n| passed.pass(SECOND_NS, &name(90, *n), Some(way(*n))));
        let quiet: Vec<_> = quiet.map(|number| (90, number)).collect();
        assert!(quiet.len() > 490, "{}", quiet.len());
        all_are_kept(&mut passed, SECOND_NS, &kept);
        all_are_kept(&mut passed, SECOND_NS, &quiet);
    }

    #[test]
    fn who_does_not_know_the_seed_can_aim_at_no_names_places() {
        const SEED: u64 = 7;
        let passes = |seed_aimed_by| {
            let (mut passed, victim) = (Passed::new(), (99, 5));
            let aimed = |port, number| places(&seeded_name(seed_aimed_by, port, number)).0;
            let at = aimed(victim.0, victim.1);
            for port in 1..=PLACES as u32 {
                let number = (0..).find(|number| aimed(port, *number) == at).unwrap();
                passed.pass(SECOND_NS, &seeded_name(SEED, port, number), Some(way(port)));
            }
            passed.pass(SECOND_NS, &seeded_name(SEED, victim.0, victim.1), Some(way(1)))
        };
        assert!(!passes(SEED), "who knew it would take all places of the name");
        assert!(passes(SEED + 1));
    }

    #[test]
    fn who_sends_all_fragments_one_way_is_never_refused() {
        let mut passed = Passed::new();
        for number in 0..FLOOD {
            assert!(passed.pass(SECOND_NS, &name(1, number), Some(FragmentWay::PLAIN)), "{number}");
        }
    }
}

//! Which rules of one function meet which of another: ranges of five fields, held against each other all at once.
//!
//! Knows ranges. Refuses to know what follows from an overlap.

use catena_rules::condition::{Condition, Range, Subject, Test};
use catena_rules::exactness::Exactness;
use catena_rules::rule_set::{Rule, Statement};
use catena_rules::snort::{Ends, IdsRule, Protocol};
use catena_wire::field::Field;
use smallvec::{SmallVec, smallvec};

/// The fields of a cube, in this order.
const FIELDS: [Field; 5] =
    [Field::Protocol, Field::Source, Field::Destination, Field::SourcePort, Field::DestinationPort];

/// Cubes that one rule may be made of; of more, one is made around all of them.
const CUBES_MAX: usize = 64;

/// Where one side has no more cubes than this, each is held against each: nothing is sorted for that.
const FEW: usize = 16;

/// Values of a field: of most rules one range, which needs no memory of its own.
type Side = SmallVec<[Range; 1]>;

/// Packets whose fields lie in these ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cube([Range; FIELDS.len()]);

/// Cubes that hold all packets of a rule, and whether they hold no others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cubes {
    pub(super) cubes: Vec<Cube>,
    pub(super) exactness: Exactness,
}

impl Default for Cubes {
    fn default() -> Self {
        Self { cubes: Vec::new(), exactness: Exactness::Exact }
    }
}

#[cfg(test)]
impl Cube {
    pub(super) const fn of(ranges: [Range; FIELDS.len()]) -> Self {
        Self(ranges)
    }
}

impl Cube {
    /// Is a packet in both?
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).all(|(a, b)| a.first <= b.last && b.first <= a.last)
    }
}

/// Which of some cubes meet which of others: a row of bits for each of the first.
pub(super) struct OverlapRows {
    rows: Vec<u64>,
    words: usize,
}

impl OverlapRows {
    /// All of them: for each field, the first ones are gone through in the order of their ends, and those of the others
    /// that begin behind one, or end before it, are cleared from its row.
    pub(super) fn of(first: &[Cube], second: &[Cube]) -> Self {
        let words = second.len().div_ceil(64);
        if first.len().min(second.len()) <= FEW {
            return Self::one_by_one(first, second, words);
        }
        let mut rows = vec![u64::MAX; first.len() * words];
        for field in 0..FIELDS.len() {
            let begins = |cube: &Cube| cube.0[field].first;
            let ends = |cube: &Cube| cube.0[field].last;
            // Those that begin until here, by rising ends; and those that do not end before, by falling beginnings.
            clear(&mut rows, words, &by(first, ends, false), &by(second, begins, false), |a, b| {
                b <= a
            });
            clear(&mut rows, words, &by(first, begins, true), &by(second, ends, true), |a, b| {
                b >= a
            });
        }
        // No cube stands for the bits that are left over.
        if let (Some(last), spare @ 1..) = (words.checked_sub(1), second.len() % 64) {
            rows.iter_mut().skip(last).step_by(words).for_each(|word| *word &= (1 << spare) - 1);
        }
        Self { rows, words }
    }

    fn one_by_one(first: &[Cube], second: &[Cube], words: usize) -> Self {
        let mut rows = vec![0; first.len() * words];
        for (row, one) in first.iter().enumerate() {
            for (at, _) in second.iter().enumerate().filter(|(_, other)| one.overlaps(other)) {
                rows[row * words + at / 64] |= 1 << (at % 64);
            }
        }
        Self { rows, words }
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn count(&self) -> u64 {
        self.rows.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Those of the second that one of the first overlaps, a bit each.
    pub(super) fn row(&self, first: usize) -> &[u64] {
        self.rows.get(first * self.words..(first + 1) * self.words).unwrap_or_default()
    }
}

/// Places of the bits that are set in a row.
pub(super) fn places(row: &[u64]) -> impl Iterator<Item = usize> {
    row.iter().enumerate().flat_map(|(at, word)| {
        let rest = |bits: &u64| Some(bits & bits.wrapping_sub(1));
        let words = std::iter::successors(Some(*word), rest).take_while(|bits| *bits != 0);
        words.map(move |bits| 64 * at + bits.trailing_zeros() as usize)
    })
}

/// Places of cubes with a bound of each, in its order.
fn by(cubes: &[Cube], bound: impl Fn(&Cube) -> u128, is_falling: bool) -> Vec<(u128, usize)> {
    let mut bounds: Vec<(u128, usize)> = cubes.iter().map(bound).zip(0..).collect();
    bounds.sort_unstable();
    if is_falling {
        bounds.reverse();
    }
    bounds
}

/// Leaves in each row those of `second` that are taken by then: `takes` says whether the bound of a first one reaches
/// that of a second one, and both come in the order in which ever more are taken.
fn clear(
    rows: &mut [u64],
    words: usize,
    first: &[(u128, usize)],
    second: &[(u128, usize)],
    takes: impl Fn(u128, u128) -> bool,
) {
    let mut taken = vec![0_u64; words];
    let mut next = second.iter().peekable();
    for (bound, row) in first {
        while let Some((_, at)) = next.next_if(|(other, _)| takes(*bound, *other)) {
            taken[at / 64] |= 1 << (at % 64);
        }
        if next.peek().is_none() {
            // All are taken: this row and those behind it lose none.
            return;
        }
        let row = &mut rows[row * words..(row + 1) * words];
        row.iter_mut().zip(&taken).for_each(|(word, taken)| *word &= taken);
    }
}

/// All values of a field, in packets of a version.
fn whole(field: Field, is_v6: bool) -> Range {
    let last = match field {
        Field::Source | Field::Destination if !is_v6 => u32::MAX.into(),
        _ => field.all(),
    };
    Range { first: 0, last }
}

/// The packets of a rule of a firewall, as far as its conditions on the five fields go; none: there are none.
pub(super) fn of_rule(rule: &Rule, is_v6: bool) -> Cubes {
    let mut sides: [Side; FIELDS.len()] = FIELDS.map(|field| smallvec![whole(field, is_v6)]);
    let mut exactness = Exactness::Exact;
    for statement in &rule.statements {
        match statement {
            Statement::Match(condition) => match ranges(condition, is_v6) {
                Some(None) => return Cubes::default(),
                Some(Some((field, ranges))) => {
                    for (side, _) in sides.iter_mut().zip(FIELDS).filter(|(_, own)| *own == field) {
                        *side = common(side, &ranges);
                    }
                }
                None => exactness = Exactness::Wider,
            },
            Statement::MatchTuple(_) | Statement::Map(_) | Statement::Limit(_) => {
                exactness = Exactness::Wider;
            }
            Statement::Count | Statement::Log(_) | Statement::Verdict(_) => {}
        }
    }
    product(&sides, exactness)
}

/// The values of one field that a condition takes. Outside: it says something else. Inside: it takes nothing, or all.
fn ranges(condition: &Condition, is_v6: bool) -> Option<Option<(Field, Side)>> {
    let [subject] = condition.subjects.as_slice() else { return None };
    if *subject == Subject::Version {
        let takes = condition.test.takes(if is_v6 { 6 } else { 4 }) != condition.is_negated;
        return Some(takes.then(|| (Field::EtherType, Side::new())));
    }
    let Subject::Field(field) = subject else { return None };
    let Test::In(ranges) = &condition.test else { return None };
    FIELDS.contains(field).then(|| {
        let whole = [whole(*field, is_v6)];
        let taken = if condition.is_negated { &others(ranges) } else { ranges };
        Some((*field, common(&whole, taken)))
    })
}

/// What none of some ranges has, which are sorted and apart.
fn others(ranges: &[Range]) -> Vec<Range> {
    let mut free = Vec::new();
    let mut next = Some(0);
    for range in ranges {
        if let Some(first) = next.filter(|first| *first < range.first) {
            free.push(Range { first, last: range.first - 1 });
        }
        next = range.last.checked_add(1);
    }
    free.extend(next.map(|first| Range { first, last: u128::MAX }));
    free
}

/// What both have.
fn common(a: &[Range], b: &[Range]) -> Side {
    let both = a.iter().flat_map(|a| {
        b.iter().map(|b| Range { first: a.first.max(b.first), last: a.last.min(b.last) })
    });
    both.filter(|range| range.first <= range.last).collect()
}

/// A cube for each choice of a range of every side, or one around them all.
fn product(sides: &[Side; FIELDS.len()], exactness: Exactness) -> Cubes {
    let count = sides.iter().try_fold(1_usize, |count, side| count.checked_mul(side.len()));
    match count {
        Some(0) => Cubes { cubes: Vec::new(), exactness },
        Some(1) => {
            let only = |side: &Side| side.first().copied().unwrap_or(Range::one(0));
            Cubes { cubes: vec![Cube(sides.each_ref().map(only))], exactness }
        }
        Some(count) if count <= CUBES_MAX => {
            let mut cubes = vec![Cube([Range::one(0); FIELDS.len()])];
            for (at, side) in sides.iter().enumerate() {
                let with = |cube: &Cube, range: &Range| {
                    let mut cube = *cube;
                    cube.0[at] = *range;
                    cube
                };
                cubes = cubes
                    .iter()
                    .flat_map(|cube| side.iter().map(move |range| with(cube, range)))
                    .collect();
            }
            Cubes { cubes, exactness }
        }
        _ => {
            let around = |side: &Side| {
                let ends = side.first().zip(side.last());
                ends.map_or(Range::one(0), |(first, last)| Range {
                    first: first.first,
                    last: last.last,
                })
            };
            Cubes { cubes: vec![Cube(sides.each_ref().map(around))], exactness: Exactness::Wider }
        }
    }
}

/// The packets of a rule of an ids, as far as its header goes.
pub(super) fn of_ids_rule(rule: &IdsRule, is_v6: bool) -> Cubes {
    let protocols: Side = match rule.protocol {
        Protocol::Ip => smallvec![whole(Field::Protocol, is_v6)],
        Protocol::Icmp => smallvec![Range::one(if is_v6 { 58 } else { 1 })],
        Protocol::Udp => smallvec![Range::one(17)],
        Protocol::Tcp | Protocol::TcpPacket | Protocol::TcpStream | Protocol::Http => {
            smallvec![Range::one(6)]
        }
    };
    let listed = |ranges: &[(u128, u128)]| -> Side {
        ranges.iter().map(|(first, last)| Range { first: *first, last: *last }).collect()
    };
    let way = |from: &Ends, to: &Ends| {
        let addresses = |ends: &Ends| listed(ends.addresses.ranges()[usize::from(is_v6)]);
        let ports = |ends: &Ends| listed(ends.ports.ranges()[0]);
        let sides = [protocols.clone(), addresses(from), addresses(to), ports(from), ports(to)];
        product(&sides, Exactness::Wider).cubes
    };
    let mut cubes = way(&rule.source, &rule.destination);
    if rule.is_both_ways {
        cubes.extend(way(&rule.destination, &rule.source));
    }
    // What it asks of contents, no cube says.
    Cubes { cubes, exactness: Exactness::Wider }
}

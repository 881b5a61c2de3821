//! Which bits of a field flows ask for, of the values that a rule asks for. Knows numbers; refuses to know fields.

use catena_rules::condition::{Range, Test};

/// Bits that a value must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ternary {
    pub(super) value: u128,
    /// The bits that count.
    pub(super) mask: u128,
}

impl Ternary {
    /// Any value.
    pub(super) const ANY: Self = Self { value: 0, mask: 0 };

    /// What meets both; none: nothing does.
    pub(super) const fn and(self, other: Self) -> Option<Self> {
        if (self.value ^ other.value) & self.mask & other.mask != 0 {
            return None;
        }
        Some(Self { value: self.value | other.value, mask: self.mask | other.mask })
    }
}

/// The greatest number of so many bits.
pub(super) const fn greatest(bits: u32) -> u128 {
    u128::MAX >> (u128::BITS - bits)
}

/// Values of so many bits that meet a test, or that do not. `is_maskable`: may flows ask for some of the bits?
pub(super) fn ternaries(
    test: &Test,
    is_negated: bool,
    bits: u32,
    is_maskable: bool,
) -> Vec<Ternary> {
    let all = greatest(bits);
    match test {
        _ if !is_maskable => {
            let ranges = ranges(test, is_negated, bits);
            if ranges == [Range { first: 0, last: all }] {
                return vec![Ternary::ANY];
            }
            let values = ranges.iter().flat_map(|range| range.first..=range.last);
            values.map(|value| Ternary { value, mask: all }).collect()
        }
        Test::In(_) => {
            let ranges = ranges(test, is_negated, bits);
            ranges.iter().flat_map(|range| prefixes(*range, bits)).collect()
        }
        Test::Bits { mask, value } => of_bits(mask & all, *value, is_negated, all),
        // None of the bits, turned around.
        Test::AnyBit(mask) => of_bits(mask & all, 0, !is_negated, all),
    }
}

/// Values whose bits under a mask are these, or are not.
fn of_bits(mask: u128, value: u128, is_negated: bool, all: u128) -> Vec<Ternary> {
    match (value & !mask != 0, is_negated) {
        (true, true) => vec![Ternary::ANY],
        (true, false) => Vec::new(),
        (false, false) => vec![Ternary { value, mask }],
        // Those that differ in one bit first, from above.
        (false, true) => (0..u128::BITS)
            .rev()
            .filter(|bit| mask & all & 1 << bit != 0)
            .map(|bit| {
                let own = mask & (u128::MAX << bit);
                Ternary { value: (value ^ 1 << bit) & own, mask: own }
            })
            .collect(),
    }
}

/// The same as ranges, of values of few bits unless the test has ranges itself.
pub(super) fn ranges(test: &Test, is_negated: bool, bits: u32) -> Vec<Range> {
    let all = greatest(bits);
    let met = match test {
        Test::In(ranges) => {
            let inside = ranges.iter().filter(|range| range.first <= range.last.min(all));
            let inside =
                inside.map(|range| Range { first: range.first, last: range.last.min(all) });
            Test::among(inside.collect())
        }
        _ => Test::among((0..=all).filter(|value| test.takes(*value)).map(Range::one).collect()),
    };
    let Test::In(met) = met else { return Vec::new() };
    if !is_negated {
        return met;
    }
    let mut others = Vec::with_capacity(met.len() + 1);
    let mut next = Some(0);
    for range in &met {
        if let Some(first) = next.filter(|first| *first < range.first) {
            others.push(Range { first, last: range.first - 1 });
        }
        next = range.last.checked_add(1);
    }
    others.extend(next.filter(|first| *first <= all).map(|first| Range { first, last: all }));
    others
}

/// The prefixes that a range is made of, at most two for each bit.
fn prefixes(range: Range, bits: u32) -> Vec<Ternary> {
    let all = greatest(bits);
    let mut prefixes = Vec::new();
    let mut next = Some(range.first);
    while let Some(first) = next.filter(|first| *first <= range.last) {
        // As many free bits as the start and what is left allow.
        let mut free = if first == 0 { bits } else { first.trailing_zeros().min(bits) };
        let last = |free: u32| match free {
            0 => first,
            free => first | greatest(free),
        };
        while free > 0 && last(free) > range.last {
            free -= 1;
        }
        let mask = if free == bits { 0 } else { all & (u128::MAX << free) };
        prefixes.push(Ternary { value: first, mask });
        next = last(free).checked_add(1);
    }
    prefixes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_test() -> impl Strategy<Value = Test> {
        let range =
            (0_u128..70, 0_u128..30).prop_map(|(first, more)| Range { first, last: first + more });
        prop_oneof![
            prop::collection::vec(range, 0..4).prop_map(Test::among),
            (0_u128..70, 0_u128..70).prop_map(|(mask, value)| Test::Bits { mask, value }),
            (0_u128..70).prop_map(Test::AnyBit),
        ]
    }

    proptest! {
        /// Masks say what tests do, and each value is in one of them only.
        #[test]
        fn masks_say_what_tests_do(test in any_test(), is_negated: bool, is_maskable: bool) {
            let found = ternaries(&test, is_negated, 6, is_maskable);
            for value in 0..64 {
                let taking = found.iter().filter(|one| one.value == value & one.mask).count();
                prop_assert_eq!(taking, usize::from(test.takes(value) != is_negated));
            }
            prop_assert!(is_maskable || found.iter().all(|one| [0, 63].contains(&one.mask)));
        }
    }

    #[test]
    fn ranges_become_few_prefixes_of_all_widths() {
        let range =
            |first, last| ternaries(&Test::In(vec![Range { first, last }]), false, 16, true);
        assert_eq!(range(0, 65_535), [Ternary::ANY]);
        assert_eq!(range(1_024, 65_535).len(), 6);
        assert_eq!(range(1, 65_534).len(), 30);
        assert_eq!(range(80, 80), [Ternary { value: 80, mask: 0xffff }]);
        let whole = Test::In(vec![Range { first: 0, last: u128::MAX }]);
        assert_eq!(ternaries(&whole, false, 128, true), [Ternary::ANY]);
        assert!(ternaries(&whole, true, 128, true).is_empty());
        let last = Test::equals(u128::MAX);
        assert_eq!(ternaries(&last, true, 128, true).len(), 128);
        assert_eq!(
            ternaries(&last, false, 128, true),
            [Ternary { value: u128::MAX, mask: u128::MAX }]
        );
    }
}

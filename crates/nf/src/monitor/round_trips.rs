//! How long connections of TCP took to begin, seen from where the monitor is.

/// Classes of times: the last has all that is longer.
pub const CLASSES: usize = 32;

/// How often round trips took how long, in classes: the first is of those below 1 µs, the n-th behind it of
/// those from 2^(n-1) µs to below 2^n µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTrips {
    /// From SYN to SYN/ACK: from here to whoever is asked, and back.
    pub to_asked: [u64; CLASSES],
    /// From SYN/ACK to ACK: from here to whoever asks, and back.
    pub to_asking: [u64; CLASSES],
}

/// The class of a time.
fn class(nanoseconds: u64) -> usize {
    let microseconds = nanoseconds / 1_000;
    (u64::BITS - microseconds.leading_zeros()).min(CLASSES as u32 - 1) as usize
}

/// Counts a time in its class.
pub(super) fn count(classes: &mut [u64; CLASSES], nanoseconds: u64) {
    let count = classes.get_mut(class(nanoseconds)).into_iter();
    count.for_each(|count| *count = count.saturating_add(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_powers_of_two() {
        let classes = [0, 999, 1_000, 1_999, 2_000, 3_999, 4_000, 1_023_999, 1_024_000, u64::MAX];
        assert_eq!(classes.map(class), [0, 0, 1, 1, 2, 2, 3, 10, 11, 31]);
    }
}

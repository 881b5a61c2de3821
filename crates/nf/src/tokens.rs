//! Tokens of one byte each that come at a rate, one by one from the start of time, as RFC 2697 and RFC 2698 have it:
//! «the token count is incremented by one CIR times per second». Knows whole tokens and moments, and rounds nothing
//! but to the next token; refuses to know buckets.

use crate::packet::Time;
use catena_rules::qos::Rate;

/// Nanoseconds of a second times bits of a token.
const SCALE: u128 = 8 * 1_000_000_000;

/// Tokens that have come until now.
fn come(rate: Rate, now: Time) -> u128 {
    u128::from(now.0) * u128::from(rate.bits_per_second()) / SCALE
}

/// Tokens that come behind one moment, until another.
pub(crate) fn between(rate: Rate, from: Time, to: Time) -> u64 {
    let tokens = come(rate, to).saturating_sub(come(rate, from));
    u64::try_from(tokens).unwrap_or(u64::MAX)
}

/// The first moment at which so many tokens have come behind another.
pub(crate) fn when(rate: Rate, from: Time, tokens: u64) -> Time {
    let wanted = come(rate, from) + u128::from(tokens);
    let moment = (wanted * SCALE).div_ceil(u128::from(rate.bits_per_second()).max(1));
    Time(u64::try_from(moment).unwrap_or(u64::MAX)).max(from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_rules::qos::{QosKind, Treatment, read};
    use proptest::prelude::*;

    fn rate(bits: u64) -> Rate {
        let text = format!("classes: [{{name: a, shape: {{rate: {bits}, burst: 1, queue: 1}}}}]");
        match read(&text, "rate", QosKind::Shaper).unwrap().classes[0].treatment {
            Treatment::Shape(shaping) => shaping.rate,
            _ => unreachable!("it shapes"),
        }
    }

    #[test]
    fn tokens_come_one_by_one() {
        // One in 100 ms.
        let slow = rate(80);
        let at = |milliseconds: u64| Time(milliseconds * 1_000_000);
        assert_eq!(between(slow, at(0), Time(99_999_999)), 0);
        assert_eq!(between(slow, at(0), at(100)), 1);
        assert_eq!(between(slow, at(50), at(250)), 2);
        assert_eq!(when(slow, at(50), 0), at(50));
        assert_eq!([1, 2].map(|tokens| when(slow, at(50), tokens)), [at(100), at(200)]);
        let end = Time(u64::MAX);
        assert!(between(rate(1_000_000_000_000), at(0), end) > 1 << 60);
        assert_eq!(when(slow, end, 1), end, "time has an end, and nothing comes behind it");
    }

    proptest! {
        #[test]
        fn they_have_come_when_it_is_said_and_not_before(
            bits in 1_u64..2_000_000_000_000, from in 0_u64..1 << 50, tokens in 1_u64..100_000
        ) {
            let rate = rate(bits.min(1_000_000_000_000));
            let from = Time(from);
            let moment = when(rate, from, tokens);
            prop_assert!(between(rate, from, moment) >= tokens);
            if moment > from {
                prop_assert!(between(rate, from, Time(moment.0 - 1)) < tokens);
            }
        }
    }
}

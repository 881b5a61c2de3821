//! The choice among the instances of a function: weighted rendezvous hashing. The same flow and
//! list give the same instance on every node and machine; when an instance comes or goes, only the
//! flows it gains or loses move. Knows numbers alone, hence uses no floating point.

use catena_model::id::InstanceId;
use catena_wire::flow::mix;

/// Binary places of the logarithm; a share is exact to about one in 2^20.
const LOG_FRACTION_BITS: u32 = 20;

/// An instance's identity as the choice uses it.
pub(crate) fn seed(instance: InstanceId) -> u64 {
    let (high, low) = instance.0.as_u64_pair();
    mix(mix(high) ^ low)
}

/// Picks one of the candidates `(seed, weight)` by the hash of a flow; none when all weights are
/// zero. Each candidate's exponential draw is divided by its weight, and the smallest wins, so
/// that the chance of each is its share of the weights.
pub(crate) fn choose(
    flow_hash: u64,
    candidates: impl Iterator<Item = (u64, u32)>,
) -> Option<usize> {
    let draw = |seed| negative_log2(mix(flow_hash ^ seed));
    let mut candidates = candidates.enumerate().filter(|(_, (_, weight))| *weight > 0);
    let (mut best, (seed, mut its_weight)) = candidates.next()?;
    // Whoever is alone wins without a draw.
    let mut least = None;
    for (index, (other, weight)) in candidates {
        let to_beat = *least.get_or_insert_with(|| draw(seed));
        let drawn = draw(other);
        if u128::from(drawn) * u128::from(its_weight) < u128::from(to_beat) * u128::from(weight) {
            (best, its_weight, least) = (index, weight, Some(drawn));
        }
    }
    Some(best)
}

/// −log2 of `number` / 2^64, with [`LOG_FRACTION_BITS`] binary places.
fn negative_log2(number: u64) -> u64 {
    let number = number.max(1);
    let zeros = number.leading_zeros();
    let mut log2 = u64::from(63 - zeros);
    let mut mantissa = number << zeros;
    for _ in 0..LOG_FRACTION_BITS {
        // The square of a mantissa in 1..2 is in 1..4; its upper half is shifted into 1..2 again.
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let carry = square >> 64;
        log2 = (log2 << 1) | u64::from(carry != 0);
        mantissa = (square >> carry) as u64;
    }
    (64 << LOG_FRACTION_BITS) - log2
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::flow::FlowKey;
    use catena_wire::scalar::IpProtocol;
    use uuid::Uuid;

    fn candidates(weights: &[u32]) -> Vec<(u64, u32)> {
        let seeds = (1u128..).map(|n| seed(InstanceId(Uuid::from_u128(n * 0x1234_5678_9abc_def1))));
        seeds.zip(weights.iter().copied()).collect()
    }

    fn choices(candidates: &[(u64, u32)]) -> Vec<Option<usize>> {
        (0..10_000u64).map(|flow| choose(mix(flow), candidates.iter().copied())).collect()
    }

    #[test]
    fn ten_thousand_flows_meet_the_weights_within_two_points() {
        for weights in [&[1, 1][..], &[1, 3], &[5, 3, 2], &[0, 1, 1], &[7; 10], &[1_000_000, 1]] {
            let candidates = candidates(weights);
            let total: u32 = weights.iter().sum();
            let chosen = choices(&candidates);
            for (index, weight) in weights.iter().enumerate() {
                let share = chosen.iter().filter(|c| **c == Some(index)).count() as f64 / 10_000.0;
                let wanted = f64::from(*weight) / f64::from(total);
                assert!((share - wanted).abs() < 0.02, "{weights:?}: {share} is not {wanted}");
            }
        }
    }

    #[test]
    fn flows_of_one_client_meet_the_weights_in_both_directions() {
        let weights = [5, 3, 2];
        let candidates = candidates(&weights);
        for (source, destination) in [("10.0.0.9", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
            let mut met = [0.0; 3];
            for port in 10_000..20_000 {
                let flow = FlowKey {
                    source: source.parse().unwrap(),
                    destination: destination.parse().unwrap(),
                    protocol: IpProtocol::TCP,
                    source_port: port,
                    destination_port: 443,
                };
                let choice = |flow: FlowKey| {
                    choose(flow.symmetric_hash(0), candidates.iter().copied()).unwrap()
                };
                assert_eq!(choice(flow), choice(flow.reversed()));
                met[choice(flow)] += 1.0;
            }
            for (met, weight) in met.iter().zip(weights) {
                let (share, wanted) = (met / 10_000.0, f64::from(weight) / 10.0);
                assert!((share - wanted).abs() < 0.02, "{source}: {share} is not {wanted}");
            }
        }
    }

    #[test]
    fn a_new_instance_takes_flows_and_no_other_gains_any() {
        let all = candidates(&[2, 3, 5]);
        let before = choices(&all[..2]);
        let after = choices(&all);
        let moved = before.iter().zip(&after).filter(|(old, new)| old != new);
        let moved: Vec<_> = moved.collect();
        assert!(moved.iter().all(|(_, new)| **new == Some(2)));
        assert!((4_800..=5_200).contains(&moved.len()), "{}", moved.len());
    }

    #[test]
    fn nobody_is_chosen_when_all_weights_are_zero() {
        assert_eq!(choose(1, [(1, 0), (2, 0)].into_iter()), None);
        assert_eq!(choose(1, std::iter::empty()), None);
    }

    #[test]
    fn the_logarithm_is_right_to_its_last_places() {
        for number in [1, 2, 3, 1 << 40, u64::MAX / 3, u64::MAX] {
            let exact = 64.0 - (number as f64).log2();
            let ours = negative_log2(number) as f64 / f64::from(1 << LOG_FRACTION_BITS);
            assert!((ours - exact).abs() < 1e-5, "{number}: {ours} is not {exact}");
        }
    }
}

//! Numbers of a distribution, one after the other, which follow from a seed. Knows distributions; refuses to know
//! what is drawn.

use crate::random::Random;
use catena_rules::work::{Distribution, Draw};

/// Bits that a float of 64 keeps.
const MANTISSA_BITS: u32 = 53;

/// What is drawn next, and from what.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    draw: Draw,
    random: Random,
}

impl Draws {
    pub(super) const fn new(draw: Draw, seed: u64) -> Self {
        Self { draw, random: Random::new(seed) }
    }

    /// The same distribution, going on where another stood.
    pub(super) const fn going_on_at(&self, state: u64) -> Self {
        Self::new(self.draw, state)
    }

    /// Where it stands.
    pub(super) const fn state(&self) -> u64 {
        self.random.state()
    }

    /// The number that comes next.
    pub(super) fn peek(&self) -> u64 {
        self.clone().take()
    }

    /// The next number.
    pub(super) fn take(&mut self) -> u64 {
        let drawn = self.random.number();
        match self.draw.distribution {
            Distribution::Fixed => self.draw.mean,
            Distribution::Exponential => {
                // Above 0 and not above 1, so that its logarithm is a number.
                let bits = (drawn >> (u64::BITS - MANTISSA_BITS)) + 1;
                let uniform = bits as f64 / (1_u64 << MANTISSA_BITS) as f64;
                (-uniform.ln() * self.draw.mean as f64).round() as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWN: usize = 100_000;

    #[test]
    fn a_fixed_number_is_always_the_mean() {
        let mut draws = Draws::new(Draw { distribution: Distribution::Fixed, mean: 77 }, 1);
        assert!((0..1_000).all(|_| draws.take() == 77));
    }

    /// Kolmogorov and Smirnov: the greatest distance between what was drawn and the distribution is above
    /// 1.63 / sqrt(n) once in a hundred times, if it is this one.
    #[test]
    fn exponential_numbers_have_their_distribution_and_moments() {
        let mean = 1_000_000;
        for seed in 0..5 {
            let draw = Draw { distribution: Distribution::Exponential, mean };
            let mut draws = Draws::new(draw, seed);
            let mut drawn: Vec<f64> = (0..DRAWN).map(|_| draws.take() as f64).collect();
            drawn.sort_by(f64::total_cmp);
            let number = DRAWN as f64;
            let distance = |(at, one): (usize, &f64)| {
                let wanted = 1.0 - (-one / mean as f64).exp();
                (wanted - at as f64 / number).abs().max((wanted - (at + 1) as f64 / number).abs())
            };
            let greatest = drawn.iter().enumerate().map(distance).fold(0.0, f64::max);
            let average = drawn.iter().sum::<f64>() / number;
            let square = drawn.iter().map(|one| (one - average).powi(2)).sum::<f64>() / number;
            let deviation = square.sqrt();
            println!(
                "seed {seed}: distance {greatest:.5}, mean {average:.0}, deviation {deviation:.0}"
            );
            assert!(greatest < 1.63 / number.sqrt(), "{greatest}");
            assert!(
                (average / mean as f64 - 1.0).abs() < 0.01
                    && (deviation / average - 1.0).abs() < 0.02
            );
        }
    }

    #[test]
    fn what_is_drawn_follows_from_where_it_stands() {
        let draw = Draw { distribution: Distribution::Exponential, mean: 500 };
        let mut draws = Draws::new(draw, 9);
        let first: Vec<u64> = (0..10).map(|_| draws.take()).collect();
        let mut other = Draws::new(draw, 10).going_on_at(draws.state());
        assert_eq!(
            (0..10).map(|_| other.take()).collect::<Vec<_>>(),
            (0..10).map(|_| draws.take()).collect::<Vec<_>>()
        );
        let mut again = Draws::new(draw, 9);
        assert_eq!(first, (0..10).map(|_| again.take()).collect::<Vec<_>>());
        assert_eq!(draws.peek(), draws.peek());
    }
}

//! Members side by side: each packet goes to all of them and is done when the last one is. Each member is a queue
//! M/M/1 with the same arrivals, so they are not independent; but for two equal ones there are approximations and
//! bounds alone.

use super::{Mmc, QueueError, count};

/// Members of one stage.
#[derive(Clone, Debug, PartialEq)]
pub struct ForkJoin {
    lambda: f64,
    mus: Vec<f64>,
}

/// Members: beyond, the sums of the formulas lose their digits.
const MEMBERS_MAX: usize = 20;

impl ForkJoin {
    /// Those to which `lambda` a second come, each with its service rate.
    ///
    /// # Errors
    /// When there are none or too many, or one is no queue ([`Mmc::new`]).
    pub fn new(lambda: f64, mus: &[f64]) -> Result<Self, QueueError> {
        count("members", mus.len(), MEMBERS_MAX)?;
        for mu in mus {
            Mmc::new(lambda, *mu, 1)?;
        }
        Ok(Self { lambda, mus: mus.to_vec() })
    }

    /// Do all have one rate? That.
    fn equal(&self) -> Option<f64> {
        let first = *self.mus.first()?;
        self.mus.iter().all(|mu| mu.total_cmp(&first).is_eq()).then_some(first)
    }

    fn members(&self) -> usize {
        self.mus.len()
    }

    /// The mean of one or two equal members, which is known (Flatto and Hahn 1984); none: of others it is not.
    #[must_use]
    pub fn exact(&self) -> Option<f64> {
        let mu = self.equal()?;
        let (alone, load) = (1.0 / (mu - self.lambda), self.lambda / mu);
        match self.members() {
            1 => Some(alone),
            2 => Some((12.0 - load) / 8.0 * alone),
            _ => None,
        }
    }

    /// The approximation of Nelson and Tantawi (1988) of the mean of equal members; none: they are not.
    #[must_use]
    pub fn nelson_tantawi(&self) -> Option<f64> {
        let mu = self.equal()?;
        let (alone, load) = (1.0 / (mu - self.lambda), self.lambda / mu);
        if self.members() == 1 {
            return Some(alone);
        }
        let ratio = harmonic(self.members()) / harmonic(2);
        let two = (12.0 - load) / 8.0 * alone;
        Some((ratio + 4.0 * load / 11.0 * (1.0 - ratio)) * two)
    }

    /// The interpolation of Varma and Makowski (1994) between light and heavy traffic, of the mean of equal members;
    /// none: they are not.
    #[must_use]
    pub fn varma_makowski(&self) -> Option<f64> {
        let mu = self.equal()?;
        let light = harmonic(self.members());
        let heavy = heavy_traffic(self.members());
        Some((light + (heavy - light) * self.lambda / mu) / (mu - self.lambda))
    }

    /// No mean is above this: that of independent members with the same times (Nelson and Tantawi 1988).
    #[must_use]
    pub fn upper_bound(&self) -> f64 {
        let rates: Vec<f64> = self.mus.iter().map(|mu| mu - self.lambda).collect();
        longest(&rates)
    }

    /// No mean is below this: that of the slowest member, and of services without any waiting.
    #[must_use]
    pub fn lower_bound(&self) -> f64 {
        let slowest = self.mus.iter().map(|mu| 1.0 / (mu - self.lambda)).fold(0.0, f64::max);
        slowest.max(self.services())
    }

    /// The mean of the longest service of a packet, without any waiting.
    #[must_use]
    pub fn services(&self) -> f64 {
        longest(&self.mus)
    }

    /// The mean of the same members one behind the other.
    #[must_use]
    pub fn serial(&self) -> f64 {
        self.mus.iter().map(|mu| 1.0 / (mu - self.lambda)).sum()
    }

    /// The best that is known of the mean: exact, by Varma and Makowski, or the upper bound.
    #[must_use]
    pub fn mean_sojourn(&self) -> f64 {
        self.exact().or_else(|| self.varma_makowski()).unwrap_or_else(|| self.upper_bound())
    }
}

/// The mean of the longest of independent exponential times with these rates, by inclusion and exclusion.
fn longest(rates: &[f64]) -> f64 {
    if let Some(first) = rates.first()
        && rates.iter().all(|rate| rate.total_cmp(first).is_eq())
    {
        return harmonic(rates.len()) / first;
    }
    let all = 1_u32 << rates.len();
    let of = |set: u32| {
        let inside = rates.iter().enumerate().filter(|(place, _)| set >> place & 1 == 1);
        let sum: f64 = inside.map(|(_, rate)| rate).sum();
        if set.count_ones() % 2 == 1 { 1.0 / sum } else { -1.0 / sum }
    };
    (1..all).map(of).sum()
}

fn harmonic(number: usize) -> f64 {
    (1..=number).map(|one| 1.0 / one as f64).sum()
}

/// What the mean is in heavy traffic, beside that of one member.
fn heavy_traffic(members: usize) -> f64 {
    let of = |some: usize| {
        let inner: f64 = (1..=some)
            .map(|one| choose(some, one) * factorial(one - 1) / (some as f64).powi(one as i32 + 1))
            .sum();
        let sign = if some % 2 == 1 { 1.0 } else { -1.0 };
        sign * choose(members, some) * inner
    };
    (1..=members).map(of).sum()
}

fn choose(all: usize, some: usize) -> f64 {
    (1..=some).map(|one| (all - some + one) as f64 / one as f64).product()
}

fn factorial(number: usize) -> f64 {
    (1..=number).map(|one| one as f64).product()
}

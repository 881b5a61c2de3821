//! Sums over samples: mean with a 95 % interval, median, slope. Pure.

use serde::Serialize;

/// Two-sided 95 % quantiles of Student's t by degrees of freedom, from 1 to 30.
const STUDENT_T_95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];
/// The same for 31 to 60 degrees of freedom: the value at 31, on the safe side.
const STUDENT_T_95_TO_60: f64 = 2.040;
/// The same beyond: the value at 61.
const STUDENT_T_95_BEYOND: f64 = 2.000;

/// A mean and half the width of its 95 % interval (Student's t).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Mean {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval; 0 for fewer than two samples.
    pub half_width_95: f64,
}

fn student_t_95(freedom: usize) -> f64 {
    match freedom {
        0 => 0.0,
        1..=30 => STUDENT_T_95.get(freedom - 1).copied().unwrap_or_default(),
        31..=60 => STUDENT_T_95_TO_60,
        _ => STUDENT_T_95_BEYOND,
    }
}

#[allow(clippy::cast_precision_loss, reason = "sample counts are far below 2^52")]
fn count(samples: &[f64]) -> f64 {
    samples.len() as f64
}

/// Mean and interval of independent samples; zero for none.
#[must_use]
pub(super) fn mean(samples: &[f64]) -> Mean {
    if samples.is_empty() {
        return Mean::default();
    }
    let n = count(samples);
    let mean = samples.iter().sum::<f64>() / n;
    if samples.len() < 2 {
        return Mean { mean, half_width_95: 0.0 };
    }
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    let deviation = (squares / (n - 1.0)).sqrt();
    Mean { mean, half_width_95: student_t_95(samples.len() - 1) * deviation / n.sqrt() }
}

/// A mean of ratios with its 95 % interval, both taken of their logarithms: half and double weigh
/// alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Ratio {
    /// The geometric mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Mean and interval of independent ratios; zero for none.
#[must_use]
pub(super) fn ratio(samples: &[f64]) -> Ratio {
    if samples.is_empty() {
        return Ratio::default();
    }
    let logarithms: Vec<f64> = samples.iter().map(|sample| sample.ln()).collect();
    let Mean { mean, half_width_95 } = mean(&logarithms);
    let (low, high) = ((mean - half_width_95).exp(), (mean + half_width_95).exp());
    Ratio { mean: mean.exp(), low, high }
}

/// The middle sample, or the mean of the two middle ones; zero for none.
#[must_use]
pub(super) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let at = |index: usize| sorted.get(index).copied().unwrap_or_default();
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => at(middle),
        _ => f64::midpoint(at(middle - 1), at(middle)),
    }
}

/// The slope of the least-squares line through the points; zero for fewer than two abscissae.
#[must_use]
pub(super) fn slope(points: &[(f64, f64)]) -> f64 {
    let (xs, ys): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let (mean_x, mean_y) = (mean(&xs).mean, mean(&ys).mean);
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = xs.iter().map(|x| (x - mean_x).powi(2)).sum();
    if variance > 0.0 { covariance / variance } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-3
    }

    #[test]
    fn the_interval_is_students_for_small_samples() {
        // Ten samples 1..10: deviation 3.0277, t(9) = 2.262.
        let samples: Vec<f64> = (1..=10).map(f64::from).collect();
        let found = mean(&samples);
        assert!(close(found.mean, 5.5));
        assert!(close(found.half_width_95, 2.262 * 3.02765 / 10_f64.sqrt()));
        assert_eq!(mean(&[4.0]), Mean { mean: 4.0, half_width_95: 0.0 });
        assert_eq!(mean(&[]), Mean::default());
    }

    #[test]
    fn the_quantile_never_grows_with_the_number_of_samples() {
        for freedom in 1..200 {
            assert!(student_t_95(freedom + 1) <= student_t_95(freedom), "{freedom}");
        }
    }

    #[test]
    fn half_and_double_are_one_together() {
        let found = ratio(&[0.5, 2.0, 0.5, 2.0]);
        assert!(close(found.mean, 1.0) && close(found.low * found.high, 1.0));
        assert!(found.low < 0.5 && found.high > 2.0, "{found:?}");
        assert_eq!(ratio(&[]), Ratio::default());
    }

    #[test]
    fn the_median_of_three_is_the_middle_one() {
        assert!(close(median(&[3.0, 1.0, 2.0]), 2.0));
        assert!(close(median(&[4.0, 1.0]), 2.5));
        assert!(close(median(&[]), 0.0));
    }

    #[test]
    fn the_slope_of_a_line_is_found() {
        assert!(close(slope(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]), 2.0));
        assert!(close(slope(&[(1.0, 3.0)]), 0.0));
    }
}

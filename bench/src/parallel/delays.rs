//! Mean delays of packets that come one by one, at random, through functions that take drawn times: side by side, and
//! one after the other by as many threads, with the same arrivals and the same times.

use super::serving::{Measured, Service, Serving, exponential};
use super::site::Site;
use crate::engine::wrong;
use crate::results::{Better, Figure, Fold, Goal, Notes};
use catena_dataplane::engine::Form;
use catena_model::bundle::Configuration;
use catena_nf::random::Random;
use catena_plan::queueing::ForkJoin;
use std::time::{Duration, Instant};

/// Bytes of a frame.
const FRAME_BYTES: usize = 64;
/// A run that takes so much longer than its arrivals has got stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// A comparison.
struct Experiment {
    /// How much less the mean is, and the means themselves.
    figure: &'static str,
    means: &'static str,
    functions: usize,
    service: Service,
    mean_ns: f64,
    /// Share of the time that each function is busy.
    load: f64,
}

const EXPERIMENTS: [Experiment; 2] = [
    Experiment {
        figure: "four_waiting_reduction_pct",
        means: "four_waiting_ms",
        functions: 4,
        service: Service::Waits,
        mean_ns: 1e6,
        load: 0.5,
    },
    Experiment {
        figure: "two_cpu_reduction_pct",
        means: "two_cpu_ms",
        functions: 2,
        service: Service::Computes,
        mean_ns: 1e6,
        load: 0.5,
    },
];

/// Goals, percent.
const FOUR_WAITING: f64 = 47.0;
const TWO_CPU: f64 = 22.0;
const PREDICTED: f64 = 10.0;

pub(super) fn figures() -> Vec<Figure> {
    let goals = [FOUR_WAITING, TWO_CPU];
    let figures = EXPERIMENTS.iter().zip(goals).flat_map(|(one, goal)| {
        [
            Figure::new(one.figure, "%", Better::Higher, Goal::Value(goal)),
            Figure::new(one.means, "ms", Better::Lower, Goal::Quotient(None)),
        ]
    });
    let predicted = "predicted_mean_error_pct";
    let predicted = Figure::new(predicted, "%", Better::Lower, Goal::Value(PREDICTED));
    figures.chain([predicted.by(Fold::Most)]).collect()
}

/// What queues say of it: side by side, and one after the other, in nanoseconds.
fn predicted(one: &Experiment) -> Measured<[f64; 2]> {
    let mus = vec![1.0; one.functions];
    let queues = ForkJoin::new(one.load, &mus).map_err(|error| wrong("the model", &error))?;
    Ok([queues.mean_sojourn(), queues.serial()].map(|mean| mean * one.mean_ns))
}

/// Rounds of so many packets; each is a sample.
pub(super) fn measure(rounds: u64, packets: usize, notes: &mut Notes) -> Measured<Vec<String>> {
    let mut told = Vec::new();
    for one in &EXPERIMENTS {
        let (mut side_by_side, mut in_line) = (0.0, 0.0);
        for round in 1..=rounds {
            eprintln!("bench: {}, round {round} of {rounds}", one.figure);
            // Which of both is first is no matter of habit.
            let forms = [Form::Pipeline, Form::Fork];
            let mut means = [0.0; 2];
            for turn in 0..forms.len() {
                let which = (turn + round as usize) % forms.len();
                means[which] = mean_ns(one, forms[which], packets, round)?;
            }
            let [serial, fork] = means;
            notes.take(one.figure, true, 100.0 * (1.0 - fork / serial));
            notes.take(one.means, true, fork / 1e6);
            notes.take(one.means, false, serial / 1e6);
            (side_by_side, in_line) = (side_by_side + fork, in_line + serial);
        }
        let means = [side_by_side, in_line].map(|sum| sum / rounds as f64);
        let models = predicted(one)?;
        for (mean, model) in means.iter().zip(models) {
            notes.take("predicted_mean_error_pct", true, 100.0 * (model / mean - 1.0).abs());
        }
        let ms = |ns: f64| ns / 1e6;
        told.push(format!(
            "{} {:.3} ms side by side (predicted {:.3}), {:.3} ms one after the other (predicted {:.3})",
            one.means,
            ms(means[0]),
            ms(models[0]),
            ms(means[1]),
            ms(models[1])
        ));
    }
    Ok(told)
}

/// The mean delay of so many packets.
fn mean_ns(one: &Experiment, form: Form, packets: usize, seed: u64) -> Measured<f64> {
    let monitor = || Configuration::new("monitor", "{}");
    let functions: Vec<Configuration> = (0..one.functions).map(|_| monitor()).collect();
    let lanes = Serving::start(one.functions, one.service, one.mean_ns, seed);
    let mut site = Site::new(&functions, FRAME_BYTES, Some((Box::new(lanes), Some(form))))?;
    let mut draws = Random::new(seed);
    let mut at_ns = 0.0;
    let arrivals: Vec<u64> = (0..packets)
        .map(|_| {
            at_ns += exponential(&mut draws, one.mean_ns / one.load);
            at_ns as u64
        })
        .collect();
    let mut left: Vec<Option<u64>> = vec![None; packets];
    let (mut next, mut out) = (0, 0);
    let began = Instant::now();
    let now_ns = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let last_ns = arrivals.last().copied().unwrap_or_default();
    while out < packets {
        let now = now_ns();
        if now > last_ns.saturating_add(PATIENCE.as_nanos() as u64) {
            return Err(wrong("the engine", &format!("{out} of {packets} packets have come out")));
        }
        while arrivals.get(next).is_some_and(|at| *at <= now) {
            site.queue(next as u64)?;
            next += 1;
        }
        site.forward(now);
        site.take_answers(now);
        let now = now_ns();
        site.take_out(|number| {
            let place = usize::try_from(number).ok().and_then(|number| left.get_mut(number));
            if let Some(place @ None) = place {
                *place = Some(now);
                out += 1;
            }
        });
        let until = arrivals.get(next).map_or(1_000_000, |at| at.saturating_sub(now_ns()));
        std::thread::park_timeout(Duration::from_nanos(until.min(1_000_000)));
    }
    let delays = left.iter().zip(&arrivals);
    let sum: u64 = delays.filter_map(|(left, at)| left.map(|left| left.saturating_sub(*at))).sum();
    Ok(sum as f64 / packets as f64)
}

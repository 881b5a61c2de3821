//! Mean delays of packets that come one by one, at random, through functions that take drawn times: side by side, and
//! one after the other by as many threads, with the same arrivals and the same times.

use super::serving::{Measured, Service, Serving, exponential};
use super::site::Site;
use crate::engine::wrong;
use crate::results::{Better, Figure, Goal, Notes};
use catena_dataplane::engine::Form;
use catena_model::bundle::Configuration;
use catena_nf::random::Random;
use std::time::{Duration, Instant};

/// Bytes of a frame.
const FRAME_BYTES: usize = 64;
/// A run that takes so much longer than its arrivals has got stuck.
const PATIENCE: Duration = Duration::from_secs(20);

/// A comparison.
struct Experiment {
    figure: &'static str,
    functions: usize,
    service: Service,
    mean_ns: f64,
    /// Share of the time that each function is busy.
    load: f64,
}

const EXPERIMENTS: [Experiment; 2] = [
    Experiment {
        figure: "four_waiting_reduction_pct",
        functions: 4,
        service: Service::Waits,
        mean_ns: 1e6,
        load: 0.5,
    },
    Experiment {
        figure: "two_cpu_reduction_pct",
        functions: 2,
        service: Service::Computes,
        mean_ns: 1e6,
        load: 0.5,
    },
];

/// Goals, percent.
const FOUR_WAITING: f64 = 47.0;
const TWO_CPU: f64 = 22.0;

pub(super) fn figures() -> [Figure; 2] {
    let goals = [FOUR_WAITING, TWO_CPU];
    let figure = |(one, goal): (Experiment, f64)| {
        Figure::new(one.figure, "%", Better::Higher, Goal::Value(goal))
    };
    let [four, two] = EXPERIMENTS;
    [figure((four, goals[0])), figure((two, goals[1]))]
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
            (side_by_side, in_line) = (side_by_side + fork, in_line + serial);
        }
        let mean_ms = |sum: f64| sum / rounds as f64 / 1e6;
        told.push(format!(
            "{}: {:.3} ms side by side, {:.3} ms one after the other",
            one.figure,
            mean_ms(side_by_side),
            mean_ms(in_line)
        ));
    }
    Ok(told)
}

/// The mean delay of so many packets.
fn mean_ns(one: &Experiment, form: Form, packets: usize, seed: u64) -> Measured<f64> {
    let monitor = || Configuration { kind: "monitor".into(), config: "{}".into() };
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

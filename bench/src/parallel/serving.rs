//! Threads that ask functions and take drawn times for it: they wait, or keep a core of their own busy. Knows the same
//! times for each run of a seed; refuses to know what is asked.

use crate::engine::cpu_ns;
use crate::error::BenchError;
use catena_dataplane::engine::{Call, Lanes, Reply};
use catena_io::stay_on_core;
use catena_nf::random::Random;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{JoinHandle, Thread};
use std::time::{Duration, Instant};

/// How they take their time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Service {
    /// They sleep.
    Waits,
    /// They compute, each on the core with its number.
    Computes,
}

/// The threads, and who is woken by answers.
pub(super) struct Serving {
    threads: Vec<(Sender<Box<Call>>, JoinHandle<()>)>,
    answered: Receiver<Reply>,
    looks: AtomicU64,
}

impl Serving {
    /// So many; each takes times of this mean, exponentially distributed, in the order of its own seed.
    pub(super) fn start(count: usize, service: Service, mean_ns: f64, seed: u64) -> Self {
        let (answers, answered) = mpsc::channel();
        let driver = std::thread::current();
        let thread = |number: usize| {
            let (sender, receiver) = mpsc::channel();
            let own = (answers.clone(), driver.clone());
            let draws = Random::new(seed * 1_000 + number as u64);
            let work = move || {
                if service == Service::Computes {
                    // Where there is no such core, the scheduler chooses.
                    let _ = u32::try_from(number).map(stay_on_core);
                }
                serve(&receiver, &own, (service, mean_ns), draws);
            };
            (sender, std::thread::spawn(work))
        };
        Self { threads: (0..count).map(thread).collect(), answered, looks: Default::default() }
    }
}

fn serve(
    receiver: &Receiver<Box<Call>>,
    (answers, driver): &(Sender<Reply>, Thread),
    (service, mean_ns): (Service, f64),
    mut draws: Random,
) {
    for call in receiver {
        let began = (Instant::now(), cpu_ns());
        let answer = call.put();
        let time_ns = exponential(&mut draws, mean_ns);
        match service {
            Service::Waits => {
                let whole = Duration::from_nanos(time_ns as u64);
                std::thread::sleep(whole.saturating_sub(began.0.elapsed()));
            }
            Service::Computes => while cpu_ns() - began.1 < time_ns {},
        }
        if answers.send(answer).is_err() {
            return;
        }
        driver.unpark();
    }
}

/// A time of this mean.
pub(super) fn exponential(draws: &mut Random, mean: f64) -> f64 {
    // Of 53 bits, and never zero.
    let uniform = ((draws.number() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    -mean * uniform.ln()
}

impl Lanes for Serving {
    fn count(&self) -> usize {
        self.threads.len()
    }

    fn handoff_ns(&self) -> u64 {
        0
    }

    fn put(&self, _lane: usize) -> u64 {
        // They take their time, and none ever stops.
        self.looks.fetch_add(1, Ordering::Relaxed)
    }

    fn hand(&mut self, lane: usize, call: Box<Call>) -> Result<(), Box<Call>> {
        match self.threads.get(lane) {
            Some((thread, _)) => thread.send(call).map_err(|back| back.0),
            None => Err(call),
        }
    }

    fn answer(&mut self) -> Option<Reply> {
        self.answered.try_recv().ok()
    }

    fn wait(&mut self, most_ns: u64) -> Option<Reply> {
        self.answered.recv_timeout(Duration::from_nanos(most_ns)).ok()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        let (senders, handles): (Vec<_>, Vec<_>) = threads.into_iter().unzip();
        drop(senders);
        for handle in handles {
            let _ = handle.join();
        }
    }
}

/// Why nothing could be measured.
pub(super) type Measured<T> = Result<T, BenchError>;

//! The paper's enterprise chain, an ids of 500 rules beside a monitor, then a firewall and a nat: how much sooner
//! bursts are through where threads ask the first two side by side, what that takes of processors, and how near the
//! node's own reckoning comes.

use super::price::{configuration, file};
use super::serving::{Measured, exponential};
use super::site::Site;
use crate::engine::wrong;
use crate::results::{Better, Figure, Goal, Notes, median};
use catena_dataplane::engine::Form;
use catena_dataplane::shell::FunctionThreads;
use catena_model::bundle::Configuration;
use catena_model::parallelism::FormChoice;
use catena_nf::random::Random;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use std::time::{Duration, Instant};

/// Bytes of a frame.
const FRAME_BYTES: usize = 1_400;
/// Packets that come together.
const BURST: usize = 64;
const BURSTS: usize = 8_000;
/// The same of a quick run.
const BURSTS_QUICK: usize = 2_000;
/// How long a burst alone takes in the slower form, waking included, by the time between two.
const LOAD: f64 = 0.3;
/// Goal: percentage points between what is measured and what the node reckons.
const POINTS: f64 = 5.0;
/// A run that takes so much longer than its arrivals has got stuck.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn figures() -> Vec<Figure> {
    let lower = |name, unit, goal| Figure::new(name, unit, Better::Lower, goal);
    vec![
        Figure::new("enterprise_reduction_pct", "%", Better::Higher, Goal::None),
        lower("enterprise_cpu_pct", "%", Goal::None),
        lower("enterprise_model_points", "points", Goal::Value(POINTS)),
    ]
}

fn functions() -> Vec<Configuration> {
    let alert = |number: usize| {
        format!(
            "alert udp any any -> any any (content:\"attack-{number:04}\"; sid:{};)\n",
            number + 1
        )
    };
    let alerts: String = (0..500).map(alert).collect();
    let denied = |port: usize| format!("-A FORWARD -p udp -m udp --sport {port} -j DROP\n");
    let denied: String = (1..=20).map(denied).collect();
    let edge = format!("*filter\n:FORWARD ACCEPT [0:0]\n{denied}COMMIT\n");
    vec![
        configuration(
            "ids",
            &json!({"file": {"name": "web.rules", "text": alerts}, "reassembly_mib": 1}),
        ),
        configuration("monitor", &json!({})),
        file("firewall", "edge.iptables", &edge),
        configuration("nat", &json!({"masquerade": ["10.0.0.0/8"], "pool": ["192.0.2.1"]})),
    ]
}

/// What a run has led to: the mean delay of its packets and the processor time of all threads, in nanoseconds.
struct Run {
    delay_ns: f64,
    cpu_ns: f64,
}

/// Rounds, in each of which both forms meet the same bursts.
pub(super) fn measure(rounds: u64, is_quick: bool, notes: &mut Notes) -> Measured<()> {
    let bursts = if is_quick { BURSTS_QUICK } else { BURSTS };
    let threads = FunctionThreads::start(2, false).map_err(|error| wrong("threads", &error))?;
    let driver = std::thread::current();
    let lanes = threads.lanes(move || driver.unpark()).map(|lanes| (lanes, Some(Form::Fork)));
    let mut sites =
        [Site::new(&functions(), FRAME_BYTES, None)?, Site::new(&functions(), FRAME_BYTES, lanes)?];
    for site in &mut sites {
        site.touch_buffers()?;
    }
    let began = Instant::now();
    let mut alone = [Vec::new(), Vec::new()];
    for _ in 0..50 {
        for (site, alone) in sites.iter_mut().zip(&mut alone) {
            alone.push(run(site, &[0], began)?.delay_ns);
        }
    }
    // Of what the slower of both carries, so that neither queue grows without end.
    let slower = alone.iter().filter_map(|alone| median(alone)).fold(1.0, f64::max);
    for round in 1..=rounds {
        eprintln!("bench: enterprise_reduction_pct, round {round} of {rounds}");
        let mut draws = Random::new(round);
        let mut at_ns = 0.0;
        let mut arrive = || {
            at_ns += exponential(&mut draws, slower / LOAD);
            at_ns as u64
        };
        let arrivals: Vec<u64> = (0..bursts).map(|_| arrive()).collect();
        let mut told: [Option<Run>; 2] = [None, None];
        for turn in 0..told.len() {
            let which = (turn + round as usize) % told.len();
            told[which] = Some(run(&mut sites[which], &arrivals, began)?);
        }
        let [Some(serial), Some(fork)] = told else { continue };
        let reduction = 100.0 * (1.0 - fork.delay_ns / serial.delay_ns);
        notes.take("enterprise_reduction_pct", true, reduction);
        notes.take("enterprise_cpu_pct", true, 100.0 * (fork.cpu_ns / serial.cpu_ns - 1.0));
        let choice = sites[1].choice();
        if let Some(FormChoice { fuse_ns: Some(fuse), fork_ns: Some(fork), .. }) = choice {
            let reckoned = 100.0 * (1.0 - fork as f64 / fuse as f64);
            notes.take("enterprise_model_points", true, (reckoned - reduction).abs());
        }
    }
    Ok(())
}

fn process_ns() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Bursts that come at these times, in nanoseconds from now on. The engine's clock is that since `epoch`.
fn run(site: &mut Site, arrivals: &[u64], epoch: Instant) -> Measured<Run> {
    let now_ns = || u64::try_from(epoch.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (begun, cpu) = (now_ns(), process_ns());
    let at = |burst: usize| arrivals.get(burst).map(|at| begun + at);
    let (mut next, mut out, mut sum) = (0, 0, 0_u64);
    let wanted = arrivals.len() * BURST;
    while out < wanted {
        let now = now_ns();
        let last = begun + arrivals.last().copied().unwrap_or_default();
        if now > last.saturating_add(PATIENCE.as_nanos() as u64) {
            return Err(wrong("the engine", &format!("{out} of {wanted} packets have come out")));
        }
        while at(next).is_some_and(|at| at <= now) {
            for _ in 0..BURST {
                site.queue(next as u64)?;
            }
            next += 1;
        }
        site.forward(now);
        site.tick(now);
        site.take_answers(now);
        let now = now_ns();
        site.take_out(|burst| {
            let came = usize::try_from(burst).ok().and_then(at);
            sum += now.saturating_sub(came.unwrap_or(now));
            out += 1;
        });
        let until = at(next).map_or(1_000_000, |at| at.saturating_sub(now_ns()));
        if out < wanted {
            std::thread::park_timeout(Duration::from_nanos(until.min(1_000_000)));
        }
    }
    Ok(Run { delay_ns: sum as f64 / wanted as f64, cpu_ns: process_ns() - cpu })
}

//! A slice beside one that floods: its delay alone and beside the flood, by turns, and what the
//! pairs say together.

use super::comparing::Comparison;
use super::frames::{Content, User};
use super::link::{self, Room, shared_ports};
use super::stream::{Flow, Plan};
use super::{Bench, slices, tunnel_end};
use crate::error::{LabError, Result};
use crate::run::statistics::{Ratio, ratio};
use crate::vocabulary::{Flood, Tenant};
use catena_io::StampedSocket;
use catena_model::program::{DelayClass, SliceRate};
use catena_model::slice::{SliceDocument, SliceReport};
use catena_wire::scalar::Teid;
use serde::Serialize;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const VICTIM: &str = "victim";
const FLOOD: &str = "flood";
/// The slices of this part, apart from all others.
const TEID: u32 = 0x7000_0001;
/// Bytes of a packet of either.
const SIZE: u32 = 512;
/// Bytes that the one that floods may send at once.
const BURST_BYTES: u32 = 16_384;
/// Pause between two rows of the flood.
const PAUSE: Duration = Duration::from_micros(200);
/// What tells the flood's frames from those that are compared.
const FLOOD_RUN: u32 = u32::MAX;

/// Time in which what the flood left behind goes away.
const CALM: Duration = Duration::from_millis(100);

/// What the pairs came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Isolation {
    /// The slice alone and beside the flood, pair by pair.
    pub pairs: Vec<(Comparison, Comparison)>,
    /// p99 delay beside the flood over p99 delay alone.
    pub p99_ratio: Ratio,
    /// The same of the medians.
    pub p50_ratio: Ratio,
    /// The same of the jitter.
    pub jitter_ratio: Ratio,
    /// Frames of the slice that were lost, alone and beside the flood.
    pub lost: (u64, u64),
    /// Frames that the flood sent beside the pairs.
    pub flood_sent: u64,
    /// What the node counted of the slice and of the one that floods: waits and jitter among it.
    pub slices: Vec<SliceReport>,
}

impl Isolation {
    /// Upper end of the interval of the ratio of the p99 delays.
    ///
    /// # Errors
    /// More frames were lost beside the flood than alone: those that came say nothing then.
    pub(crate) fn at_most(&self) -> std::result::Result<f64, String> {
        let (alone, beside) = self.lost;
        if beside > alone {
            return Err(format!("{beside} frames were lost beside the flood, {alone} alone"));
        }
        Ok(self.p99_ratio.high)
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |ratio: &Ratio| {
            let Ratio { mean, low, high } = ratio;
            format!("{mean:.3} ({low:.3} to {high:.3})")
        };
        write!(
            f,
            "isolation  {} pairs, beside a flood over alone, with the interval of 95 %: p99 delay \
             {}, median {}, jitter {}; of the slice {} frames lost beside the flood, {} alone",
            self.pairs.len(),
            of(&self.p99_ratio),
            of(&self.p50_ratio),
            of(&self.jitter_ratio),
            self.lost.1,
            self.lost.0
        )
    }
}

/// Measures the pairs.
pub(super) fn carry_out(bench: &mut Bench<'_>, flood: &Flood) -> Result<Isolation> {
    let victim = side(bench, 0, DelayClass::Urgent, None)?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked when read")]
    let rate = SliceRate { bits_per_second: flood.rate.0 as u64, burst_bytes: BURST_BYTES };
    let flooding = side(bench, 1, DelayClass::Shared { quantum_bytes: 1_518 }, Some(rate))?;
    let room = Room::Lab(bench.running.doorway(&bench.users.from)?);
    let [from, _] = shared_ports(&bench.running.lab, &bench.running.plan, bench.users)?;
    let socket = link::open(&bench.running.lab, &room, &from.network)?;
    let mut pairs = Vec::new();
    let mut flood_sent = 0;
    for number in 0..flood.pairs {
        // Whichever is first, the machine drifts for both alike.
        let (first, second) = if number % 2 == 0 { (false, true) } else { (true, false) };
        let mut of = [None, None];
        for is_beside in [first, second] {
            let (found, sent) = one(bench, flood, &victim, &flooding, &socket, is_beside)?;
            flood_sent += sent;
            if let Some(place) = of.get_mut(usize::from(is_beside)) {
                *place = Some(found);
            }
        }
        if let [Some(alone), Some(beside)] = of {
            pairs.push((alone, beside));
        }
    }
    let mut slices = Vec::new();
    for name in [VICTIM, FLOOD] {
        slices.push(bench.running.client.slice(name)?);
        bench.running.client.delete_slice(name)?;
    }
    Ok(judged(pairs, flood_sent, slices))
}

#[allow(clippy::cast_precision_loss, reason = "delays are below 2^52 nanoseconds")]
fn judged(
    pairs: Vec<(Comparison, Comparison)>,
    flood_sent: u64,
    slices: Vec<SliceReport>,
) -> Isolation {
    let of = |delay: fn(&Comparison) -> f64| {
        let one = |(alone, beside): &(Comparison, Comparison)| {
            delay(beside).max(1.0) / delay(alone).max(1.0)
        };
        ratio(&pairs.iter().map(one).collect::<Vec<f64>>())
    };
    let p99_ratio = of(|run| run.delay.p99_ns as f64);
    let p50_ratio = of(|run| run.delay.p50_ns as f64);
    let jitter_ratio = of(|run| run.delay.jitter_ns);
    let lost = pairs
        .iter()
        .fold((0, 0), |(alone, beside), pair| (alone + pair.0.lost, beside + pair.1.lost));
    Isolation { p99_ratio, p50_ratio, jitter_ratio, lost, flood_sent, slices, pairs }
}

/// Declares the slice of one of both, and makes its frames.
fn side(
    bench: &Bench<'_>,
    tenant: usize,
    class: DelayClass,
    rate: Option<SliceRate>,
) -> Result<Vec<Flow>> {
    let name = if tenant == 0 { VICTIM } else { FLOOD };
    let Some(Tenant { vni, chain, qfi }) = bench.users.tenants.get(tenant) else {
        return Ok(Vec::new());
    };
    let slice = SliceDocument {
        name: name.to_owned(),
        chain: chain.clone(),
        vni: Some(vni.get()),
        teid: Some(TEID),
        rate,
        class,
        ..SliceDocument::default()
    };
    let made = bench.running.client.create_slice(&slice)?;
    if made.status.state != catena_model::status::ChainState::Active {
        let reason = format!("slice '{name}': {}", made.status.reason);
        return Err(LabError::Refused { lab: bench.running.lab.name.clone(), reason });
    }
    let teid = Teid(TEID);
    let address = User::address_in(teid);
    let user = User { vni: *vni, teid, qfi: *qfi, tunnel_end: tunnel_end(1), address };
    let routers = slices::routers_of(bench.running, chain);
    Ok(vec![bench.flow(&[Content::User(user)], SIZE, routers)?])
}

/// One stream of the victim, alone or beside the flood, and what the flood sent.
fn one(
    bench: &mut Bench<'_>,
    flood: &Flood,
    victim: &[Flow],
    flooding: &[Flow],
    socket: &StampedSocket,
    is_beside: bool,
) -> Result<(Comparison, u64)> {
    let is_over = AtomicBool::new(!is_beside);
    let seconds = flood.seconds.unwrap_or(bench.users.seconds).0;
    std::thread::sleep(CALM);
    let rate = f64::from(flood.victim_packets_per_second);
    let per_second = f64::from(flood.flood_packets_per_second);
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_flood(flooding, socket, per_second, &is_over));
        let found = bench.stream(victim, rate, seconds, &AtomicU32::new(0));
        is_over.store(true, Ordering::Relaxed);
        let sent = sending.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let sent = sent.map_err(|error| LabError::io("send", "a flood", error))?;
        Ok((found?.comparison, sent))
    })
}

/// Sends as fast as it is told, until it is over.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "frames of a stream are far below 2^52, and not negative"
)]
fn send_flood(
    flows: &[Flow],
    socket: &StampedSocket,
    per_second: f64,
    is_over: &AtomicBool,
) -> std::io::Result<u64> {
    let duration = Duration::from_secs(1);
    let plan = Plan { run: FLOOD_RUN, users: flows, first: 0, per_second, duration };
    let mut frame = Vec::new();
    plan.write(0, 0, 0, &mut frame);
    let row = [frame.as_slice(); catena_io::STAMPED_ROW_MAX];
    let start = Instant::now();
    let mut sent = 0_u64;
    while !is_over.load(Ordering::Relaxed) {
        let due = (start.elapsed().as_secs_f64() * per_second) as u64;
        let count = usize::try_from(due.saturating_sub(sent)).unwrap_or(usize::MAX);
        if count == 0 {
            std::thread::sleep(PAUSE);
            continue;
        }
        sent += socket.send(row.get(..count.min(row.len())).unwrap_or(&row))? as u64;
    }
    Ok(sent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::users::Delays;

    #[test]
    fn the_ratio_is_that_of_pairs_and_its_interval_is_told() {
        let run = |p99_ns| Comparison {
            delay: Delays { p99_ns, p50_ns: p99_ns / 2, ..Delays::default() },
            ..Comparison::default()
        };
        let pairs = vec![(run(100), run(110)), (run(200), run(200)), (run(110), run(121))];
        let mut found = judged(pairs, 9, Vec::new());
        assert!((found.p99_ratio.mean - 1.1_f64.powf(2.0 / 3.0)).abs() < 1e-9);
        assert!(found.at_most().unwrap() > 1.1);
        found.lost = (3, 4);
        assert!(found.at_most().unwrap_err().contains("4 frames"));
    }
}

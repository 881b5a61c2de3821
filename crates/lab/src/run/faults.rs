//! Lets cables fail while traffic goes on, and tells what the traffic suffered from it. Knows interfaces and arrivals;
//! refuses to know who should do something about it.

use super::datagrams::Arrival;
use crate::error::Result;
use crate::routes::ip;
use crate::up::RunningLab;
use crate::vocabulary::{CableFault, FaultKind, LinkEnd};
use catena_kernel::xdp::{Silence, silence_here};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a detour may let packets overtake others.
const OVERTAKING: Duration = Duration::from_secs(1);
/// How often a fault that is not due yet looks whether the run has ended.
const LOOK: Duration = Duration::from_millis(1);

/// A fault that has happened.
#[derive(Clone, Debug)]
pub(crate) struct Happened {
    pub(crate) kind: FaultKind,
    cable: String,
    at: Instant,
}

/// What traffic suffered from one fault.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FaultOutcome {
    /// What befell the cable.
    pub kind: FaultKind,
    /// The cable.
    pub cable: String,
    /// The longest time from then on, until the next fault, in which nothing arrived, in milliseconds.
    pub outage_ms: f64,
    /// Datagrams that arrived behind later ones of their flow, more than a second after it.
    pub overtaken_late: u64,
}

/// Lets cables fail when their time has come, until all have or the traffic has ended.
pub(crate) fn happen(
    running: &RunningLab,
    faults: &[CableFault],
    start: Instant,
    has_ended: &AtomicBool,
) -> Result<Vec<Happened>> {
    let mut silenced: BTreeMap<usize, [Silence; 2]> = BTreeMap::new();
    let mut happened = Vec::new();
    for fault in faults {
        while start.elapsed() < fault.at {
            if has_ended.load(Ordering::Relaxed) {
                return Ok(happened);
            }
            std::thread::sleep(LOOK);
        }
        let Some(cable) = running.lab.cables.get(fault.cable) else { continue };
        let at = Instant::now();
        let [one, other] = &cable.ends;
        match fault.kind {
            FaultKind::Cut => set(running, one, "down")?,
            FaultKind::Silence => {
                let both = [silence(running, one)?, silence(running, other)?];
                silenced.insert(fault.cable, both);
            }
            FaultKind::Heal => match silenced.remove(&fault.cable) {
                Some(both) => drop(both),
                None => set(running, one, "up")?,
            },
        }
        happened.push(Happened { kind: fault.kind, cable: cable.to_string(), at });
    }
    Ok(happened)
}

/// Switches one end of a cable: both ends lose or get their carrier.
fn set(running: &RunningLab, end: &LinkEnd, state: &str) -> Result<()> {
    ip(running, &end.node, &["link", "set", "dev", &end.interface, state])
}

fn silence(running: &RunningLab, end: &LinkEnd) -> Result<Silence> {
    Ok(running.doorway(&end.node)?.inside(|| silence_here(&end.interface))??)
}

/// What a traffic suffered from faults, by what of it came when. In the order in which it came.
pub(crate) fn outcomes(happened: &[Happened], arrivals: &[Arrival]) -> Vec<FaultOutcome> {
    let ends = happened.iter().skip(1).map(|next| Some(next.at)).chain([None]);
    let outcome = |(fault, end): (&Happened, Option<Instant>)| {
        let is_within = |at: Instant| at >= fault.at && end.is_none_or(|end| at < end);
        let mut times: Vec<Instant> =
            arrivals.iter().map(|one| one.at).filter(|at| is_within(*at)).collect();
        times.push(fault.at);
        // Until the next fault; behind the last, until the traffic has ended.
        times.extend(end);
        times.sort();
        let gaps = times.iter().zip(times.iter().skip(1));
        let outage = gaps.map(|(before, at)| at.saturating_duration_since(*before)).max();
        let mut newest: BTreeMap<u32, u32> = BTreeMap::new();
        let mut overtaken_late = 0;
        for Arrival { at, flow, number } in arrivals {
            let newest = newest.entry(*flow).or_default();
            let is_late = is_within(*at) && *at > fault.at + OVERTAKING;
            overtaken_late += u64::from(*number < *newest && is_late);
            *newest = (*newest).max(*number);
        }
        FaultOutcome {
            kind: fault.kind,
            cable: fault.cable.clone(),
            outage_ms: outage.unwrap_or_default().as_secs_f64() * 1e3,
            overtaken_late,
        }
    };
    happened.iter().zip(ends).map(outcome).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_the_longest_silence_after_a_fault_and_late_overtaking_is_counted() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let happened = |kind, ms| Happened { kind, cable: "a -- b".into(), at: at(ms) };
        let faults = [happened(FaultKind::Cut, 100), happened(FaultKind::Heal, 2_000)];
        let arrival = |(ms, number)| Arrival { at: at(ms), flow: 0, number };
        // Silent from 110 to 150; overtaken at 200, which may be, and at 1,500, which may not.
        let came = [(90, 1), (110, 2), (150, 5), (200, 4), (1_400, 9), (1_500, 8), (2_100, 10)];
        let arrivals: Vec<Arrival> = came.into_iter().map(arrival).collect();
        let told = outcomes(&faults, &arrivals);
        assert_eq!((told[0].outage_ms, told[0].overtaken_late), (1_200.0, 1));
        assert_eq!((told[1].outage_ms, told[1].overtaken_late), (100.0, 0));
        // What came at once, and then nothing until the next fault.
        let early = outcomes(&faults, &arrivals[..3]);
        assert_eq!(early[0].outage_ms, 1_850.0);
        let nothing = outcomes(&faults[..1], &arrivals[..1]);
        assert_eq!(nothing[0].outage_ms, 0.0);
    }
}

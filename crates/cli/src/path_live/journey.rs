//! A chain on its way through encapsulations. Knows the order of moves and measurements, and that a chain is left where
//! it was found; refuses to know how anything is asked and told.

use crate::failure::Failure;
use crate::top::sample::{bit_rate, rate};
use catena_model::account::Volume;
use catena_model::check::CheckReport;
use catena_model::resource::Encapsulation;
use catena_model::status::{ChainReport, ChainState, Comparison, Receipt};
use catena_model::{NodeName, PathId};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Between two looks.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// Between two rounds of probes: a data plane follows eight at a time, each for as long as
/// [`PROBES_FORGOTTEN`].
const PROBE_PAUSE: Duration = Duration::from_secs(1);
/// While data planes look for probes the kernel path rests: nothing is counted until they do no longer, which is five
/// seconds after the last.
const PROBES_FORGOTTEN: Duration = Duration::from_millis(5_500);
/// How long a receipt is waited for.
const RECEIPT_WAIT: Duration = Duration::from_secs(20);
/// How long the way back is tried: a controller that begins anew is there again before.
const BACK_WAIT: Duration = Duration::from_secs(60);
const TRY_PAUSE: Duration = Duration::from_secs(1);

/// What a chain can be asked, and the time.
pub(super) trait Ground {
    /// Since some moment.
    fn now(&self) -> Duration;
    /// Waits, whatever the user wants.
    fn rest(&mut self, rest: Duration);
    /// Does the user want it to stop?
    fn is_stopped(&mut self) -> bool;
    /// How the chain is, with fresh counters.
    fn report(&mut self) -> Result<ChainReport, Failure>;
    /// Moves it; the receipt of the answer is that of this move.
    fn move_to(&mut self, encapsulation: Encapsulation) -> Result<ChainReport, Failure>;
    /// Sends probes along it.
    fn probe(&mut self) -> Result<CheckReport, Failure>;
    /// Says how far it is.
    fn progress(&mut self, what: &str);
}

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Live {
    /// Name of the chain.
    pub(super) chain: String,
    /// What carried it before, and carries it again.
    pub(super) began: Encapsulation,
    /// How long packets were counted with each.
    pub(super) seconds: u64,
    /// With each encapsulation, in the order of moves.
    pub(super) measured: Vec<Measured>,
    /// The receipt of the way back; none: it was there already, or gave none in time.
    pub(super) receipt: Option<Receipt>,
}

/// A chain under one encapsulation.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Measured {
    pub(super) encapsulation: Encapsulation,
    /// Why nothing was measured; none: it was.
    pub(super) trouble: Option<String>,
    /// What came to the end of its paths, each second; none: no packet did.
    pub(super) packets_per_second: Option<f64>,
    /// The same in bits of frames without headers.
    pub(super) bits_per_second: Option<f64>,
    /// Dropped by name while it was counted.
    pub(super) dropped: u64,
    /// How long probes took; none: nobody observed it.
    pub(super) delay: Option<Delay>,
    /// Why not, or why not of all probes.
    pub(super) no_delay: Option<String>,
    /// The receipt of the move to it; none: it was there already, or gave none in time.
    pub(super) receipt: Option<Receipt>,
}

/// How long probes took.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Delay {
    /// So many.
    pub(super) probes: usize,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
}

impl Delay {
    /// Of what some probes took; none: there was none.
    fn of(mut delays: Vec<u64>) -> Option<Self> {
        delays.sort_unstable();
        let at = |hundredths| percentile(&delays, hundredths);
        Some(Self { probes: delays.len(), p50_ns: at(50)?, p99_ns: at(99)? })
    }
}

/// By the nearest rank: the least value that so many of a hundred do not exceed.
fn percentile(sorted: &[u64], hundredths: usize) -> Option<u64> {
    let rank = (sorted.len() * hundredths).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// What came to the end of paths, and what was dropped on them, by node and path.
type Counts = BTreeMap<(String, PathId), (Volume, u64)>;

/// The user wants it to stop.
struct Stopped;

/// A chain that is about to move.
pub(super) struct Journey<'g> {
    ground: &'g mut dyn Ground,
    name: String,
    began: Encapsulation,
    seconds: Duration,
    /// When probes were sent last.
    probed: Option<Duration>,
}

impl<'g> Journey<'g> {
    /// Sees where it begins.
    pub(super) fn begin(ground: &'g mut dyn Ground, seconds: Duration) -> Result<Self, Failure> {
        let report = ground.report()?;
        Ok(Self { ground, name: report.name, began: report.encapsulation, seconds, probed: None })
    }

    /// Goes through all, and back. What was measured is told in any case.
    pub(super) fn through(mut self, compared: &[Comparison]) -> (Live, Result<(), Failure>) {
        let (mut measured, mut is_stopped) = (Vec::new(), false);
        for Comparison { encapsulation, trouble, .. } in compared {
            let found = match trouble {
                Some(trouble) => Ok(Measured::nothing(*encapsulation, trouble.clone())),
                None => self.measure(*encapsulation),
            };
            match found {
                Ok(one) => measured.push(one),
                Err(Stopped) => {
                    is_stopped = true;
                    break;
                }
            }
        }
        let back = self.back();
        let (receipt, outcome) = match back {
            Ok(receipt) if is_stopped => {
                let (name, carrier) = (&self.name, self.began.name());
                let told = format!("stopped: chain '{name}' is over {carrier} again, as before");
                (receipt, Err(Failure::failed(told)))
            }
            Ok(receipt) => (receipt, Ok(())),
            Err(failure) => (None, Err(failure)),
        };
        let (chain, began) = (self.name, self.began);
        let seconds = self.seconds.as_secs();
        (Live { chain, began, seconds, measured, receipt }, outcome)
    }

    fn measure(&mut self, encapsulation: Encapsulation) -> Result<Measured, Stopped> {
        let receipt = match self.moved(encapsulation)? {
            Ok(receipt) => receipt,
            Err(why) => return Ok(Measured::nothing(encapsulation, why)),
        };
        let counted = self.counted(encapsulation)?;
        let [packets, bits, dropped] = match counted {
            Ok(counted) => counted,
            Err(why) => return Ok(Measured { receipt, ..Measured::nothing(encapsulation, why) }),
        };
        let (delay, no_delay) = self.delay(encapsulation)?;
        let has_traffic = packets > 0.0;
        Ok(Measured {
            encapsulation,
            trouble: None,
            packets_per_second: has_traffic.then_some(packets),
            bits_per_second: has_traffic.then_some(bits),
            dropped: dropped as u64,
            delay,
            no_delay,
            receipt,
        })
    }

    /// Brings the chain there, if it is elsewhere; within: why it is not there.
    fn moved(&mut self, to: Encapsulation) -> Result<Result<Option<Receipt>, String>, Stopped> {
        if self.ground.is_stopped() {
            return Err(Stopped);
        }
        let before = match self.ground.report() {
            Ok(report) if report.encapsulation == to => return Ok(standing(&report).map(|()| None)),
            Ok(report) => report.receipt,
            Err(failure) => return Ok(Err(failure.message)),
        };
        self.ground.progress(&format!("moving chain '{}' to {}", self.name, to.name()));
        let mut report = match self.ground.move_to(to) {
            Ok(report) => report,
            Err(failure) => return Ok(Err(failure.message)),
        };
        let deadline = self.ground.now() + RECEIPT_WAIT;
        while !is_over(&report, before.as_ref()) && self.ground.now() < deadline {
            self.pause(LOOK_PAUSE)?;
            report = match self.ground.report() {
                Ok(report) => report,
                Err(failure) => return Ok(Err(failure.message)),
            };
        }
        Ok(standing(&report).map(|()| report.receipt.filter(|one| Some(one) != before.as_ref())))
    }

    /// Packets and bits each second, and what was dropped; within: why they are not known.
    fn counted(&mut self, with: Encapsulation) -> Result<Result<[f64; 3], String>, Stopped> {
        if let Some(probed) = self.probed {
            self.pause((probed + PROBES_FORGOTTEN).saturating_sub(self.ground.now()))?;
        }
        let seconds = self.seconds.as_secs();
        self.ground.progress(&format!("counting over {} for {seconds} s", with.name()));
        let began = self.ground.now();
        let before = match self.counts() {
            Ok(counts) => counts,
            Err(why) => return Ok(Err(why)),
        };
        self.pause(self.seconds)?;
        let passed = self.ground.now().saturating_sub(began);
        Ok(self.counts().map(|after| {
            let mut sums = [0.0; 3];
            for (at, (volume, dropped)) in &after {
                let (volume_before, dropped_before) = before.get(at).copied().unwrap_or_default();
                sums[0] += rate(volume_before.packets, volume.packets, passed);
                sums[1] += bit_rate(volume_before, *volume, passed);
                sums[2] += dropped.checked_sub(dropped_before).unwrap_or(*dropped) as f64;
            }
            sums
        }))
    }

    /// What is counted now; within: why it is not known.
    fn counts(&mut self) -> Result<Counts, String> {
        let report = self.ground.report().map_err(|failure| failure.message)?;
        if !report.silent.is_empty() {
            let nodes = report.silent.iter().filter_map(|silent| silent.node.as_ref());
            let nodes: Vec<&str> = nodes.map(NodeName::as_str).collect();
            let whose = if nodes.is_empty() { "a node".into() } else { nodes.join(", ") };
            return Err(format!("{whose} told no counters: what it saw would be missing"));
        }
        let counts = report.nodes.iter().map(|at| {
            let node = at.node.as_ref().map(ToString::to_string).unwrap_or_default();
            let dropped = at.counters.dropped.values().copied().fold(0, u64::saturating_add);
            ((node, at.counters.path), (at.counters.finished, dropped))
        });
        // Of nodes whose names are hidden there is one line for each path.
        let mut sums: BTreeMap<(String, PathId), (Volume, u64)> = BTreeMap::new();
        for (at, (finished, dropped)) in counts {
            let sum = sums.entry(at).or_default();
            sum.0.packets = sum.0.packets.saturating_add(finished.packets);
            sum.0.bytes = sum.0.bytes.saturating_add(finished.bytes);
            sum.1 = sum.1.saturating_add(dropped);
        }
        Ok(sums)
    }

    /// How long probes take, and why nobody observed it, or not of all of them.
    fn delay(&mut self, with: Encapsulation) -> Result<(Option<Delay>, Option<String>), Stopped> {
        self.ground.progress(&format!("probing over {}", with.name()));
        let until = self.ground.now() + self.seconds;
        let (mut delays, mut why) = (Vec::new(), None);
        loop {
            let checked = self.ground.probe();
            self.probed = Some(self.ground.now());
            match checked {
                Ok(report) => {
                    delays.extend(&report.delays_ns);
                    let mut faults = report.findings.iter().filter(|finding| !finding.is_ok);
                    why = why.or_else(|| faults.next().map(|finding| finding.text.clone()));
                }
                Err(failure) => why = why.or(Some(failure.message)),
            }
            if self.ground.now() + PROBE_PAUSE >= until {
                break;
            }
            self.pause(PROBE_PAUSE)?;
        }
        let no_clock =
            || "the ends of its paths are on machines with clocks of their own".to_owned();
        let delay = Delay::of(delays);
        let why = why.or_else(|| delay.is_none().then(no_clock));
        Ok((delay, why))
    }

    /// Waits, unless the user wants it to stop.
    fn pause(&mut self, pause: Duration) -> Result<(), Stopped> {
        let until = self.ground.now() + pause;
        loop {
            if self.ground.is_stopped() {
                return Err(Stopped);
            }
            let left = until.saturating_sub(self.ground.now());
            if left.is_zero() {
                return Ok(());
            }
            self.ground.rest(left.min(LOOK_PAUSE));
        }
    }

    /// Brings the chain to where it began, and does not stop before.
    fn back(&mut self) -> Result<Option<Receipt>, Failure> {
        let (mut has_moved, mut before) = (false, None);
        let began = self.ground.now();
        let (deadline, end) = (began + RECEIPT_WAIT, began + BACK_WAIT);
        loop {
            let report = self.ground.report().and_then(|report| {
                if report.encapsulation == self.began {
                    return Ok(report);
                }
                before.clone_from(&report.receipt);
                let (name, carrier) = (&self.name, self.began.name());
                self.ground.progress(&format!("moving chain '{name}' back to {carrier}"));
                has_moved = true;
                self.ground.move_to(self.began)
            });
            match report {
                Ok(report) if report.encapsulation == self.began => {
                    let is_late = self.ground.now() >= deadline;
                    if !has_moved {
                        return Ok(None);
                    }
                    if is_over(&report, before.as_ref()) || is_late {
                        return Ok(report.receipt.filter(|one| Some(one) != before.as_ref()));
                    }
                    self.ground.rest(LOOK_PAUSE);
                }
                Ok(report) if self.ground.now() >= end => {
                    let carrier = report.encapsulation.name();
                    return Err(self.left_behind(&format!("somebody else moves it to {carrier}")));
                }
                Err(failure) if self.ground.now() >= end => {
                    return Err(self.left_behind(&failure.message));
                }
                Ok(_) | Err(_) => self.ground.rest(TRY_PAUSE),
            }
        }
    }

    fn left_behind(&self, why: &str) -> Failure {
        let (name, began) = (&self.name, self.began.name());
        Failure::failed(format!(
            "chain '{name}' could not be brought back to {began}: {why}. Do it by hand: catena chain update {name} \
             --encapsulation {began}"
        ))
    }
}

/// Does traffic take the chain as it is? If not, why.
fn standing(report: &ChainReport) -> Result<(), String> {
    match report.status.state {
        ChainState::Active => Ok(()),
        state => Err(format!("it is {} there: {}", state.name(), report.status.reason)),
    }
}

/// Is the change over that came after a receipt?
fn is_over(report: &ChainReport, before: Option<&Receipt>) -> bool {
    report.status.state == ChainState::Active
        && report.receipt.is_some()
        && report.receipt.as_ref() != before
}

impl Measured {
    fn nothing(encapsulation: Encapsulation, why: String) -> Self {
        Self {
            encapsulation,
            trouble: Some(why),
            packets_per_second: None,
            bits_per_second: None,
            dropped: 0,
            delay: None,
            no_delay: None,
            receipt: None,
        }
    }
}

#[cfg(test)]
mod tests;

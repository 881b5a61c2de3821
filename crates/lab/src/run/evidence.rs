//! All that a run measured, in the form in which it is judged, drawn and written.

use super::accounting::Account;
use super::delays::DelayRow;
use super::faults::FaultOutcome;
use super::footprint::Footprint;
use super::forged::Forged;
use super::functions::FunctionEvidence;
use super::kills::Death;
use super::programs::ProgramResult;
use super::sameness::ChainOutcome;
use super::setups::SetupEvidence;
use super::stateless::Stateless;
use super::statistics::{Mean, mean, median, slope};
use super::tool::TrafficResult;
use super::updates::Update;
use super::users::UsersEvidence;
use catena_client::deploy::StepTimings;
use catena_model::resource::Encapsulation;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One repeat of one case of the sweep.
#[derive(Clone, Debug, Serialize)]
pub struct RunEvidence {
    /// Name of the case, as in folders and messages.
    pub case: String,
    /// The encapsulation it ran over, where the sweep says.
    pub encapsulation: Option<Encapsulation>,
    /// The chain of the case, where the sweep says.
    pub chain: Option<String>,
    /// What each traffic came to.
    pub traffic: Vec<TrafficResult>,
    /// The independent proof's verdict on the steering, where there were captures for it.
    pub proof: Option<Value>,
    /// The changes of a chain.
    pub update: Option<Update>,
    /// The independent proof's verdict on what a stream suffered from them.
    pub update_proof: Option<Value>,
    /// What traffic suffered from each fault of a cable.
    pub faults: Vec<FaultOutcome>,
    /// Drops by name, frames that cables did not bring, and what functions died with, where anything fails.
    pub named_losses: Option<u64>,
    /// The independent proof's verdict on the instances that our own datagrams met.
    pub path_proof: Option<Value>,
    /// The independent proof's verdict on where streams of TCP went.
    pub stream_proof: Option<Value>,
    /// The evaluator's verdicts on firewalls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict_proof: Option<Value>,
    /// What the traffic of chains came to that are compared.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub outcomes: BTreeMap<String, ChainOutcome>,
    /// What became of functions that were killed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deaths: Vec<Death>,
    /// The independent proof's verdict on where source-routed frames went.
    pub route_proof: Option<Value>,
    /// The independent proof's verdict on what packets took along of their nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub telemetry_proof: Option<Value>,
    /// What became of frames that nobody may send.
    pub forged: Option<Forged>,
    /// Whether switches hold what they held before there were chains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stateless: Option<Stateless>,
    /// How set-ups of flows went, where the controller was asked for any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub setups: Option<SetupEvidence>,
    /// How each program of traffic ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramResult>,
    /// What each bundled function did.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub functions: BTreeMap<String, FunctionEvidence>,
    /// Packets that rules of bundled functions ended.
    pub denied: u64,
    /// Packets that entered each chain that was deployed, by its name.
    pub entered: BTreeMap<String, u64>,
    /// What the identity left over.
    pub unaccounted: u64,
    /// Frames that rings or sockets lost.
    pub ring_full: u64,
    /// Interfaces that counted something else than the data plane.
    pub differing: Vec<String>,
    /// Hops that got or gave back something else than what entered their chain.
    pub uneven: Vec<String>,
    /// How often nodes held a neighbour for silent.
    pub silences: u64,
    /// Nodes that did not answer for their counters.
    pub silent: Vec<String>,
}

impl RunEvidence {
    /// A run of which nothing is counted yet.
    pub(crate) fn new(
        case: String,
        encapsulation: Option<Encapsulation>,
        chain: Option<String>,
    ) -> Self {
        Self {
            case,
            encapsulation,
            chain,
            traffic: Vec::new(),
            proof: None,
            update: None,
            update_proof: None,
            faults: Vec::new(),
            named_losses: None,
            path_proof: None,
            stream_proof: None,
            verdict_proof: None,
            outcomes: BTreeMap::new(),
            deaths: Vec::new(),
            route_proof: None,
            telemetry_proof: None,
            forged: None,
            stateless: None,
            setups: None,
            programs: Vec::new(),
            functions: BTreeMap::new(),
            denied: 0,
            entered: BTreeMap::new(),
            unaccounted: 0,
            ring_full: 0,
            differing: Vec::new(),
            uneven: Vec::new(),
            silences: 0,
            silent: Vec::new(),
        }
    }

    /// The chains that were given no packet: what holds of nothing was not tried.
    pub(crate) fn idle(&self) -> impl Iterator<Item = &str> {
        self.entered.iter().filter(|(_, packets)| **packets == 0).map(|(name, _)| name.as_str())
    }

    pub(crate) fn account(&mut self, account: Account) {
        self.unaccounted = account.unaccounted;
        self.ring_full = account.ring_full;
        self.differing = account.differing;
        self.uneven = account.uneven;
        self.entered = account.entered;
        self.silences = account.silences;
        self.silent = account.silent;
    }
}

/// One deployment of a sweep over lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DeploySample {
    /// Functions of the chain.
    pub length: usize,
    /// Time of each step, in seconds.
    pub timings: StepTimings,
}

/// All deployments of one length.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LengthRow {
    /// Functions of the chain.
    pub length: usize,
    /// How often.
    pub samples: usize,
    /// Flow classifier, in seconds.
    pub fc: Mean,
    /// Port pairs, in seconds.
    pub pp: Mean,
    /// Port pair groups, in seconds.
    pub ppg: Mean,
    /// Port chain, in seconds.
    pub pc: Mean,
    /// All four, in seconds.
    pub total: Mean,
}

/// Throughput of one chain over one encapsulation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ThroughputRow {
    /// The chain.
    pub chain: String,
    /// What figures call it.
    pub label: String,
    /// The figure it belongs to.
    pub group: Option<String>,
    /// Functions in it.
    pub functions: Vec<String>,
    /// The encapsulation, where the sweep says.
    pub encapsulation: Option<Encapsulation>,
    /// Bit/s of each repeat, in order.
    pub samples: Vec<f64>,
    /// Their median, in bit/s.
    pub median: f64,
}

/// Everything of one lab run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Evidence {
    /// Each repeat of each case.
    pub runs: Vec<RunEvidence>,
    /// Each deployment of a sweep over lengths.
    pub deployments: Vec<DeploySample>,
    /// The experiment with 5G users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<UsersEvidence>,
    /// How long datagrams took that left as if by chance.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<DelayRow>,
    /// What the lab took of its machine, where its file asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub footprint: Option<Footprint>,
}

impl Evidence {
    /// The deployments by length.
    #[must_use]
    pub fn lengths(&self) -> Vec<LengthRow> {
        let mut lengths: Vec<usize> = self.deployments.iter().map(|one| one.length).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let row = |length: usize| {
            let of: Vec<StepTimings> =
                self.deployments.iter().filter(|d| d.length == length).map(|d| d.timings).collect();
            let step =
                |time: fn(&StepTimings) -> f64| mean(&of.iter().map(time).collect::<Vec<f64>>());
            LengthRow {
                length,
                samples: of.len(),
                fc: step(|t| t.fc),
                pp: step(|t| t.pp),
                ppg: step(|t| t.ppg),
                pc: step(|t| t.pc),
                total: step(StepTimings::total),
            }
        };
        lengths.into_iter().map(row).collect()
    }

    /// Seconds that each added function adds to a deployment (least squares).
    #[must_use]
    pub fn deploy_seconds_per_function(&self) -> Option<f64> {
        if self.deployments.is_empty() {
            return None;
        }
        #[allow(clippy::cast_precision_loss, reason = "lengths are below 100")]
        let point = |one: &DeploySample| (one.length as f64, one.timings.total());
        Some(slope(&self.deployments.iter().map(point).collect::<Vec<_>>()))
    }

    /// Throughput of each chain, in the order of the sweep; of chains which are the same as one that
    /// ran, under their own names too.
    #[must_use]
    pub fn throughput(&self, lab: &crate::vocabulary::Lab) -> Vec<ThroughputRow> {
        let mut rows: Vec<ThroughputRow> = Vec::new();
        for run in &self.runs {
            let Some(chain) = run.chain.as_deref().and_then(|name| lab.chain(name)) else {
                continue;
            };
            let samples: Vec<f64> =
                run.traffic.iter().filter_map(|traffic| traffic.bits_per_second).collect();
            // Datagrams of our own are counted, not weighed.
            if samples.is_empty() {
                continue;
            }
            let is_it = |row: &&mut ThroughputRow| {
                row.chain == chain.name && row.encapsulation == run.encapsulation
            };
            match rows.iter_mut().find(is_it) {
                Some(row) => row.samples.extend(samples),
                None => rows.push(ThroughputRow {
                    chain: chain.name.clone(),
                    label: chain.label.clone(),
                    group: chain.group.clone(),
                    functions: chain.document.chain.iter().map(|s| s.name.clone()).collect(),
                    encapsulation: run.encapsulation,
                    samples,
                    median: 0.0,
                }),
            }
        }
        for row in &mut rows {
            row.median = median(&row.samples);
        }
        let others = lab.sweep.chains.iter().filter_map(|name| lab.chain(name));
        let others = others.filter(|chain| lab.measured_for(chain).name != chain.name);
        let of_others: Vec<ThroughputRow> = others
            .flat_map(|chain| {
                let same = rows.iter().filter(|row| row.chain == lab.measured_for(chain).name);
                same.map(|row| ThroughputRow {
                    chain: chain.name.clone(),
                    label: chain.label.clone(),
                    group: chain.group.clone(),
                    ..row.clone()
                })
            })
            .collect();
        rows.extend(of_others);
        // Stable: by encapsulation, rows of one chain stay as they ran.
        rows.sort_by_key(|row| lab.sweep.chains.iter().position(|name| *name == row.chain));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::Lab;
    use std::path::Path;

    #[test]
    fn a_chain_under_two_names_is_measured_once_and_told_of_both() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        let lab = Lab::read(&folder.join("openstack-tcp.yaml"), false).unwrap();
        let run = |chain: &str, rate: f64| RunEvidence {
            traffic: vec![TrafficResult {
                bits_per_second: Some(rate),
                ..TrafficResult::default()
            }],
            ..RunEvidence::new(chain.into(), None, Some(chain.into()))
        };
        let runs = vec![run("C1", 7.0), run("elsewhere", 2.0), run("C1", 9.0)];
        let rows = Evidence { runs, ..Evidence::default() }.throughput(&lab);
        let told: Vec<(&str, &str, &[f64])> = rows
            .iter()
            .map(|row| (row.group.as_deref().unwrap(), row.label.as_str(), &row.samples[..]))
            .collect();
        assert_eq!(
            told,
            [
                ("length", "C1", &[7.0, 9.0][..]),
                ("location", "source", &[7.0, 9.0]),
                ("location", "elsewhere", &[2.0]),
            ]
        );
    }
}

//! What chains carry at most, measured before the first run, for traffic whose rate is a share of it: the same file
//! asks the same of a fast machine and of a slow one. Knows how that is found out; refuses to know what is made of it.

use super::accounting::Snapshot;
use super::cases::Case;
use super::experiment::{address_of, deploy_case};
use super::predicted;
use super::tool::{Place, make};
use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::{Arrivals, Load, LoadShare, Seconds, Traffic};
use catena_client::deploy::Deployment;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Datagrams that functions are timed with.
const TIMED_FLOWS: u32 = 1;
const TIMED_PER_SECOND: u32 = 400;
const TIMED_SECONDS: Seconds = Seconds(4.0);
/// What tells them from those of runs.
const TIMED_RUN: u32 = u32::MAX;

/// Packets a second, by chain.
#[derive(Debug, Default)]
pub(super) struct Ceilings(BTreeMap<String, f64>);

/// Of each chain that a traffic of the file names, one by one.
pub(super) fn measure(
    running: &RunningLab,
    folder: &Path,
    tell: &mut dyn FnMut(&str, f64),
) -> Result<Ceilings> {
    let mut all = Ceilings::default();
    for traffic in &running.lab.traffic {
        let Some(LoadShare { chain, .. }) = &traffic.share else { continue };
        if !all.0.contains_key(chain) {
            let start = Instant::now();
            let ceiling = of_chain(running, folder, traffic, chain)?;
            let text = format!("chain {chain} carries {ceiling:.0} packets a second at most");
            tell(&text, start.elapsed().as_secs_f64());
            all.0.insert(chain.clone(), ceiling);
        }
    }
    Ok(all)
}

fn of_chain(running: &RunningLab, folder: &Path, traffic: &Traffic, chain: &str) -> Result<f64> {
    let case = Case {
        encapsulation: running.lab.sweep.encapsulations.first().copied(),
        chain: Some(chain.to_owned()),
    };
    let deployed = deploy_case(running, &case)?;
    let place = Place {
        from: running.doorway(&traffic.from)?,
        to: running.doorway(&traffic.to)?,
        address: address_of(running, traffic)?,
        keeps_arrivals: false,
        repeat: 0,
        folder,
    };
    let load = Load {
        flows: TIMED_FLOWS,
        packets: None,
        packets_per_second: TIMED_PER_SECOND,
        arrivals: Arrivals::Even,
        is_answered: false,
    };
    let timed = Traffic { load, seconds: TIMED_SECONDS, share: None, ..traffic.clone() };
    make(&timed, &place, Some(chain), TIMED_RUN, &AtomicBool::new(false))?;
    Snapshot::take_at_rest(&running.client)?;
    let told = predicted::ask(running, chain, f64::from(TIMED_PER_SECOND))?;
    for chain in deployed.iter().rev() {
        Deployment::undeploy(&running.client, &chain.id)?;
    }
    told.ceiling.filter(|_| told.is_measured).ok_or_else(|| LabError::Tool {
        tool: format!("the ceiling of chain '{chain}'"),
        problem: "not all of its functions were timed".into(),
        advice: "let load_of name a chain of bundled functions that this traffic passes".into(),
    })
}

impl Ceilings {
    /// Traffic at the rate that its share of a ceiling says.
    pub(super) fn at_its_rate(&self, traffic: &Traffic) -> Traffic {
        let mut traffic = traffic.clone();
        let share = traffic.share.as_ref();
        if let Some((ceiling, share)) =
            share.and_then(|of| Some((self.0.get(&of.chain)?, of.share)))
        {
            traffic.load.packets_per_second = (ceiling * share).round().max(1.0) as u32;
        }
        traffic
    }
}

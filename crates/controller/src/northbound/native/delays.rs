//! `/v1/chains/{chain}/delays`: how long a chain takes, hop by hop, as its packets and engines tell it. Knows where
//! each figure is from; refuses to know how it is reckoned, and adds up nothing.

use super::chains::find;
use super::instance_delays;
use super::paths::{direction, phase};
use super::problem::Problem;
use super::view::View;
use crate::southbound::telemetry::planned::Planned;
use crate::southbound::telemetry::state::{NodeTold, PathTold};
use axum::response::Response;
use catena_adapt::observe::{DelayFigures, HopFigures, PathFigures, Quantile, Taken, VisitFigures};
use catena_model::NodeName;
use catena_model::delays::{
    ChainDelays, DelayFigure, DelayQuantile, HopDelays, HopLosses, PathDelays, PathTaken,
    TellingNode, VisitDelays, WholeDelay, error_permille,
};
use catena_model::id::{InstanceId, PathId};
use catena_model::telemetry::{Source, Telemetry, TelemetryField};
use catena_plan::PathRecord;
use std::collections::{BTreeMap, BTreeSet};

/// How far a header's latency is rounded, nanoseconds.
const HEADER_ERROR_NS: u64 = 64;

/// Between what a delay was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Measured {
    /// By one clock.
    Here,
    /// By those of two nodes.
    Apart,
}

pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    let chain = find(&view.intent, &view.call.name)?;
    let board = &view.app.fleet.telemetry;
    let paths = view.situation.blueprint.ledger.paths.of_chain(chain.id);
    let mut nodes = BTreeSet::new();
    let paths = paths.filter_map(|(id, record)| {
        let told = board.told_of(id)?;
        nodes.extend(record.functions().flat_map(|function| function.instances).map(|at| at.node));
        Some(path_delays(id, record, told))
    });
    let paths: Vec<PathDelays> = paths.collect();
    let tellers = nodes.into_iter().filter(|_| view.identity.sees_all());
    let tellers = tellers.map(|node| teller(node, board.told_by(node))).collect();
    let (instances, silent) = instance_delays::ask(view, chain).await;
    view.told(&ChainDelays { name: chain.name(), paths, instances, silent, tellers })
}

/// What a node told, with the places where packets were left out.
fn teller(node: &NodeName, told: NodeTold) -> TellingNode {
    let lost = told.lost_by_place().into_iter().filter(|(_, count)| *count > 0);
    TellingNode {
        node: Some(node.clone()),
        believed: told.telling.believed,
        left_out: told.telling.left_out,
        refused: told.refused.into_iter().map(|(reason, count)| (reason.into(), count)).collect(),
        lost: lost.map(|(place, count)| (place.into(), count)).collect(),
    }
}

fn path_delays(path: PathId, record: &PathRecord, known: PathTold) -> PathDelays {
    let PathTold { version, telemetry, told } = known;
    let unwatched = PathDelays {
        path,
        version,
        direction: direction(record).into(),
        phase: phase(record).into(),
        reason: None,
        mirror: telemetry.mirror.get(),
        taken: None,
        hops: Vec::new(),
        whole: WholeDelay::default(),
    };
    match told {
        Err(reason) => PathDelays { reason: Some(reason), ..unwatched },
        Ok((planned, figures)) => {
            let names = names(record);
            let hops = (0..).zip(&figures.hops);
            PathDelays {
                taken: Some(taken(&figures)),
                hops: hops
                    .map(|(number, hop)| hop_delays(number, hop, (&planned, &names)))
                    .collect(),
                whole: whole(&telemetry, &figures),
                ..unwatched
            }
        }
    }
}

/// What people call the instances of a path.
fn names(record: &PathRecord) -> BTreeMap<InstanceId, String> {
    let instances = record.functions().flat_map(|function| function.instances);
    instances.map(|instance| (instance.id, instance.name.to_owned())).collect()
}

fn taken(figures: &PathFigures) -> PathTaken {
    let Taken { reports, complete, silent, missing, incomplete } = figures.taken;
    let passed_over = figures.let_go.passed_over;
    PathTaken { reports, complete, silent, missing, incomplete, passed_over }
}

fn hop_delays(
    number: u32,
    hop: &HopFigures,
    (planned, names): (&Planned, &BTreeMap<InstanceId, String>),
) -> HopDelays {
    let visit = |visit: &VisitFigures| VisitDelays {
        node: planned.nodes.get(&visit.device).cloned(),
        functions: visit.functions.iter().filter_map(|id| names.get(id)).cloned().collect(),
        delays: visit.delays.iter().map(|delay| figure(delay, Measured::Here)).collect(),
    };
    let losses = hop.passage.as_ref().and_then(|passage| passage.losses);
    HopDelays {
        hop: number,
        visits: hop.visits.iter().map(visit).collect(),
        leg: hop.leg.iter().map(|delay| figure(delay, Measured::Apart)).collect(),
        lost: losses.map(|losses| HopLosses {
            source: losses.source.name().into(),
            packets: losses.lost,
            samples: losses.samples,
        }),
        recorded: hop.taken.recorded,
        silent: hop.taken.silent,
        missing: hop.taken.missing,
    }
}

fn whole(telemetry: &Telemetry, figures: &PathFigures) -> WholeDelay {
    let delays: Vec<DelayFigure> =
        figures.chain.iter().map(|delay| figure(delay, Measured::Apart)).collect();
    let reason = delays.is_empty().then(|| why_none(telemetry, figures).to_owned());
    WholeDelay { delays, reason }
}

/// Why the delay of a whole path is not known.
fn why_none(telemetry: &Telemetry, figures: &PathFigures) -> &'static str {
    // Segments of others are hops, and no node of ours.
    if figures.hops.iter().filter(|hop| !hop.visits.is_empty()).count() < 2 {
        "it has one hop: the delay is that in its functions"
    } else if !telemetry.fields.contains(&TelemetryField::Arrival) {
        "its packets do not take along when they came ('arrival')"
    } else if figures.taken.reports == 0 {
        "no packet of it was told of yet"
    } else {
        "no second is over yet in which both ends stamped packets by one clock, or said that theirs are synchronised"
    }
}

fn figure(delay: &DelayFigures, measured: Measured) -> DelayFigure {
    let quantile = |quantile: Quantile| DelayQuantile {
        ns: quantile.ns,
        at_least_ns: quantile.at_least,
        at_most_ns: quantile.at_most,
    };
    let error_ns = match (delay.source, measured) {
        (Source::Packet, Measured::Here) => Some(HEADER_ERROR_NS),
        (Source::Packet, Measured::Apart) => None,
        (Source::Engine | Source::Probe, _) => Some(0),
    };
    DelayFigure {
        source: delay.source.name().into(),
        samples: delay.all.samples,
        p50: quantile(delay.all.p50),
        p95: quantile(delay.all.p95),
        p99: quantile(delay.all.p99),
        error_permille: error_permille(delay.source),
        error_ns,
        spoiled_windows: delay.spoiled,
    }
}

#[cfg(test)]
mod tests;

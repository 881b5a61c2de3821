//! `POST /v1/chains/NAME/check`: sends probes along every path of a chain and tells what they met.
//! Knows whom to ask and for how long; refuses to touch a packet: probes are sent, followed and
//! taken out by the data planes.

mod judge;
mod probes;

use super::chains;
use super::change::declared_json;
use super::problem::Problem;
use super::view::View;
use crate::northbound::app::App;
use axum::response::Response;
use catena_model::check::{CheckFinding, CheckQuestion, CheckReport};
use catena_model::{Answer, PathId, Question};
use catena_plan::{PathPhase, PathRecord};
use judge::{Seen, Sent};
use probes::Batch;
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// Between two looks at what was seen.
const LOOKS: Duration = Duration::from_millis(50);
/// How long probes may take: longer than any function should hold a packet.
const WAIT: Duration = Duration::from_secs(1);
const ETHERNET_BYTES: usize = 14;

/// Checks a chain.
pub(super) async fn chain(view: &View) -> Result<Response, Problem> {
    declared_json(&view.call)?;
    let View { app, situation, intent, .. } = view;
    let chain = chains::find(intent, &view.call.name)?;
    let seal = Uuid::new_v4().as_u64_pair().0;
    let paths: Vec<(PathId, &PathRecord)> = situation
        .blueprint
        .ledger
        .paths
        .iter()
        .filter(|(_, path)| path.chain == chain.id && path.phase == PathPhase::Classified)
        .map(|(id, path)| (*id, path))
        .collect();
    let name = chain.label.name.clone();
    let mut findings = Vec::new();
    if paths.is_empty() {
        let reason = situation.chain_status(intent, chain.id).reason;
        let text = format!("no node sends into the chain: {reason}");
        // Not the name: somebody may hand this line to a shell.
        let fix = Some(format!("catena chain show {}", chain.id));
        findings.push(CheckFinding { is_ok: false, text, fix });
        return view.told(&CheckReport { chain: name, findings, delays_ns: Vec::new() });
    }
    let mut batches = Vec::new();
    let mut first = 1;
    for (id, path) in &paths {
        let mtu = intent.networks.get(&path.destination).map_or(0, |network| network.mtu);
        match probes::of_path(&situation.blueprint, *id, path, mtu, seal, first) {
            Ok(batch) => {
                first += batch.frames.len() as u64;
                batches.push(batch);
            }
            Err(why) => {
                let text = format!("path {id} cannot be probed: {why}");
                findings.push(CheckFinding { is_ok: false, text, fix: None });
            }
        }
    }
    let nodes: Vec<_> = situation.inventory.nodes.keys().cloned().collect();
    for node in &nodes {
        if let Err(why) = app.fleet.ask(node, &Question::Check(CheckQuestion::Arm { seal })).await {
            let text = format!("a node does not take part: {why}");
            let fix = Some("catena node list".into());
            findings.push(CheckFinding { is_ok: false, text, fix });
        }
    }
    for batch in &batches {
        // One by one: none waits for another on its way.
        for frame in &batch.frames {
            let (port, frames) = (batch.port, vec![frame.clone()]);
            let inject = Question::Check(CheckQuestion::Inject { seal, port, frames });
            app.fleet
                .ask(&batch.node, &inject)
                .await
                .map_err(|why| Problem::conflict(format!("The probes cannot be sent: {why}.")))?;
        }
    }
    let sent: Vec<Sent<'_>> = batches.iter().filter_map(|batch| sent(batch, &paths)).collect();
    let (found, delays_ns) = watch(app, seal, &nodes, &sent).await;
    findings.extend(found);
    view.told(&CheckReport { chain: name, findings, delays_ns })
}

fn sent<'r>(batch: &'r Batch, paths: &[(PathId, &'r PathRecord)]) -> Option<Sent<'r>> {
    let (_, record) = paths.iter().find(|(id, _)| *id == batch.path)?;
    let large = batch.first + u64::from(probes::FLOWS);
    Some(Sent {
        way: format!("path {}", batch.path),
        path: batch.path,
        record,
        node: &batch.node,
        small: batch.first..large,
        large,
        large_bytes: batch.frames.last().map_or(ETHERNET_BYTES, |frame| frame.0.len()),
    })
}

/// Looks until every probe has come through, or the time is over. Answers what was found, and how long probes took.
async fn watch(
    app: &App,
    seal: u64,
    nodes: &[catena_model::NodeName],
    sent: &[Sent<'_>],
) -> (Vec<CheckFinding>, Vec<u64>) {
    let question = Question::Check(CheckQuestion::Sightings { seal });
    let deadline = Instant::now() + WAIT;
    loop {
        let mut seen = Seen::new();
        for node in nodes {
            if let Ok(Answer::Sighted(sightings)) = app.fleet.ask(node, &question).await {
                seen.insert(node.clone(), sightings);
            }
        }
        let findings: Vec<CheckFinding> =
            sent.iter().flat_map(|sent| judge::findings(sent, &seen)).collect();
        if findings.iter().all(|finding| finding.is_ok) || Instant::now() >= deadline {
            let delays = sent.iter().flat_map(|sent| judge::delays(sent, &seen));
            let mut delays: Vec<u64> = delays.collect();
            delays.sort_unstable();
            return (findings, delays);
        }
        tokio::time::sleep(LOOKS).await;
    }
}

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
use crate::southbound::fleet::Fleet;
use axum::response::Response;
use catena_model::check::{CheckFinding, CheckQuestion, CheckReport};
use catena_model::{Answer, NodeName, PathId, Question};
use catena_plan::{PathPhase, PathRecord};
use judge::{Seen, Sent};
use probes::Batch;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use uuid::Uuid;

/// Between two looks at what was seen.
const LOOKS: Duration = Duration::from_millis(50);
/// How long probes may take: longer than any function should hold a packet.
const WAIT: Duration = Duration::from_secs(1);
/// Between two probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(2);
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
    findings.extend(arm(&app.fleet, seal, &nodes).await);
    inject(&app.fleet, seal, &batches)
        .await
        .map_err(|why| Problem::conflict(format!("The probes cannot be sent: {why}.")))?;
    let sent: Vec<Sent<'_>> = batches.iter().filter_map(|batch| sent(batch, &paths)).collect();
    let (found, delays_ns) = watch(app, seal, &nodes, &sent).await;
    findings.extend(found);
    view.told(&CheckReport { chain: name, findings, delays_ns })
}

/// Has all nodes look for the probes of a check. Answers who does not.
async fn arm(fleet: &Arc<Fleet>, seal: u64, nodes: &[NodeName]) -> Vec<CheckFinding> {
    let question = Question::Check(CheckQuestion::Arm { seal });
    let answers = fleet.ask_each(nodes.iter().cloned(), &question).await;
    let finding = |why| CheckFinding {
        is_ok: false,
        text: format!("a node does not take part: {why}"),
        fix: Some("catena node list".into()),
    };
    answers.into_values().filter_map(Result::err).map(finding).collect()
}

/// Has nodes send the probes, one after the other, so that none waits for another on its way. None waits for the
/// answer to another either: however far the nodes are, they have not forgotten the check when the last is sent.
///
/// # Errors
/// Why one was not sent, for people.
async fn inject(fleet: &Arc<Fleet>, seal: u64, batches: &[Batch]) -> Result<(), String> {
    let mut asked = JoinSet::new();
    for batch in batches {
        for frame in &batch.frames {
            let (fleet, node) = (Arc::clone(fleet), batch.node.clone());
            let (port, frames) = (batch.port, vec![frame.clone()]);
            let question = Question::Check(CheckQuestion::Inject { seal, port, frames });
            asked.spawn(async move { fleet.ask(&node, &question).await });
            tokio::time::sleep(PROBE_INTERVAL).await;
        }
    }
    while let Some(answer) = asked.join_next().await {
        answer.map_err(|error| error.to_string())??;
    }
    Ok(())
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
    nodes: &[NodeName],
    sent: &[Sent<'_>],
) -> (Vec<CheckFinding>, Vec<u64>) {
    let question = Question::Check(CheckQuestion::Sightings { seal });
    let deadline = Instant::now() + WAIT;
    loop {
        let mut seen = Seen::new();
        for (node, answer) in app.fleet.ask_each(nodes.iter().cloned(), &question).await {
            if let Ok(Answer::Sighted(sightings)) = answer {
                seen.insert(node, sightings);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::southbound::fleet::{Membership, Reply};
    use catena_model::explain::FrameBytes;
    use catena_model::id::PortId;

    const FRAMES: usize = 17;

    fn node(number: usize) -> NodeName {
        NodeName::new(format!("host{number}")).unwrap()
    }

    /// The question that comes next to a node, and where its answer goes.
    async fn asked(member: &mut Membership) -> (CheckQuestion, Reply) {
        let ask = tokio::time::timeout(WAIT, member.asks.recv()).await.unwrap().unwrap();
        match serde_json::from_slice(&ask.question).unwrap() {
            Question::Check(question) => (question, ask.reply),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn no_probe_of_a_check_waits_for_the_answer_to_another() {
        let fleet = Arc::new(Fleet::default());
        let mut member = fleet.join(&node(1), "agent".into());
        let frames = (0..FRAMES).map(|number| FrameBytes(vec![number as u8; 60]));
        let batch = Batch {
            path: PathId(7),
            node: node(1),
            port: PortId(Uuid::from_u128(1)),
            first: 1,
            frames: frames.collect(),
        };
        let sending = tokio::spawn({
            let fleet = Arc::clone(&fleet);
            async move { inject(&fleet, 5, &[batch]).await }
        });
        // As if the node were farther away than all of them take.
        let mut replies = Vec::new();
        for number in 0..FRAMES {
            let (question, reply) = asked(&mut member).await;
            let CheckQuestion::Inject { frames, .. } = question else { panic!("{question:?}") };
            assert_eq!(frames, [FrameBytes(vec![number as u8; 60])], "in their order, one by one");
            replies.push(reply);
        }
        assert!(!sending.is_finished());
        let refused = replies.pop().unwrap();
        replies.into_iter().for_each(|reply| reply.send(Answer::Sighted(Vec::new())).unwrap());
        refused.send(Answer::Refused { reason: "the port is gone".into() }).unwrap();
        let outcome = sending.await.unwrap();
        assert!(outcome.unwrap_err().contains("the port is gone"));
    }

    #[tokio::test]
    async fn no_node_waits_for_another_to_look_for_probes() {
        let fleet = Arc::new(Fleet::default());
        let nodes: Vec<NodeName> = (1..=5).map(node).collect();
        let members: Vec<Membership> =
            nodes.iter().map(|node| fleet.join(node, "agent".into())).collect();
        let arming = tokio::spawn({
            let fleet = Arc::clone(&fleet);
            async move { arm(&fleet, 5, &nodes).await }
        });
        let mut replies = Vec::new();
        for mut member in members {
            let (question, reply) = asked(&mut member).await;
            assert!(matches!(question, CheckQuestion::Arm { seal: 5 }), "{question:?}");
            replies.push(reply);
        }
        assert!(!arming.is_finished());
        replies.into_iter().for_each(|reply| reply.send(Answer::Sighted(Vec::new())).unwrap());
        assert_eq!(arming.await.unwrap(), []);
    }
}

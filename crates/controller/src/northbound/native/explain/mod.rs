//! `POST /v1/explain`: carries a packet's explanation from node to node. Knows whom to ask and for
//! how long; refuses to decide anything about a packet: each step is said by a data plane.

mod ends;
mod follow;
mod frame;
mod why_not;

use super::problem::Problem;
use super::view::View;
use super::{chains, change};
use crate::northbound::app::App;
use crate::reconcile::Situation;
use axum::response::Response;
use catena_model::explain::{
    CatchRequest, CaughtPacket, DepartureBy, ExplainAt, ExplainQuery, ExplainReport,
    ExplainRequest, ExplainSubject, FrameBytes, Journey, PacketDescription, PacketFilter, Told,
};
use catena_model::resource::Port;
use catena_model::topology::CableEnd;
use catena_model::{Answer, NodeName, Question};
use catena_plan::Intent;
use catena_plan::NodeFacts;
use follow::{Followed, Following};
use std::time::Duration;
use tokio::time::Instant;
use uuid::Uuid;

/// How often a trap for the next packet is looked into.
const TRAP_LOOKS: Duration = Duration::from_millis(50);
/// How soon the first time.
const TRAP_LOOKS_MIN: Duration = Duration::from_millis(2);
/// How often nodes are told that somebody still follows a packet.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);
/// Longest wait for the next packet: an answer must come while its asker waits.
const TRAP_WAIT_MAX: Duration = Duration::from_secs(20);

/// Answers the request.
pub(super) async fn answer(view: &View) -> Result<Response, Problem> {
    let app = &view.app;
    let query: ExplainQuery = change::body(&view.call)?;
    let situation = app.situation.borrow().clone();
    let intent = app.declared.snapshot().intent;
    let chain = query.why_not.as_deref().map(|name| chains::find(&intent, name)).transpose()?;
    let port = match (&query.from, &query.packet) {
        (Some(name), _) => ends::port(&intent, name)?,
        (None, ExplainSubject::Frame(frame)) => ends::sender(&intent, &frame.0)?,
        (None, _) => {
            let detail = "It is not said where the packet comes in: name a port by --from.";
            return Err(Problem::bad_request(detail.into()));
        }
    };
    let node = ends::node_of(port)?.clone();
    let Subject { frame, seen } = subject(app, &intent, port, &node, &query.packet).await?;
    let why_not = chain.map(|chain| chain.id);
    let request = ExplainRequest { at: ExplainAt::Port(port.id), frame: frame.clone(), why_not };
    let told = carry(app, &situation, node.clone(), request).await?;
    let why_not =
        chain.map(|chain| why_not::report(&situation, &intent, chain, &node, &told.why_not));
    let (seen_ago_ms, following) = seen.unzip();
    let Followed { lines, verdict, remarks } = match following {
        Some(following) => following.beside(app, &situation, &frame, &told).await,
        None => Followed { lines: told.lines, verdict: told.verdict, remarks: Vec::new() },
    };
    view.told(&ExplainReport {
        from: intent.port_name(port.id),
        described: frame::words(&frame.0),
        frame,
        seen_ago_ms,
        lines,
        verdict,
        why_not,
        remarks,
    })
}

/// A packet to explain.
struct Subject {
    frame: FrameBytes,
    /// How long ago it was seen, in milliseconds, and who follows it; none: it is hypothetical.
    seen: Option<(u64, Following)>,
}

async fn subject(
    app: &App,
    intent: &Intent,
    port: &Port,
    node: &NodeName,
    subject: &ExplainSubject,
) -> Result<Subject, Problem> {
    match subject {
        ExplainSubject::Frame(frame) => Ok(Subject { frame: frame.clone(), seen: None }),
        ExplainSubject::Described(text) => {
            let packet: PacketDescription = text.parse().map_err(bad)?;
            let destination = ends::next_hop(intent, port, packet.destination)?;
            let frame = frame::frame(&packet, port.mac, destination).map_err(bad)?;
            Ok(Subject { frame: FrameBytes(frame), seen: None })
        }
        ExplainSubject::Next { filter, wait_ms } => {
            let filter: PacketFilter = filter.parse().map_err(bad)?;
            let token = token();
            let following = Following::begin(app, token, filter.clone()).await;
            let request = CatchRequest { token, port: port.id, filter };
            let wait = Duration::from_millis(*wait_ms).min(TRAP_WAIT_MAX);
            let caught = catch(app, node, request, &following, wait).await?.ok_or_else(|| {
                let name = intent.port_name(port.id);
                Problem::not_found(format!(
                    "No such packet came in by port '{name}' within {} ms; is something sending, \
                     and does the filter fit it? Wait longer with --wait.",
                    wait.as_millis()
                ))
            })?;
            Ok(Subject { frame: caught.frame, seen: Some((caught.ago_ms, following)) })
        }
    }
}

fn bad(error: impl std::fmt::Display) -> Problem {
    Problem::bad_request(format!("{error}."))
}

/// A number that no other asker has.
fn token() -> u64 {
    Uuid::new_v4().as_u64_pair().0
}

/// Arms a trap and looks into it until something is there or the time is over.
async fn catch(
    app: &App,
    node: &NodeName,
    request: CatchRequest,
    following: &Following,
    wait: Duration,
) -> Result<Option<CaughtPacket>, Problem> {
    let question = Question::CatchNext(request);
    let deadline = Instant::now() + wait;
    // Nodes remember so many packets: the first looks are close behind each other.
    let mut pause = TRAP_LOOKS_MIN;
    let mut kept = Instant::now();
    loop {
        if kept.elapsed() >= FOLLOW_INTERVAL {
            following.go_on(app).await;
            kept = Instant::now();
        }
        match app.fleet.ask(node, &question).await.map_err(|why| unanswered(&why))? {
            Answer::Caught(Some(caught)) => return Ok(Some(caught)),
            Answer::Caught(None) if Instant::now() < deadline => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(TRAP_LOOKS);
            }
            Answer::Caught(None) => return Ok(None),
            _ => return Err(Problem::internal(format!("Node '{node}' answered something else."))),
        }
    }
}

fn unanswered(why: &str) -> Problem {
    Problem::conflict(format!("{why}; 'catena node list' shows which nodes answer."))
}

/// Asks one node after the other.
async fn carry(
    app: &App,
    situation: &Situation,
    node: NodeName,
    request: ExplainRequest,
) -> Result<Told, Problem> {
    let mut journey = Journey::new(node, request);
    let mut is_first = true;
    while let Some((node, request)) = journey.next_question() {
        let answer = match app.fleet.ask(&node, &Question::Explain(request)).await {
            Ok(Answer::Explained(reply)) => Ok(*reply),
            Ok(_) => Err(format!("node '{node}' answered something else")),
            Err(why) => Err(why),
        };
        if is_first && let Err(why) = &answer {
            return Err(unanswered(why));
        }
        is_first = false;
        journey.heard(answer, |node, by| arrival(situation, node, by));
    }
    Ok(journey.told())
}

/// Where what leaves a node arrives, and by what.
fn arrival(
    situation: &Situation,
    from: &NodeName,
    by: DepartureBy,
) -> Result<(NodeName, ExplainAt), String> {
    match by {
        DepartureBy::Tunnel { to, tunnel } => {
            let nodes = &situation.inventory.nodes;
            let end = |facts: &NodeFacts| match tunnel.is_segmented() {
                true => facts.segments.map(|own| own.address.into()),
                false => Some(facts.underlay.address),
            };
            let node = nodes.iter().find(|(_, facts)| end(facts) == Some(to));
            let source = nodes.get(from).and_then(end);
            node.zip(source)
                .map(|((node, _), source)| (node.clone(), ExplainAt::Tunnel { tunnel, source }))
                .ok_or_else(|| format!("no connected node has the address {to}"))
        }
        DepartureBy::Link(port) => {
            let end = CableEnd { node: from.clone(), port };
            let mut cables = situation.blueprint.ledger.cables.iter();
            let far = cables.find_map(|[one, other]| {
                if *one == end { Some(other) } else { (*other == end).then_some(one) }
            });
            let far =
                far.ok_or_else(|| format!("no cable is known at port {port} of node '{from}'"))?;
            Ok((far.node.clone(), ExplainAt::Link(far.port)))
        }
    }
}

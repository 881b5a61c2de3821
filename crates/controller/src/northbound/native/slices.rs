//! `/v1/slices`: slices of 5G networks, one by one and by the line. Knows names and pages; refuses to
//! know how a slice gets its path.

use super::change::{body, declare, find, named};
use super::problem::Problem;
use super::view::View;
use crate::auth::Identity;
use crate::declared::{Draft, Snapshot};
use crate::northbound::app::App;
use crate::northbound::call::Call;
use crate::northbound::quotas::SLICE;
use crate::reconcile::{Situation, settle};
use axum::body::Bytes;
use axum::response::Response;
use catena_model::ProjectId;
use catena_model::id::{ChainId, PortId, SliceId};
use catena_model::resource::Label;
use catena_model::slice::{Slice, SliceAtNode, SliceDocument, SlicePlace, SliceReport};
use catena_model::text::is_unseen;
use catena_model::{Answer, Question};
use catena_plan::Intent;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::ops::Bound;
use tokio::time::Instant;
use uuid::Uuid;

/// Slices on a page unless fewer are asked for.
const PAGE_SLICES_MAX: usize = 1_000;
/// Paths that a slice has at a time at most: one, the next, and those that drain.
const PATHS_OF_SLICE_MAX: u32 = 16;
/// Longest name of a slice, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A page of those that are seen, by identity: `limit` of them, after the one of `after`.
pub(super) async fn list(view: &View) -> Result<Response, Problem> {
    let View { call, situation, intent, .. } = view;
    let (limit, after) = page_of(call, PAGE_SLICES_MAX)?;
    let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
    let chain = call.word("chain").map(|name| chain_named(intent, name)).transpose()?;
    let page = intent.slices.range((begin, Bound::Unbounded)).map(|(_, slice)| slice);
    let page = page.filter(|slice| chain.is_none_or(|chain| slice.chain == chain)).take(limit);
    let reports = page.map(|slice| report(situation, intent, slice));
    view.told(&reports.collect::<Vec<SliceReport>>())
}

/// How many slices are asked for, at most so many, and behind which.
pub(super) fn page_of(call: &Call, max: usize) -> Result<(usize, Option<SliceId>), Problem> {
    let limit = match call.word("limit").map(str::parse::<usize>) {
        None => max,
        Some(Ok(limit)) if limit > 0 => limit.min(max),
        Some(_) => return Err(Problem::bad_request("'limit' is a number above 0.".into())),
    };
    let after = call.word("after").map(Uuid::parse_str).transpose();
    let after = after.map_err(|_| Problem::bad_request("'after' is the id of a slice.".into()))?;
    Ok((limit, after.map(SliceId)))
}

/// One slice with what nodes counted of it.
pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    let View { app, situation, intent, .. } = view;
    let slice = slice_named(intent, &view.call.name)?;
    // Those behind the identity before it.
    let after = slice.id.0.as_u128().checked_sub(1).map(|before| SliceId(Uuid::from_u128(before)));
    let question = Question::Slices { after, limit: PATHS_OF_SLICE_MAX };
    let answers = app.fleet.ask_all(&question).await.into_iter();
    let counted = answers.flat_map(|(node, answer)| {
        let counters = match answer {
            Answer::Slices(counters) => counters,
            _ => Vec::new(),
        };
        let of_slice = counters.into_iter().filter(|counted| counted.slice == slice.id);
        of_slice
            .map(|counters| SliceAtNode { node: Some(node.clone()), counters })
            .collect::<Vec<SliceAtNode>>()
    });
    let nodes = counted.collect();
    view.told(&SliceReport { nodes, ..report(situation, intent, slice) })
}

/// Makes a slice, and waits until it is in force or cannot be by waiting.
pub(super) async fn create(view: &View) -> Result<Response, Problem> {
    let given: SliceDocument = body(&view.call)?;
    let id = SliceId(Uuid::new_v4());
    write(view, id, given, false).await
}

/// Makes a slice what is given, and nothing else.
pub(super) async fn put(view: &View) -> Result<Response, Problem> {
    let given: SliceDocument = body(&view.call)?;
    let id = slice_declared(&view.intent, &view.call.name)?;
    write(view, id, given, true).await
}

async fn write(
    view: &View,
    id: SliceId,
    given: SliceDocument,
    must_be_there: bool,
) -> Result<Response, Problem> {
    let View { app, identity, .. } = view;
    let (whose, limit) = (identity.clone(), app.quotas.limit(&identity.project, SLICE));
    let edit = move |draft: &mut Draft| {
        let mut found = Found::default();
        if !must_be_there {
            found.check_quota(draft, &whose, limit)?;
        } else if !draft.intent().slices.contains_key(&id) {
            return Err(Problem::gone());
        }
        put_slice(draft, &whose, id, &given, &mut found)
    };
    let snapshot = declare(app, edit).await?;
    let situation = settled(app, &snapshot, id).await;
    let slice = snapshot.intent.slices.get(&id).ok_or_else(Problem::gone)?;
    view.told(&report(&situation, &snapshot.intent, slice))
}

async fn settled(app: &App, snapshot: &Snapshot, id: SliceId) -> Situation {
    let deadline = Instant::now() + app.answer_wait;
    let mut situations = app.situation.clone();
    settle::slice(&mut situations, snapshot.revision, id, deadline).await;
    app.situation.borrow().clone()
}

pub(super) async fn delete(view: &View) -> Result<Response, Problem> {
    let app = &view.app;
    let id = slice_named(&view.intent, &view.call.name)?.id;
    let snapshot = declare(app, move |draft| {
        draft.remove::<Slice>(id);
        Ok(())
    })
    .await?;
    settled(app, &snapshot, id).await;
    Ok(view.done())
}

/// A line of `POST /v1/bulk` that makes a slice.
#[derive(Deserialize)]
struct Line {
    slice: Option<Value>,
}

/// What a line says of a slice; none: it is of another resource.
pub(super) fn of_line(line: &Bytes) -> Option<Value> {
    serde_json::from_slice::<Line>(line).ok()?.slice
}

/// Makes a slice of each, in order and in one transaction, and answers each with its status and
/// either the slice or the problem. One that fails takes no other with it. Nobody waits for nodes.
pub(super) async fn create_all(
    app: &App,
    identity: &Identity,
    lines: Vec<Value>,
) -> Vec<Map<String, Value>> {
    let count = lines.len();
    let (whose, limit) = (identity.clone(), app.quotas.limit(&identity.project, SLICE));
    let edit = move |draft: &mut Draft| {
        let mut made = Vec::with_capacity(lines.len());
        let mut found = Found::default();
        // Neighbours in every table and on the disk: random ones cost a page each.
        for (id, line) in consecutive_ids(Uuid::new_v4()).zip(lines) {
            let given: Result<SliceDocument, _> = serde_json::from_value(line);
            let given = given.map_err(|error| Problem::bad_body(&error.to_string()));
            made.push(given.and_then(|given| {
                found.check_quota(draft, &whose, limit)?;
                put_slice(draft, &whose, id, &given, &mut found)?;
                found.own = found.own.map(|own| own.saturating_add(1));
                Ok((id, given))
            }));
        }
        Ok::<_, Problem>(made)
    };
    let made = match app.declared.change(edit).await {
        Ok((made, _)) => made,
        Err(problem) => return (0..count).map(|_| problem.told()).collect(),
    };
    let told = |one: Result<(SliceId, SliceDocument), Problem>| match one {
        Ok((id, given)) => {
            let slice = json!({"id": id, "name": given.name, "chain": given.chain});
            Map::from_iter([("status".to_owned(), json!(201)), ("slice".to_owned(), slice)])
        }
        Err(problem) => problem.told(),
    };
    made.into_iter().map(told).collect()
}

/// Identities that follow one another from a random place on, each with the marks of a random UUID
/// (RFC 9562 section 5.4).
fn consecutive_ids(first: Uuid) -> impl Iterator<Item = SliceId> {
    const LOW: u128 = (1 << 32) - 1;
    let base = first.as_u128() & !LOW;
    (0..=u32::MAX).map(move |number| SliceId(Uuid::from_u128(base | u128::from(number))))
}

/// Checks and writes one slice; writes nothing when it is refused.
fn put_slice(
    draft: &mut Draft,
    identity: &Identity,
    id: SliceId,
    given: &SliceDocument,
    found: &mut Found,
) -> Result<(), Problem> {
    let slice = made_of(draft.intent(), identity, id, given, found)?;
    draft.intent().check_slice(&slice)?;
    draft.put(slice)?;
    Ok(())
}

/// Chains and ports that were found by name for former slices, and how many slices somebody has:
/// all are gone through for each.
#[derive(Default)]
pub(super) struct Found {
    chains: BTreeMap<String, ChainId>,
    ports: BTreeMap<String, PortId>,
    own: Option<usize>,
}

impl Found {
    /// May somebody's project have one more slice?
    fn check_quota(
        &mut self,
        draft: &Draft,
        identity: &Identity,
        limit: Option<usize>,
    ) -> Result<(), Problem> {
        let Some(limit) = limit else { return Ok(()) };
        let own = *self.own.get_or_insert_with(|| {
            let slices = draft.intent().slices.values();
            slices.filter(|slice| slice.label.project == identity.project).count()
        });
        if own < limit { Ok(()) } else { Err(Problem::over_quota(SLICE)) }
    }
}

/// The slice that a request asks for; it stays with the project that it has.
pub(super) fn made_of(
    intent: &Intent,
    identity: &Identity,
    id: SliceId,
    given: &SliceDocument,
    found: &mut Found,
) -> Result<Slice, Problem> {
    if !(1..=NAME_BYTES_MAX).contains(&given.name.len()) {
        return Err(Problem::bad_body(&format!("'name' has 1 to {NAME_BYTES_MAX} bytes")));
    }
    if given.name.contains(is_unseen) {
        return Err(Problem::bad_body(
            "'name' holds a character that cannot be seen; leave it out",
        ));
    }
    let (tunnel_id, teids, qfi) = given.fields().map_err(|reason| Problem::bad_body(&reason))?;
    let is_seen = |project: &ProjectId| identity.sees(project);
    let mut chain_of = |name: &String| {
        if let Some(chain) = found.chains.get(name) {
            return Ok::<ChainId, Problem>(*chain);
        }
        let chain = chain_among(intent, is_seen, name)?;
        found.chains.insert(name.clone(), chain);
        Ok(chain)
    };
    let chain = chain_of(&given.chain)?;
    let after = given.after.as_ref().map(chain_of).transpose()?;
    let source_port = given.source_port.as_ref().map(|name| {
        if let Some(port) = found.ports.get(name) {
            return Ok::<PortId, Problem>(*port);
        }
        let seen = intent.ports.values().filter(|port| is_seen(&port.label.project));
        let port = named("port", seen.map(|port| (port.id.0, &port.label)), name).map(PortId)?;
        found.ports.insert(name.clone(), port);
        Ok(port)
    });
    let known = intent.slices.get(&id).map(|known| known.label.project.clone());
    let label = Label {
        name: given.name.clone(),
        description: String::new(),
        project: known.unwrap_or_else(|| identity.project.clone()),
    };
    Ok(Slice {
        id,
        label,
        chain,
        source_port: source_port.transpose()?,
        after,
        tunnel_id,
        teids,
        qfi,
        carries_metadata: given.carries_metadata,
        policy: given.policy(),
    })
}

/// The chain of a name, among those that are seen; by its identity without looking at the others.
fn chain_among(
    intent: &Intent,
    is_seen: impl Fn(&ProjectId) -> bool,
    name: &str,
) -> Result<ChainId, Problem> {
    let of_id = Uuid::parse_str(name).ok().and_then(|id| intent.chains.get(&ChainId(id)));
    if let Some(chain) = of_id.filter(|chain| is_seen(&chain.label.project)) {
        return Ok(chain.id);
    }
    let seen = intent.chains.values().filter(|chain| is_seen(&chain.label.project));
    named("chain", seen.map(|chain| (chain.id.0, &chain.label)), name).map(ChainId)
}

/// The chain whose slices are asked for.
fn chain_named(intent: &Intent, name: &str) -> Result<ChainId, Problem> {
    find("chain", intent.chains.values().map(|chain| (chain.id.0, &chain.label)), name).map(ChainId)
}

/// The slice that is meant by a name or an identity.
fn slice_named<'i>(intent: &'i Intent, name: &str) -> Result<&'i Slice, Problem> {
    if let Some(slice) = slice_of_id(intent, name) {
        return Ok(slice);
    }
    let id = SliceId(find("slice", labels(intent), name)?);
    intent.slices.get(&id).ok_or_else(Problem::gone)
}

/// The slice that a document means.
fn slice_declared(intent: &Intent, name: &str) -> Result<SliceId, Problem> {
    match slice_of_id(intent, name) {
        Some(slice) => Ok(slice.id),
        None => named("slice", labels(intent), name).map(SliceId),
    }
}

/// Without looking at the others.
fn slice_of_id<'i>(intent: &'i Intent, name: &str) -> Option<&'i Slice> {
    Uuid::parse_str(name).ok().and_then(|id| intent.slices.get(&SliceId(id)))
}

fn labels(intent: &Intent) -> impl Iterator<Item = (Uuid, &Label)> {
    intent.slices.values().map(|slice| (slice.id.0, &slice.label))
}

fn report(situation: &Situation, intent: &Intent, slice: &Slice) -> SliceReport {
    SliceReport {
        id: slice.id,
        slice: document(intent, slice),
        status: situation.slice_status(slice),
        nodes: Vec::new(),
    }
}

/// A slice in the names that people gave.
pub(super) fn document(intent: &Intent, slice: &Slice) -> SliceDocument {
    let start = match slice.place() {
        SlicePlace::Endpoints => None,
        SlicePlace::Port(port) => Some(intent.port_name(port)),
        SlicePlace::After(chain) => Some(intent.chain_name(chain)),
    };
    SliceDocument::of(slice, intent.chain_name(slice.chain), start)
}

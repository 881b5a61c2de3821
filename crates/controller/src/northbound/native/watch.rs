//! `GET /v1/watch`: what was declared after a revision, how things stand, then every change, one JSON
//! object a line, until the reader goes away. Knows what differs between two situations; refuses to know
//! what caused it.

use super::links::reports;
use super::problem::Problem;
use super::view::View;
use super::watched_links::KnownLinks;
use crate::auth::Pass;
use crate::declared::{Declared, Snapshot};
use crate::northbound::answers::{NDJSON, of_kind};
use crate::northbound::quotas::WATCHER;
use crate::northbound::seats::{NoSeat, Seat};
use crate::reconcile::receipts::Receipts;
use crate::reconcile::{Situation, settle};
use crate::southbound::fleet::Fleet;
use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::response::Response;
use catena_model::event::{Declaration, EventLine};
use catena_model::id::ChainId;
use catena_model::status::ChainStatus;
use catena_model::{BlueprintNumber, Event, NodeName};
use catena_plan::IndexedIntent;
use catena_store::{Revision, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

/// People and programs that may watch at one time.
const WATCHERS_MAX: usize = 64;
/// Lines that may wait for one reader; the controller waits for nobody: who is slower sees several
/// changes as one.
const LINES_MAX: usize = 64;
/// An empty line after so long without an event tells the reader that the controller is there, and
/// the controller that the reader has gone.
const SILENCE_MAX: Duration = Duration::from_secs(5);

/// Tells how things stand and what changes; with `after` in the query first what was declared after
/// that revision.
pub(super) async fn answer(view: &View) -> Result<Response, Problem> {
    let View { app, call, identity, .. } = view;
    let now = app.declared.snapshot().revision;
    let after = match call.word("after") {
        None => now,
        Some(text) => text.parse().map(Revision).map_err(|_| {
            Problem::bad_request(format!("'{text}' is no revision; give the number of one."))
        })?,
    };
    if after > now {
        let detail = format!("There is no revision {after} yet; the newest is {now}.");
        return Err(Problem::bad_request(detail));
    }
    // Who asks for what is forgotten learns it from the status code.
    let former = app.declared.snapshot().intent;
    changes(&app.declared, after, &former).await?;
    let max = app.quotas.limit(&identity.project, WATCHER);
    let seat = app.watchers.sit(&identity.project, max, WATCHERS_MAX).map_err(|no_seat| match no_seat {
        NoSeat::Project => Problem::over_quota(WATCHER),
        NoSeat::All => Problem::overloaded(format!(
            "{WATCHERS_MAX} others watch already; end one of them, or ask GET /v1/status instead."
        )),
    })?;
    let (lines, receiver) = mpsc::channel(LINES_MAX);
    let watcher = Watcher {
        declared: Arc::clone(&app.declared),
        // A change that was over before is no news.
        known: Known { told: app.receipts.borrow().newest(), ..Known::default() },
        after,
        former,
        lines,
        pass: Pass::new(&app.guard, &call.headers, identity.clone()),
        _seat: seat,
    };
    let (situation, receipts) = (app.situation.clone(), app.receipts.clone());
    let fleet = Arc::clone(&app.fleet);
    tokio::spawn(watcher.tell(app.declared.subscribe(), situation, receipts, fleet));
    let lines = Body::from_stream(ReceiverStream::new(receiver));
    Ok(of_kind(StatusCode::OK, NDJSON, lines))
}

type Line = Result<Bytes, Infallible>;

async fn changes(
    declared: &Arc<Declared>,
    after: Revision,
    former: &Arc<IndexedIntent>,
) -> Result<Vec<(Revision, Declaration)>, Problem> {
    let (declared, former) = (Arc::clone(declared), Arc::clone(former));
    let changes = tokio::task::spawn_blocking(move || declared.changes(after, Some(&former))).await;
    match changes {
        Ok(Err(StoreError::Compacted { oldest, .. })) => Err(Problem::forgotten(after, oldest)),
        Ok(changes) => Ok(changes?),
        Err(error) => Err(Problem::internal(error.to_string())),
    }
}

/// One reader.
struct Watcher {
    declared: Arc<Declared>,
    known: Known,
    /// The revision up to which he knows what was declared.
    after: Revision,
    /// What was declared when he was told last: what is gone since had its name there.
    former: Arc<IndexedIntent>,
    lines: mpsc::Sender<Line>,
    pass: Pass,
    _seat: Seat,
}

impl Watcher {
    /// Goes on until the reader, his token or the controller is gone, or he is so slow that what he
    /// has not heard is forgotten.
    async fn tell(
        mut self,
        mut declared: watch::Receiver<Snapshot>,
        mut situation: watch::Receiver<Situation>,
        mut receipts: watch::Receiver<Arc<Receipts>>,
        fleet: Arc<Fleet>,
    ) {
        let mut links = fleet.links.follow();
        while self.pass.holds().await {
            let intent = Arc::clone(&declared.borrow_and_update().intent);
            let now = situation.borrow_and_update().clone();
            let over = self.known.over(&receipts.borrow_and_update());
            links.mark_unchanged();
            let linked = self.known.links.take(reports(&fleet, &now));
            // Read after the situation: no line may tell of a revision before what it declared.
            let changes = changes(&self.declared, self.after, &self.former).await;
            let Ok(changes) = changes else { return };
            self.former = intent;
            for (revision, declaration) in changes {
                self.after = revision;
                if self.say(revision, Event::Declared(declaration)).await.is_err() {
                    return;
                }
            }
            for event in self.known.take(&now).into_iter().chain(linked).chain(over) {
                if self.say(now.revision, event).await.is_err() {
                    return;
                }
            }
            loop {
                let news = async {
                    tokio::select! {
                        changed = declared.changed() => changed,
                        changed = situation.changed() => changed,
                        changed = receipts.changed() => changed,
                        changed = links.changed() => changed,
                        () = self.pass.ended() => return None,
                    }
                    .ok()
                };
                match tokio::time::timeout(SILENCE_MAX, news).await {
                    Ok(Some(())) => break,
                    Ok(None) => return,
                    Err(_) if self.lines.send(Ok(Bytes::from_static(b"\n"))).await.is_err() => {
                        return;
                    }
                    Err(_) => {}
                }
            }
        }
    }

    async fn say(&self, revision: Revision, event: Event) -> Result<(), Gone> {
        let line = EventLine { revision: revision.0, event };
        let mut line = serde_json::to_vec(&line).map_err(|_| Gone)?;
        line.push(b'\n');
        tokio::select! {
            said = self.lines.send(Ok(line.into())) => said.map_err(|_| Gone),
            () = self.pass.ended() => Err(Gone),
        }
    }
}

/// Nobody reads any more, or nobody may.
struct Gone;

/// What a reader has been told.
#[derive(Default)]
struct Known {
    nodes: BTreeMap<NodeName, (bool, BlueprintNumber, Option<String>)>,
    chains: BTreeMap<ChainId, (String, ChainStatus)>,
    /// Chains that are no longer declared and are in force on nodes.
    withdrawing: BTreeMap<ChainId, (String, BTreeSet<NodeName>)>,
    links: KnownLinks,
    trouble: Option<String>,
    /// The number of the newest receipt.
    told: u64,
}

impl Known {
    /// The changes that are over since.
    fn over(&mut self, receipts: &Receipts) -> Vec<Event> {
        let over = receipts.after(self.told);
        self.told = receipts.newest();
        over.into_iter().map(|receipt| Event::Changed { receipt }).collect()
    }

    /// What is to be told of a newer situation.
    fn take(&mut self, now: &Situation) -> Vec<Event> {
        let mut events = Vec::new();
        for (node, _, facts) in now.inventory.all() {
            let state = (facts.is_connected, facts.acknowledged, facts.refusal.clone());
            if self.nodes.insert(node.clone(), state.clone()).as_ref() != Some(&state) {
                let (is_connected, acknowledged, refusal) = state;
                events.push(Event::Node {
                    node: node.clone(),
                    is_connected,
                    acknowledged,
                    refusal,
                });
            }
        }
        for (id, chain) in &now.intent.chains {
            let state = (chain.label.name.clone(), now.chain_status(&now.intent, *id));
            if self.chains.insert(*id, state.clone()).as_ref() != Some(&state) {
                let (name, status) = state;
                events.push(Event::Chain { name, status });
            }
        }
        events.extend(self.removed(now));
        if self.trouble != now.trouble {
            self.trouble.clone_from(&now.trouble);
            events.push(Event::Trouble { reason: now.trouble.clone() });
        }
        events
    }

    /// What is to be told of chains that are no longer declared.
    fn removed(&mut self, now: &Situation) -> Vec<Event> {
        let mut events = Vec::new();
        let mut left: BTreeMap<ChainId, String> = BTreeMap::new();
        self.chains.retain(|chain, (name, _)| {
            let is_declared = now.intent.chains.contains_key(chain);
            if !is_declared {
                left.insert(*chain, std::mem::take(name));
            }
            is_declared
        });
        let withdrawing = settle::withdrawing(now, &now.intent);
        for (chain, (name, nodes)) in &withdrawing {
            if self.withdrawing.get(chain).is_none_or(|(_, known)| known != nodes) {
                let (chain, name, nodes) = (*chain, name.clone(), nodes.clone());
                events.push(Event::ChainWithdrawing { chain, name, nodes });
            }
        }
        let before = std::mem::replace(&mut self.withdrawing, withdrawing);
        left.extend(before.into_iter().map(|(chain, (name, _))| (chain, name)));
        left.retain(|chain, _| !self.withdrawing.contains_key(chain));
        let gone = left.into_iter().map(|(chain, name)| Event::ChainGone { chain, name });
        events.extend(gone);
        events
    }
}

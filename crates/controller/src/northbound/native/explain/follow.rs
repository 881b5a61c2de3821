//! Follows a real packet over the nodes while it is explained: asks each what it saw of it, and
//! whether its counters bear out what was only rehearsed. Refuses to look at packets itself.

use crate::northbound::app::App;
use crate::reconcile::Situation;
use catena_model::check::{CheckQuestion, Sighting};
use catena_model::explain::{
    Evidence, ExplainAction, ExplainLine, FrameBytes, PacketFilter, Told, Witnesses,
    beside_what_was_seen,
};
use catena_model::{Answer, NodeCounters, NodeName, PathId, Question};
use catena_wire::digest;
use catena_wire::frame::FrameView;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::Instant;

/// Between two looks at what was seen.
const LOOKS: Duration = Duration::from_millis(50);
/// How long the packet may be on its way: longer than any function should hold it.
const WAIT: Duration = Duration::from_secs(1);

/// The nodes look at packets of a filter.
pub(super) struct Following {
    seal: u64,
    filter: PacketFilter,
    began: Instant,
    /// What they had counted when it began.
    before: BTreeMap<NodeName, NodeCounters>,
}

/// What the nodes say of a packet, by what they saw.
pub(super) struct Followed {
    pub(super) lines: Vec<ExplainLine>,
    pub(super) verdict: String,
    pub(super) remarks: Vec<String>,
}

impl Following {
    /// Lets every node look.
    pub(super) async fn begin(app: &App, seal: u64, filter: PacketFilter) -> Self {
        let before = app.collector.all(false).await;
        let following = Self { seal, filter, began: Instant::now(), before };
        following.go_on(app).await;
        following
    }

    /// Nodes stop when nobody asks.
    pub(super) async fn go_on(&self, app: &App) {
        self.ask(app, None).await;
    }

    async fn ask(&self, app: &App, digest: Option<u64>) -> Witnesses {
        let (seal, filter) = (self.seal, self.filter.clone());
        let question = Question::Check(CheckQuestion::Follow { seal, filter, digest });
        let answers = app.fleet.ask_all(&question).await.into_iter();
        let actions = |seen: Vec<Sighting>| seen.into_iter().map(|one| one.action).collect();
        let seen = answers.filter_map(|(node, answer)| match answer {
            Answer::Sighted(seen) => Some((node, actions(seen))),
            _ => None,
        });
        seen.collect()
    }

    /// Puts what was rehearsed beside what the nodes see of the packet, until they have seen it all
    /// or the time is over.
    pub(super) async fn beside(
        self,
        app: &App,
        situation: &Situation,
        frame: &FrameBytes,
        told: &Told,
    ) -> Followed {
        let view = FrameView::parse(&frame.0);
        let digest = view.map(|view| digest::kept(&view, &frame.0)).unwrap_or_default();
        let deadline = Instant::now() + WAIT;
        // What only passes a node is not remembered there.
        let is_told = |line: &ExplainLine| {
            !line.is_copy && !matches!(line.step.action, ExplainAction::PassedOn { .. })
        };
        let is_rehearsed =
            |line: &ExplainLine| is_told(line) && line.evidence != Some(Evidence::Observed);
        let (lines, verdict, heard) = loop {
            let seen = self.ask(app, Some(digest)).await;
            let heard: BTreeSet<NodeName> = seen.keys().cloned().collect();
            let (lines, verdict) = beside_what_was_seen(told.lines.clone(), &told.verdict, seen);
            if !lines.iter().any(is_rehearsed) || Instant::now() >= deadline {
                break (lines, verdict, heard);
            }
            tokio::time::sleep(LOOKS).await;
        };
        let mut remarks = Vec::new();
        if lines.iter().any(is_rehearsed) {
            remarks = self.contradictions(app, situation, &lines).await;
        }
        let nodes: BTreeSet<&NodeName> = lines.iter().map(|line| &line.node).collect();
        let silent = nodes.into_iter().filter(|node| !heard.contains(*node));
        remarks.extend(silent.map(|node| {
            format!("node '{node}' did not tell what it saw: its lines are rehearsed")
        }));
        Followed { lines, verdict, remarks }
    }

    /// The functions that the packet would visit and that have had nothing of its path meanwhile.
    async fn contradictions(
        &self,
        app: &App,
        situation: &Situation,
        lines: &[ExplainLine],
    ) -> Vec<String> {
        let after = app.collector.all(false).await;
        let seconds = self.began.elapsed().as_secs_f64();
        let mut path = None;
        let mut said = Vec::new();
        for line in lines.iter().filter(|line| !line.is_copy) {
            match &line.step.action {
                ExplainAction::Forwarded { position, .. } => path = Some(position.path),
                ExplainAction::Visited { instance, .. }
                    if line.evidence == Some(Evidence::Rehearsed) =>
                {
                    let Some(path) = path else { continue };
                    let count = |at: &BTreeMap<NodeName, NodeCounters>| {
                        Some(given(at.get(&line.node)?, path, instance))
                    };
                    let (Some(before), Some(now)) = (count(&self.before), count(&after)) else {
                        continue;
                    };
                    if before != now {
                        continue;
                    }
                    let record = situation.blueprint.ledger.paths.get(&path);
                    let chain = record.map_or("", |record| record.chain_name.as_str());
                    said.push(format!(
                        "counters contradict line {}: '{instance}' at {} has had nothing of chain \
                         '{chain}' for {seconds:.1} s, since this looks",
                        line.number, line.node
                    ));
                }
                _ => {}
            }
        }
        said
    }
}

/// Packets of a path that an instance was given.
fn given(counters: &NodeCounters, path: PathId, instance: &str) -> u64 {
    let of_path = counters.chains.iter().filter(|counted| counted.path == path);
    let hops = of_path.flat_map(|counted| &counted.hops).filter(|hop| hop.name == instance);
    hops.map(|hop| hop.delivered.packets).fold(0, u64::wrapping_add)
}

//! The promises, and whether they hold. Sees everything, also what no process can see; changes
//! nothing.

use crate::declared::Declared;
use crate::journal_store::Survivor;
use crate::ledger_store::read_ledger;
use crate::random::Random;
use crate::world::{Event, Node, World};
use catena_model::NodeProgram;
use catena_model::id::ChainId;
use catena_model::status::ChainState;
use catena_plan::{Intent, Ledger, PathPhase, Paths};
use catena_protocol::message::Delta;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// After healing, everything must have converged within this (in simulated time): every bound and
/// pause in the code is far below.
const CONVERGENCE_MAX: Duration = Duration::from_secs(60);
/// Ledgers remembered, to be held against what a disk gives back.
const PLANNED_KEPT: usize = 64;
/// Programs remembered for replays, for each node.
const SENT_KEPT: usize = 12;

/// How much happened in a run: a check that never had anything to look at proves nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Changes that were acknowledged.
    pub acknowledged: u64,
    /// Changes that were refused.
    pub refusals: u64,
    /// Blueprints.
    pub blueprints: u64,
    /// Packets that entered a path.
    pub packets: u64,
    /// Packets that left it at its end.
    pub finished: u64,
    /// Paths drained by counting.
    pub counted_drains: u64,
    /// Paths drained by the bound.
    pub bound_drains: u64,
    /// Processes killed.
    pub crashes: u64,
    /// Partitions.
    pub partitions: u64,
    /// Cables that were cut or fell silent.
    pub dead_cables: u64,
    /// Frames that got another header at an edge.
    pub edge_headers: u64,
    /// Places at edges where headers over several functions end, in programs at the end.
    pub stitches: u64,
    /// Chains over source routes that were active at the end.
    pub routed_chains: u64,
    /// How long it took from healing to convergence, in simulated milliseconds.
    pub convergence_ms: u64,
}

#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) tally: Tally,
    pub(crate) healed_at: Duration,
    /// The highest program that each node has acknowledged.
    acknowledged: Vec<u64>,
    sent: Vec<VecDeque<Delta>>,
    /// The paths of each blueprint that was planned, by its number.
    planned: BTreeMap<u64, Paths>,
    survivor: Survivor,
    /// Packets that must arrive are on their way.
    is_proving: bool,
    has_converged: bool,
}

impl Checks {
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            tally: Tally::default(),
            healed_at: Duration::ZERO,
            acknowledged: vec![0; nodes],
            sent: vec![VecDeque::new(); nodes],
            planned: BTreeMap::new(),
            survivor: Survivor::default(),
            is_proving: false,
            has_converged: false,
        }
    }

    pub(crate) fn acknowledged(&mut self, node: usize, number: u64) {
        if let Some(highest) = self.acknowledged.get_mut(node) {
            *highest = number.max(*highest);
        }
    }

    pub(crate) fn planned(&mut self, ledger: &Ledger) {
        self.planned.insert(ledger.number.0, ledger.paths.clone());
        if self.planned.len() > PLANNED_KEPT {
            self.planned.pop_first();
        }
    }

    pub(crate) fn remember_sent(&mut self, node: usize, program: &Delta) {
        if let Some(sent) = self.sent.get_mut(node) {
            if sent.len() == SENT_KEPT {
                sent.pop_front();
            }
            sent.push_back(program.clone());
        }
    }

    pub(crate) fn sent_to(&self, node: usize, random: &mut Random) -> Option<Delta> {
        let sent = self.sent.get(node)?;
        sent.get(random.index(sent.len())).cloned()
    }
}

pub(crate) fn program_of(node: &Node) -> Option<&NodeProgram> {
    node.dataplane.as_ref()?.running.as_ref().map(|running| &running.program)
}

impl World {
    /// A controller starts: no acknowledged change is lost, and none is there in part.
    pub(crate) fn check_found(&mut self, found: &Intent) {
        let is_acknowledged = *found == *self.operator.acknowledged;
        let doubted = self.operator.in_doubt.take();
        if let Some(doubted) = doubted.filter(|doubted| **doubted == *found) {
            self.operator.acknowledged = doubted;
        } else if !is_acknowledged {
            self.fail(
                "the controller found neither what was acknowledged last nor the change that was \
                 on its way: an acknowledged write is lost or one is half-applied"
                    .into(),
            );
        }
    }

    /// A controller starts: the ledger that it finds was planned, and is there whole.
    pub(crate) fn check_ledger(&mut self, found: &Ledger) {
        let planned = self.checks.planned.get(&found.number.0);
        if planned.is_some_and(|planned| *planned != found.paths) {
            self.fail(format!(
                "the controller found blueprint {} with other paths than were planned: a ledger is \
                 half-applied",
                found.number
            ));
        }
    }

    /// A program leaves the controller: after any power cut its ledger must still be there.
    pub(crate) fn check_handed_out(&mut self, number: u64) {
        let survivor = self.checks.survivor.read(&self.journal);
        let durable = read_ledger(survivor).map_or(0, |ledger| ledger.number.0);
        if durable < number {
            self.fail(format!(
                "program {number} left the controller while its disk knows blueprint {durable}"
            ));
        }
    }

    /// A node runs another program than before.
    pub(crate) fn check_program(&mut self, index: usize) {
        let Some(node) = self.nodes.get(index) else { return };
        let number = node.dataplane.as_ref().map_or(0, crate::dataplane::Dataplane::number);
        let highest = self.checks.acknowledged.get(index).copied().unwrap_or_default();
        if number < highest {
            let name = self.name(index);
            return self.fail(format!(
                "{name} runs program {number} after it has acknowledged program {highest}"
            ));
        }
        let sentence = two_contents(&self.nodes, index).or_else(|| half_path(&self.nodes));
        if let Some(sentence) = sentence.or_else(|| self.misled()) {
            self.fail(sentence);
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.checks.has_converged
    }

    /// After healing: has everything converged, or is it taking too long?
    pub(crate) fn inspect(&mut self) {
        let since = self.now.saturating_sub(self.checks.healed_at);
        if since < Duration::from_secs(1) {
            (0..3).for_each(|_| self.enter_packet());
        }
        self.mark_what_is_missing();
        match self.missing() {
            None if !self.checks.is_proving => {
                self.checks.is_proving = true;
                self.prove_chains();
                self.after(Duration::from_millis(100), Event::Turn);
            }
            None => {
                self.count_routes();
                self.checks.tally.convergence_ms = u64::try_from(since.as_millis()).unwrap_or(0);
                self.checks.has_converged = true;
            }
            Some(missing) if since > CONVERGENCE_MAX => {
                self.fail(format!("{since:?} after healing: {missing}"));
            }
            Some(_) => self.after(Duration::from_millis(100), Event::Turn),
        }
    }

    fn count_routes(&mut self) {
        let chains = self.operator.acknowledged.chains.values();
        let routed = chains.filter(|chain| chain.encapsulation.is_source_route()).count();
        let stitches = self.nodes.iter().filter_map(program_of).map(|one| one.stitches.len());
        self.checks.tally.stitches = stitches.sum::<usize>() as u64;
        self.checks.tally.routed_chains = routed as u64;
    }

    /// Why it has not converged yet; none: it has.
    fn missing(&self) -> Option<String> {
        let Some(controller) = &self.controller else { return Some("no controller".into()) };
        if self.operator.in_doubt.is_some() || controller.has_news() || self.is_reconcile_due {
            return Some("the controller has work".into());
        }
        if let Some(unheard) = self.unheard_cable() {
            return Some(unheard);
        }
        if let Some(switch) = self.unmarked_switch() {
            return Some(format!("{switch} is no edge yet"));
        }
        let (blueprint, inventory) =
            (controller.reconciler.blueprint(), controller.reconciler.inventory());
        let intent = &controller.declared.intent;
        for node in &self.nodes {
            let running = node.dataplane.as_ref().map_or(0, crate::dataplane::Dataplane::number);
            let wanted = blueprint.programs.get(&node.name).map_or(0, |program| program.number.0);
            if running != wanted || wanted == 0 {
                let name = &node.name;
                return Some(format!("{name} runs program {running}, not {wanted}"));
            }
        }
        let inactive = |chain: &ChainId| {
            let status = catena_plan::chain_status(blueprint, intent, inventory, *chain);
            let is_active = status.state == ChainState::Active && status.reason.is_empty();
            (!is_active).then(|| format!("{chain}: {:?}, {}", status.state, status.reason))
        };
        if let Some(reason) = intent.chains.keys().find_map(inactive) {
            return Some(reason);
        }
        let is_left = |(_, path): &(_, &catena_plan::PathRecord)| {
            path.phase != PathPhase::Classified || !intent.chains.contains_key(&path.chain)
        };
        if let Some((id, path)) = blueprint.ledger.paths.iter().find(is_left) {
            return Some(format!("path {id} is still {:?}", path.phase));
        }
        if let Some(id) = self.packets.keys().next() {
            return Some(format!("packet {id} is still on its way"));
        }
        controller.reconciler.plan(intent).map(|_| "the planner has not come to rest".into())
    }

    /// At the end, what a power cut would leave is what was acknowledged.
    pub(crate) fn check_end(&mut self) {
        if self.broken.is_some() {
            return;
        }
        if !self.checks.has_converged {
            return self.fail("nothing happens any more, and nothing has converged".into());
        }
        let survivor = self.checks.survivor.read(&self.journal);
        let found = Declared::load(survivor).map(|declared| declared.intent);
        if found.is_ok_and(|found| **found != *self.operator.acknowledged) {
            self.fail("what was acknowledged is not what a power cut would leave".into());
        }
    }
}

/// One identifier never means two paths at one time.
fn two_contents(nodes: &[Node], index: usize) -> Option<String> {
    let here = nodes.get(index)?;
    for path in &program_of(here)?.paths {
        let differs = |node: &&Node| {
            let paths = program_of(node).into_iter().flat_map(|program| &program.paths);
            paths.into_iter().any(|other| other.id == path.id && other != path)
        };
        if let Some(other) = nodes.iter().find(differs) {
            let (id, here, there) = (path.id, &here.name, &other.name);
            return Some(format!("path {id} is one thing at {here} and another at {there}"));
        }
    }
    None
}

/// Whatever node a path leads to knows it, before any classifier sends into it.
fn half_path(nodes: &[Node]) -> Option<String> {
    for sender in nodes {
        let Some(program) = program_of(sender) else { continue };
        for rule in &program.rules {
            let path = program.paths.iter().find(|path| path.id == rule.path);
            let Some(path) = path else {
                return Some(format!("{} sends into unknown path {}", sender.name, rule.path));
            };
            let on_path = |node: &Node| {
                let instances = path.hops.iter().flat_map(|hop| &hop.instances);
                instances.into_iter().any(|instance| instance.node == node.name)
            };
            // A data plane that is down is checked when it comes back.
            let ignorant = nodes.iter().filter(|node| node.dataplane.is_some()).find(|node| {
                on_path(node)
                    && program_of(node).is_none_or(|program| !program.paths.contains(path))
            });
            if let Some(node) = ignorant {
                return Some(format!(
                    "{} sends into path {}, which {} does not know",
                    sender.name, path.id, node.name
                ));
            }
        }
    }
    None
}

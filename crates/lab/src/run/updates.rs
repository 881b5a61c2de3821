//! Takes a chain from version to version under traffic, each change when the one before is over.
//! Knows when that is, by the receipt and by what the new path has carried; refuses to know what
//! becomes of the packets (see the proofs).

use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::{ChangeKind, LabChain, RuleSet, Updates, Version};
use catena_client::deploy::{ChainDocument, ChainStep, Deployment};
use catena_model::resource::Encapsulation;
use catena_model::status::{ChainReport, ChainState, DrainProof, Receipt};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a change may take until its receipt has come; longer than any bound of a drain.
const RECEIPT_WAIT: Duration = Duration::from_secs(10);
/// How long a chain may take to become active.
const ACTIVE_WAIT: Duration = Duration::from_secs(10);
/// How long the new path may take to carry its first packets.
const CARRIED_WAIT: Duration = Duration::from_secs(20);
/// Pause between two looks at a chain.
const LOOK_PAUSE: Duration = Duration::from_millis(5);

/// One change with its times, in ns since 1970, by the clock of the captures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    /// How the version follows from the one before.
    pub kind: ChangeKind,
    /// What the chain became.
    pub steps: Vec<ChainStep>,
    /// What carries it since, where the file says.
    pub encapsulation: Option<Encapsulation>,
    /// The code point that packets show since, where rule sets change.
    pub dscp: Option<u8>,
    /// When it was asked for.
    pub asked: u64,
    /// When the controller had answered: the next packet takes the new path.
    pub answered: u64,
    /// When nothing was on the old path any more, as the receipt says; none without one.
    pub over: Option<u64>,
    /// The receipt.
    pub receipt: Option<Receipt>,
}

/// All changes of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Update {
    /// The chain.
    pub chain: String,
    /// What it was before.
    pub first: Vec<ChainStep>,
    /// What carried it before, where the file says.
    pub first_encapsulation: Option<Encapsulation>,
    /// The code point that packets showed before, where rule sets change.
    pub first_dscp: Option<u8>,
    /// The changes, in order.
    pub changes: Vec<Change>,
}

impl Update {
    /// Changes whose old path was found empty by counting.
    #[must_use]
    pub fn counted(&self) -> usize {
        let is_counted = |change: &&Change| {
            change.receipt.as_ref().is_some_and(|receipt| {
                !receipt.drained.is_empty()
                    && receipt.drained.iter().all(|path| path.proof == DrainProof::Counted)
            })
        };
        self.changes.iter().filter(is_counted).count()
    }
}

/// One chain that changes.
pub(crate) struct Changing<'c> {
    running: &'c RunningLab,
    chain: &'c LabChain,
    /// What carries it, where the file says.
    encapsulation: Option<Encapsulation>,
    update: Update,
    /// Is a receipt waited for? A controller that gives none once gives none.
    has_receipts: bool,
}

impl<'c> Changing<'c> {
    pub(crate) fn new(
        running: &'c RunningLab,
        chain: &str,
        encapsulation: Option<Encapsulation>,
    ) -> Result<Self> {
        let chain = running.lab.chain(chain).ok_or_else(|| LabError::Refused {
            lab: running.lab.name.clone(),
            reason: format!("has no chain '{chain}'"),
        })?;
        let encapsulation = encapsulation.or(chain.document.encapsulation);
        let update = Update {
            chain: chain.name.clone(),
            first: chain.document.chain.clone(),
            first_encapsulation: encapsulation,
            first_dscp: rule_set(running, 0).map(|set| set.dscp),
            changes: Vec::new(),
        };
        Ok(Self { running, chain, encapsulation, update, has_receipts: true })
    }

    pub(crate) fn into_update(self) -> Update {
        self.update
    }

    /// Makes all changes while traffic goes on, and says when they are over.
    pub(crate) fn go_through(mut self, updates: &Updates, stop: &AtomicBool) -> Result<Update> {
        let made = self.all(updates);
        // However it went: the traffic would wait for ever.
        stop.store(true, Ordering::Relaxed);
        made.map(|()| self.update)
    }

    fn all(&mut self, updates: &Updates) -> Result<()> {
        self.wait_carried(updates.packets)?;
        for version in &updates.versions {
            self.change_to(version)?;
            self.wait_carried(updates.packets)?;
        }
        Ok(())
    }

    /// Makes one change and waits for its receipt.
    pub(crate) fn change_to(&mut self, version: &Version) -> Result<()> {
        let change = self.turn_to(version)?;
        self.update.changes.push(change);
        Ok(())
    }

    fn turn_to(&mut self, version: &Version) -> Result<Change> {
        let (client, name) = (&self.running.client, &self.chain.name);
        let before = self.report()?.receipt;
        let told = version.rule_set.and_then(|index| rule_set(self.running, index));
        let asked = now();
        if let Some(told) = told {
            self.running.declare_bundled(self.chain, Some(told))?;
        } else if let Some(encapsulation) = version.encapsulation {
            client.move_chain(name, encapsulation)?;
            self.encapsulation = Some(encapsulation);
        } else {
            let document = ChainDocument {
                chain: version.steps.clone(),
                encapsulation: self.encapsulation,
                ..self.chain.document.clone()
            };
            Deployment::update(client, name, &document)?;
        }
        self.wait_active()?;
        let answered = now();
        let receipt = self.wait_receipt(before.as_ref())?;
        let over = receipt.is_some().then(now);
        let (kind, steps) = (version.kind, version.steps.clone());
        let (encapsulation, dscp) = (self.encapsulation, told.map(|set| set.dscp));
        Ok(Change { kind, steps, encapsulation, dscp, asked, answered, over, receipt })
    }

    fn report(&self) -> Result<ChainReport> {
        Ok(self.running.client.chain(&self.chain.name)?)
    }

    /// Waits until every node has what the chain needs: a change of a group's members alone is
    /// answered before.
    fn wait_active(&self) -> Result<()> {
        let start = Instant::now();
        loop {
            let status = self.report()?.status;
            if status.state == ChainState::Active {
                return Ok(());
            }
            if start.elapsed() > ACTIVE_WAIT {
                let change = self.update.changes.len() + 1;
                return Err(self.refused(&format!(
                    "is {} after change {change}: {}",
                    status.state.name(),
                    status.reason
                )));
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }

    fn refused(&self, what: &str) -> LabError {
        let reason = format!("chain '{}' {what}", self.chain.name);
        LabError::Refused { lab: self.running.lab.name.clone(), reason }
    }

    fn wait_receipt(&mut self, before: Option<&Receipt>) -> Result<Option<Receipt>> {
        let start = Instant::now();
        while self.has_receipts {
            let receipt = self.report()?.receipt;
            if receipt.is_some() && receipt.as_ref() != before {
                return Ok(receipt);
            }
            if start.elapsed() > RECEIPT_WAIT {
                self.has_receipts = false;
            }
            std::thread::sleep(LOOK_PAUSE);
        }
        Ok(None)
    }

    /// Waits until the path in use has carried so many packets to its end.
    fn wait_carried(&self, packets: u64) -> Result<()> {
        let start = Instant::now();
        loop {
            let report = self.report()?;
            let of_path =
                report.nodes.iter().filter(|at| Some(at.counters.path) == report.status.path);
            let carried: u64 = of_path.map(|at| at.counters.finished.packets).sum();
            if carried >= packets {
                return Ok(());
            }
            if start.elapsed() > CARRIED_WAIT {
                return Err(self.refused(&format!(
                    "has carried {carried} packets on its path within {CARRIED_WAIT:?}, not \
                     {packets}; does the traffic match it?"
                )));
            }
            std::thread::sleep(LOOK_PAUSE);
        }
    }
}

/// One of the rule sets that take turns, by its place.
fn rule_set(running: &RunningLab, index: usize) -> Option<&RuleSet> {
    running.lab.updates.as_ref().and_then(|updates| updates.rule_sets.get(index))
}

/// Nanoseconds since 1970: the captures have the same clock.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

//! The one hand that writes: changes that wait while the disk is busy are made one after the other,
//! each on the result of those before it, and go to the disk together. Nobody is answered before
//! his change is durable.

use super::{Draft, Snapshot, Stamps};
use catena_plan::{IndexedIntent, PlanError};
use catena_store::{Expect, Key, Revision, Store, StoreError, Transaction};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{oneshot, watch};

/// Changes that share one wait for the disk.
const CHANGES_PER_COMMIT_MAX: usize = 256;
/// Changes that may wait; more are refused.
const CHANGES_WAITING_MAX: usize = 4_096;

/// What is declared, and who changes it.
pub(super) struct Writer {
    pub(super) store: Arc<dyn Store>,
    pub(super) current: watch::Sender<Snapshot>,
    /// The document revisions that the snapshot was read at; held while changes are made.
    revisions: Mutex<BTreeMap<Key, Revision>>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Box<dyn Change>>,
    /// Is somebody making changes now? He takes those that come in the meantime.
    is_served: bool,
}

/// A change that waits to be made, whatever it answers.
trait Change: Send {
    /// Edits the draft. False: it cannot be made, and whoever asked has been told.
    fn attempt(&mut self, draft: &mut Draft) -> bool;
    /// It is durable.
    fn made(self: Box<Self>, snapshot: Snapshot);
    /// It is not, and nothing of it was kept.
    fn failed(self: Box<Self>, error: StoreError);
}

struct Asked<T, E, F> {
    edit: Option<F>,
    answer: Option<T>,
    asker: Option<oneshot::Sender<Result<(T, Snapshot), E>>>,
}

impl<T, E, F> Asked<T, E, F> {
    fn tell(&mut self, outcome: Result<(T, Snapshot), E>) {
        if let Some(asker) = self.asker.take() {
            // Who no longer listens has gone away; what was made is made.
            let _ = asker.send(outcome);
        }
    }
}

impl<T, E, F> Change for Asked<T, E, F>
where
    T: Send,
    E: From<StoreError> + From<PlanError> + Send,
    F: FnOnce(&mut Draft) -> Result<T, E> + Send,
{
    fn attempt(&mut self, draft: &mut Draft) -> bool {
        let Some(edit) = self.edit.take() else { return false };
        let outcome = edit(draft).and_then(|answer| {
            draft.intent.check()?;
            Ok(answer)
        });
        match outcome {
            Ok(answer) => self.answer = Some(answer),
            Err(error) => self.tell(Err(error)),
        }
        self.answer.is_some()
    }

    fn made(mut self: Box<Self>, snapshot: Snapshot) {
        if let Some(answer) = self.answer.take() {
            self.tell(Ok((answer, snapshot)));
        }
    }

    fn failed(mut self: Box<Self>, error: StoreError) {
        self.tell(Err(error.into()));
    }
}

/// Hands a change in and waits until it is made or refused.
pub(super) async fn change<T, E>(
    writer: &Arc<Writer>,
    edit: impl FnOnce(&mut Draft) -> Result<T, E> + Send + 'static,
) -> Result<(T, Snapshot), E>
where
    T: Send + 'static,
    E: From<StoreError> + From<PlanError> + Send + 'static,
{
    let (asker, outcome) = oneshot::channel();
    let asked = Asked { edit: Some(edit), answer: None, asker: Some(asker) };
    let must_serve = writer.hand_in(Box::new(asked))?;
    // A change that is alone needs no other thread; what has come meanwhile must not delay its answer.
    if must_serve && tokio::task::block_in_place(|| writer.serve_once()) {
        let writer = Arc::clone(writer);
        tokio::task::spawn_blocking(move || while writer.serve_once() {});
    }
    outcome.await.unwrap_or_else(|_| Err(StoreError::Abandoned.into()))
}

impl Writer {
    pub(super) fn new(
        store: Arc<dyn Store>,
        snapshot: Snapshot,
        revisions: BTreeMap<Key, Revision>,
    ) -> Self {
        Self {
            store,
            current: watch::Sender::new(snapshot),
            revisions: Mutex::new(revisions),
            queue: Mutex::default(),
        }
    }

    /// Puts a change in the queue; must the caller see to it that it is served?
    fn hand_in(&self, change: Box<dyn Change>) -> Result<bool, StoreError> {
        let mut queue = self.queue();
        if queue.waiting.len() >= CHANGES_WAITING_MAX {
            return Err(StoreError::Overloaded(CHANGES_WAITING_MAX));
        }
        queue.waiting.push_back(change);
        Ok(!std::mem::replace(&mut queue.is_served, true))
    }

    /// Makes changes that wait, as many as one commit may hold, and tells whether there are more. Blocks on the
    /// disk.
    fn serve_once(&self) -> bool {
        let mut queue = self.queue();
        let count = queue.waiting.len().min(CHANGES_PER_COMMIT_MAX);
        let batch: Vec<Box<dyn Change>> = queue.waiting.drain(..count).collect();
        drop(queue);
        self.make(batch);
        let mut queue = self.queue();
        queue.is_served = !queue.waiting.is_empty();
        queue.is_served
    }

    /// Changes that wait to be made.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.queue().waiting.len()
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, changes: Vec<Box<dyn Change>>) {
        let mut revisions = self.revisions.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current.borrow().clone();
        let batch = Batch::of(changes, &before, &revisions);
        if batch.made.is_empty() {
            return;
        }
        let outcome = self.store.commit_all(batch.transactions);
        let committed = match outcome {
            Ok(committed) => committed,
            Err(error) => {
                batch.made.into_iter().for_each(|made| made.change.failed(error.clone()));
                return;
            }
        };
        let mut newest = before;
        let mut answers = Vec::with_capacity(batch.made.len());
        for (made, revision) in batch.made.into_iter().zip(committed) {
            if !made.writes.is_empty() {
                newest = Snapshot { revision, intent: Arc::new(made.intent), stamps: made.stamps };
            }
            for (key, is_there) in made.writes {
                if is_there {
                    revisions.insert(key, revision);
                } else {
                    revisions.remove(&key);
                }
            }
            answers.push((made.change, newest.clone()));
        }
        // Whoever is answered must find his change when he asks next.
        if newest.revision != self.current.borrow().revision {
            self.current.send_replace(newest);
        }
        answers.into_iter().for_each(|(change, snapshot)| change.made(snapshot));
    }
}

/// Changes that were made in memory and are to be made durable together.
#[derive(Default)]
struct Batch {
    made: Vec<Made>,
    /// One for each.
    transactions: Vec<Transaction>,
}

struct Made {
    change: Box<dyn Change>,
    /// What is declared right after it.
    intent: IndexedIntent,
    stamps: Stamps,
    /// The documents it wrote; false: removed.
    writes: Vec<(Key, bool)>,
}

impl Batch {
    /// One after the other, each on the result of those before it; one that fails leaves no trace.
    fn of(
        changes: Vec<Box<dyn Change>>,
        before: &Snapshot,
        revisions: &BTreeMap<Key, Revision>,
    ) -> Self {
        let mut batch = Self::default();
        let mut newest = IndexedIntent::clone(&before.intent);
        let mut stamps = before.stamps.clone();
        let mut rewritten: BTreeMap<Key, Expect> = BTreeMap::new();
        for mut change in changes {
            let base = batch.base(before.revision);
            let mut draft = Draft {
                base,
                intent: newest.clone(),
                stamps: stamps.clone(),
                writes: BTreeMap::new(),
            };
            // Who asks for a change that panics learns it by losing his answer; the others go on.
            let attempt = catch_unwind(AssertUnwindSafe(|| change.attempt(&mut draft)));
            if !attempt.unwrap_or(false) {
                continue;
            }
            let writes = draft.writes.iter().map(|(key, body)| (key.clone(), body.is_some()));
            let writes: Vec<(Key, bool)> = writes.collect();
            let mut transaction = Transaction::new();
            for (key, body) in draft.writes {
                let stored = || revisions.get(&key).map_or(Expect::Absent, |at| Expect::At(*at));
                // What this batch wrote itself has a revision that is known when it is over.
                let expect = rewritten.get(&key).copied().unwrap_or_else(stored);
                match body {
                    Some(body) => transaction.put_text(key, body, expect),
                    None => transaction.delete(key, expect),
                }
            }
            if let Err(error) = transaction.check_bounds() {
                change.failed(error);
                continue;
            }
            rewritten.extend(writes.iter().map(|(key, _)| (key.clone(), Expect::Any)));
            (newest, stamps) = (draft.intent, draft.stamps);
            let (intent, stamps) = (newest.clone(), stamps.clone());
            batch.made.push(Made { change, intent, stamps, writes });
            batch.transactions.push(transaction);
        }
        batch
    }

    /// The revision that the next change is made from: whoever holds it against one that he knows
    /// must see that others come before him.
    fn base(&self, before: Revision) -> Revision {
        let writes = self.made.iter().filter(|made| !made.writes.is_empty()).count();
        Revision(before.0.saturating_add(writes as u64))
    }
}

//! What functions remember, on its way to a store and back from one. Knows what has not been handed out yet, and whose
//! turn it is; refuses to know what it means, and where it is kept.

use catena_model::id::InstanceId;
use catena_model::limits::FUNCTION_FLOWS_MAX;
use catena_nf::function::{Portion, StateEntry};
use std::collections::{BTreeMap, BTreeSet};

/// How often it is handed out, in nanoseconds.
const HAND_OUT_NS: u64 = 1_000_000_000;
/// What one portion may cost ([`Portion::budget`]): packets wait for it.
const BUDGET: usize = 2_048;
/// Entries that are handed over together.
const PARCEL: usize = 1_024;
/// After so many changes, or so many bytes of them, everything is told again: what expires by itself is not told, and
/// whoever keeps it has room for what functions remember, not for all that they ever did.
const CHANGES_MAX: usize = FUNCTION_FLOWS_MAX;
const CHANGES_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What each instance remembered when that was handed out last.
pub type RememberedState = BTreeMap<InstanceId, Vec<StateEntry>>;

/// What an instance remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// The instance.
    pub instance: InstanceId,
    /// What was told of it before is of no use any more; else these are added to it.
    pub is_whole: bool,
    /// In their order: a later one of the same key takes the place of an earlier one.
    pub entries: Vec<StateEntry>,
}

/// The instance whose turn it is.
#[derive(Debug)]
struct Turn {
    change: StateChange,
    all: bool,
    /// The value that was asked last; none: none yet.
    asked: Option<u32>,
}

fn bytes_of(entry: &StateEntry) -> usize {
    entry.key.len() + entry.value.as_ref().map_or(0, Vec::len)
}

/// What is still to be handed out.
#[derive(Debug, Default)]
pub(super) struct HandOut {
    /// Does anybody keep it?
    is_on: bool,
    /// When it was handed out last.
    last_ns: u64,
    /// Instances that everything is to be told of: what was told before is not all.
    whole: BTreeSet<InstanceId>,
    /// Changes that one value of an instance has told another, which are not told again.
    told: BTreeMap<InstanceId, Vec<StateEntry>>,
    /// Changes of each instance since everything was told, and their bytes.
    changes: BTreeMap<InstanceId, (usize, usize)>,
    /// Instances whose turn is still to come, the next one last.
    rest: Vec<InstanceId>,
    turn: Option<Turn>,
    ready: Vec<StateChange>,
}

impl HandOut {
    /// `is_on`: somebody keeps it.
    pub(super) fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Is it time to ask all instances?
    pub(super) const fn is_due(&self, now_ns: u64) -> bool {
        self.is_on && !self.is_under_way() && now_ns.saturating_sub(self.last_ns) >= HAND_OUT_NS
    }

    pub(super) const fn is_on(&self) -> bool {
        self.is_on
    }

    pub(super) const fn is_under_way(&self) -> bool {
        self.turn.is_some() || !self.rest.is_empty()
    }

    /// Begins to ask these instances.
    pub(super) fn begin(&mut self, now_ns: u64, instances: BTreeSet<InstanceId>) {
        self.last_ns = now_ns;
        self.rest = instances.into_iter().collect();
    }

    /// All of an instance is to be told.
    pub(super) fn begin_anew(&mut self, instance: InstanceId) {
        if self.is_on {
            self.told.remove(&instance);
            self.whole.insert(instance);
        }
    }

    /// One value of an instance has told another these.
    pub(super) fn note(&mut self, instance: InstanceId, entries: Vec<StateEntry>) {
        if !self.is_on || self.whole.contains(&instance) {
            return;
        }
        if entries.iter().any(StateEntry::forgets_all) {
            return self.begin_anew(instance);
        }
        match &mut self.turn {
            Some(turn) if turn.change.instance == instance => turn.change.entries.extend(entries),
            _ => self.told.entry(instance).or_default().extend(entries),
        }
    }

    /// Whose turn it is; none: nobody's.
    pub(super) fn next(&mut self) -> Option<InstanceId> {
        if self.turn.is_none() {
            let instance = self.rest.pop()?;
            let all = self.whole.remove(&instance);
            let entries = self.told.remove(&instance).unwrap_or_default();
            let change = StateChange { instance, is_whole: all, entries };
            self.turn = Some(Turn { change, all, asked: None });
        }
        self.turn.as_ref().map(|turn| turn.change.instance)
    }

    /// What the value with this number is to be asked for.
    pub(super) fn portion(&mut self, number: u32) -> Portion {
        let Some(turn) = &mut self.turn else {
            return Portion { all: false, is_first: true, budget: BUDGET };
        };
        let is_first = turn.asked.replace(number) != Some(number);
        Portion { all: turn.all, is_first, budget: BUDGET }
    }

    /// Takes what it has answered.
    pub(super) fn take(&mut self, entries: Vec<StateEntry>, is_more: bool) {
        let Some(turn) = &mut self.turn else { return };
        let instance = turn.change.instance;
        if entries.iter().any(StateEntry::forgets_all) {
            // Whoever keeps it knows nothing of kinds: it gets what is left.
            turn.change = StateChange { instance, is_whole: true, entries: Vec::new() };
            (turn.all, turn.asked) = (true, None);
            return;
        }
        let (changes, bytes) = self.changes.entry(instance).or_default();
        match turn.all {
            true => (*changes, *bytes) = (0, 0),
            false => {
                *changes += entries.len();
                *bytes += entries.iter().map(bytes_of).sum::<usize>();
            }
        }
        let is_too_much = *changes > CHANGES_MAX || *bytes > CHANGES_BYTES_MAX;
        turn.change.entries.extend(entries);
        if !is_more || turn.change.entries.len() >= PARCEL {
            let rest = StateChange { instance, is_whole: false, entries: Vec::new() };
            let change = std::mem::replace(&mut turn.change, rest);
            // Of everything the end is told, too.
            if change.is_whole || !change.entries.is_empty() || turn.all && !is_more {
                self.ready.push(change);
            }
        }
        if !is_more {
            self.turn = None;
        }
        if is_too_much {
            self.begin_anew(instance);
        }
    }

    /// Is it the turn of this instance?
    pub(super) fn is_asking(&self, instance: InstanceId) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.change.instance == instance)
    }

    /// The instance is gone whose turn it is, or has nothing to tell.
    pub(super) fn pass_over(&mut self) {
        self.turn = None;
    }

    /// What is ready to be handed over.
    pub(super) fn take_ready(&mut self) -> Vec<StateChange> {
        std::mem::take(&mut self.ready)
    }

    /// Functions have come and gone: whose turn it was has told a part, and nobody asks for instances that are gone.
    pub(super) fn line_up(&mut self, is_there: impl Fn(&InstanceId) -> bool) {
        if let Some(turn) = self.turn.take() {
            self.begin_anew(turn.change.instance);
        }
        self.rest.retain(&is_there);
        self.whole.retain(&is_there);
        self.told.retain(|instance, _| is_there(instance));
        self.changes.retain(|instance, _| is_there(instance));
    }
}

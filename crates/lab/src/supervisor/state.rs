//! What the supervisor knows of its lab, shared between the thread that builds it and those that
//! answer visitors.

use super::protocol::{Answer, LabProcess, LabStatus};
use crate::wiring::Namespaces;
use std::process::Child;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A started process of the lab.
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) child: Child,
}

pub(crate) struct Known {
    /// Steps, and at the end `Ready` or `Failed`.
    pub(crate) story: Vec<Answer>,
    pub(crate) namespaces: Namespaces,
    pub(crate) processes: Vec<Running>,
    pub(crate) is_ending: bool,
    status: LabStatus,
}

pub(crate) struct LabState {
    known: Mutex<Known>,
    changed: Condvar,
    start: Instant,
}

impl LabState {
    pub(crate) fn new(status: LabStatus) -> Self {
        let known = Known {
            story: Vec::new(),
            namespaces: Namespaces::new(),
            processes: Vec::new(),
            is_ending: false,
            status,
        };
        Self { known: Mutex::new(known), changed: Condvar::new(), start: Instant::now() }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known and wakes who waits.
    pub(crate) fn change<T>(&self, edit: impl FnOnce(&mut Known) -> T) -> T {
        let answer = edit(&mut self.lock());
        self.changed.notify_all();
        answer
    }

    /// Tells a step and how long it took.
    pub(crate) fn step(&self, text: impl Into<String>, since: Instant) {
        let step = Answer::Step { text: text.into(), seconds: since.elapsed().as_secs_f64() };
        self.change(|known| known.story.push(step));
    }

    /// The part of the story from `index` on, as soon as there is any.
    pub(crate) fn story_from(&self, index: usize) -> Vec<Answer> {
        let mut known = self.lock();
        while known.story.len() <= index {
            known = self.changed.wait(known).unwrap_or_else(PoisonError::into_inner);
        }
        known.story.get(index..).unwrap_or_default().to_vec()
    }

    /// Waits until the end is wanted, or `limit` is over; says which.
    pub(crate) fn wait_for_end(&self, limit: Duration) -> bool {
        let known = self.lock();
        let (known, _) = self
            .changed
            .wait_timeout_while(known, limit, |known| !known.is_ending)
            .unwrap_or_else(PoisonError::into_inner);
        known.is_ending
    }

    /// The state as visitors see it.
    pub(crate) fn status(&self) -> LabStatus {
        let mut known = self.lock();
        let processes = known.processes.iter_mut().map(|running| {
            let state = match running.child.try_wait() {
                Ok(None) => "running".to_owned(),
                Ok(Some(status)) => status.to_string(),
                Err(error) => error.to_string(),
            };
            LabProcess { name: running.name.clone(), state }
        });
        let processes = processes.collect();
        let state = match known.story.last() {
            Some(Answer::Ready) => "up".to_owned(),
            Some(Answer::Failed { reason }) => reason.clone(),
            _ => "coming up".to_owned(),
        };
        let seconds = self.start.elapsed().as_secs_f64();
        LabStatus { processes, state, seconds, ..known.status.clone() }
    }
}

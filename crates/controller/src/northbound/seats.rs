//! Seats of requests and streams: each keeps a connection and memory for as long as it lasts, so there
//! are so many, and so many of one project. Knows projects; refuses to know what is asked.

use catena_model::ProjectId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Who sits. Clones are the same seats.
#[derive(Clone, Default)]
pub(crate) struct Seats(Arc<Mutex<BTreeMap<ProjectId, usize>>>);

/// Why somebody may not sit down.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoSeat {
    /// His project has as many as it may.
    Project,
    /// All have.
    All,
}

/// A place, given back with it.
pub(super) struct Seat {
    seats: Seats,
    project: ProjectId,
}

impl Seats {
    /// How many of a project sit.
    pub(crate) fn count(&self, project: &ProjectId) -> usize {
        self.taken().get(project).copied().unwrap_or_default()
    }

    /// Takes one of `all` seats, if the project has less than its share.
    pub(super) fn sit(
        &self,
        project: &ProjectId,
        share: Option<usize>,
        all: usize,
    ) -> Result<Seat, NoSeat> {
        let mut taken = self.taken();
        let own = taken.get(project).copied().unwrap_or_default();
        if share.is_some_and(|share| own >= share) {
            return Err(NoSeat::Project);
        }
        if taken.values().sum::<usize>() >= all {
            return Err(NoSeat::All);
        }
        taken.insert(project.clone(), own.saturating_add(1));
        Ok(Seat { seats: self.clone(), project: project.clone() })
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<ProjectId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken();
        let left = taken.remove(&self.project).unwrap_or_default().saturating_sub(1);
        if left > 0 {
            taken.insert(self.project.clone(), left);
        }
    }
}

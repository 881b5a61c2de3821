//! The body of a request, read whole within bounds of size and time. Refuses to know what is in it.

use super::BODY_BYTES_MAX;
use axum::body::{Body, Bytes};
use catena_model::ProjectId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_stream::StreamExt;

/// How long a body may take.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// Bodies that one project may be sending at a time.
pub(super) const BODIES_OF_PROJECT_MAX: usize = 64;

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It is larger than [`BODY_BYTES_MAX`].
    TooLarge,
    /// It breaks off, or is no HTTP.
    Malformed,
    /// It takes longer than it may.
    Slow,
    /// Its project sends as many as it may.
    TooMany,
}

impl Broken {
    /// What to tell the sender.
    pub(crate) fn advice(self) -> String {
        match self {
            Self::TooLarge => {
                format!("A body has at most {BODY_BYTES_MAX} bytes; send less at once.")
            }
            Self::Malformed => "The body broke off or is no HTTP; send it again.".into(),
            Self::Slow => "The body took too long; send it at once.".into(),
            Self::TooMany => format!(
                "This project sends {BODIES_OF_PROJECT_MAX} bodies at one time already; wait for \
                 one of them."
            ),
        }
    }
}

/// The bodies that are read just now, by project: one project's slow clients take no connection that
/// another needs.
#[derive(Clone, Default)]
pub(crate) struct Readers(Arc<Mutex<BTreeMap<ProjectId, usize>>>);

/// One body that is read.
struct Reading<'r>(&'r Readers, ProjectId);

impl Readers {
    /// Reads a body of a project's.
    pub(super) async fn read(&self, project: &ProjectId, body: Body) -> Result<Bytes, Broken> {
        self.read_within(BODY_WAIT, project, body).await
    }

    async fn read_within(
        &self,
        wait: Duration,
        project: &ProjectId,
        body: Body,
    ) -> Result<Bytes, Broken> {
        let _reading = self.begin(project).ok_or(Broken::TooMany)?;
        tokio::time::timeout(wait, gather(body)).await.unwrap_or(Err(Broken::Slow))
    }

    fn begin(&self, project: &ProjectId) -> Option<Reading<'_>> {
        let mut all = self.all();
        let reads = all.entry(project.clone()).or_default();
        if *reads >= BODIES_OF_PROJECT_MAX {
            return None;
        }
        *reads += 1;
        Some(Reading(self, project.clone()))
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<ProjectId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let mut all = self.0.all();
        if let Some(reads) = all.get_mut(&self.1) {
            *reads -= 1;
            if *reads == 0 {
                all.remove(&self.1);
            }
        }
    }
}

async fn gather(body: Body) -> Result<Bytes, Broken> {
    let mut chunks = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Broken::Malformed)?;
        if whole.len() + chunk.len() > BODY_BYTES_MAX {
            return Err(Broken::TooLarge);
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> Body {
        Body::from_stream(tokio_stream::pending::<Result<Bytes, std::io::Error>>())
    }

    #[tokio::test]
    async fn a_body_is_as_large_as_it_may_be_and_no_larger_and_comes_in_time() {
        let (readers, project) = (Readers::default(), ProjectId("web".into()));
        let of = |bytes: usize| readers.read(&project, Body::from(vec![b' '; bytes]));
        assert_eq!(of(BODY_BYTES_MAX).await.map(|body| body.len()), Ok(BODY_BYTES_MAX));
        assert_eq!(of(BODY_BYTES_MAX + 1).await, Err(Broken::TooLarge));
        let late = readers.read_within(Duration::from_millis(1), &project, never()).await;
        assert_eq!(late, Err(Broken::Slow));
        assert!(readers.all().is_empty(), "whoever has ended is forgotten");
    }

    #[tokio::test]
    async fn a_project_whose_bodies_do_not_come_keeps_no_other_waiting() {
        let readers = Readers::default();
        let (slow, quiet) = (ProjectId("slow".into()), ProjectId("quiet".into()));
        let held: Vec<_> = (0..BODIES_OF_PROJECT_MAX)
            .map(|_| {
                let (readers, slow) = (readers.clone(), slow.clone());
                tokio::spawn(async move { readers.read(&slow, never()).await })
            })
            .collect();
        while readers.all().get(&slow) != Some(&BODIES_OF_PROJECT_MAX) {
            tokio::task::yield_now().await;
        }
        assert_eq!(readers.read(&slow, Body::empty()).await, Err(Broken::TooMany));
        assert_eq!(readers.read(&quiet, Body::from("{}")).await, Ok("{}".into()));
        for task in held {
            task.abort();
            let _ = task.await;
        }
        assert_eq!(readers.read(&slow, Body::empty()).await, Ok(Bytes::new()));
    }
}

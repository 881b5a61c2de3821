//! Requests that go on without end: they do so no longer than the token that they came with is good.

use super::{Guard, Identity, token_of};
use axum::http::HeaderMap;
use std::sync::Arc;
use std::time::Duration;

/// Between two looks at a token that is in use.
const LOOKS: Duration = Duration::from_secs(1);

/// What a request without end goes on with.
pub(crate) struct Pass {
    guard: Arc<Guard>,
    token: Option<String>,
    identity: Identity,
}

impl Pass {
    /// Of a request whose sender is known.
    pub(crate) fn new(guard: &Arc<Guard>, headers: &HeaderMap, identity: Identity) -> Self {
        let token = token_of(headers).map(str::to_owned);
        Self { guard: Arc::clone(guard), token, identity }
    }

    /// Who bears it.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Would the next request with this token be one of the same identity? No, also where whoever
    /// could tell does not answer.
    pub(crate) async fn holds(&self) -> bool {
        self.guard.identify_token(self.token.as_deref()).await.as_ref() == Ok(&self.identity)
    }

    /// Waits until it does not hold any more.
    pub(crate) async fn ended(&self) {
        while self.holds().await {
            tokio::time::sleep(LOOKS).await;
        }
    }
}

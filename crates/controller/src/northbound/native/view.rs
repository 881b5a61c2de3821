//! A call with what its sender sees. Whatever looks for an object looks here, so nobody can find
//! another tenant's. Refuses to know what is looked for.

use super::problem::Problem;
use crate::auth::Identity;
use crate::northbound::answers::{JSON, json};
use crate::northbound::app::App;
use crate::northbound::call::{Asked, Call};
use crate::northbound::hosts;
use crate::reconcile::Situation;
use axum::http::StatusCode;
use axum::response::Response;
use catena_plan::{IndexedIntent, Intent, Resource, Table};
use serde::Serialize;
use std::sync::Arc;

/// A call with what its sender sees.
pub(super) struct View {
    pub(super) app: Arc<App>,
    pub(super) call: Call,
    pub(super) identity: Identity,
    /// How things stood when the call came.
    pub(super) situation: Situation,
    /// What he saw then of what is declared.
    pub(super) intent: Arc<Intent>,
    /// The status of its answer, if there is one.
    status: StatusCode,
}

impl View {
    pub(super) fn new(Asked { app, call, identity }: Asked, status: StatusCode) -> Self {
        let situation = app.situation.borrow().clone();
        let intent = seen(&app.declared.snapshot().intent, &identity);
        Self { app, call, identity, situation, intent, status }
    }

    /// The answer that tells this.
    pub(super) fn told(&self, value: &impl Serialize) -> Result<Response, Problem> {
        let mut body =
            serde_json::to_value(value).map_err(|error| Problem::internal(error.to_string()))?;
        if !self.identity.sees_all() {
            hosts::hide(&mut body, &self.situation);
        }
        Ok(json(self.status, JSON, &body))
    }

    /// The answer that tells that it is done, and nothing else.
    pub(super) fn done(&self) -> Response {
        let mut response = Response::default();
        *response.status_mut() = self.status;
        response
    }
}

/// What somebody sees of what is declared.
pub(super) fn seen(declared: &IndexedIntent, identity: &Identity) -> Arc<Intent> {
    if identity.sees_all() {
        return Arc::new(declared.intent().clone());
    }
    fn of<R: Resource>(declared: &IndexedIntent, identity: &Identity) -> Table<R::Id, R> {
        let own = declared.index().owned::<R>(&identity.project);
        own.filter_map(|id| Some((id, R::table(declared).get(&id)?.clone()))).collect()
    }
    Arc::new(Intent {
        networks: of(declared, identity),
        subnets: of(declared, identity),
        ports: of(declared, identity),
        rules: of(declared, identity),
        instances: of(declared, identity),
        functions: of(declared, identity),
        chains: of(declared, identity),
        graphs: of(declared, identity),
        slices: of(declared, identity),
        rule_sets: of(declared, identity),
    })
}

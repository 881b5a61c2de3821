//! Drafts: changes are tried on a copy of what is declared, and the controller tells what they
//! would do. Knows how long a copy lives; refuses to know what is changed.

use crate::client::unexpected;
use crate::{Client, ClientError};
use catena_model::placement::{PlacementRequest, Proposal};
use catena_model::preview::{Applied, ApplyRequest, Plan};
use reqwest::Method;
use serde_json::{Value, json};

/// A copy of what is declared, thrown away with this value.
#[derive(Debug)]
pub struct Draft {
    outside: Client,
    inside: Client,
    id: String,
}

impl Draft {
    /// Copies what is declared now.
    ///
    /// # Errors
    /// When the controller refuses or does not answer.
    pub fn open(client: &Client) -> Result<Self, ClientError> {
        let answer = client.request(Method::POST, "/v1/plan", Some(&json!({})))?;
        let id = answer["draft"].as_str();
        let id = id.ok_or_else(|| unexpected("POST /v1/plan", "it names no draft"))?.to_owned();
        Ok(Self { outside: client.clone(), inside: client.in_draft(&id), id })
    }

    /// A client whose every request concerns the copy alone.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.inside
    }

    /// What the changes made to the copy would do.
    ///
    /// # Errors
    /// When the copy has idled out, or the controller does not answer.
    pub fn plan(&self) -> Result<Plan, ClientError> {
        self.outside.get(&self.path())
    }

    /// Hosts for functions of its chains.
    ///
    /// # Errors
    /// When the copy has idled out, there is no such chain or function, or the controller does not answer.
    pub fn placement(&self, request: &PlacementRequest) -> Result<Vec<Proposal>, ClientError> {
        self.outside.post(&format!("{}/placement", self.path()), &json!(request))
    }

    /// Makes the changes: all of them, in one revision, or none.
    ///
    /// # Errors
    /// When something else has been declared since the copy or the given plan was made, the copy has
    /// idled out, or the controller does not answer.
    pub fn apply(self, request: ApplyRequest) -> Result<Applied, ClientError> {
        let path = format!("{}/apply", self.path());
        self.outside.post(&path, &json!(request))
    }

    fn path(&self) -> String {
        format!("/v1/plan/{}", self.id)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // One that idles out is thrown away too.
        let _: Result<Value, ClientError> =
            self.outside.request(Method::DELETE, &self.path(), None);
    }
}

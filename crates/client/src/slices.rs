//! The requests below `/v1/slices`, and slices by the line.

use crate::Client;
use crate::client::{escape, unexpected};
use crate::error::ClientError;
use catena_model::account::SliceCounters;
use catena_model::id::SliceId;
use catena_model::slice::{InjectedSlice, SliceDocument, SliceReport};
use reqwest::Method;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};

/// Slices that one page holds, as the controller gives them.
const PAGE_SLICES: usize = 1_000;

/// What became of slices that were made by the line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Made {
    /// How many there are now.
    pub created: usize,
    /// Those that were refused: the number of the line, from 1, and why.
    pub refused: Vec<(usize, String)>,
}

impl Client {
    /// All slices with their state; those of one chain if it is named.
    ///
    /// # Errors
    /// When there is no such chain, or the controller does not answer.
    pub fn slices(&self, chain: Option<&str>) -> Result<Vec<SliceReport>, ClientError> {
        let chain = chain.map(|name| format!("&chain={}", escape(name))).unwrap_or_default();
        let mut all: Vec<SliceReport> = Vec::new();
        loop {
            let after = all.last().map(|last| format!("&after={}", last.id)).unwrap_or_default();
            let path = format!("/v1/slices?limit={PAGE_SLICES}{chain}{after}");
            let page: Vec<SliceReport> = self.get(&path)?;
            let is_last = page.len() < PAGE_SLICES;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// One slice by name or id.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn slice(&self, name: &str) -> Result<SliceReport, ClientError> {
        self.get(&format!("/v1/slices/{}", escape(name)))
    }

    /// A slice by its name alone, as documents mean it.
    ///
    /// # Errors
    /// When there is none of that name, or the controller does not answer.
    pub fn slice_named(&self, name: &str) -> Result<SliceReport, ClientError> {
        let found = self.slice(name)?;
        if found.slice.name == name {
            return Ok(found);
        }
        Err(ClientError::NotFound { kind: "slice", name: name.into() })
    }

    /// Makes a slice.
    ///
    /// # Errors
    /// When the controller refuses or does not answer.
    pub fn create_slice(&self, slice: &SliceDocument) -> Result<SliceReport, ClientError> {
        self.post("/v1/slices", &json!(slice))
    }

    /// Makes a slice what is given, and nothing else.
    ///
    /// # Errors
    /// When there is none, or the controller refuses or does not answer.
    pub fn put_slice(&self, name: &str, slice: &SliceDocument) -> Result<SliceReport, ClientError> {
        let path = format!("/v1/slices/{}", escape(name));
        self.read(Method::PUT, &path, Some(&json!(slice)))
    }

    /// Removes a slice.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn delete_slice(&self, name: &str) -> Result<(), ClientError> {
        let path = format!("/v1/slices/{}", escape(name));
        self.request(Method::DELETE, &path, None).map(|_| ())
    }

    /// A page of what a node's data plane says of its slices, in their order: at most so many, behind
    /// this one.
    ///
    /// # Errors
    /// When there is no such node, or it does not answer.
    pub fn slices_at(
        &self,
        node: &str,
        limit: usize,
        after: Option<SliceId>,
    ) -> Result<Vec<SliceCounters>, ClientError> {
        let after = after.map(|after| format!("&after={after}")).unwrap_or_default();
        self.get(&format!("/v1/nodes/{}/slices?limit={limit}{after}", escape(node)))
    }

    /// The slices that were put in at a node by hand.
    ///
    /// # Errors
    /// When there is no such node, or it does not answer.
    pub fn injected(&self, node: &str) -> Result<Vec<InjectedSlice>, ClientError> {
        self.get(&format!("/v1/nodes/{}/injected", escape(node)))
    }

    /// Puts slices in at a node by hand, instead of those that were.
    ///
    /// # Errors
    /// When there is no such node, it does not answer, or it refuses.
    pub fn inject(
        &self,
        node: &str,
        slices: &[SliceDocument],
    ) -> Result<Vec<InjectedSlice>, ClientError> {
        let path = format!("/v1/nodes/{}/injected", escape(node));
        self.read(Method::PUT, &path, Some(&json!(slices)))
    }

    /// Makes many slices, in order, durably, and without waiting for nodes. One that is refused takes
    /// no other with it.
    ///
    /// # Errors
    /// When the controller does not answer, or stops answering.
    pub fn create_slices<'s>(
        &self,
        slices: impl Iterator<Item = &'s SliceDocument>,
    ) -> Result<Made, ClientError> {
        const PATH: &str = "/v1/bulk";
        let mut lines = Vec::new();
        for slice in slices {
            serde_json::to_writer(&mut lines, &json!({ "slice": slice }))
                .map_err(|error| unexpected(PATH, &error.to_string()))?;
            lines.push(b'\n');
        }
        let answer = self.send_lines(PATH, lines)?;
        let mut made = Made::default();
        for line in BufReader::new(answer).lines() {
            let line = line.map_err(|error| self.unreachable(&error))?;
            let told: Value = serde_json::from_str(&line)
                .map_err(|error| unexpected(PATH, &error.to_string()))?;
            if told["status"] == 201 {
                made.created += 1;
            } else {
                let why = told["problem"]["detail"].as_str();
                let why = why.or(told["NeutronError"]["message"].as_str()).unwrap_or("no reason");
                made.refused.push((made.created + made.refused.len() + 1, why.to_owned()));
            }
        }
        Ok(made)
    }
}

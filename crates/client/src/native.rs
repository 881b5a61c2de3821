//! The requests of the native API, below `/v1`. Refuses to know how a request travels.

use crate::Client;
use crate::client::{escape, unexpected};
use crate::error::ClientError;
use catena_model::access::{NewToken, TokenReport, TokenRequest};
use catena_model::check::CheckReport;
use catena_model::delays::ChainDelays;
use catena_model::discovery::LinkReport;
use catena_model::dump::StateDump;
use catena_model::event::EventLine;
use catena_model::explain::{ExplainQuery, ExplainReport};
use catena_model::openflow::OpenFlowRules;
use catena_model::resource::{
    ContextHeader, Encapsulation, FailurePolicy, FunctionSettings, Payload,
};
use catena_model::setup::Setup;
use catena_model::status::{
    AlertReport, ChainReport, ChainSummary, Comparison, FunctionReport, GraphReport,
    InstanceReport, NodeDetail, NodeReport, PathReport, Receipt,
};
use catena_model::telemetry::Telemetry;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::Ipv6Addr;
use std::ops::ControlFlow;

/// What is to be changed of a chain; what is not given stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChainChange {
    /// What carries it from now on.
    pub encapsulation: Option<Encapsulation>,
    /// What is inside from now on, where the encapsulation has a choice.
    pub payload: Option<Payload>,
    /// When the controller is asked for its flows from now on.
    pub setup: Option<Setup>,
    /// What its packets take along from now on; none within: nothing.
    pub telemetry: Option<Option<Telemetry>>,
    /// The segments of others that its packets visit from now on, by the function that they lead to.
    pub via: Option<BTreeMap<String, Vec<Ipv6Addr>>>,
}

impl Client {
    /// The state of every chain.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn chains(&self) -> Result<Vec<ChainSummary>, ClientError> {
        self.get("/v1/chains")
    }

    /// State and fresh counters of a chain by name or id.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn chain(&self, name: &str) -> Result<ChainReport, ClientError> {
        self.get(&format!("/v1/chains/{}", escape(name)))
    }

    /// The delays of a chain.
    ///
    /// # Errors
    /// When there is no such chain, or the controller does not answer.
    pub fn chain_delays(&self, name: &str) -> Result<ChainDelays, ClientError> {
        self.get(&format!("/v1/chains/{}/delays", escape(name)))
    }

    /// Every service function.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn functions(&self) -> Result<Vec<FunctionReport>, ClientError> {
        self.get("/v1/functions")
    }

    /// Declares what becomes of packets when an instance of a function dies.
    ///
    /// # Errors
    /// When there is no such function, or the controller refuses.
    pub fn set_failure_policy(
        &self,
        function: &str,
        policy: FailurePolicy,
    ) -> Result<FunctionReport, ClientError> {
        let path = format!("/v1/functions/{}", escape(function));
        self.patch(&path, &json!({"on_failure": policy}))
    }

    /// Changes of a service function what is given.
    ///
    /// # Errors
    /// When there is no such function, or the controller refuses.
    pub fn change_function(
        &self,
        function: &str,
        policy: Option<FailurePolicy>,
        keeps_mac: Option<bool>,
    ) -> Result<FunctionReport, ClientError> {
        let path = format!("/v1/functions/{}", escape(function));
        self.patch(&path, &json!({"on_failure": policy, "keeps_mac": keeps_mac}))
    }

    /// One service function by name or id.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn function(&self, name: &str) -> Result<FunctionReport, ClientError> {
        self.get(&format!("/v1/functions/{}", escape(name)))
    }

    /// Alerts of a bundled function, behind what an answer before called `next`; none: from the oldest on that is
    /// kept.
    ///
    /// # Errors
    /// When there is no such function, it tells none, or the controller does not answer.
    pub fn alerts(&self, name: &str, after: Option<&str>) -> Result<AlertReport, ClientError> {
        let path = format!("/v1/functions/{}/alerts", escape(name));
        match after {
            Some(after) => self.get(&format!("{path}?after={}", escape(after))),
            None => self.get(&path),
        }
    }

    /// Gives a service function these settings and no others.
    ///
    /// # Errors
    /// When there is no such function, or the controller refuses.
    pub fn put_function(
        &self,
        name: &str,
        settings: &FunctionSettings,
    ) -> Result<FunctionReport, ClientError> {
        let path = format!("/v1/functions/{}", escape(name));
        self.read(Method::PUT, &path, Some(&json!(settings)))
    }

    /// Every graph.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn graphs(&self) -> Result<Vec<GraphReport>, ClientError> {
        self.get("/v1/graphs")
    }

    /// One graph by name or id.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn graph(&self, name: &str) -> Result<GraphReport, ClientError> {
        self.get(&format!("/v1/graphs/{}", escape(name)))
    }

    /// Every path that nodes know.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn paths(&self) -> Result<Vec<PathReport>, ClientError> {
        self.get("/v1/paths")
    }

    /// One path by its identifier.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn path(&self, id: &str) -> Result<PathReport, ClientError> {
        self.get(&format!("/v1/paths/{}", escape(id)))
    }

    /// The account of the last change of a chain, also of one that is gone.
    ///
    /// # Errors
    /// When it has none, or the controller does not answer.
    pub fn receipt(&self, chain: &str) -> Result<Receipt, ClientError> {
        self.get(&format!("/v1/chains/{}/receipt", escape(chain)))
    }

    /// What a chain would cost under each encapsulation, by the planner alone.
    ///
    /// # Errors
    /// When there is no such chain, or the controller does not answer.
    pub fn compare(&self, chain: &str) -> Result<Vec<Comparison>, ClientError> {
        self.get(&format!("/v1/chains/{}/comparison", escape(chain)))
    }

    /// Gives the packets of a chain metadata to travel with.
    ///
    /// # Errors
    /// When there is no such chain, its encapsulation carries none, or the controller refuses.
    pub fn set_context(
        &self,
        chain: &str,
        context: &[ContextHeader],
    ) -> Result<ChainReport, ClientError> {
        self.patch(&format!("/v1/chains/{}", escape(chain)), &json!({"context": context}))
    }

    /// Moves a chain to another encapsulation, under its traffic; the receipt is that of this move.
    ///
    /// # Errors
    /// When there is no such chain, something of it does not go with the encapsulation, or the
    /// controller refuses.
    pub fn move_chain(
        &self,
        chain: &str,
        encapsulation: Encapsulation,
    ) -> Result<ChainReport, ClientError> {
        let encapsulation = Some(encapsulation);
        self.change_chain(chain, &ChainChange { encapsulation, ..ChainChange::default() })
    }

    /// Changes of a chain what is given, under its traffic; the receipt is that of this change.
    ///
    /// # Errors
    /// When there is no such chain, something of it does not go with the change, or the controller refuses.
    pub fn change_chain(
        &self,
        chain: &str,
        change: &ChainChange,
    ) -> Result<ChainReport, ClientError> {
        let ChainChange { encapsulation, payload, setup, telemetry, via } = change;
        let mut body = json!({"encapsulation": encapsulation, "setup": setup});
        // Controllers of before know none.
        if let Some(payload) = payload {
            body["payload"] = json!(payload);
        }
        if let Some(telemetry) = telemetry {
            body["telemetry"] = json!(telemetry);
        }
        if let Some(via) = via {
            body["via"] = json!(via);
        }
        self.patch(&format!("/v1/chains/{}", escape(chain)), &body)
    }

    /// Every instance of every service function.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn instances(&self) -> Result<Vec<InstanceReport>, ClientError> {
        self.get("/v1/instances")
    }

    /// One instance by name or id.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn instance(&self, name: &str) -> Result<InstanceReport, ClientError> {
        self.get(&format!("/v1/instances/{}", escape(name)))
    }

    /// Lets an instance take no new flow, or take some again.
    ///
    /// # Errors
    /// When there is no such instance, or nobody could take its place.
    pub fn set_draining(
        &self,
        instance: &str,
        is_draining: bool,
    ) -> Result<InstanceReport, ClientError> {
        let path = format!("/v1/instances/{}", escape(instance));
        self.patch(&path, &json!({"is_draining": is_draining}))
    }

    /// Says of an instance which encapsulation it speaks, while no packets go through it.
    ///
    /// # Errors
    /// When there is no such instance, no function speaks that, or packets go through it.
    pub fn set_spoken(
        &self,
        instance: &str,
        spoken: Encapsulation,
    ) -> Result<InstanceReport, ClientError> {
        let path = format!("/v1/instances/{}", escape(instance));
        self.patch(&path, &json!({"speaks": spoken}))
    }

    /// Every token, without its secret.
    ///
    /// # Errors
    /// When the caller is no admin, or the controller does not answer.
    pub fn tokens(&self) -> Result<Vec<TokenReport>, ClientError> {
        self.get("/v1/tokens")
    }

    /// Makes a token; the answer is the one place where its secret is.
    ///
    /// # Errors
    /// When the name is taken, the caller is no admin, or the controller does not answer.
    pub fn create_token(&self, token: &TokenRequest) -> Result<NewToken, ClientError> {
        const PATH: &str = "/v1/tokens";
        let body = serde_json::to_value(token);
        let body = body.map_err(|error| unexpected(PATH, &error.to_string()))?;
        let answer = self.request(Method::POST, PATH, Some(&body))?;
        serde_json::from_value(answer).map_err(|error| unexpected(PATH, &error.to_string()))
    }

    /// Deletes a token.
    ///
    /// # Errors
    /// When there is none of this id, the caller is no admin, or the controller does not answer.
    pub fn delete_token(&self, id: &str) -> Result<(), ClientError> {
        let path = format!("/v1/tokens/{}", escape(id));
        self.request(Method::DELETE, &path, None).map(|_| ())
    }

    /// State and fresh counters of every node.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn nodes(&self) -> Result<Vec<NodeReport>, ClientError> {
        self.get("/v1/nodes")
    }

    /// One node with its tables.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn node(&self, name: &str) -> Result<NodeDetail, ClientError> {
        self.get(&format!("/v1/nodes/{}", escape(name)))
    }

    /// Marks a switch as an edge, where headers of source routes may end and the next are written, or takes the mark
    /// off.
    ///
    /// # Errors
    /// When there is no such node, it is a host, its version writes no headers, or the controller does not answer.
    pub fn set_edge(&self, name: &str, is_edge: bool) -> Result<NodeDetail, ClientError> {
        self.patch(&format!("/v1/nodes/{}", escape(name)), &json!({ "is_edge": is_edge }))
    }

    /// A node's classifier and its edge as rules of OpenFlow 1.3.
    ///
    /// # Errors
    /// When there is no such node, it has no program, or the controller does not answer.
    pub fn openflow13(&self, name: &str) -> Result<OpenFlowRules, ClientError> {
        self.get(&format!("/v1/nodes/{}/openflow13", escape(name)))
    }

    /// Digests of all that a node holds, but for what it counts.
    ///
    /// # Errors
    /// When there is no such node, or it or the controller does not answer.
    pub fn dump(&self, name: &str) -> Result<StateDump, ClientError> {
        self.get(&format!("/v1/nodes/{}/dump", escape(name)))
    }

    /// All links between nodes.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn links(&self) -> Result<Vec<LinkReport>, ClientError> {
        self.get("/v1/links")
    }

    /// One link, `NODE:PORT`.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn link(&self, name: &str) -> Result<LinkReport, ClientError> {
        self.get(&format!("/v1/links/{}", escape(name)))
    }

    /// Forgets a node that is away for good.
    ///
    /// # Errors
    /// When there is none, it is connected, a chain needs it, or the controller does not answer.
    pub fn forget_node(&self, name: &str) -> Result<(), ClientError> {
        self.request(Method::DELETE, &format!("/v1/nodes/{}", escape(name)), None).map(|_| ())
    }

    /// How everything stands, as `GET /v1/status` answers it.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn status(&self) -> Result<Value, ClientError> {
        self.get("/v1/status")
    }

    /// Hands every event to `each`, until it breaks off or the controller goes away: first what was
    /// declared after the given revision, if one is given, then how things stand, then what changes.
    ///
    /// # Errors
    /// When the controller refuses, does not answer, falls silent or ends.
    pub fn watch(
        &self,
        after: Option<u64>,
        mut each: impl FnMut(EventLine) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let after = after.map(|revision| format!("?after={revision}")).unwrap_or_default();
        let answer = self.stream(&format!("/v1/watch{after}"))?;
        for line in BufReader::new(answer).lines() {
            let line = line.map_err(|error| self.unreachable(&error))?;
            // An empty line only says that the controller is still there.
            if line.is_empty() {
                continue;
            }
            let event = serde_json::from_str(&line)
                .map_err(|error| unexpected("GET /v1/watch", &error.to_string()))?;
            if each(event).is_break() {
                return Ok(());
            }
        }
        Err(ClientError::Unreachable {
            url: self.base().into(),
            reason: "it ended while we watched".into(),
        })
    }

    /// What probes meet along the paths of a chain, named or by id.
    ///
    /// # Errors
    /// When there is no such chain, or its first node does not answer.
    pub fn check_chain(&self, name: &str) -> Result<CheckReport, ClientError> {
        self.post(&format!("/v1/chains/{}/check", escape(name)), &json!({}))
    }

    /// What the data planes would do with a packet.
    ///
    /// # Errors
    /// When the question makes no sense, or the first node or the controller does not answer.
    pub fn explain(&self, query: &ExplainQuery) -> Result<ExplainReport, ClientError> {
        const PATH: &str = "/v1/explain";
        let body = serde_json::to_value(query);
        let body = body.map_err(|error| unexpected(PATH, &error.to_string()))?;
        self.post(PATH, &body)
    }
}

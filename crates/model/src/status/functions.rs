//! What is told of service functions.

use crate::account::FunctionCounters;
use crate::id::{FunctionId, NodeName};
use crate::resource::{FailurePolicy, FunctionTemplate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A service function: `GET /v1/functions`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionReport {
    /// The function.
    pub id: FunctionId,
    /// Its name.
    pub name: String,
    /// Does it get copies instead of the packets?
    pub is_tap: bool,
    /// What becomes of packets when an instance dies.
    pub on_failure: FailurePolicy,
    /// Do frames leave it with the source MAC that they came with, as is declared?
    #[serde(default)]
    pub keeps_mac: bool,
    /// Names of its instances.
    pub instances: Vec<String>,
    /// Where those are that no `on` names hosts for, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, NodeName>,
    /// How its instances are to be run; none: somebody else runs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<FunctionTemplate>,
    /// What holds of it, and what does not.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// What its writer should know of a bundled function's configuration: rules that were left out, as was asked
    /// for, and what has no effect; told of one function alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
    /// What its instances have counted, where they are bundled functions whose nodes answer; told of one function
    /// alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<FunctionCounters>,
}

/// Something that should hold of a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Condition {
    /// Its name, such as `InstancesReady`.
    pub name: String,
    /// Does it hold?
    pub holds: bool,
    /// How it is, for people.
    pub text: String,
}

/// Alerts of a function: `GET /v1/functions/{function}/alerts`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AlertReport {
    /// They, those of each instance in the order in which they came.
    pub alerts: Vec<FunctionAlert>,
    /// Alerts between what was asked for and the first of these that are kept no longer.
    pub lost: u64,
    /// Names of instances whose nodes did not answer.
    pub silent: Vec<String>,
    /// What to ask for next, as `after`.
    pub next: String,
}

/// An alert of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FunctionAlert {
    /// Name of the instance.
    pub instance: String,
    /// As Suricata writes it (EVE): one line of JSON without its line feed.
    pub line: String,
}

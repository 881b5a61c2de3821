//! How the instances of a function are run: what is run, where, and what it takes of a host. Knows what an operator
//! says of it; refuses to know who runs it and how.

use crate::bundle::Configuration;
use crate::capacity::Room;
use crate::id::NodeName;
use crate::instance::Door;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use utoipa::ToSchema;

/// How the instances of a function are run, by whoever runs them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FunctionTemplate {
    /// What is run.
    pub runs: Runs,
    /// Where a bundled function runs.
    #[serde(default, skip_serializing_if = "Door::is_usual")]
    pub door: Door,
    /// Processor time of one instance, in thousandths of a core; none: no bound.
    #[serde(default)]
    pub cpu_milli: Option<u32>,
    /// Memory of one instance, in MiB; none: no bound.
    #[serde(default)]
    pub memory_mib: Option<u32>,
    /// What a bundled function is told, its rules included; empty where something else is run.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    #[schema(value_type = Object)]
    pub config: Map<String, Value>,
    /// The network of a bundled function's ports, and that of those by which packets leave it where it is
    /// another; by name or identity. None: that of its project, which has no other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<String>,
    /// Traffic of one instance, in Mbit/s, which must fit on the links of hosts between it and its neighbours in a
    /// chain; none: no bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bandwidth_mbit: Option<u32>,
    /// How long the way between it and its neighbours in a chain may take, in µs; 0: they are on one host. None: no
    /// bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_us: Option<u32>,
    /// Instances that there should be.
    #[serde(default)]
    pub instances: u32,
    /// Where hosts have no room for all that are placed, those of the lowest go without; none: none of these does, and
    /// what does not fit is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u32>,
    /// Hosts on which they should be run; empty: where processes are run, the planner places them.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub on: BTreeSet<NodeName>,
    /// Words of the operator, for selecting.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

impl FunctionTemplate {
    /// Do nodes run its instances, each in a process of its own? A command of which neither hosts nor instances are
    /// declared is run by nobody.
    #[must_use]
    pub fn is_run_by_nodes(&self) -> bool {
        match self.runs {
            Runs::Command(_) => !self.on.is_empty() || self.instances > 0,
            Runs::Bundled(_) => self.door == Door::Apart,
            Runs::Image(_) | Runs::External(_) => false,
        }
    }

    /// Does the planner choose the hosts of its instances?
    #[must_use]
    pub fn is_placed(&self) -> bool {
        self.on.is_empty() && self.is_run_by_nodes()
    }

    /// What one of its instances takes of a host, as far as it is bounded.
    #[must_use]
    pub fn needs(&self) -> Room {
        Room {
            cpu_milli: self.cpu_milli.unwrap_or_default().into(),
            memory_mib: self.memory_mib.unwrap_or_default().into(),
        }
    }

    /// Are its instances, with their ports, made from it and from nothing else?
    #[must_use]
    pub fn makes_instances(&self) -> bool {
        matches!(self.runs, Runs::Bundled(_)) || self.is_run_by_nodes()
    }

    /// What its instances are made of, where they come with Catena.
    #[must_use]
    pub fn configuration(&self) -> Option<Configuration> {
        let Runs::Bundled(kind) = &self.runs else { return None };
        // Text of its own, so that no order of its reader's changes what it is known by.
        let config = Value::Object(self.config.clone()).to_string();
        let configuration = Configuration::new(kind.clone(), config);
        Some(match self.door {
            Door::Beside => configuration.beside(),
            Door::Inside | Door::Apart => configuration,
        })
    }
}

/// What an instance of a function is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Runs {
    /// A container image.
    Image(String),
    /// A command with its arguments.
    Command(Vec<String>),
    /// Somebody else's: how it is known there.
    External(String),
    /// A function that comes with Catena, by its kind.
    Bundled(String),
}

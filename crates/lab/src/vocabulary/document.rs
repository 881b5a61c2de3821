//! The keys of a lab file exactly as written. Knows their spelling and types; refuses to know
//! whether they make sense together (see `lab`).

use super::lab::{Arrivals, Families};
use super::ordered::Ordered;
use super::programs::{ExpectEntry, ProgramEntry, Word};
use super::switches::SwitchesEntry;
use super::units::{BitRate, Seconds};
use super::users::UsersEntry;
use catena_client::deploy::{ChainDocument, ChainStep};
use catena_model::instance::Door;
use catena_model::parallelism::Form;
use catena_model::resource::{Encapsulation, FailurePolicy};
use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::path::PathBuf;

/// A whole file, or the part of one that extends another.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Document {
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    #[allow(dead_code, reason = "read from the text before the merge; here it is a legal key")]
    pub(crate) extends: Option<PathBuf>,
    pub(crate) hosts: Ordered<Option<HostEntry>>,
    pub(crate) switches: SwitchesEntry,
    pub(crate) routers: Ordered<Option<RouterEntry>>,
    pub(crate) underlay: Families,
    pub(crate) links: Vec<LinkEntry>,
    pub(crate) networks: Ordered<NetworkEntry>,
    pub(crate) endpoints: Ordered<EndpointEntry>,
    pub(crate) functions: Ordered<FunctionEntry>,
    pub(crate) chains: Vec<ChainDocument>,
    pub(crate) traffic: Vec<TrafficEntry>,
    pub(crate) updates: Option<UpdatesEntry>,
    pub(crate) faults: Vec<FaultEntry>,
    pub(crate) users: Option<UsersEntry>,
    pub(crate) capture: CaptureEntry,
    pub(crate) sweep: SweepEntry,
    pub(crate) check: Vec<String>,
    pub(crate) goal: Vec<String>,
    pub(crate) plot: Vec<PlotEntry>,
    #[allow(dead_code, reason = "merged over the rest before this type is filled")]
    pub(crate) full: Option<serde_norway::Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HostEntry {
    pub(crate) programs: Vec<ProgramEntry>,
    pub(crate) function_threads: Option<usize>,
    pub(crate) function_form: Option<Form>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RouterEntry {
    pub(crate) runs: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum LinkEntry {
    Short(String),
    Long(LinkForm),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LinkForm {
    pub(crate) between: String,
    pub(crate) mtu: Option<u32>,
    pub(crate) through: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct NetworkEntry {
    pub(crate) cidrs: Vec<IpNet>,
    pub(crate) gateway: Option<String>,
    pub(crate) mtu: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct EndpointEntry {
    pub(crate) on: Option<String>,
    pub(crate) networks: Vec<String>,
    pub(crate) routes: Ordered<String>,
    pub(crate) programs: Vec<ProgramEntry>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FunctionEntry {
    pub(crate) on: Option<String>,
    pub(crate) networks: Vec<String>,
    pub(crate) routes: Ordered<String>,
    pub(crate) programs: Vec<ProgramEntry>,
    pub(crate) bundled: Option<String>,
    pub(crate) command: Vec<Word>,
    pub(crate) door: Option<Door>,
    pub(crate) cpu_milli: Option<u32>,
    pub(crate) memory_mib: Option<u32>,
    pub(crate) instances: Option<u32>,
    pub(crate) on_failure: Option<FailurePolicy>,
    pub(crate) config: Map<String, Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct FaultEntry {
    pub(crate) at: Option<Seconds>,
    pub(crate) cut: Option<String>,
    pub(crate) silence: Option<String>,
    pub(crate) heal: Option<String>,
    pub(crate) kill: Option<String>,
    pub(crate) end: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct UpdatesEntry {
    pub(crate) chain: String,
    pub(crate) versions: Vec<Vec<ChainStep>>,
    pub(crate) kinds: Vec<super::updates::ChangeKind>,
    pub(crate) count: Option<usize>,
    pub(crate) among: Vec<String>,
    pub(crate) encapsulations: Vec<Encapsulation>,
    pub(crate) rule_sets: Vec<RuleSetEntry>,
    pub(crate) packets: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RuleSetEntry {
    pub(crate) dscp: u8,
    pub(crate) config: Ordered<Map<String, Value>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TrafficEntry {
    pub(crate) name: Option<String>,
    pub(crate) tool: Option<String>,
    pub(crate) from: Option<String>,
    pub(crate) to: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) port: Option<u16>,
    pub(crate) rate: Option<BitRate>,
    pub(crate) seconds: Option<Seconds>,
    pub(crate) at: Option<Seconds>,
    pub(crate) congestion: Option<String>,
    pub(crate) family: Option<String>,
    pub(crate) chain: Option<String>,
    pub(crate) flows: Option<u32>,
    pub(crate) packets: Option<u32>,
    pub(crate) packets_per_second: Option<u32>,
    pub(crate) arrivals: Option<Arrivals>,
    pub(crate) load: Option<f64>,
    pub(crate) load_of: Option<String>,
    pub(crate) answers: bool,
    pub(crate) until: Option<String>,
    pub(crate) command: Vec<Word>,
    pub(crate) expect: Option<ExpectEntry>,
    pub(crate) times: Option<u32>,
    pub(crate) package: Option<String>,
}

impl TrafficEntry {
    /// Is it told what only programs are?
    pub(crate) fn is_told_how_to_run(&self) -> bool {
        let is_said = self.expect.is_some() || self.times.is_some() || self.package.is_some();
        is_said || !self.command.is_empty()
    }

    /// The first key that only generators of traffic are told.
    pub(crate) fn said_of_generators(&self) -> Option<&'static str> {
        let said = [
            ("to", self.to.is_some()),
            ("protocol", self.protocol.is_some()),
            ("port", self.port.is_some()),
            ("rate", self.rate.is_some()),
            ("congestion", self.congestion.is_some()),
            ("flows", self.flows.is_some()),
            ("packets", self.packets.is_some()),
            ("packets_per_second", self.packets_per_second.is_some()),
            ("arrivals", self.arrivals.is_some()),
            ("load", self.load.is_some()),
            ("load_of", self.load_of.is_some()),
            ("answers", self.answers),
            ("until", self.until.is_some()),
        ];
        said.into_iter().find(|(_, is_said)| *is_said).map(|(name, _)| name)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct CaptureEntry {
    pub(crate) at: Vec<String>,
    pub(crate) links: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SweepEntry {
    pub(crate) chain: Vec<String>,
    pub(crate) chain_length: Option<String>,
    pub(crate) encapsulation: Vec<Encapsulation>,
    pub(crate) repeat: Option<u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PlotEntry {
    pub(crate) file: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) of: Vec<String>,
    pub(crate) paper: Ordered<serde_json::Value>,
}

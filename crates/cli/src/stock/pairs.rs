//! `catena port-pair` and `catena port-pair-group`: instances, and functions made of them.

use super::{
    DeleteArguments, ListArguments, NewArguments, Noun, SetArguments, ShowArguments, delete, id_of,
    ids_of, joined, list, pairs, show, texts, update,
};
use crate::failure::Failure;
use catena_client::{Client, Kind};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

#[derive(Subcommand)]
pub(crate) enum PortPairCommand {
    /// Make a port pair.
    Create(PairArguments),
    /// All port pairs.
    List(ListArguments),
    /// One port pair.
    Show(ShowArguments),
    /// Change name or description.
    Set(SetArguments),
    /// Delete port pairs.
    Delete(DeleteArguments),
}

#[derive(Args)]
pub(crate) struct PairArguments {
    #[command(flatten)]
    new: NewArguments,
    /// Name or id of the port that packets enter the function by.
    #[arg(long)]
    ingress: String,
    /// Name or id of the port that they come back from.
    #[arg(long)]
    egress: String,
    /// correlation=mpls|nsh|None, weight=N.
    #[arg(long = "service-function-parameters", value_name = "KEY=VALUE")]
    parameters: Vec<String>,
}

impl Noun for PortPairCommand {
    fn run(self, client: &Client) -> Result<(), Failure> {
        const KIND: Kind = Kind::PortPair;
        match self {
            Self::Create(arguments) => create_pair(client, &arguments),
            Self::List(arguments) => {
                list(client, KIND, &["id", "name", "ingress", "egress"], &arguments)
            }
            Self::Show(arguments) => show(client, KIND, &arguments),
            Self::Set(arguments) => arguments.update(client, KIND, arguments.attributes()),
            Self::Delete(arguments) => delete(client, KIND, &arguments),
        }
    }
}

fn create_pair(client: &Client, arguments: &PairArguments) -> Result<(), Failure> {
    let mut attributes = arguments.new.attributes();
    for (key, port) in [("ingress", &arguments.ingress), ("egress", &arguments.egress)] {
        attributes.insert(key.into(), json!(id_of(client, Kind::Port, port)?));
    }
    let mut parameters = Map::new();
    for (key, value) in pairs(&arguments.parameters)? {
        let value = if value == "None" { Value::Null } else { json!(value) };
        parameters.insert(key, value);
    }
    if !parameters.is_empty() {
        attributes.insert("service_function_parameters".into(), Value::Object(parameters));
    }
    arguments.new.create(client, Kind::PortPair, attributes)
}

#[derive(Subcommand)]
pub(crate) enum PortPairGroupCommand {
    /// Make a port pair group.
    Create(GroupArguments),
    /// All port pair groups.
    List(ListArguments),
    /// One port pair group.
    Show(ShowArguments),
    /// Change name or description, or add port pairs.
    Set {
        #[command(flatten)]
        set: SetArguments,
        /// Name or id of a port pair to add; may be given again.
        #[arg(long = "port-pair")]
        port_pairs: Vec<String>,
        /// Without the port pairs that it has.
        #[arg(long)]
        no_port_pair: bool,
    },
    /// Take port pairs away.
    Unset {
        /// Name or id.
        name: String,
        /// Name or id of a port pair to take away; may be given again.
        #[arg(long = "port-pair", required_unless_present = "all_port_pair")]
        port_pairs: Vec<String>,
        /// All of them.
        #[arg(long)]
        all_port_pair: bool,
    },
    /// Delete port pair groups.
    Delete(DeleteArguments),
}

#[derive(Args)]
pub(crate) struct GroupArguments {
    #[command(flatten)]
    new: NewArguments,
    /// Name or id of a port pair; may be given again.
    #[arg(long = "port-pair")]
    port_pairs: Vec<String>,
    /// It gets copies and returns nothing.
    #[arg(long)]
    enable_tap: bool,
    /// The packets go through it, which is so without a word.
    #[arg(long, conflicts_with = "enable_tap")]
    disable_tap: bool,
    /// lb-fields=FIELD&FIELD….
    #[arg(long = "port-pair-group-parameters", value_name = "KEY=VALUE")]
    parameters: Vec<String>,
}

impl Noun for PortPairGroupCommand {
    fn run(self, client: &Client) -> Result<(), Failure> {
        const KIND: Kind = Kind::PortPairGroup;
        match self {
            Self::Create(arguments) => create_group(client, &arguments),
            Self::List(arguments) => list(client, KIND, &["id", "name", "port_pairs"], &arguments),
            Self::Show(arguments) => show(client, KIND, &arguments),
            Self::Set { set, port_pairs, no_port_pair } => {
                let mut attributes = set.attributes();
                if no_port_pair || !port_pairs.is_empty() {
                    let before = client.find(KIND, &set.subject)?;
                    let added = ids_of(client, Kind::PortPair, &port_pairs)?;
                    let members = joined(&before["port_pairs"], no_port_pair, added);
                    attributes.insert("port_pairs".into(), json!(members));
                }
                set.update(client, KIND, attributes)
            }
            Self::Unset { name, port_pairs, all_port_pair } => {
                let before = client.find(KIND, &name)?;
                let gone = ids_of(client, Kind::PortPair, &port_pairs)?;
                let mut members = texts(&before["port_pairs"]);
                members.retain(|member| !all_port_pair && !gone.contains(member));
                let attributes = Map::from_iter([("port_pairs".to_owned(), json!(members))]);
                update(client, KIND, &name, attributes)
            }
            Self::Delete(arguments) => delete(client, KIND, &arguments),
        }
    }
}

fn create_group(client: &Client, arguments: &GroupArguments) -> Result<(), Failure> {
    let mut attributes = arguments.new.attributes();
    if !arguments.port_pairs.is_empty() {
        let members = ids_of(client, Kind::PortPair, &arguments.port_pairs)?;
        attributes.insert("port_pairs".into(), json!(members));
    }
    if arguments.enable_tap || arguments.disable_tap {
        attributes.insert("tap_enabled".into(), json!(arguments.enable_tap));
    }
    let mut parameters = Map::new();
    for (key, value) in pairs(&arguments.parameters)? {
        match key.as_str() {
            "lb-fields" | "lb_fields" => {
                let fields: Vec<&str> = value.split('&').collect();
                parameters.insert("lb_fields".into(), json!(fields));
            }
            other => {
                return Err(Failure::usage(format!(
                    "'{other}' is no parameter of a port pair group here; use lb-fields, or a \
                     request for ppg_n_tuple_mapping"
                )));
            }
        }
    }
    if !parameters.is_empty() {
        attributes.insert("port_pair_group_parameters".into(), Value::Object(parameters));
    }
    arguments.new.create(client, Kind::PortPairGroup, attributes)
}

//! `catena port-chain`: functions in order, and the classifiers that send packets through them.

use super::{
    Attributes, DeleteArguments, ListArguments, NewArguments, Noun, SetArguments, ShowArguments,
    delete, ids_of, joined, list, pairs, show, texts, update,
};
use crate::failure::Failure;
use catena_client::{Client, Kind};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

const KIND: Kind = Kind::PortChain;

#[derive(Subcommand)]
pub(crate) enum PortChainCommand {
    /// Make a port chain.
    Create(CreatePortChain),
    /// All port chains.
    List(ListArguments),
    /// One port chain.
    Show(ShowArguments),
    /// Change name or description, or add groups and classifiers.
    Set {
        #[command(flatten)]
        set: SetArguments,
        /// Name or id of a port pair group to add; may be given again.
        #[arg(long = "port-pair-group")]
        groups: Vec<String>,
        /// Without the port pair groups that it has.
        #[arg(long, requires = "groups")]
        no_port_pair_group: bool,
        /// Name or id of a flow classifier to add; may be given again.
        #[arg(long = "flow-classifier")]
        classifiers: Vec<String>,
        /// Without the flow classifiers that it has.
        #[arg(long)]
        no_flow_classifier: bool,
    },
    /// Take groups and classifiers away.
    Unset {
        /// Name or id.
        name: String,
        /// Name or id of a port pair group to take away; may be given again.
        #[arg(long = "port-pair-group")]
        groups: Vec<String>,
        /// Name or id of a flow classifier to take away; may be given again.
        #[arg(long = "flow-classifier")]
        classifiers: Vec<String>,
        /// All flow classifiers.
        #[arg(long)]
        all_flow_classifier: bool,
    },
    /// Delete port chains.
    Delete(DeleteArguments),
}

#[derive(Args)]
pub(crate) struct CreatePortChain {
    #[command(flatten)]
    new: NewArguments,
    /// Name or id of a port pair group, in order; may be given again.
    #[arg(long = "port-pair-group", required = true)]
    groups: Vec<String>,
    /// Name or id of a flow classifier; may be given again.
    #[arg(long = "flow-classifier")]
    classifiers: Vec<String>,
    /// correlation=mpls|nsh, symmetric=true|false.
    #[arg(long = "chain-parameters", value_name = "KEY=VALUE")]
    parameters: Vec<String>,
}

impl Noun for PortChainCommand {
    fn run(self, client: &Client) -> Result<(), Failure> {
        match self {
            Self::Create(arguments) => create(client, &arguments),
            Self::List(arguments) => {
                let columns = ["id", "name", "port_pair_groups", "flow_classifiers", "status"];
                list(client, KIND, &columns, &arguments)
            }
            Self::Show(arguments) => show(client, KIND, &arguments),
            Self::Set { set, groups, no_port_pair_group, classifiers, no_flow_classifier } => {
                let mut attributes = set.attributes();
                let before = client.find(KIND, &set.subject)?;
                for (key, kind, names, none) in [
                    ("port_pair_groups", Kind::PortPairGroup, &groups, no_port_pair_group),
                    ("flow_classifiers", Kind::FlowClassifier, &classifiers, no_flow_classifier),
                ] {
                    if none || !names.is_empty() {
                        let members = joined(&before[key], none, ids_of(client, kind, names)?);
                        attributes.insert(key.into(), json!(members));
                    }
                }
                set.update(client, KIND, attributes)
            }
            Self::Unset { name, groups, classifiers, all_flow_classifier } => {
                let before = client.find(KIND, &name)?;
                let mut attributes = Attributes::new();
                for (key, kind, names, all) in [
                    ("port_pair_groups", Kind::PortPairGroup, &groups, false),
                    ("flow_classifiers", Kind::FlowClassifier, &classifiers, all_flow_classifier),
                ] {
                    if all || !names.is_empty() {
                        let gone = ids_of(client, kind, names)?;
                        let mut members = texts(&before[key]);
                        members.retain(|member| !all && !gone.contains(member));
                        attributes.insert(key.into(), json!(members));
                    }
                }
                update(client, KIND, &name, attributes)
            }
            Self::Delete(arguments) => delete(client, KIND, &arguments),
        }
    }
}

fn create(client: &Client, arguments: &CreatePortChain) -> Result<(), Failure> {
    let mut attributes = arguments.new.attributes();
    let groups = ids_of(client, Kind::PortPairGroup, &arguments.groups)?;
    attributes.insert("port_pair_groups".into(), json!(groups));
    if !arguments.classifiers.is_empty() {
        let classifiers = ids_of(client, Kind::FlowClassifier, &arguments.classifiers)?;
        attributes.insert("flow_classifiers".into(), json!(classifiers));
    }
    let parameters = pairs(&arguments.parameters)?;
    if !parameters.is_empty() {
        let parameters: Map<String, Value> =
            parameters.into_iter().map(|(key, value)| (key, json!(value))).collect();
        attributes.insert("chain_parameters".into(), Value::Object(parameters));
    }
    arguments.new.create(client, KIND, attributes)
}

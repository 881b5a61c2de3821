//! `catena flow-classifier`: which packets enter a chain.

use super::{
    DeleteArguments, ListArguments, NewArguments, Noun, SetArguments, ShowArguments, delete, id_of,
    list, put, show,
};
use crate::failure::Failure;
use catena_client::deploy::classifier_attributes;
use catena_client::{Client, Kind};
use catena_model::classifier::{FIELDS, Field};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, Subcommand};
use serde_json::json;

const KIND: Kind = Kind::FlowClassifier;

#[derive(Subcommand)]
pub(crate) enum FlowClassifierCommand {
    /// Make a flow classifier.
    Create(Box<CreateClassifier>),
    /// All flow classifiers.
    List(ListArguments),
    /// One flow classifier.
    Show(ShowArguments),
    /// Change name or description.
    Set(SetArguments),
    /// Delete flow classifiers.
    Delete(DeleteArguments),
}

#[derive(Args)]
pub(crate) struct CreateClassifier {
    #[command(flatten)]
    new: NewArguments,
    /// In words, such as "tcp dst 10.0.0.0/24 dport 80-88"; the options below say the rest.
    #[arg(long = "match", value_name = "WORDS")]
    words: Option<String>,
    /// IPv4 or IPv6.
    #[arg(long)]
    ethertype: Option<String>,
    /// tcp, udp or icmp.
    #[arg(long)]
    protocol: Option<String>,
    /// N or LOW:HIGH.
    #[arg(long)]
    source_port: Option<String>,
    /// N or LOW:HIGH.
    #[arg(long)]
    destination_port: Option<String>,
    /// Addresses as a prefix.
    #[arg(long)]
    source_ip_prefix: Option<String>,
    /// Addresses as a prefix.
    #[arg(long)]
    destination_ip_prefix: Option<String>,
    /// Name or id of the port that packets enter the network by.
    #[arg(long)]
    logical_source_port: Option<String>,
    /// Name or id of the port that packets would leave by.
    #[arg(long)]
    logical_destination_port: Option<String>,
    #[command(flatten)]
    fields: FieldArguments,
}

/// An option for each field beside the flow.
struct FieldArguments(Vec<(&'static str, Option<String>)>);

fn option(field: &Field) -> String {
    field.name.replace('_', "-")
}

impl Args for FieldArguments {
    fn augment_args(command: Command) -> Command {
        let arg = |field: &'static Field| {
            Arg::new(field.name).long(option(field)).value_name("VALUE").help(field.help)
        };
        command.args(FIELDS.iter().map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for FieldArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |field: &'static Field| (field.name, matches.get_one(field.name).cloned());
        Ok(Self(FIELDS.iter().map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Noun for FlowClassifierCommand {
    fn run(self, client: &Client) -> Result<(), Failure> {
        match self {
            Self::Create(arguments) => create(client, *arguments),
            Self::List(arguments) => {
                let columns = [
                    "id",
                    "name",
                    "protocol",
                    "source_ip_prefix",
                    "destination_ip_prefix",
                    "destination_port_range_min",
                    "destination_port_range_max",
                    "logical_source_port",
                ];
                list(client, KIND, &columns, &arguments)
            }
            Self::Show(arguments) => show(client, KIND, &arguments),
            Self::Set(arguments) => arguments.update(client, KIND, arguments.attributes()),
            Self::Delete(arguments) => delete(client, KIND, &arguments),
        }
    }
}

fn create(client: &Client, arguments: CreateClassifier) -> Result<(), Failure> {
    let mut attributes = arguments.new.attributes();
    if let Some(words) = &arguments.words {
        attributes.extend(classifier_attributes(words).map_err(Failure::usage)?);
    }
    put(&mut attributes, "ethertype", arguments.ethertype);
    put(&mut attributes, "protocol", arguments.protocol);
    put(&mut attributes, "source_ip_prefix", arguments.source_ip_prefix);
    put(&mut attributes, "destination_ip_prefix", arguments.destination_ip_prefix);
    for (name, words) in arguments.fields.0 {
        put(&mut attributes, name, words);
    }
    for (side, text) in
        [("source_port", arguments.source_port), ("destination_port", arguments.destination_port)]
    {
        let Some(text) = text else { continue };
        let (low, high) = text.split_once(':').unwrap_or((&text, &text));
        for (bound, number) in [("min", low), ("max", high)] {
            let number: u16 = number.parse().map_err(|_| {
                Failure::usage(format!("'{text}' is no port; write N or LOW:HIGH, up to 65535"))
            })?;
            attributes.insert(format!("{side}_range_{bound}"), json!(number));
        }
    }
    for (key, port) in [
        ("logical_source_port", arguments.logical_source_port),
        ("logical_destination_port", arguments.logical_destination_port),
    ] {
        if let Some(port) = port {
            attributes.insert(key.into(), json!(id_of(client, Kind::Port, &port)?));
        }
    }
    arguments.new.create(client, KIND, attributes)
}

//! The verbs of `openstack sfc …` under our own name, for people who come from there:
//! `catena port-chain set` is `openstack sfc port chain set`. Knows options and which attributes they
//! are; refuses to know what an attribute means.

mod classifier;
mod pairs;
mod port_chain;
mod service_graph;

pub(crate) use classifier::FlowClassifierCommand;
pub(crate) use pairs::{PortPairCommand, PortPairGroupCommand};
pub(crate) use port_chain::PortChainCommand;
pub(crate) use service_graph::ServiceGraphCommand;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, block, table, tell};
use catena_client::{Client, Kind};
use clap::Args;
use serde_json::{Map, Value, json};

/// What `list` takes.
#[derive(Args)]
pub(crate) struct ListArguments {
    /// All attributes.
    #[arg(long)]
    long: bool,
    /// How they are printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// What `show` takes.
#[derive(Args)]
pub(crate) struct ShowArguments {
    /// Name or id.
    name: String,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// What `delete` takes.
#[derive(Args)]
pub(crate) struct DeleteArguments {
    /// Names or ids.
    #[arg(required = true)]
    names: Vec<String>,
}

/// What every `create` takes.
#[derive(Args)]
pub(crate) struct NewArguments {
    /// Its name.
    name: String,
    /// Free text.
    #[arg(long)]
    description: Option<String>,
    /// How it is printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// What every `set` takes.
#[derive(Args)]
pub(crate) struct SetArguments {
    /// Name or id.
    #[arg(value_name = "NAME")]
    subject: String,
    /// Another name.
    #[arg(long = "name", value_name = "NEW")]
    new_name: Option<String>,
    /// Another text.
    #[arg(long)]
    description: Option<String>,
}

/// The attributes of a request.
type Attributes = Map<String, Value>;

impl NewArguments {
    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::new();
        attributes.insert("name".into(), json!(self.name));
        put(&mut attributes, "description", self.description.as_deref());
        attributes
    }

    fn create(&self, client: &Client, kind: Kind, attributes: Attributes) -> Result<(), Failure> {
        let made = client.create(kind, &Value::Object(attributes))?;
        tell(self.output, &made, |_| one(&made))
    }
}

impl SetArguments {
    fn attributes(&self) -> Attributes {
        let mut attributes = Attributes::new();
        put(&mut attributes, "name", self.new_name.as_deref());
        put(&mut attributes, "description", self.description.as_deref());
        attributes
    }

    fn update(&self, client: &Client, kind: Kind, attributes: Attributes) -> Result<(), Failure> {
        update(client, kind, &self.subject, attributes)
    }
}

/// Changes a resource; without attributes there is nothing to ask for.
fn update(client: &Client, kind: Kind, name: &str, attributes: Attributes) -> Result<(), Failure> {
    if attributes.is_empty() {
        return Err(Failure::usage("nothing is to be changed; `--help` tells what can be"));
    }
    let id = id_of(client, kind, name)?;
    client.update(kind, &id, &Value::Object(attributes))?;
    Ok(())
}

fn put(attributes: &mut Attributes, key: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        attributes.insert(key.into(), value.into());
    }
}

fn id_of(client: &Client, kind: Kind, name: &str) -> Result<String, Failure> {
    let found = client.find(kind, name)?;
    Ok(found["id"].as_str().unwrap_or_default().to_owned())
}

fn ids_of(client: &Client, kind: Kind, names: &[String]) -> Result<Vec<String>, Failure> {
    names.iter().map(|name| id_of(client, kind, name)).collect()
}

/// The members that a resource has and those that it is to have: without the former ones when it is
/// to have `none` of them, and in their order.
fn joined(before: &Value, none: bool, added: Vec<String>) -> Vec<String> {
    let mut members = if none { Vec::new() } else { texts(before) };
    for member in added {
        if !members.contains(&member) {
            members.push(member);
        }
    }
    members
}

fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().map(Vec::as_slice).unwrap_or_default();
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// `key=value` pairs, several after commas.
fn pairs(texts: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let parts = texts.iter().flat_map(|text| text.split(','));
    let split = |part: &str| {
        let (key, value) = part.split_once('=').ok_or_else(|| {
            Failure::usage(format!("'{part}' is no key=value; write for example weight=2"))
        })?;
        Ok((key.trim().to_owned(), value.trim().to_owned()))
    };
    parts.map(split).collect()
}

fn list(
    client: &Client,
    kind: Kind,
    short: &[&str],
    arguments: &ListArguments,
) -> Result<(), Failure> {
    let items = client.list(kind, &[])?;
    tell(arguments.output, &items, |is_wide| {
        let all: Vec<&str> = items
            .first()
            .and_then(Value::as_object)
            .map(|first| first.keys().map(String::as_str).collect())
            .unwrap_or_default();
        let columns = if is_wide || arguments.long { all.as_slice() } else { short };
        let mut table = table(columns);
        for item in &items {
            table.add_row(columns.iter().map(|column| cell(&item[*column])));
        }
        block(table);
    })
}

fn show(client: &Client, kind: Kind, arguments: &ShowArguments) -> Result<(), Failure> {
    let found = client.find(kind, &arguments.name)?;
    tell(arguments.output, &found, |_| one(&found))
}

/// Deletes each; what fails is told, and the others are deleted all the same.
fn delete(client: &Client, kind: Kind, arguments: &DeleteArguments) -> Result<(), Failure> {
    let mut failed = Vec::new();
    for name in &arguments.names {
        let deleted = id_of(client, kind, name)
            .and_then(|id| client.delete(kind, &id).map_err(Failure::from));
        if let Err(failure) = deleted {
            failed.push(format!("'{name}' stays: {}", failure.message));
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::failed(failed.join("\n"))) }
}

fn one(resource: &Value) {
    let mut table = table(["field", "value"]);
    for (key, value) in resource.as_object().into_iter().flatten() {
        table.add_row([key.clone(), cell(value)]);
    }
    block(table);
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, value)| format!("{key}={}", cell(value)));
            pairs.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// One of the nouns.
pub(crate) trait Noun {
    /// Carries out its verb.
    fn run(self, client: &Client) -> Result<(), Failure>;
}

pub(crate) fn run(connection: &Connection, noun: impl Noun) -> Result<(), Failure> {
    noun.run(&connection.client()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_added_at_the_end_and_once() {
        let before = json!(["a", "b"]);
        let added = || vec!["b".to_owned(), "c".to_owned()];
        assert_eq!(joined(&before, false, added()), ["a", "b", "c"]);
        assert_eq!(joined(&before, true, added()), ["b", "c"]);
        assert!(joined(&before, true, Vec::new()).is_empty());
    }

    #[test]
    fn parameters_are_read_alone_and_after_commas() {
        let read = |text: &str| pairs(&[text.to_owned()]);
        let expected = vec![("correlation".into(), "None".into()), ("weight".into(), "2".into())];
        assert_eq!(read("correlation=None,weight=2").unwrap(), expected);
        assert_eq!(read("weight").unwrap_err().exit, 2);
    }

    #[test]
    fn nested_values_read_as_words() {
        let value = json!({"correlation": "mpls", "symmetric": false, "fields": ["a", "b"]});
        assert_eq!(cell(&value), "correlation=mpls, symmetric=false, fields=a, b");
        assert_eq!(cell(&Value::Null), "");
    }
}

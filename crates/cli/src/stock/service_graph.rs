//! `catena service-graph`: chains that branch into others.

use super::{
    DeleteArguments, ListArguments, NewArguments, Noun, SetArguments, ShowArguments, delete, id_of,
    list, show,
};
use crate::failure::Failure;
use catena_client::{Client, Kind};
use clap::Subcommand;
use serde_json::{Map, Value, json};

const KIND: Kind = Kind::ServiceGraph;

#[derive(Subcommand)]
pub(crate) enum ServiceGraphCommand {
    /// Make a service graph.
    Create {
        #[command(flatten)]
        new: NewArguments,
        /// SOURCE:CHAIN,CHAIN…: the chains that a chain branches into; may be given again.
        #[arg(long = "branching-point", required = true, value_name = "SOURCE:CHAINS")]
        branching_points: Vec<String>,
    },
    /// All service graphs.
    List(ListArguments),
    /// One service graph.
    Show(ShowArguments),
    /// Change name or description.
    Set(SetArguments),
    /// Delete service graphs; their chains stay.
    Delete(DeleteArguments),
}

impl Noun for ServiceGraphCommand {
    fn run(self, client: &Client) -> Result<(), Failure> {
        match self {
            Self::Create { new, branching_points } => {
                let mut branches = Map::new();
                for point in &branching_points {
                    let (source, onward) = branching_point(point)?;
                    let source = id_of(client, Kind::PortChain, source)?;
                    let onward = onward.into_iter();
                    let onward: Result<Vec<String>, Failure> =
                        onward.map(|chain| id_of(client, Kind::PortChain, chain)).collect();
                    branches.insert(source, json!(onward?));
                }
                let mut attributes = new.attributes();
                attributes.insert("port_chains".into(), Value::Object(branches));
                new.create(client, KIND, attributes)
            }
            Self::List(arguments) => list(client, KIND, &["id", "name", "port_chains"], &arguments),
            Self::Show(arguments) => show(client, KIND, &arguments),
            Self::Set(arguments) => arguments.update(client, KIND, arguments.attributes()),
            Self::Delete(arguments) => delete(client, KIND, &arguments),
        }
    }
}

fn branching_point(text: &str) -> Result<(&str, Vec<&str>), Failure> {
    let (source, onward) = text.split_once(':').unwrap_or((text, ""));
    let onward: Vec<&str> = onward.split(',').filter(|chain| !chain.is_empty()).collect();
    if source.is_empty() || onward.is_empty() {
        let problem = format!("'{text}' is no branching point; write SOURCE:CHAIN,CHAIN");
        return Err(Failure::usage(problem));
    }
    Ok((source, onward))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branching_point_names_a_chain_and_those_it_goes_on_in() {
        assert_eq!(branching_point("a:b,c").unwrap(), ("a", vec!["b", "c"]));
        for wrong in ["a", "a:", ":b", ""] {
            assert_eq!(branching_point(wrong).unwrap_err().exit, 2, "{wrong}");
        }
    }
}

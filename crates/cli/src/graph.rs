//! `catena graph`: chains that go on in others, listed and drawn.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, block, say, table, tell};
use catena_client::Kind;
use catena_model::status::GraphReport;
use clap::Subcommand;
use std::collections::BTreeSet;

#[derive(Subcommand)]
pub(crate) enum GraphCommand {
    /// All graphs.
    List {
        /// How they are printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// One graph, drawn.
    Show {
        /// Name or id.
        name: String,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// Remove a graph; its chains stay.
    Delete {
        /// Name or id.
        name: String,
    },
}

pub(crate) fn run(connection: &Connection, command: GraphCommand) -> Result<(), Failure> {
    let client = connection.client()?;
    match command {
        GraphCommand::List { output } => {
            let graphs = client.graphs()?;
            tell(output, &graphs, |is_wide| list(&graphs, is_wide))
        }
        GraphCommand::Show { name, output } => {
            let graph = client.graph(&name)?;
            tell(output, &graph, |_| {
                for line in drawn(&graph) {
                    say!("{line}");
                }
            })
        }
        GraphCommand::Delete { name } => {
            let graph = client.graph(&name)?;
            client.delete(Kind::ServiceGraph, &graph.id.to_string())?;
            say!("graph '{}' is gone", graph.name);
            Ok(())
        }
    }
}

fn list(graphs: &[GraphReport], is_wide: bool) {
    let mut table = table(["graph", "begins with", "chains"]);
    for graph in graphs {
        let name = match is_wide {
            true => format!("{} ({})", graph.name, graph.id),
            false => graph.name.clone(),
        };
        table.add_row([name, beginnings(graph).join(" "), graph.chains.len().to_string()]);
    }
    block(table);
}

/// The chains that no other goes on in.
fn beginnings(graph: &GraphReport) -> Vec<&str> {
    let inner: BTreeSet<&String> = graph.branches.values().flatten().collect();
    graph.branches.keys().filter(|chain| !inner.contains(chain)).map(String::as_str).collect()
}

/// A graph as a tree of lines. A chain that several go on in is drawn under the first of them, and
/// named as a join under the others.
fn drawn(graph: &GraphReport) -> Vec<String> {
    let mut lines = vec![format!("graph {}", graph.name)];
    let mut seen = BTreeSet::new();
    for chain in beginnings(graph) {
        draw(graph, chain, ("", ""), &mut seen, &mut lines);
    }
    lines
}

/// `margin`: what stands before the chain, and before what it goes on in.
fn draw<'g>(
    graph: &'g GraphReport,
    chain: &'g str,
    margin: (&str, &str),
    seen: &mut BTreeSet<&'g str>,
    lines: &mut Vec<String>,
) {
    let state = graph.chains.iter().find(|known| known.name == chain);
    let state = state.map_or("unknown", |known| known.status.state.name());
    let onward = graph.branches.get(chain).map(Vec::as_slice).unwrap_or_default();
    if !seen.insert(chain) {
        lines.push(format!("{}{chain}   (joins, drawn above)", margin.0));
        return;
    }
    lines.push(format!("{}{chain}   {state}", margin.0));
    for (index, next) in onward.iter().enumerate() {
        let (own, below) = if index + 1 == onward.len() {
            ("└─► ", "    ")
        } else {
            ("├─► ", "│   ")
        };
        let (own, below) = (format!("{}{own}", margin.1), format!("{}{below}", margin.1));
        draw(graph, next, (&own, &below), seen, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::id::{ChainId, GraphId};
    use catena_model::status::{ChainState, ChainStatus, ChainSummary};
    use uuid::Uuid;

    #[test]
    fn branches_are_drawn_as_a_tree_and_a_join_is_named() {
        let chain = |name: &str| ChainSummary {
            name: name.into(),
            status: ChainStatus {
                chain: ChainId(Uuid::nil()),
                state: ChainState::Active,
                reason: String::new(),
                path: None,
            },
        };
        let onward = |chain: &str, next: &[&str]| {
            (chain.to_owned(), next.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>())
        };
        let graph = GraphReport {
            id: GraphId(Uuid::nil()),
            name: "g".into(),
            branches: [
                onward("web", &["slow", "fast"]),
                onward("slow", &["out"]),
                onward("fast", &["out", "log"]),
            ]
            .into(),
            chains: ["web", "slow", "fast", "out"].map(chain).into(),
        };
        let expected = [
            "graph g",
            "web   active",
            "├─► slow   active",
            "│   └─► out   active",
            "└─► fast   active",
            "    ├─► out   (joins, drawn above)",
            "    └─► log   unknown",
        ];
        assert_eq!(drawn(&graph), expected);
    }
}

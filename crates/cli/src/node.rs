//! `catena node`: the nodes as the controller sees them, and certificates for new ones.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, say, table, tell};
use catena_model::NodeName;
use catena_model::status::{NodeDetail, NodeReport, TableFill};
use clap::Subcommand;
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum NodeCommand {
    /// All nodes with program, ports and account.
    List {
        /// How they are printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// One node: its ports, and how full its tables are.
    Show {
        /// Name.
        name: NodeName,
        /// The tables alone.
        #[arg(long)]
        tables: bool,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// Make certificate and key for a node's agent (on the controller's host).
    Enroll {
        /// Name of the node.
        name: NodeName,
        /// The controller's data directory.
        #[arg(long)]
        data: PathBuf,
        /// Where ca.pem, node.pem and node.key are written.
        #[arg(long)]
        out: PathBuf,
    },
}

pub(crate) fn run(connection: &Connection, command: NodeCommand) -> Result<(), Failure> {
    match command {
        NodeCommand::List { output } => {
            let nodes = connection.client()?.nodes()?;
            tell(output, &nodes, |_| list(&nodes))?;
        }
        NodeCommand::Show { name, tables, output } => {
            let node = connection.client()?.node(name.as_str())?;
            if tables {
                tell(output, &node.tables, |_| show_tables(&node.tables))?;
            } else {
                tell(output, &node, |_| show(&node))?;
            }
        }
        NodeCommand::Enroll { name, data, out } => {
            catena_controller::enroll(&data, &name, &out)?;
            say!("certificate of {name} written to {}", out.display());
        }
    }
    Ok(())
}

fn show(node: &NodeDetail) {
    list(std::slice::from_ref(&node.report));
    for port in &node.report.status.unbound {
        say!("port {} has no interface: {}", port.port, port.reason);
    }
    show_tables(&node.tables);
}

fn show_tables(tables: &[TableFill]) {
    let mut shown = table(["table", "entries", "limit", "full"]);
    for fill in tables {
        let (limit, share) = match fill.limit {
            None | Some(0) => ("-".into(), "-".into()),
            Some(limit) => {
                let share = u128::from(fill.entries) * 100 / u128::from(limit);
                (limit.to_string(), format!("{share} %"))
            }
        };
        shown.add_row([fill.table.clone(), fill.entries.to_string(), limit, share]);
    }
    say!("{shown}");
}

fn list(nodes: &[NodeReport]) {
    let mut table = table([
        "node",
        "agent",
        "program",
        "ports",
        "received",
        "forwarded",
        "dropped",
        "unaccounted",
    ]);
    for NodeReport { status, counters } in nodes {
        let agent = if status.is_connected { "ok" } else { "away" };
        let program = if status.acknowledged == status.wanted {
            status.wanted.to_string()
        } else {
            format!("{} of {}", status.acknowledged, status.wanted)
        };
        let ports =
            format!("{} of {}", status.bound.len(), status.bound.len() + status.unbound.len());
        let mut row = vec![status.node.to_string(), agent.into(), program, ports];
        row.extend(match counters {
            None => ["-"; 4].map(String::from),
            Some(counters) => {
                let total = counters.total();
                [
                    total.received.packets.to_string(),
                    total.forwarded.packets.to_string(),
                    total.dropped_total().to_string(),
                    total.unaccounted().to_string(),
                ]
            }
        });
        table.add_row(row);
    }
    say!("{table}");
}

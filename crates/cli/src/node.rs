//! `catena node`: the nodes as the controller sees them, and certificates for new ones.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::say;
use catena_model::NodeName;
use catena_model::status::NodeReport;
use clap::Subcommand;
use comfy_table::{Table, presets};
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum NodeCommand {
    /// All nodes with program, ports and account.
    List,
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
        NodeCommand::List => list(&connection.client()?.nodes()?),
        NodeCommand::Enroll { name, data, out } => {
            catena_controller::enroll(&data, &name, &out)?;
            say!("certificate of {name} written to {}", out.display());
        }
    }
    Ok(())
}

fn list(nodes: &[NodeReport]) {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header([
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

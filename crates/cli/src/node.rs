//! `catena node`: the nodes as the controller sees them, and certificates for new ones.

use crate::connection::Connection;
use crate::document::Written;
use crate::failure::Failure;
use crate::kernel_path;
use crate::output::{Format, block, say, table, tell};
use crate::packing;
use crate::slice::{fields, place};
use catena_model::NodeName;
use catena_model::account::{NodeCounters, SliceCounters};
use catena_model::export::ExportCounters;
use catena_model::id::SliceId;
use catena_model::slice::{InjectedSlice, SliceDocument};
use catena_model::status::{NodeDetail, NodeStatus, TableFill};
use clap::{ArgGroup, Subcommand};
use serde::Serialize;
use std::path::{Path, PathBuf};
use uuid::Uuid;

/// Slices on a page unless something else is said.
const PAGE_SLICES: usize = 20;

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
        /// The tables alone, with the slices that its data plane has, page by page.
        #[arg(long)]
        tables: bool,
        /// Slices on a page.
        #[arg(long, requires = "tables", default_value_t = PAGE_SLICES)]
        limit: usize,
        /// Behind the slice of this id: the last of the page before.
        #[arg(long, requires = "tables", value_name = "ID")]
        after: Option<Uuid>,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// A node's classifier and its edge of source routes as rules for a switch of another maker (exit code 1: not all
    /// of it can be said, and what is not is named).
    Export {
        /// Name.
        name: NodeName,
        /// As rules of OpenFlow 1.3, for `ovs-ofctl -O OpenFlow13 add-flows BRIDGE -`.
        #[arg(long, required = true)]
        openflow13: bool,
        /// What a link or a port of the node is called at the switch, or its number there; as often as needed.
        #[arg(long = "port", value_name = "NAME=PORT", value_parser = named_port)]
        ports: Vec<(String, String)>,
    },
    /// Mark a switch as an edge of source routes, or put slices in at one node for a time.
    #[command(group = ArgGroup::new("change").required(true))]
    Set {
        /// Name.
        name: NodeName,
        /// The `slices` of a document, in place of those that were put in before: no plan knows them, and they end with
        /// the data plane of the node.
        #[arg(long, value_name = "FILE", group = "change")]
        inject: Option<PathBuf>,
        /// Take out all that were put in.
        #[arg(long, group = "change")]
        withdraw: bool,
        /// From now on headers of source routes may end at this switch, which writes the next ones.
        #[arg(long, group = "change")]
        edge: bool,
        /// From now on none do.
        #[arg(long, group = "change")]
        no_edge: bool,
    },
    /// Forget a node that is away for good: nobody waits for it any more, and its address on the
    /// data network is free. Refused while it is connected or a chain has a port there.
    Forget {
        /// Name.
        name: NodeName,
    },
    /// What a data plane has on its disk: the whole program and the changes since, each a line of JSON.
    Decode {
        /// The file `program.log` of its state directory.
        file: PathBuf,
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
            let rows = nodes.iter().map(|node| (&node.status, node.counters.as_ref()));
            tell(output, &nodes, |_| list(rows))?;
        }
        NodeCommand::Show { name, tables, limit, after, output } => {
            let client = connection.client()?;
            let node = client.node(name.as_str())?;
            if tables {
                let page = NodeTables {
                    injected: client.injected(name.as_str())?,
                    slices: client.slices_at(name.as_str(), limit, after.map(SliceId))?,
                    tables: node.tables,
                };
                tell(output, &page, |_| page.show(limit))?;
            } else {
                tell(output, &node, |_| show(&node))?;
            }
        }
        NodeCommand::Export { name, openflow13: _, ports } => {
            let rules = connection.client()?.openflow13(name.as_str())?;
            let text = rules.text(&ports.into_iter().collect())?;
            text.lines().for_each(|line| say!("{line}"));
            let count = rules.unsaid.len();
            if count > 0 {
                return Err(Failure::failed(format!(
                    "OpenFlow 1.3 cannot say {count} of the things that {name} does: see '# not said' among the rules"
                )));
            }
        }
        NodeCommand::Set { name, edge, no_edge, .. } if edge || no_edge => {
            let node = connection.client()?.set_edge(name.as_str(), edge)?;
            let what = match node.status.is_edge {
                true => "an edge: headers may end there, and it writes the next ones",
                false => "no edge: no header ends there",
            };
            say!("{name} is {what}");
        }
        NodeCommand::Set { name, inject, .. } => {
            let slices = inject.map(|file| slices_of(&file)).transpose()?.unwrap_or_default();
            let injected = connection.client()?.inject(name.as_str(), &slices)?;
            say!("{} slices are put in at {name} by hand", injected.len());
        }
        NodeCommand::Forget { name } => {
            connection.client()?.forget_node(name.as_str())?;
            say!(
                "{name} is forgotten; an agent with its certificate would make it known again: \
                 remove node.key there"
            );
        }
        NodeCommand::Decode { file } => decode(&file)?,
        NodeCommand::Enroll { name, data, out } => {
            catena_controller::enroll(&data, &name, &out)?;
            say!("certificate of {name} written to {}", out.display());
        }
    }
    Ok(())
}

/// The last `=` divides: names may have some.
fn named_port(words: &str) -> Result<(String, String), String> {
    let parts = words.rsplit_once('=').filter(|(name, port)| !name.is_empty() && !port.is_empty());
    let (name, port) = parts.ok_or("write NAME=PORT")?;
    Ok((name.to_owned(), port.to_owned()))
}

/// No controller and no data plane is asked.
fn decode(file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    let bytes = std::fs::read(file)
        .map_err(|error| Failure::failed(format!("{shown} cannot be read: {error}")))?;
    let logged = catena_dataplane::shell::decode(&bytes)
        .map_err(|error| Failure::failed(format!("{shown} cannot be decoded: {error}")))?;
    logged.iter().try_for_each(|change| tell(Format::Jsonl, change, |_| ()))
}

/// What the tables of a node hold.
#[derive(Serialize)]
struct NodeTables {
    tables: Vec<TableFill>,
    /// Put in by hand.
    injected: Vec<InjectedSlice>,
    /// A page.
    slices: Vec<SliceCounters>,
}

impl NodeTables {
    fn show(&self, limit: usize) {
        show_tables(&self.tables);
        if !self.injected.is_empty() {
            let mut shown =
                table(["injected by hand", "from", "chain", "network", "teids", "qfi", "path"]);
            for InjectedSlice { slice, path } in &self.injected {
                let [network, teids, qfi] = fields(slice);
                let (name, chain) = (slice.name.clone(), slice.chain.clone());
                shown.add_row([name, place(slice), chain, network, teids, qfi, path.to_string()]);
            }
            block(shown);
        }
        if self.slices.is_empty() {
            return;
        }
        let mut shown = table(["slice", "id", "path", "entered", "finished", "dropped"]);
        for slice in &self.slices {
            let drops: u64 = slice.dropped.values().sum();
            shown.add_row([
                slice.name.clone(),
                slice.slice.to_string(),
                slice.path.to_string(),
                slice.entered.packets.to_string(),
                slice.finished.packets.to_string(),
                drops.to_string(),
            ]);
        }
        block(shown);
        if let Some(last) = self.slices.last().filter(|_| self.slices.len() >= limit) {
            say!("more: --after {}", last.slice);
        }
    }
}

fn slices_of(file: &Path) -> Result<Vec<SliceDocument>, Failure> {
    let slices = Written::read(file)?.document.slices;
    if slices.is_empty() {
        return Err(Failure::failed(format!("{} has no 'slices'", file.display())));
    }
    Ok(slices)
}

fn show(node: &NodeDetail) {
    list([(&node.status, node.counters.as_ref())]);
    packing::capacity(&node.status).iter().for_each(|line| say!("{line}"));
    if let Some(place) = segments_line(node) {
        say!("{place}");
    }
    for port in &node.status.unbound {
        say!("port {} is DOWN: {}", port.words(), port.reason);
    }
    if let Some(counters) = &node.counters {
        let kernel = counters.dataplane.kernel.as_deref();
        for line in kernel_path::in_full(&counters.node, kernel) {
            say!("{line}");
        }
        counters.exports.iter().map(export_line).for_each(|line| say!("{line}"));
    }
    show_tables(&node.tables);
}

/// Where the node is in the IPv6 underlay, and its number in telemetry; none: it has no place there.
fn segments_line(node: &NodeDetail) -> Option<String> {
    let place = node.segments?;
    let device = node.device.map_or_else(|| "none".to_owned(), |device| device.to_string());
    Some(format!(
        "segments at {} below {}   number in telemetry {device}",
        place.address, place.locator
    ))
}

/// What a collector was told.
fn export_line(counters: &ExportCounters) -> String {
    let ExportCounters { format, collector, packets, unreadable, sent, unsent, trouble } = counters;
    let mut line =
        format!("{} to {collector}: told of {packets} packets in {sent} datagrams", format.name());
    if *unsent > 0 {
        line += &format!("; {unsent} datagrams were not sent, the last as {trouble}");
    }
    if *unreadable > 0 {
        line += &format!("; {unreadable} packets had no header that can be read");
    }
    line
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
    block(shown);
}

fn list<'n>(nodes: impl IntoIterator<Item = (&'n NodeStatus, Option<&'n NodeCounters>)>) {
    let mut table = table([
        "node",
        "role",
        "agent",
        "program",
        "ports",
        "received",
        "forwarded",
        "dropped",
        "unaccounted",
    ]);
    for (status, counters) in nodes {
        let agent = if status.is_connected { "ok" } else { "away" };
        let program = if status.acknowledged == status.wanted {
            status.wanted.to_string()
        } else {
            format!("{} of {}", status.acknowledged, status.wanted)
        };
        let ports =
            format!("{} of {}", status.bound.len(), status.bound.len() + status.unbound.len());
        let role = if status.is_edge { "switch, edge" } else { status.role.word() };
        let mut row = vec![status.node.to_string(), role.into(), agent.into(), program, ports];
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
    block(table);
}

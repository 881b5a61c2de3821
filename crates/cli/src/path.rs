//! `catena path`: the paths that nodes know.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, block, say, table, tell};
use crate::path_compare::{self, CompareArguments};
use catena_model::NodeName;
use catena_model::status::{PathHeader, PathHop, PathReport, PathRoute};
use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum PathCommand {
    /// All paths with their chains.
    List {
        /// Only those of the chain of this name or id.
        #[arg(long)]
        chain: Option<String>,
        /// How they are printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// What a chain costs under each encapsulation: bytes, headers, entries, as the planner says; and what it carries,
    /// measured.
    Compare(CompareArguments),
    /// One path with its hops.
    Show {
        /// Its identifier, as `catena path list` tells it.
        path: String,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
}

pub(crate) fn run(connection: &Connection, command: PathCommand) -> Result<(), Failure> {
    match command {
        PathCommand::Compare(arguments) => path_compare::run(connection, &arguments),
        PathCommand::List { chain, output } => {
            let mut paths = connection.client()?.paths()?;
            paths.retain(|path| {
                let is_it = |name: &String| {
                    path.chain_name == *name || path.chain.to_string().starts_with(name.as_str())
                };
                chain.as_ref().is_none_or(is_it)
            });
            tell(output, &paths, |is_wide| list(&paths, is_wide))
        }
        PathCommand::Show { path, output } => {
            let path = connection.client()?.path(&path)?;
            tell(output, &path, |_| show(&path))
        }
    }
}

fn list(paths: &[PathReport], is_wide: bool) {
    let mut table = table(["path", "chain", "direction", "carried by", "phase", "hops"]);
    for path in paths {
        let chain = match is_wide {
            true => format!("{} ({})", path.chain_name, path.chain),
            false => path.chain_name.clone(),
        };
        let hops: Vec<&str> = path.hops.iter().map(|hop| hop.function.as_str()).collect();
        table.add_row([
            path.path.to_string(),
            chain,
            path.direction.clone(),
            path.encapsulation.name().into(),
            path.phase.clone(),
            hops.join(" ─► "),
        ]);
    }
    block(table);
}

fn show(path: &PathReport) {
    say!(
        "path {}   chain {}, {}   {}   {} since blueprint {}",
        path.path,
        path.chain_name,
        path.direction,
        path.encapsulation.title(),
        path.phase,
        path.since
    );
    let mut table = table(["hop", "function", "instance", "node", "weight"]);
    for PathHop { hop, function, is_tap, instances, .. } in &path.hops {
        let function = if *is_tap { format!("{function} (tap)") } else { function.clone() };
        for instance in instances {
            table.add_row([
                (hop + 1).to_string(),
                function.clone(),
                instance.name.clone(),
                instance.node.as_ref().map_or("-", NodeName::as_str).to_owned(),
                instance.weight.to_string(),
            ]);
        }
    }
    block(table);
    routes(&path.routes);
    headers(&path.headers);
}

/// The headers that are made of those ways.
fn headers(headers: &[PathHeader]) {
    if headers.is_empty() {
        return;
    }
    let mut table = table(["header of", "leads to", "ports", "bytes"]);
    for header in headers {
        table.add_row([
            header.from.to_string(),
            match &header.edge {
                Some(edge) => format!("edge {edge}"),
                None => header.instances.join(" ─► "),
            },
            header.ports.to_string(),
            header.added_bytes.to_string(),
        ]);
    }
    block(table);
}

/// The ways of its packets.
fn routes(routes: &[PathRoute]) {
    if routes.is_empty() {
        return;
    }
    let mut table = table(["from", "to", "ports", "way"]);
    for route in routes {
        let to = match route.instance == route.function {
            true => format!("'{}'", route.function),
            false => format!("'{}' of '{}'", route.instance, route.function),
        };
        let numbers: Vec<String> = route.ports.iter().map(|end| end.port.to_string()).collect();
        let way: Vec<String> = route.ports.iter().map(ToString::to_string).collect();
        let (numbers, way) = match route.ports.is_empty() {
            true => ("-".into(), "none: packets end as no_route".into()),
            false => (numbers.join(" "), way.join(" ─► ")),
        };
        table.add_row([route.from.to_string(), to, numbers, way]);
    }
    block(table);
}

//! `catena chain`: deploy and undeploy a chain document, move a chain to another encapsulation, set-up or telemetry,
//! list chains, show one with its counters.

use crate::chain_delays;
use crate::chain_show;
use crate::connection::Connection;
use crate::document::Written;
use crate::failure::Failure;
use crate::output::{Format, block, say, table, tell};
use crate::prediction;
use crate::receipt;
use crate::watch::{self, WatchForm};
use catena_client::deploy::{Applied, ChainDocument, DeployError, Deployed, Deployment, Document};
use catena_client::{ChainChange, Client, Draft};
use catena_model::check::CheckReport;
use catena_model::preview::{self, ApplyRequest, Draining};
use catena_model::resource::{Encapsulation, Payload};
use catena_model::setup::Setup;
use catena_model::status::{ChainReport, ChainState, ChainSummary};
use catena_model::telemetry::Telemetry;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

#[derive(Subcommand)]
pub(crate) enum ChainCommand {
    /// Create a chain from a document of one, or bring the chain of that name to it, without loss.
    Deploy {
        /// The document (docs/book/src/start/tutorial.md shows one).
        file: PathBuf,
        /// Deploy, measure and remove it this many times; the last stays.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
        repeat: u32,
        /// How the step times are printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// Move a chain to another encapsulation, set-up or telemetry, under its traffic.
    #[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
    Update {
        /// Name or id.
        name: String,
        /// What carries it from now on.
        #[arg(long, group = "change", value_parser = encapsulations())]
        encapsulation: Option<Encapsulation>,
        /// What is inside from now on, where packets go over segments: `ip` or `ethernet`.
        #[arg(long, group = "change", value_parser = payload)]
        payload: Option<Payload>,
        /// When the controller is asked for its flows from now on: never, or with the first packet of each; then
        /// what nobody answers for is dropped, or ordinary traffic.
        #[arg(long, group = "change", value_parser = setups())]
        setup: Option<Setup>,
        /// What nodes write of its packets from now on, as in documents (`{}` is all there is), or `none`.
        #[arg(long, group = "change", value_parser = telemetry)]
        telemetry: Option<Wish>,
        /// Segments of others that its packets visit from now on, by the function that they lead to, as in documents
        /// (`{dpi: ["fc00:0:99::e"]}`), or `none`.
        #[arg(long, group = "change", value_parser = via)]
        via: Option<Via>,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// Remove what `deploy` made of a document.
    #[command(visible_alias = "delete")]
    Undeploy {
        /// The document, or the chain's name.
        file: PathBuf,
    },
    /// All chains with their state.
    List {
        /// How they are printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// What becomes of a chain, a line for each change, until you have enough.
    Watch {
        /// Name.
        name: String,
        #[command(flatten)]
        form: WatchForm,
    },
    /// One chain as a document that `catena apply` takes.
    Export {
        /// Name or id.
        name: String,
    },
    /// Send probes along a chain: order, bypass, packet size; exit code 4 when something is wrong.
    Check {
        /// Name or id.
        name: String,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// How long a chain takes, hop by hop and whole, as its packets and the engines of nodes tell it, with the source
    /// of each figure.
    Delays {
        /// Name or id.
        name: String,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
    /// One chain with the counters of each hop; where its functions were timed, with the rate, load and delay that
    /// are expected of it beside what is measured (counters are read twice then, half a second apart), or those at a
    /// rate.
    Show {
        /// Name or id.
        name: String,
        /// Which of its functions are asked side by side, and for each pair why or why not; on each host how they are
        /// asked, and what each way to ask them costs.
        #[arg(long)]
        why: bool,
        /// Packets a second, both ways together, for which delay and load are predicted; without it, as many as come
        /// now.
        #[arg(long, value_name = "PPS", value_parser = prediction::rate)]
        rate: Option<f64>,
        /// How it is printed.
        #[arg(short, long, value_enum, default_value = "table")]
        output: Format,
    },
}

pub(crate) fn run(connection: &Connection, command: ChainCommand) -> Result<(), Failure> {
    let client = connection.client()?;
    match command {
        ChainCommand::Deploy { file, repeat, output } => deploy(&client, &file, repeat, output),
        ChainCommand::Update { name, encapsulation, payload, setup, telemetry, via, output } => {
            let telemetry = telemetry.map(|Wish(telemetry)| telemetry);
            let via = via.map(|Via(via)| via);
            let change = ChainChange { encapsulation, payload, setup, telemetry, via };
            say_changed(&client.change_chain(&name, &change)?, output)
        }
        ChainCommand::Undeploy { file } => undeploy(&client, &file),
        ChainCommand::List { output } => {
            let chains = client.chains()?;
            tell(output, &chains, |is_wide| list(&chains, is_wide))
        }
        ChainCommand::Watch { name, form } => watch::tell_events(&client, Some(&name), None, form),
        ChainCommand::Export { name } => {
            let chain = Deployment::describe_chain(&client, &name)?;
            tell(Format::Yaml, &chain, |_| {})
        }
        ChainCommand::Check { name, output } => check(&client.check_chain(&name)?, output),
        ChainCommand::Delays { name, output } => chain_delays::show(&client, &name, output),
        ChainCommand::Show { name, why, rate, output } => {
            let asked = chain_show::Asked { is_why: why, rate };
            chain_show::show(&client, &client.chain(&name)?, asked, output)
        }
    }
}

/// The names of encapsulations, and what they stand for.
fn encapsulations() -> impl TypedValueParser<Value = Encapsulation> {
    let names = PossibleValuesParser::new(Encapsulation::ALL.map(Encapsulation::name));
    names.try_map(|name| Encapsulation::of_name(&name).ok_or("there is no such encapsulation"))
}

fn payload(text: &str) -> Result<Payload, String> {
    let read = serde_json::from_value(serde_json::Value::from(text));
    read.map_err(|_| "use 'ip' or 'ethernet'".into())
}

/// The names of set-ups, and what they stand for.
fn setups() -> impl TypedValueParser<Value = Setup> {
    let names = PossibleValuesParser::new(Setup::ALL.map(Setup::name));
    names.try_map(|name| Setup::named(&name).ok_or("there is no such set-up"))
}

/// What packets of a chain are to take along; none: nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wish(Option<Telemetry>);

fn telemetry(text: &str) -> Result<Wish, String> {
    match text {
        "none" => Ok(Wish(None)),
        _ => {
            let read = serde_norway::from_str(text).map_err(|error| error.to_string());
            read.map(|telemetry| Wish(Some(telemetry)))
        }
    }
}

/// The segments that packets of a chain are to visit, by function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Via(BTreeMap<String, Vec<Ipv6Addr>>);

fn via(text: &str) -> Result<Via, String> {
    match text {
        "none" => Ok(Via(BTreeMap::new())),
        _ => {
            // A map of its own would take the last of two entries of one function.
            let value = serde_norway::from_str::<serde_norway::Value>(text);
            let read = value.and_then(serde_norway::from_value);
            read.map(Via).map_err(|error| error.to_string())
        }
    }
}

/// Reads a document of one chain.
fn read(file: &Path) -> Result<(Written, ChainDocument), Failure> {
    let name = file.display();
    let written = Written::read(file)?;
    let [chain] = written.document.chains.as_slice() else {
        return Err(Failure::failed(format!(
            "{name} has {} chains; `catena apply -f {name}` takes any number of them",
            written.document.chains.len()
        )));
    };
    let chain = chain.clone();
    Ok((written, chain))
}

fn deploy(client: &Client, file: &Path, repeat: u32, output: Format) -> Result<(), Failure> {
    let (written, document) = read(file)?;
    let applied = Deployment::apply(client, &document).map_err(|source| {
        let (key, owner) = ("chains[0]".into(), format!("chain '{}'", document.name()));
        written.failure(DeployError::OfDocument { key, owner, source: Box::new(source) })
    })?;
    let (name, runs) = match applied {
        Applied::Updated(updated) => return say_changed(&client.chain(&updated.chain)?, output),
        Applied::Created(first) => (document.name(), repeated(client, &document, first, repeat)?),
    };
    tell(output, &runs, |_| print_timings(&runs))?;
    match runs.last() {
        Some(last) => active(&name, &last.status, &last.status_reason),
        None => Ok(()),
    }
}

/// Deploys again and again what has been deployed once; the last stays.
fn repeated(
    client: &Client,
    document: &ChainDocument,
    first: Deployed,
    repeat: u32,
) -> Result<Vec<Deployed>, Failure> {
    let mut runs = vec![first];
    while let Some(former) = runs.last().filter(|_| runs.len() < repeat as usize) {
        Deployment::undeploy(client, &former.chain)?;
        runs.push(Deployment::deploy(client, document)?);
    }
    Ok(runs)
}

/// A chain that was there ends its change with the receipt.
fn say_changed(report: &ChainReport, output: Format) -> Result<(), Failure> {
    let ChainReport { name, status, .. } = report;
    tell(output, report, |_| {
        say!("chain {name}   {}{}", status.state.name(), carried(report));
        if let Some(receipt) = &report.receipt {
            say!("{}", receipt::line(receipt));
        }
    })?;
    active(name, status.state.name(), &status.reason)
}

/// The path in force, and what carries it: after a change that waits it is not what was declared.
fn carried(report: &ChainReport) -> String {
    let declared = report.encapsulation;
    let Some(path) = report.status.path else { return format!(" over {}", declared.name()) };
    let in_force = report.paths.iter().find(|one| one.path == path);
    let by = in_force.map_or(declared, |path| path.encapsulation);
    let beside = match by == declared {
        true => String::new(),
        false => format!("; {} is declared, and waits", declared.name()),
    };
    format!(", path {path} over {}{beside}", by.name())
}

fn active(name: &str, status: &str, reason: &str) -> Result<(), Failure> {
    if status == ChainState::Active.name() {
        return Ok(());
    }
    Err(Failure::failed(format!("chain '{name}' is declared but {status}: {reason}")))
}

fn print_timings(runs: &[Deployed]) {
    const MS: f64 = 1_000.0;
    let header = ["chain", "status", "FC ms", "PP ms", "PPG ms", "PC ms", "total ms"];
    let mut table = table(header);
    for run in runs {
        let t = &run.timings;
        let mut row = vec![run.name.clone(), run.status.clone()];
        row.extend([t.fc, t.pp, t.ppg, t.pc, t.total()].map(|s| format!("{:.2}", s * MS)));
        table.add_row(row);
    }
    block(table);
}

fn undeploy(client: &Client, file: &Path) -> Result<(), Failure> {
    let (name, draft) = if file.is_file() {
        let chain = read(file)?.1;
        let name = chain.name();
        let document = Document { chains: vec![chain], ..Document::default() };
        (name, Deployment::draft_without(client, &document)?)
    } else {
        let (name, draft) = (file.display().to_string(), Draft::open(client)?);
        Deployment::undeploy(draft.client(), &name)?;
        (name, draft)
    };
    let applied = draft.apply(ApplyRequest { wait: true, ..ApplyRequest::default() })?;
    match unwithdrawn(&name, &applied) {
        None => say!("chain '{name}' is gone"),
        Some(what) => return Err(Failure::failed(what)),
    }
    Ok(())
}

/// What nodes still have of a chain that was removed, when the controller waits no longer.
fn unwithdrawn(name: &str, applied: &preview::Applied) -> Option<String> {
    let Draining { path, reason, .. } = applied.draining.first()?;
    Some(format!(
        "chain '{name}' is removed, but nodes still have its path {path}: {reason}. It goes by \
         itself when that is over"
    ))
}

fn list(chains: &[ChainSummary], is_wide: bool) {
    let mut table = match is_wide {
        true => table(["chain", "id", "state", "path", "reason"]),
        false => table(["chain", "state", "path", "reason"]),
    };
    for chain in chains {
        let status = &chain.status;
        let path = status.path.map_or("-".into(), |path| path.to_string());
        let mut row = vec![chain.name.clone()];
        row.extend(is_wide.then(|| status.chain.to_string()));
        row.extend([status.state.name().into(), path, status.reason.clone()]);
        table.add_row(row);
    }
    block(table);
}

fn check(report: &CheckReport, output: Format) -> Result<(), Failure> {
    tell(output, report, |_| {
        for finding in &report.findings {
            let mark = if finding.is_ok { '✓' } else { '✗' };
            let fix = finding.fix.as_ref().map(|fix| format!("   fix: {fix}"));
            say!("{mark} {}{}", finding.text, fix.unwrap_or_default());
        }
    })?;
    if report.is_ok() { Ok(()) } else { Err(Failure::check()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn telemetry_is_said_as_in_documents() {
        assert_eq!(telemetry("none"), Ok(Wish(None)));
        assert_eq!(telemetry("{}"), Ok(Wish(Some(Telemetry::default()))));
        let Ok(Wish(Some(told))) = telemetry("{fields: [latency], mirror: 1, colour: 7}") else {
            panic!("it is telemetry");
        };
        assert_eq!(told.to_string(), "latency   1 in 1 mirrored   colour 7");
        for (bad, word) in [("all", "Telemetry"), ("{mirror: 0}", "1 is each")] {
            let refused = telemetry(bad).unwrap_err();
            assert!(refused.contains(word), "{refused}");
        }
    }
    #[test]
    fn segments_are_said_once_for_each_function() {
        assert_eq!(via("none"), Ok(Via(BTreeMap::new())));
        let dpi = vec!["fc00:0:99::e".parse().expect("it is an address")];
        let told = Via(BTreeMap::from([("dpi".to_owned(), dpi)]));
        assert_eq!(via("{dpi: [\"fc00:0:99::e\"]}"), Ok(told));
        for (bad, word) in [
            (
                "{dpi: [\"fc00:0:99::e\"], dpi: [\"fc00:0:98::e\"]}",
                "duplicate entry with key \"dpi\"",
            ),
            ("dpi", "map"),
            ("{dpi: [x]}", "IPv6"),
        ] {
            let refused = via(bad).unwrap_err();
            assert!(refused.contains(word), "{refused}");
        }
    }
}

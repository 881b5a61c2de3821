//! `catena lab`: bring topology files up, run their experiments, look into nodes, take them down.

use crate::failure::Failure;
use crate::output::{block, say};
use crate::roles::{FormArgument, PortIoChoice, check_workers, collector};
use catena_lab::{RunOptions, RunReport, RunningLab, StartOptions};
use clap::{Args, Subcommand};
use std::num::NonZeroUsize;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use tokio::signal::unix::{SignalKind, signal};

/// What shells add to the number of a signal that ended a program.
const SIGNALLED: i32 = 128;

#[derive(Subcommand)]
pub(crate) enum LabCommand {
    /// Bring a lab up and keep it until Ctrl-C.
    Up {
        /// The topology file.
        file: PathBuf,
        /// Return when it stands; `catena lab down` ends it.
        #[arg(long)]
        detach: bool,
        #[command(flatten)]
        planes: PlaneArguments,
    },
    /// Bring labs up one after the other, run their experiments, take them down.
    Run {
        /// The lab files.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The long forms.
        #[arg(long)]
        full: bool,
        #[command(flatten)]
        planes: PlaneArguments,
        /// By the kernel path and by the engine alone, each into a folder of its own.
        #[arg(long, conflicts_with = "no_fastpath")]
        both: bool,
        /// Where figures and numbers go.
        #[arg(long, default_value = "results")]
        results: PathBuf,
        /// One file with the main numbers of all of them.
        #[arg(long)]
        summary: Option<PathBuf>,
    },
    /// The labs that run here, or one of them in detail.
    Status {
        /// Name of the lab.
        lab: Option<String>,
    },
    /// End a lab; nothing of it stays.
    Down {
        /// Name of the lab; may be left out when one runs.
        lab: Option<String>,
    },
    /// A shell, or a command, inside a node.
    Shell {
        /// NODE, or LAB/NODE when several labs run.
        node: String,
        /// Command and arguments; none: your shell.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// First process of a lab's namespaces (started by `up`).
    #[command(hide = true)]
    Init {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Supervisor of a lab (started by `init`).
    #[command(hide = true)]
    Supervise {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
}

/// How the data planes of a lab run.
#[derive(Args)]
pub(crate) struct PlaneArguments {
    /// Decide every packet in the data planes: the kernel repeats nothing.
    #[arg(long)]
    no_fastpath: bool,
    /// How data planes take frames from ports; a lab's cables are veths, hence no TAP.
    #[arg(long, value_enum, requires = "no_fastpath")]
    port_io: Option<PortIoChoice>,
    /// Threads of each data plane that share its packets, by flow.
    #[arg(long, requires = "no_fastpath")]
    workers: Option<NonZeroUsize>,
    /// Threads of each data plane that ask functions of a hop side by side, where that is faster.
    #[arg(long)]
    function_threads: Option<usize>,
    /// The form in which they ask, whatever it costs.
    #[arg(long, value_enum, requires = "function_threads")]
    function_form: Option<FormArgument>,
    /// Whom agents tell by IPFIX what packets with telemetry say, as the hosts of the lab reach it.
    #[arg(long, value_name = "HOST:PORT", value_parser = collector)]
    ipfix_collector: Option<String>,
    /// The same by telemetry reports.
    #[arg(long, value_name = "HOST:PORT", value_parser = collector)]
    int_collector: Option<String>,
}

impl PlaneArguments {
    fn options(self) -> Result<StartOptions, Failure> {
        self.workers.map(check_workers).transpose()?;
        Ok(StartOptions {
            without_fast_path: self.no_fastpath,
            port_io: self.port_io.and_then(PortIoChoice::word),
            workers: self.workers,
            function_threads: self.function_threads,
            function_form: self.function_form.map(|form| form.word().to_owned()),
            ipfix_collector: self.ipfix_collector,
            int_collector: self.int_collector,
            ..StartOptions::foreground()?
        })
    }
}

pub(crate) fn run(command: LabCommand) -> Result<(), Failure> {
    match command {
        LabCommand::Up { file, detach, planes } => {
            up(&file, &StartOptions { is_detached: detach, ..planes.options()? })
        }
        LabCommand::Run { files, full, planes, both, results, summary } => {
            let options = RunOptions { is_full: full, results, start: planes.options()? };
            if both {
                compare(&files, &options, summary.as_deref())
            } else {
                verdict(&experiments(&files, &options, summary.as_deref())?)
            }
        }
        LabCommand::Status { lab } => status(lab.as_deref()),
        LabCommand::Down { lab } => {
            let lab = catena_lab::find(lab.as_deref())?;
            catena_lab::down(&lab)?;
            say!("lab {lab} is gone");
            Ok(())
        }
        LabCommand::Shell { node, command } => shell(&node, &command),
        LabCommand::Init { words } => exit(catena_lab::init_main(&words)?),
        LabCommand::Supervise { words } => Ok(catena_lab::supervise_main(&words)?),
    }
}

/// Runs lab files one after the other. A failed check does not stop the rest.
fn experiments(
    files: &[PathBuf],
    options: &RunOptions,
    summary: Option<&Path>,
) -> Result<Vec<RunReport>, Failure> {
    let mut reports = Vec::new();
    for file in files {
        say!("── {}", file.display());
        reports.push(catena_lab::run(file, options, &mut tell)?);
        block(reports.last().map(RunReport::to_text).unwrap_or_default());
    }
    if let Some(summary) = summary {
        catena_lab::write_summary(&reports, summary)?;
        say!("numbers of all runs: {}", summary.display());
    }
    Ok(reports)
}

/// A check that failed is the outcome.
fn verdict(reports: &[RunReport]) -> Result<(), Failure> {
    let failed = reports.iter().filter(|report| !report.passed());
    let failed: Vec<String> = failed
        .map(|report| format!("{}: {}", report.name, report.failed_checks().join(", ")))
        .collect();
    if failed.is_empty() {
        return Ok(());
    }
    say!("✗ failed checks: {}", failed.join("; "));
    Err(Failure::check())
}

/// Runs lab files by the kernel path and by the engine alone, each into a folder of its own, and
/// says both beside each other.
fn compare(files: &[PathBuf], options: &RunOptions, summary: Option<&Path>) -> Result<(), Failure> {
    let by = |folder: &str, without_fast_path| {
        say!("══ by the {folder}");
        let start = StartOptions { without_fast_path, ..options.start.clone() };
        let results = options.results.join(folder);
        let summary = summary
            .map(|file| results.join(file.file_name().unwrap_or_else(|| "summary.json".as_ref())));
        let options = RunOptions { start, results, ..options.clone() };
        experiments(files, &options, summary.as_deref())
    };
    let kernel = by("kernel", false)?;
    let engine = by("engine", true)?;
    let summaries = [&kernel, &engine].map(|reports| catena_lab::summary(reports));
    let [by_kernel, by_engine] = &summaries;
    say!("══ both");
    block(catena_lab::beside(by_kernel, by_engine));
    // Both are said, whichever failed.
    verdict(&kernel).and(verdict(&engine))
}

/// One step of a lab and how long it took.
fn tell(step: &str, seconds: f64) {
    say!("✓ {step:<64} {seconds:>6.2} s");
}

fn up(file: &Path, options: &StartOptions) -> Result<(), Failure> {
    let lab = catena_lab::up(file, options, &mut tell)?;
    say!("API: http://{}", lab.api());
    let is_alone = catena_lab::list()?.len() < 2;
    say!("{}", next(&std::env::args().next().unwrap_or_default(), lab.lab(), is_alone));
    if options.is_detached {
        return Ok(());
    }
    wait(lab)
}

/// Waits until a lab ends, and ends it when told to stop; says so when it can be told.
fn wait(lab: RunningLab) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let name = lab.lab().name.clone();
    let end = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        say!("Ctrl-C ends everything");
        let mut ended = tokio::task::spawn_blocking(move || lab.wait());
        tokio::select! {
            ended = &mut ended => return Ok(ended??),
            _ = terminate.recv() => {}
        }
        tokio::task::spawn_blocking(move || catena_lab::down(&name)).await??;
        Ok(ended.await??)
    });
    // A lab that could not be ended politely dies with this process.
    runtime.shutdown_background();
    end
}

/// What to try in a lab that stands, with the program as it was called and nodes that are there. A node
/// of one of several labs is named with its lab.
fn next(program: &str, lab: &catena_lab::Lab, is_alone: bool) -> String {
    let mut parts = Vec::new();
    if let Some(node) = lab.endpoints.names().next() {
        let of_lab = if is_alone { String::new() } else { format!("{}/", lab.name) };
        parts.push(format!("{program} lab shell {of_lab}{node}"));
    }
    parts.push(format!("{program} status"));
    if let Some(chain) = lab.chains.iter().find(|chain| lab.why_not(chain).is_none()) {
        parts.push(format!("{program} chain show {}", chain.name));
    }
    parts.push(format!("{program} lab down {}", lab.name));
    format!("next: {}", parts.join(" · "))
}

fn status(lab: Option<&str>) -> Result<(), Failure> {
    let labs = match lab {
        Some(lab) => vec![catena_lab::find(Some(lab))?],
        None => catena_lab::list()?,
    };
    if labs.is_empty() {
        say!("no lab is running; `catena lab up FILE` starts one");
    }
    for lab in labs {
        let status = catena_lab::status(&lab)?;
        say!(
            "{lab}   {} for {:.0} s   API http://{}   {}",
            status.state,
            status.seconds,
            status.api,
            status.file
        );
        for node in &status.nodes {
            let host = node.host.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
            say!("  {:<12} {}{host}", node.name, node.role);
        }
        for process in &status.processes {
            say!("  {:<24} {}", process.name, process.state);
        }
    }
    Ok(())
}

fn shell(node: &str, command: &[String]) -> Result<(), Failure> {
    let (lab, node) = match node.split_once('/') {
        Some((lab, node)) => (Some(lab), node),
        None => (None, node),
    };
    let lab = catena_lab::find(lab)?;
    let status = catena_lab::shell(&lab, node, command)?;
    // As shells tell of a program that a signal ended.
    let signal = status.signal().map(|signal| SIGNALLED + signal);
    exit(status.code().or(signal).unwrap_or(1))
}

/// Passes the exit code of another program on.
fn exit(code: i32) -> Result<(), Failure> {
    match u8::try_from(code) {
        Ok(0) => Ok(()),
        Ok(exit) => Err(Failure { message: String::new(), exit }),
        Err(_) => Err(Failure { message: String::new(), exit: 1 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_lab::Lab;

    fn lab(file: &str) -> Lab {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs");
        Lab::read(&folder.join(file), false).expect("a lab file of ours")
    }

    #[test]
    fn what_to_try_next_names_what_the_lab_has_and_the_program_as_it_was_called() {
        let said = next("target/release/catena", &lab("5g-slices.yaml"), true);
        let wanted = "next: target/release/catena lab shell gnb · target/release/catena status · \
            target/release/catena chain show red · target/release/catena lab down 5g-slices";
        assert_eq!(said, wanted);
        let bare = next("catena", &lab("openstack-testbed.yaml"), true);
        assert!(bare.contains("lab shell S ·") && !bare.contains("chain show"), "{bare}");
        let beside = next("catena", &lab("openstack-testbed.yaml"), false);
        assert!(beside.contains("lab shell openstack-testbed/S ·"), "{beside}");
    }

    #[test]
    fn the_last_line_of_the_demo_says_how_to_call_catena_and_names_what_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let demo = std::fs::read_to_string(root.join("demo")).expect("the demo");
        let last = demo.lines().rfind(|line| line.contains("next: ")).expect("a last line");
        assert!(last.contains("export PATH=$PWD/target/release:"), "{last}");
        assert!(last.contains("catena lab up $next "), "{last}");
        // Of each paper another lab.
        let words = || demo.split([' ', ')', '"', '\n']);
        let labs: Vec<&str> = words().filter_map(|word| word.strip_prefix("next=")).collect();
        let papers =
            ["openstack-testbed", "5g-slices", "source-route", "nfp-latency", "srv6-int-load"];
        assert_eq!(labs, papers.map(|lab| format!("labs/{lab}.yaml")));
        let pages = last.split([' ', ')', '"']).filter(|word| word.starts_with("docs/"));
        for file in labs.into_iter().chain(pages) {
            assert!(root.join(file).is_file(), "{file}");
        }
    }

    #[test]
    fn every_lab_deploys_its_chains_alike_and_names_those_that_cannot_stand() {
        let tcp = lab("openstack-tcp.yaml");
        let why = |name: &str| tcp.why_not(tcp.chain(name).expect("a chain of it"));
        assert_eq!(why("C1"), None);
        assert!(why("C0").is_some_and(|why| why.contains("no function")));
        assert_eq!(why("C2"), Some("'C1' takes its traffic".to_owned()));
        for file in ["5g-slices.yaml", "openstack-deploy.yaml", "bench-chain-tcp.yaml"] {
            let lab = lab(file);
            assert!(lab.chains.iter().all(|chain| lab.why_not(chain).is_none()), "{file}");
        }
    }
}

//! The program of somebody's own function: the same by hand, between two interfaces, and by an agent, as the command of
//! a template. Knows its command line and what it says; refuses to know the function.

use crate::clock::Clock;
use crate::error::RunError;
use crate::place::Place;
use crate::process::{Outlet, Setting, Walls, run_to_end, secret_seed, silence_kernel};
use crate::run::News;
use catena_nf::Function;
use catena_nf::registry::Surroundings;
use clap::{Args, Command, FromArgMatches};
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What an agent tells those that it starts, each in a network namespace of its own.
const INSTANCE: &str = "CATENA_INSTANCE";
const LONG_ABOUT: &str = "A network function: what comes in at one interface goes through it and out at the other.\n\n\
    It needs CAP_NET_RAW, which it gives up once both interfaces are open, and no controller; from then on it reaches \
    no file and no port. What is no IP (ARP, LLDP) passes as it is. SIGINT and SIGTERM end it with its account, a line \
    of JSON; SIGUSR1 tells the account on the way. An agent runs it as the command of a template, and tells it its \
    interfaces.";

/// Its command line.
#[derive(Args)]
struct Options {
    /// What the function is made of; an empty text without it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    place: Place,
    /// The function's alerts are appended here, a line each; without it they are counted and go nowhere.
    #[arg(long, value_name = "FILE")]
    eve: Option<PathBuf>,
}

/// The whole `main` of a program: makes a function of the text that `--config` names, and runs it until a signal ends
/// it. `make` may still open files and start threads; the function that it makes may not, as it runs behind
/// [`Walls::Everything`].
pub fn main<F: Function, E: Display>(
    name: &'static str,
    make: impl FnOnce(&str, &Surroundings) -> Result<F, E>,
) -> ExitCode {
    let command = Options::augment_args(Command::new(name)).long_about(LONG_ABOUT);
    let options = match Options::from_arg_matches(&command.get_matches()) {
        Ok(options) => options,
        Err(error) => error.exit(),
    };
    match run(&options, make) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            say(&format!("{name}: {what}"));
            ExitCode::FAILURE
        }
    }
}

fn run<F: Function, E: Display>(
    options: &Options,
    make: impl FnOnce(&str, &Surroundings) -> Result<F, E>,
) -> Result<(), String> {
    let words = |error: RunError| error.to_string();
    options.place.check().map_err(words)?;
    let (text, file) = match &options.config {
        Some(file) => (read(file)?, file.display().to_string()),
        None => (String::new(), "no --config".to_owned()),
    };
    let clock = Clock::start();
    let seed = secret_seed().map_err(words)?;
    let surroundings = Surroundings { seed, epoch_seconds: clock.epoch_seconds() };
    let function = make(&text, &surroundings).map_err(|error| format!("{file}: {error}"))?;
    let outlet = options.eve.as_deref().map(appended).transpose()?;
    if std::env::var_os(INSTANCE).is_some() {
        silence_kernel().map_err(words)?;
    }
    let place = &options.place;
    let setting = Setting { place, walls: Walls::Everything, clock, outlet };
    run_to_end(Box::new(function), setting, |_, news| tell(&news, place)).map_err(words)
}

fn read(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file)
        .map_err(|error| format!("the configuration {} cannot be read: {error}", file.display()))
}

fn appended(file: &Path) -> Result<Outlet, String> {
    let opened = OpenOptions::new().create(true).append(true).open(file);
    let refused = |error| format!("alerts cannot be written to {}: {error}", file.display());
    Ok(Outlet::Lines(Box::new(opened.map_err(refused)?)))
}

/// Whoever does not read it any more is no reason to end.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "{what}");
}

fn tell(news: &News, place: &Place) {
    if let Some(words) = news.in_words(place) {
        say(&words);
    }
    if let News::Account(account) = news {
        match serde_json::to_string(account) {
            Ok(text) => {
                let _ = writeln!(std::io::stdout(), "{text}");
            }
            Err(error) => say(&format!("the account cannot be written: {error}")),
        }
    }
}

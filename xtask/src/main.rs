//! Developer commands: `cargo xtask tidy` keeps the house in order, `cargo xtask gen` writes the
//! files that are made from code, `cargo xtask bench` measures, `cargo xtask fuzz` fuzzes.
#![forbid(unsafe_code)]

mod arrows;
mod corpus;
mod fuzz;
mod generate;
mod names;
mod nightly;
mod rooms;
mod rules;
mod specification;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

#[derive(Parser)]
#[command(about = "Developer commands of Catena")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check arrows, unsafe, file heads, sizes, promises and generated files.
    Tidy,
    /// Write the files that are made from code.
    Gen,
    /// Run a benchmark of `bench/`: its name and its options.
    Bench {
        /// For example `openstack --quick`.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        words: Vec<String>,
    },
    /// Fuzz (a nightly toolchain with cargo-fuzz); without a name, tell what there is and was reached.
    Fuzz {
        /// For example `nsh`; `all` for one after the other.
        target: Option<String>,
        /// For how long each, in seconds.
        #[arg(long, default_value_t = 60)]
        time: u64,
    },
    /// Run what `io` does with memory under Miri (a nightly toolchain with it).
    Miri,
}

fn main() -> ExitCode {
    let root = root();
    let faults = match Arguments::parse().command {
        Command::Tidy => tidy(&root),
        Command::Gen => generate::write(&root),
        Command::Bench { words } => return bench(&root, &words),
        Command::Fuzz { target, time } => {
            return ended(fuzz::run(&root, target.as_deref(), time));
        }
        Command::Miri => return ended(nightly::miri(&root)),
    };
    for fault in &faults {
        eprintln!("tidy: {fault}");
    }
    println!("tidy: {} faults", faults.len());
    if faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn ended(result: Result<(), String>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Builds what is measured and runs the benchmark.
fn bench(root: &Path, words: &[String]) -> ExitCode {
    // By the whole workspace's features, as `./test` builds: of each crate alone, its libraries would be built anew.
    let both = ["--workspace", "--bin", "catena", "--bin", "catena-bench"];
    let mut build = process::Command::new(env!("CARGO"));
    let build = build.args(["build", "--release"]).args(both).current_dir(root).status();
    if !build.is_ok_and(|status| status.success()) {
        eprintln!("bench: what is measured cannot be built; see above");
        return ExitCode::FAILURE;
    }
    // Its place is beside this one.
    let built = std::env::current_exe().map(|own| own.with_file_name("catena-bench"));
    let run =
        built.and_then(|bench| process::Command::new(bench).args(words).current_dir(root).status());
    match run {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn tidy(root: &Path) -> Vec<String> {
    let mut faults = arrows::check(root);
    faults.extend(rooms::check(root));
    faults.extend(names::check(root));
    faults.extend(rules::check(root));
    faults.extend(specification::check(root));
    faults.extend(generate::check(root));
    faults
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.to_path_buf(), Path::to_path_buf)
}

/// All files below a folder with an ending, in a stable order.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() && !path.ends_with("target") {
                open.push(path);
            } else if path.extension().is_some_and(|found| found == ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A path as people write it: from the root of the repository.
fn short(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

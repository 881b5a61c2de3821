//! `cargo xtask fuzz TARGET --time SECONDS`: seeds from the goldens, then cargo-fuzz on the kept corpus.
//! Knows the two commands and the tally of executions; what a target does stands in `fuzz/targets`.

use crate::{corpus, nightly};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// What is missing where cargo-fuzz does not answer.
const NEEDS: &str = "fuzzing needs a nightly toolchain (`rustup toolchain install nightly`) and cargo-fuzz \
                     (`cargo install cargo-fuzz`); what is known is replayed on stable Rust by \
                     `cargo test --release -p catena-fuzz`";
/// Longest input, in bytes: a few datagrams.
const INPUT_BYTES_MAX: usize = 16_384;
/// What libFuzzer calls the number that the tally adds up.
const EXECUTED: &str = "stat::number_of_executed_units:";
/// Executions since the last release, by target.
const TALLY: &str = "fuzz/executions.json";
/// The word for every target, one after the other.
const EVERY: &str = "all";

/// Executions of one target since the last release, and the CPU seconds that they took.
#[derive(Default, Clone, Copy, serde::Serialize, serde::Deserialize)]
struct Reached {
    executions: u64,
    seconds: u64,
}

type Tally = BTreeMap<String, Reached>;

/// Fuzzes one target or all, for so many seconds each; without a name, tells the targets and what was
/// reached.
pub(crate) fn run(root: &Path, target: Option<&str>, seconds: u64) -> Result<(), String> {
    let known = names(root)?;
    let Some(target) = target else {
        print(&known, &read(root)?);
        return Ok(());
    };
    let asked: Vec<&String> =
        known.iter().filter(|name| target == EVERY || *name == target).collect();
    if asked.is_empty() {
        return Err(format!("no target is called '{target}'; there are: {}", known.join(", ")));
    }
    if !nightly::answers(&["fuzz", "--version"]) {
        return Err(NEEDS.into());
    }
    // A finding of one target is no reason to leave the others out.
    let mut found = Vec::new();
    for name in asked {
        match fuzz(root, name, seconds)? {
            Some(reached) => add(root, name, reached)?,
            None => found.push(name.as_str()),
        }
    }
    print(&known, &read(root)?);
    if found.is_empty() { Ok(()) } else { Err(format!("findings in: {}", found.join(", "))) }
}

/// The targets, as the crate that holds them names them.
fn names(root: &Path) -> Result<Vec<String>, String> {
    let mut ask = cargo(root, &["run", "--release", "-q", "-p", "catena-fuzz"]);
    let output = ask.stderr(Stdio::inherit()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err("catena-fuzz does not name its targets".into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect())
}

/// Fuzzes one target and keeps what it found new; what was reached, or none where it ended with a
/// finding.
fn fuzz(root: &Path, target: &str, seconds: u64) -> Result<Option<Reached>, String> {
    // Whole paths: cargo-fuzz may look from another folder.
    let within = |folder: &str| root.join(folder).join(target).display().to_string();
    let [seeds, corpus, merged] =
        ["target/fuzz-seeds", "target/fuzz-corpus", "target/fuzz-merged"].map(within);
    let artifacts = within("fuzz/libfuzzer/artifacts");
    // What was merged before is in the corpus.
    let _ = std::fs::remove_dir_all(&merged);
    for folder in [&merged, &artifacts] {
        std::fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
    }
    let (kept, corpus_path) = (corpus::file(root, target), Path::new(&corpus));
    let failed = |error| format!("the corpus of {target}: {error}");
    corpus::unpack(&kept, corpus_path).map_err(failed)?;
    let seeded =
        cargo(root, &["run", "--release", "-q", "-p", "catena-fuzz", "--", target, &seeds])
            .status()
            .is_ok_and(|status| status.success());
    if !seeded {
        return Err(format!("cannot write the seeds of {target} into {seeds}"));
    }
    let mut fuzz = libfuzzer(root, target, &[&corpus, &seeds]);
    fuzz.arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={artifacts}/"))
        .arg("-print_final_stats=1")
        .stderr(Stdio::piped());
    let mut child = fuzz.spawn().map_err(|error| error.to_string())?;
    let (mut executions, before) = (None, cpu_seconds_of_children());
    for line in child.stderr.take().into_iter().flat_map(|pipe| BufReader::new(pipe).lines()) {
        let line = line.map_err(|error| error.to_string())?;
        eprintln!("{line}");
        if let Some(number) = line.strip_prefix(EXECUTED) {
            executions = number.trim().parse().ok();
        }
    }
    let ended = child.wait().map_err(|error| error.to_string())?;
    let seconds = cpu_seconds_of_children().saturating_sub(before);
    if !ended.success() {
        return Ok(None);
    }
    let mut merge = libfuzzer(root, target, &[&merged, &corpus]);
    if merge.arg("-merge=1").status().is_ok_and(|status| status.success()) {
        corpus::pack(Path::new(&merged), &kept).map_err(failed)?;
    }
    let reached = executions.map(|executions| Some(Reached { executions, seconds }));
    reached.ok_or_else(|| format!("libFuzzer does not tell how often {target} ran"))
}

/// CPU time of all children that have ended (proc(5): `cutime` and `cstime`): on a busy machine a
/// second of the clock is none of the processor's.
fn cpu_seconds_of_children() -> u64 {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the command may hold blanks; what follows it does not.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks / TICKS_PER_SECOND
}

/// libFuzzer on these folders.
fn libfuzzer(root: &Path, target: &str, folders: &[&str]) -> Command {
    let mut fuzz = nightly::cargo(&["fuzz", "run", "--fuzz-dir", "fuzz/libfuzzer", "target"]);
    fuzz.args(folders)
        .arg("--")
        .arg(format!("-max_len={INPUT_BYTES_MAX}"))
        .env("CATENA_FUZZ_TARGET", target)
        .current_dir(root);
    fuzz
}

fn read(root: &Path) -> Result<Tally, String> {
    match std::fs::read_to_string(root.join(TALLY)) {
        Ok(text) => serde_json::from_str(&text).map_err(|error| format!("{TALLY}: {error}")),
        Err(_) => Ok(Tally::new()),
    }
}

fn add(root: &Path, target: &str, run: Reached) -> Result<(), String> {
    let mut tally = read(root)?;
    let reached = tally.entry(target.to_owned()).or_default();
    reached.executions += run.executions;
    reached.seconds += run.seconds;
    let text = serde_json::to_string_pretty(&tally).map_err(|error| error.to_string())?;
    std::fs::write(root.join(TALLY), text + "\n").map_err(|error| format!("{TALLY}: {error}"))
}

fn print(known: &[String], tally: &Tally) {
    println!("{:<18}{:>16}{:>10}", "target", "executions", "CPU s");
    for name in known {
        let reached = tally.get(name).copied().unwrap_or_default();
        println!("{name:<18}{:>16}{:>10}", reached.executions, reached.seconds);
    }
    let executions: u64 = tally.values().map(|reached| reached.executions).sum();
    let seconds: u64 = tally.values().map(|reached| reached.seconds).sum();
    println!("{:<18}{executions:>16}{seconds:>10}", "since the release");
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(root);
    command
}

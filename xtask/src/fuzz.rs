//! `cargo xtask fuzz TARGET --time SECONDS`: seeds from the goldens, then cargo-fuzz on the kept corpus.
//! Knows the two commands; what a target does stands in `fuzz/targets`.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// What is missing where cargo-fuzz does not answer.
const NEEDS: &str = "fuzzing needs a nightly toolchain (`rustup toolchain install nightly`) and cargo-fuzz \
                     (`cargo install cargo-fuzz`); what is known is replayed on stable Rust by \
                     `cargo test --release -p catena-fuzz`";
/// Longest input, in bytes: a few datagrams.
const INPUT_BYTES_MAX: usize = 16_384;

/// Fuzzes one target for so many seconds, or names all targets.
pub(crate) fn run(root: &Path, target: Option<&str>, seconds: u64) -> ExitCode {
    let Some(target) = target else {
        return ended(cargo(root, &["run", "--release", "-q", "-p", "catena-fuzz"]));
    };
    let mut asked = Command::new("cargo");
    let asked = asked.args(["+nightly", "fuzz", "--version"]).env_remove("RUSTUP_TOOLCHAIN");
    let answered = asked.stdout(Stdio::null()).stderr(Stdio::null()).status();
    if !answered.is_ok_and(|status| status.success()) {
        eprintln!("fuzz: {NEEDS}");
        return ExitCode::FAILURE;
    }
    // Whole paths: cargo-fuzz may look from another folder.
    let within = |folder: &str| root.join(folder).join(target).display().to_string();
    let (seeds, corpus) = (within("target/fuzz-seeds"), within("fuzz/corpus"));
    let kept = std::fs::create_dir_all(&corpus);
    let mut made =
        cargo(root, &["run", "--release", "-q", "-p", "catena-fuzz", "--", target, &seeds]);
    if kept.is_err() || !made.status().is_ok_and(|status| status.success()) {
        return ExitCode::FAILURE;
    }
    let mut fuzz = Command::new("cargo");
    fuzz.args(["+nightly", "fuzz", "run", "--fuzz-dir", "fuzz/libfuzzer", target])
        .args([&corpus, &seeds])
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-max_len={INPUT_BYTES_MAX}"))
        .arg("-print_final_stats=1")
        // The toolchain that runs this is not the one that fuzzes.
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO")
        .current_dir(root);
    ended(fuzz)
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).current_dir(root);
    command
}

fn ended(mut command: Command) -> ExitCode {
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

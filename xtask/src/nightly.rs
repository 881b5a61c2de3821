//! Commands of the nightly toolchain, and `cargo xtask miri`: what `io` does with memory, under an
//! interpreter that knows what no program may do (Miri).

use std::path::Path;
use std::process::{Command, Stdio};

const NEEDS_MIRI: &str =
    "Miri needs a nightly toolchain with it (`rustup +nightly component add miri rust-src`)";
/// The modules of `io` whose unsafe code touches our own memory alone. The others ask the kernel for
/// things that the interpreter does not know.
const PURE: &[&str] = &["buffer::", "local::", "offload::"];

/// cargo of the nightly toolchain, whichever toolchain runs this.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.arg("+nightly").args(arguments).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
}

/// Is this part of the nightly toolchain there?
pub(crate) fn answers(arguments: &[&str]) -> bool {
    let mut command = cargo(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Runs the tests of what `io` does with memory under Miri.
pub(crate) fn miri(root: &Path) -> Result<(), String> {
    if !answers(&["miri", "--version"]) {
        return Err(NEEDS_MIRI.into());
    }
    let mut test = cargo(&["miri", "test", "-p", "catena-io", "--lib", "--"]);
    // Sizes of pages are asked of the system.
    test.args(PURE).env("MIRIFLAGS", "-Zmiri-disable-isolation").current_dir(root);
    match test.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err("Miri found what no program may do, or could not run; see above".into()),
    }
}

//! Compiles the eBPF program with clang, the only compiler that can, into `$OUT_DIR/fastpath.o`.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    // Who only writes the C header must not need the program that includes it.
    if std::env::var_os("CARGO_FEATURE_PROGRAM").is_none() {
        return;
    }
    let folder = std::env::var("OUT_DIR").unwrap_or_default();
    let object = Path::new(&folder).join("fastpath.o");
    let mut clang = Command::new("clang");
    clang.args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Wextra", "-Werror"]);
    clang.args(["-c", "bpf/fastpath.c", "-o"]).arg(&object);
    match clang.status() {
        Ok(status) if status.success() => {}
        Ok(_) => fail("clang could not compile crates/fastpath/bpf/fastpath.c: see above"),
        Err(error) => fail(&format!(
            "clang compiles the kernel's fast path and cannot be run ({error}): install it \
             (Debian: `apt install clang`, or `scripts/install`)"
        )),
    }
}

fn fail(why: &str) {
    println!("cargo::error={why}");
    std::process::exit(1);
}

//! The rules of the house that a text search can check.

use crate::{files, short};
use std::path::Path;

const UNSAFE_CRATES: &[&str] = &["io", "kernel"];
/// Files that are doors to the machine in crates that are none.
const UNSAFE_FILES: &[(&str, &[&str])] = &[("fastpath", &["src/maps.rs"])];
const FILE_LINES_MAX: usize = 600;
const LINE_CHARACTERS_MAX: usize = 120;

/// Who may ask what time of day it is: whoever dates a certificate, a token or a line for people,
/// and labs, which compare their captures; agents, whose words to other nodes must be newer than those of
/// the agent before, and which date what they tell collectors;
/// and who runs functions, at the start alone, as flow records and alerts are read by date. All
/// else lives by the monotonic clock, so that no jump of the other costs anything.
const CLOCK_READERS: &[&str] = &[
    "crates/agent/src/discovery/boot.rs",
    "crates/agent/src/export/moment.rs",
    "crates/controller/src/wall_clock.rs",
    "crates/dataplane/src/shell/clock.rs",
    "crates/controller/src/southbound/pki.rs",
    "crates/controller/src/southbound/tls.rs",
    "crates/cli/src/watch.rs",
    "crates/lab/",
    "crates/runner/src/clock.rs",
];
const WALL_CLOCK: &str = concat!("System", "Time");

pub(crate) fn check(root: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    let mut sources = files(&root.join("crates"), "rs");
    sources.extend(files(&root.join("xtask"), "rs"));
    sources.extend(files(&root.join("bench"), "rs"));
    sources.extend(files(&root.join("fuzz"), "rs"));
    for path in &sources {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let name = short(root, path);
        if !text.starts_with("//!") {
            faults.push(format!("{name} does not say at its head what it knows"));
        }
        let lines = text.lines().count();
        if lines > FILE_LINES_MAX {
            faults.push(format!("{name} has {lines} lines, more than {FILE_LINES_MAX}"));
        }
        let reads_clock = name.contains("/src/") && text.contains(WALL_CLOCK);
        if reads_clock && !CLOCK_READERS.iter().any(|reader| name.starts_with(reader)) {
            faults.push(format!("{name} asks for the time of day, which may jump"));
        }
        if name.contains("/src/") && names_encapsulation(&name, &text) {
            faults.push(format!("{name} names an encapsulation; ask Encapsulation::capabilities"));
        }
        // A text is not broken for the sake of a margin.
        let long = |line: &&str| line.chars().count() > LINE_CHARACTERS_MAX && !line.contains('"');
        if let Some(line) = text.lines().find(long) {
            faults.push(format!("{name} has a line over {LINE_CHARACTERS_MAX}: {line:.40}"));
        }
    }
    faults.extend(crate_roots(root));
    faults
}

/// What differs between encapsulations is one table in `model` and one folder of the engine; benchmarks
/// measure the one that they name.
const KNOWERS: &[&str] = &[
    "crates/wire/src/",
    "crates/model/src/",
    "crates/dataplane/src/engine/encap/",
    "bench/",
    "fuzz/",
    "xtask/",
];

/// Does a file name a variant of them, or of how source routes carry their ports, outside of its tests?
fn names_encapsulation(name: &str, text: &str) -> bool {
    let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let enums = ["Encapsulation::", "Profile::"].into_iter();
    let mut named = enums.flat_map(|of| code.split(of).skip(1)).filter_map(|rest| rest.get(..2));
    let is_variant = |start: &str| {
        let mut letters = start.chars();
        letters.next().is_some_and(char::is_uppercase)
            && letters.next().is_some_and(char::is_lowercase)
    };
    let is_known = is_test || KNOWERS.iter().any(|knower| name.starts_with(knower));
    !is_known && named.any(is_variant)
}

/// Every crate forbids unsafe code, but those that are the doors to the machine.
fn crate_roots(root: &Path) -> Vec<String> {
    let Ok(crates) = std::fs::read_dir(root.join("crates")) else { return Vec::new() };
    let mut faults = Vec::new();
    for folder in crates.flatten().map(|entry| entry.path()) {
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if UNSAFE_CRATES.contains(&name.as_str()) {
            continue;
        }
        if let Some((_, doors)) = UNSAFE_FILES.iter().find(|(of, _)| *of == name) {
            faults.extend(files(&folder, "rs").iter().filter_map(|file| {
                let is_door = doors.iter().any(|door| file.ends_with(door));
                let text = std::fs::read_to_string(file).unwrap_or_default();
                (!is_door && text.contains("allow(unsafe_code)"))
                    .then(|| format!("{} must not allow unsafe code", short(root, file)))
            }));
            continue;
        }
        let heads = ["src/lib.rs", "src/main.rs"].map(|file| folder.join(file));
        for head in heads.iter().filter(|head| head.exists()) {
            let text = std::fs::read_to_string(head).unwrap_or_default();
            if !text.contains("#![forbid(unsafe_code)]") {
                faults.push(format!("{} does not forbid unsafe code", short(root, head)));
            }
        }
    }
    faults
}

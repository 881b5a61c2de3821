//! Who may use whom. The list is that of ARCHITECTURE.md; everything else is forbidden.

use crate::{files, short};
use std::collections::BTreeMap;
use std::path::Path;

const ARROWS: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("io", &[]),
    ("kernel", &[]),
    ("model", &["wire"]),
    ("store", &["model"]),
    ("client", &["model"]),
    ("protocol", &["model"]),
    ("plan", &["model", "rules", "wire"]),
    ("adapt", &["model", "plan"]),
    ("sim", &["plan", "protocol", "store", "model", "wire"]),
    ("fastpath", &["wire", "model"]),
    ("rules", &["model", "wire"]),
    ("search", &["io", "wire", "model"]),
    ("nf", &["model", "rules", "search", "wire"]),
    ("runner", &["io", "kernel", "model", "nf", "rules", "wire"]),
    ("dataplane", &["fastpath", "io", "wire", "model", "nf", "protocol", "rules", "search"]),
    ("controller", &["adapt", "nf", "plan", "store", "protocol", "model", "wire"]),
    ("agent", &["fastpath", "protocol", "model", "kernel", "wire"]),
    ("lab", &["kernel", "client", "io", "model", "wire"]),
    (
        "cli",
        &[
            "controller",
            "agent",
            "dataplane",
            "lab",
            "kernel",
            "client",
            "model",
            "nf",
            "plan",
            "rules",
            "runner",
        ],
    ),
    (
        "bench",
        &[
            "client",
            "dataplane",
            "fastpath",
            "io",
            "kernel",
            "lab",
            "model",
            "nf",
            "plan",
            "rules",
            "wire",
        ],
    ),
    ("rig", &["dataplane", "io", "model", "plan", "wire"]),
    (
        "targets",
        &[
            "client",
            "controller",
            "dataplane",
            "fuzz-rig",
            "lab",
            "model",
            "nf",
            "protocol",
            "rules",
            "wire",
        ],
    ),
    ("xtask", &["fastpath", "model"]),
];

pub(crate) fn check(root: &Path) -> Vec<String> {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    let mut manifests = files(&root.join("crates"), "toml");
    manifests.extend(
        ["bench", "fuzz/rig", "fuzz/targets", "xtask"].map(|at| root.join(at).join("Cargo.toml")),
    );
    let mut faults = Vec::new();
    for manifest in manifests.iter().filter(|path| path.ends_with("Cargo.toml")) {
        let text = std::fs::read_to_string(manifest).unwrap_or_default();
        let Ok(parsed) = text.parse::<toml::Table>() else {
            faults.push(format!("{} is no TOML", short(root, manifest)));
            continue;
        };
        let folder = manifest.parent().and_then(Path::file_name).unwrap_or_default();
        let name = folder.to_string_lossy().into_owned();
        let Some(allowed) = allowed.get(name.as_str()) else {
            faults.push(format!("crate {name} has no arrows in xtask/src/arrows.rs"));
            continue;
        };
        let uses = parsed.get("dependencies").and_then(toml::Value::as_table);
        let ours = uses.into_iter().flat_map(|uses| uses.keys());
        for used in ours.filter_map(|used| used.strip_prefix("catena-")) {
            if !allowed.contains(&used) {
                faults.push(format!("{name} must not use {used} (ARCHITECTURE.md, arrows)"));
            }
        }
    }
    faults
}

//! `catena doctor`: is this machine fit, and what goes into a report of a fault. Knows what is looked
//! at; refuses to look at anything that may be secret: no environment, no token, no file of the
//! controller.

mod functions;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::output::{Format, say, tell};
use catena_client::Client;
use catena_model::limits::LIMITS;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Oldest kernel that is tried in tests.
const KERNEL_MIN: (u32, u32) = (6, 1);
/// Programs that labs use if they are there.
const TOOLS: [(&str, &str); 3] = [
    ("iperf3", "traffic of labs with `tool: iperf3`"),
    ("ip", "looking into namespaces by hand"),
    ("tcpdump", "captures by hand; `catena explain --pcap` reads them"),
];

/// The bit of a bridge's `group_fwd_mask` that stands for 01:80:c2:00:00:0e (ip-link(8)).
const LLDP_GROUP: u32 = 1 << 0xe;

#[derive(Args)]
pub(crate) struct DoctorArguments {
    /// Write a report for whoever mends the fault, with what the controller tells: one JSON object
    /// a line.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "catena-doctor.jsonl")]
    bundle: Option<PathBuf>,
    /// How the findings are printed.
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// How bad it is if something is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Need {
    /// Nodes and labs do not work without.
    Required,
    /// Something works only with it.
    Useful,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    what: String,
    is_there: bool,
    need: Need,
    /// What was seen, and what to do if that is not enough.
    text: String,
}

pub(crate) fn run(connection: &Connection, arguments: &DoctorArguments) -> Result<(), Failure> {
    let findings = findings();
    if let Some(file) = &arguments.bundle {
        write_bundle(connection, file, &findings)?;
    }
    tell(arguments.output, &findings, |_| {
        for finding in &findings {
            let mark = match (finding.is_there, finding.need) {
                (true, _) => '✓',
                (false, Need::Required) => '✗',
                (false, Need::Useful) => '–',
            };
            say!("{mark} {}   {}", finding.what, finding.text);
        }
        if let Some(file) = &arguments.bundle {
            say!("report written to {}; it holds no token and no key", file.display());
        }
    })?;
    let is_fit = |finding: &Finding| finding.is_there || finding.need != Need::Required;
    if findings.iter().all(is_fit) { Ok(()) } else { Err(Failure::check()) }
}

fn findings() -> Vec<Finding> {
    let mut findings = vec![kernel(&read("/proc/sys/kernel/osrelease")), rights()];
    for name in ["net", "mnt", "pid"] {
        findings.push(file(
            &format!("{name} namespaces"),
            &format!("/proc/self/ns/{name}"),
            Need::Required,
            "use a kernel with CONFIG_NAMESPACES and its kinds",
        ));
    }
    findings.push(file(
        "packet sockets",
        "/proc/net/packet",
        Need::Required,
        "use a kernel with CONFIG_PACKET, or `modprobe af_packet`",
    ));
    findings.extend(functions::findings(Path::new("/")));
    findings.push(file(
        "IPv6",
        "/proc/net/if_inet6",
        Need::Useful,
        "boot without ipv6.disable=1; chains of IPv6 packets need it",
    ));
    findings.extend(bridges(Path::new("/sys/class/net")));
    findings.extend(TOOLS.map(|(name, purpose)| tool(name, purpose)));
    findings
}

fn kernel(release: &str) -> Finding {
    let mut numbers = release.split(['.', '-']).map(|part| part.parse::<u32>().ok());
    let found = numbers.next().flatten().zip(numbers.next().flatten());
    let (major, minor) = KERNEL_MIN;
    let is_there = found.is_some_and(|found| found >= KERNEL_MIN);
    let text = match is_there {
        true => format!("Linux {release}"),
        false => format!("Linux {release}; use {major}.{minor} or newer"),
    };
    Finding { what: "kernel".into(), is_there, need: Need::Required, text }
}

fn rights() -> Finding {
    let is_there = rustix::process::geteuid().is_root();
    let text = match is_there {
        true => "root",
        false => "not root; start agents, data planes and labs with sudo (clients need no rights)",
    };
    Finding { what: "rights".into(), is_there, need: Need::Useful, text: text.into() }
}

fn file(what: &str, path: &str, need: Need, remedy: &str) -> Finding {
    let is_there = Path::new(path).exists();
    let text = if is_there { path.to_owned() } else { format!("no {path}; {remedy}") };
    Finding { what: what.into(), is_there, need, text }
}

fn tool(name: &str, purpose: &str) -> Finding {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&folders).map(|folder| folder.join(name));
    let found = found.into_iter().find(|path| path.is_file());
    let text = match &found {
        Some(path) => path.display().to_string(),
        None => format!("not found; install it for {purpose}"),
    };
    Finding { what: name.into(), is_there: found.is_some(), need: Need::Useful, text }
}

/// What each bridge of this machine does with LLDP, by which nodes find each other: a bridge keeps it to itself
/// unless its `group_fwd_mask` says otherwise. That is a note: most bridges should.
fn bridges(interfaces: &Path) -> Vec<Finding> {
    let found = std::fs::read_dir(interfaces).into_iter().flatten().flatten();
    let mask = |folder: &Path| std::fs::read_to_string(folder.join("bridge/group_fwd_mask")).ok();
    let named = found.filter_map(|entry| Some((entry.file_name(), mask(&entry.path())?)));
    let mut findings: Vec<Finding> =
        named.map(|(name, mask)| lldp_through(&name.to_string_lossy(), mask.trim())).collect();
    findings.sort_by(|one, other| one.what.cmp(&other.what));
    findings
}

fn lldp_through(bridge: &str, mask: &str) -> Finding {
    let bits = u32::from_str_radix(mask.trim_start_matches("0x"), 16).unwrap_or_default();
    let is_there = bits & LLDP_GROUP != 0;
    let text = match is_there {
        true => format!("passes LLDP (group_fwd_mask {mask})"),
        false => format!(
            "keeps LLDP to itself: nodes at its two sides do not find each other; if it is to be a cable between \
             them, `ip link set {bridge} type bridge group_fwd_mask {LLDP_GROUP:#x}`"
        ),
    };
    Finding { what: format!("bridge {bridge}"), is_there, need: Need::Useful, text }
}

/// The text of a small file; empty if there is none.
fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

fn write_bundle(connection: &Connection, path: &Path, findings: &[Finding]) -> Result<(), Failure> {
    let written = || -> Result<(), Failure> {
        let file: File =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        let mut out = BufWriter::new(file);
        let mut part = |name: &str, value: Value| -> Result<(), Failure> {
            let mut line = json!({"part": name, "value": value}).to_string();
            // Nothing that is read here holds it; if anything ever did, it would not leave.
            if let Some(token) = connection.token() {
                line = line.replace(token, "(hidden)");
            }
            Ok(writeln!(out, "{line}")?)
        };
        part("versions", versions())?;
        part("machine", serde_json::to_value(findings)?)?;
        part("limits", limits())?;
        match connection.client() {
            Ok(client) => {
                for (name, answer) in told(&client) {
                    part(name, answer)?;
                }
            }
            Err(failure) => part("controller", json!({"unreachable": failure.message}))?,
        }
        Ok(out.flush()?)
    };
    written().map_err(|failure| {
        Failure::failed(format!(
            "the report {} could not be written: {}; name another file with --bundle",
            path.display(),
            failure.message
        ))
    })
}

fn versions() -> Value {
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    json!({
        "catena": env!("CARGO_PKG_VERSION"),
        "kernel": read("/proc/version"),
        "cpu": model.trim_start_matches([' ', '\t', ':']),
        "cores": cores,
    })
}

fn limits() -> Value {
    let all = LIMITS.iter().map(|limit| (limit.name.to_owned(), json!(limit.value)));
    Value::Object(all.collect())
}

/// What the controller tells, each with its name; of what it refuses, why.
fn told(client: &Client) -> Vec<(&'static str, Value)> {
    fn value<T: Serialize>(answer: Result<T, catena_client::ClientError>) -> Value {
        match answer {
            Ok(answer) => json!(answer),
            Err(error) => json!({"refused": error.to_string()}),
        }
    }
    let nodes = client.nodes();
    let names: Vec<String> =
        nodes.iter().flatten().map(|node| node.status.node.to_string()).collect();
    let programs = names.iter().map(|name| value(client.node(name).map(|node| node.tables)));
    let programs: Vec<Value> = programs.collect();
    let chains = client.chains();
    let ids: Vec<String> =
        chains.iter().flatten().map(|chain| chain.status.chain.to_string()).collect();
    let receipts = ids.iter().filter_map(|id| client.receipt(id).ok());
    let receipts: Vec<Value> = receipts.map(|receipt| json!(receipt)).collect();
    vec![
        ("status", value(client.status())),
        ("nodes", value(nodes)),
        ("programs", json!(programs)),
        ("chains", value(chains)),
        ("receipts", json!(receipts)),
        ("paths", value(client.paths())),
        ("functions", value(client.functions())),
        ("instances", value(client.instances())),
        ("graphs", value(client.graphs())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_too_old_or_unknown_is_named_with_the_remedy() {
        for (release, is_there) in [
            ("6.1.0-9-amd64", true),
            ("6.18.3", true),
            ("7.0", true),
            ("5.15.0", false),
            ("", false),
        ] {
            let finding = kernel(release);
            assert_eq!(finding.is_there, is_there, "{release}");
            assert_eq!(finding.text.contains("use 6.1 or newer"), !is_there, "{}", finding.text);
        }
    }

    #[test]
    fn a_bridge_that_keeps_lldp_says_how_it_would_pass_it_and_is_no_fault() {
        let folder = tempfile::tempdir().unwrap();
        for (name, mask) in [("br0", Some("0x0\n")), ("br1", Some("0x4000\n")), ("eth0", None)] {
            let bridge = folder.path().join(name).join("bridge");
            std::fs::create_dir_all(&bridge).unwrap();
            if let Some(mask) = mask {
                std::fs::write(bridge.join("group_fwd_mask"), mask).unwrap();
            }
        }
        let found = bridges(folder.path());
        let seen: Vec<_> = found.iter().map(|one| (one.what.as_str(), one.is_there)).collect();
        assert_eq!(seen, [("bridge br0", false), ("bridge br1", true)]);
        assert!(found[0].text.contains("group_fwd_mask 0x4000"), "{}", found[0].text);
        assert_eq!(found[0].need, Need::Useful);
        assert_eq!(bridges(Path::new("/nowhere/at/all")), []);
    }

    #[test]
    fn what_is_missing_says_what_to_do() {
        let missing = file("it", "/nowhere/at/all", Need::Required, "make it");
        assert_eq!(
            (missing.is_there, missing.text.as_str()),
            (false, "no /nowhere/at/all; make it")
        );
        assert!(file("it", "/proc/self/ns/net", Need::Required, "").is_there);
        assert!(tool("no-such-tool-at-all", "x").text.contains("install it"));
    }
}

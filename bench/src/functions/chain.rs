//! TCP through a firewall, a monitor and a NAT: in the data plane (inside), as three processes of `catena nf
//! run` (alone), as namespaces of nftables steered by the kernel path, and as the same namespaces on one cable,
//! which nothing steers.

use super::line::{lead, line};
use crate::chain_tcp::{Bed, End, Ends, LabBed, Node, SOURCE_ADDRESS, Wires, gbit};
use crate::peers::program::Running;
use crate::peers::{Folder, Unavailable};
use crate::results::{Better, Figure, Goal, Notes};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const LAB: &str = "bench-functions";
const INSIDE_PORT: u16 = 5_210;
const STEERED_PORT: u16 = 5_220;
/// On cables everything is of the chain.
const CABLE_PORT: u16 = 5_230;
const ROUNDS: usize = 3;
const SECONDS: u32 = 2;
/// What sources become on cables; in the lab it is an address of its network.
const OUTSIDE: &str = "203.0.113.4";
const FIREWALL: &str = "table ip f {\n chain forward {\n type filter hook forward priority 0; policy drop;\n\
    ct state established,related accept\n tcp dport 5200-5299 ct state new accept\n }\n}\n";
/// The same for whoever never sees answers.
const ONE_WAY_FIREWALL: &str = "table ip f {\n chain forward {\n type filter hook forward priority 0; \
    policy drop;\n tcp dport 5200-5299 accept\n }\n}\n";
const MONITOR: &str = "table ip m {\n set flows {\n type ipv4_addr . inet_service . ipv4_addr . inet_service\n\
    size 65536\n flags dynamic\n counter\n }\n chain forward {\n type filter hook forward priority 0;\n\
    update @flows { ip saddr . tcp sport . ip daddr . tcp dport }\n }\n}\n";
const STAGES: [Node; 3] = [Node::Function("fw"), Node::Function("mon"), Node::Function("nat")];
const BUMPS: [Node; 3] = [Node::Host(1), Node::Host(2), Node::Host(3)];
/// Long enough for three programs to have opened their interfaces.
const BUMPS_WAIT: Duration = Duration::from_millis(700);

pub(super) fn figures() -> [Figure; 3] {
    let figure = |name, goal| Figure::new(name, "Gbit/s", Better::Higher, Goal::Quotient(goal));
    [
        figure("chain_inside_vs_namespaces", Some(1.0)),
        figure("chain_inside_vs_cables", None),
        figure("chain_inside_vs_alone", None),
    ]
}

/// Sends streams in turns; answers what could not be measured, and why.
pub(super) fn measure(is_quick: bool, root: &Path, notes: &mut Notes) -> Vec<String> {
    let (rounds, seconds) = if is_quick { (2, 1) } else { (ROUNDS, SECONDS) };
    let mut missing = std::collections::BTreeSet::new();
    for round in 1..=rounds {
        eprintln!("bench: TCP through a firewall, a monitor and a nat, round {round}");
        let [inside, steered] = in_lab(root, seconds);
        let cables = cables().and_then(|bed| gbit(&bed, CABLE_PORT, seconds));
        let alone = alone(root).and_then(|bed| gbit(&bed, CABLE_PORT, seconds));
        let peers = [
            ("chain_inside_vs_namespaces", steered),
            ("chain_inside_vs_cables", cables),
            ("chain_inside_vs_alone", alone),
        ];
        for (name, peer) in peers {
            match (&inside, peer) {
                (Ok(ours), Ok(peer)) => {
                    notes.take(name, true, *ours);
                    notes.take(name, false, peer);
                }
                (Err(reason), _) => drop(missing.insert(format!("{name} (inside: {reason})"))),
                (_, Err(reason)) => drop(missing.insert(format!("{name} ({reason})"))),
            }
        }
    }
    missing.into_iter().collect()
}

/// Inside, and the steered namespaces of the same lab.
fn in_lab(root: &Path, seconds: u32) -> [Result<f64, Unavailable>; 2] {
    let bed = match LabBed::start(root, LAB, true) {
        Ok(bed) => bed,
        Err(reason) => return [Err(reason.clone()), Err(reason)],
    };
    let inside = gbit(&bed, INSIDE_PORT, seconds);
    let nat = translator("masquerade");
    let ready = [("edge_ns", ONE_WAY_FIREWALL), ("flows_ns", MONITOR), ("nat_ns", &*nat)];
    let ready = ready.into_iter().try_for_each(|(node, rules)| filter(bed.inside(node), rules));
    [inside, ready.and_then(|()| gbit(&bed, STEERED_PORT, seconds))]
}

fn translator(rule: &str) -> String {
    format!(
        "table ip n {{\n chain post {{\n type nat hook postrouting priority 100;\n {rule}\n }}\n}}\n"
    )
}

fn filter(mut inside: Command, rules: &str) -> Result<(), Unavailable> {
    inside.args(["nft", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    inside.stderr(Stdio::piped());
    let fail = |error: std::io::Error| Unavailable::new("nft", error);
    let mut child = inside.spawn().map_err(fail)?;
    if let Some(mut input) = child.stdin.take() {
        input.write_all(rules.as_bytes()).map_err(fail)?;
    }
    let done = child.wait_with_output().map_err(fail)?;
    match done.status.success() {
        true => Ok(()),
        false => Err(Unavailable::new("nft", String::from_utf8_lossy(&done.stderr).trim())),
    }
}

/// Namespaces that route and have rules of nftables.
fn cables() -> Result<Bed, Unavailable> {
    let mut wires = Wires::new()?;
    let steps = line(&mut wires, &STAGES)?;
    for [left, right] in &steps {
        lead(&wires, "default", left, right)?;
        for sources in [SOURCE_ADDRESS, OUTSIDE] {
            lead(&wires, sources, right, left)?;
        }
    }
    let nat = translator(&format!("ip saddr {SOURCE_ADDRESS} snat to {OUTSIDE}"));
    for (node, rules) in STAGES.into_iter().zip([FIREWALL, MONITOR, &nat]) {
        filter(wires.inside(node), rules)?;
    }
    Ok(Bed::of(wires, None))
}

/// Three functions of ours, each a process between two interfaces.
struct Alone {
    bed: Bed,
    _bumps: Vec<Running>,
    _folder: Folder,
}

impl Ends for Alone {
    fn at(&self, end: End) -> Command {
        self.bed.at(end)
    }
}

fn alone(root: &Path) -> Result<Alone, Unavailable> {
    let folder = Folder::new()?;
    let mut wires = Wires::new()?;
    let steps = line(&mut wires, &BUMPS)?;
    if let (Some([near, _]), Some([_, far])) = (steps.first(), steps.last()) {
        lead(&wires, "default", near, far)?;
        lead(&wires, "default", far, near)?;
    }
    let nat = folder.0.join("nat.yaml");
    let text = format!("{{masquerade: [{SOURCE_ADDRESS}/32], pool: [{OUTSIDE}]}}");
    std::fs::write(&nat, text).map_err(|error| Unavailable::new("nat.yaml", error))?;
    let rules = root.join("labs/bench-functions/edge.iptables");
    let told: [(&str, Vec<&std::ffi::OsStr>); 3] = [
        ("firewall", vec!["--config".as_ref(), rules.as_os_str()]),
        ("monitor", Vec::new()),
        ("nat", vec!["--config".as_ref(), nat.as_os_str()]),
    ];
    let mut bumps = Vec::new();
    for (kind, words) in told {
        let at = bumps.len();
        let (Some([_, left]), Some([right, _])) = (steps.get(at), steps.get(at + 1)) else { break };
        let mut bump = wires.inside(left.node);
        bump.arg(crate::servers::program(root)).args(["nf", "run", kind]).args(words);
        bump.args(["--in", &left.device, "--out", &right.device]);
        bump.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        bumps.push(Running::start(&mut bump)?);
    }
    std::thread::sleep(BUMPS_WAIT);
    let ended = bumps.iter_mut().any(|bump| bump.0.try_wait().is_ok_and(|done| done.is_some()));
    if ended {
        return Err(Unavailable::new("catena nf run", "it ended"));
    }
    Ok(Alone { bed: Bed::of(wires, None), _bumps: bumps, _folder: folder })
}

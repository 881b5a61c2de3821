//! The bed of raw redirection: the veth crossings of the chain, each hop a cable of its own, and at
//! every host and switch one program that knows nothing but where to. Functions route as ours do.

use super::bed::Bed;
use super::chains::{Chain, Node, way, way_back, with_switches};
use super::wires::{DESTINATION_ADDRESS, Plug, SOURCE_ADDRESS, TENANT_MTU, Wires};
use crate::peers::program::{find, run};
use crate::peers::{Folder, Unavailable};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = include_str!("redirect.c");

/// Makes the bed of one chain. Into stops a packet goes through the device, or with
/// `is_into_peer` straight into the namespace behind it.
pub(super) fn lay(chain: &Chain, is_into_peer: bool) -> Result<Bed, Unavailable> {
    let folder = Folder::new()?;
    let source = folder.0.join("redirect.c");
    std::fs::write(&source, SOURCE).map_err(|error| Unavailable::new("redirect.c", error))?;
    let (forward, back) = (with_switches(&way(chain)), with_switches(&way_back()));
    let mut wires = Wires::new()?;
    wires.add(&forward)?;
    wires.add(&back)?;
    let mut shared = BTreeMap::new();
    let there = crossings(&mut wires, &mut shared, &forward)?;
    let home = crossings(&mut wires, &mut shared, &back)?;
    for crossings in [&there, &home] {
        for (into, out) in crossings.iter().zip(crossings.iter().skip(1)) {
            let ([_, into], [out, next]) = (into, out);
            if !into.node.is_stop() {
                let is_into_peer = is_into_peer && next.node.is_stop();
                let program = compile(&source, out.index, is_into_peer)?;
                attach(&wires, into, &program)?;
            }
        }
    }
    let ends = [&there, &home].map(|crossings| stops(crossings));
    for (address, plug) in [(SOURCE_ADDRESS, &ends[0]), (DESTINATION_ADDRESS, &ends[1])] {
        let Some(plug) = plug.first() else { continue };
        let address = format!("{address}/24");
        wires.ip(plug.node, &["addr", "add", &address, "dev", &plug.device])?;
    }
    wires.address_stops(&ends[0], DESTINATION_ADDRESS)?;
    wires.address_stops(&ends[1], SOURCE_ADDRESS)?;
    Ok(Bed::of(wires, None))
}

/// A cable for each step of the way: a stop has one cable, whichever way it is passed.
fn crossings(
    wires: &mut Wires,
    shared: &mut BTreeMap<Node, [Plug; 2]>,
    way: &[Node],
) -> Result<Vec<[Plug; 2]>, Unavailable> {
    let mut all = Vec::new();
    for (from, to) in way.iter().zip(way.iter().skip(1)) {
        let stop = [from, to].into_iter().find(|node| node.is_stop());
        let cable = match stop.and_then(|stop| shared.get(stop)) {
            Some(cable) => cable.clone(),
            None => wires.cable(*from, *to, TENANT_MTU)?,
        };
        if let Some(stop) = stop {
            shared.insert(*stop, cable.clone());
        }
        let [a, b] = cable;
        all.push(if a.node == *from { [a, b] } else { [b, a] });
    }
    Ok(all)
}

/// The stops of a way, by the plug that each is left from; the last by the one it is entered by.
fn stops(crossings: &[[Plug; 2]]) -> Vec<Plug> {
    let left = crossings.iter().map(|[from, _]| from.clone()).filter(|plug| plug.node.is_stop());
    left.chain(crossings.last().map(|[_, to]| to.clone())).collect()
}

fn compile(
    source: &Path,
    target: u32,
    is_into_peer: bool,
) -> Result<std::path::PathBuf, Unavailable> {
    let object = source.with_file_name(format!("{target}.o"));
    let mut clang = Command::new(find("clang", "clang")?);
    clang.args(["-O2", "-target", "bpf", "-c", &format!("-DTARGET={target}")]);
    if is_into_peer {
        clang.arg("-DINTO_PEER");
    }
    run(clang.arg(source).arg("-o").arg(&object))?;
    Ok(object)
}

fn attach(wires: &Wires, plug: &Plug, program: &Path) -> Result<(), Unavailable> {
    let tc = |words: &[&str]| run(wires.inside(plug.node).arg("tc").args(words));
    tc(&["qdisc", "add", "dev", &plug.device, "clsact"])?;
    let program = program.display().to_string();
    let filter = ["filter", "add", "dev", &plug.device, "ingress", "bpf", "direct-action"];
    tc(&[&filter[..], &["object-file", &program, "section", "tc"]].concat()).map(drop)
}

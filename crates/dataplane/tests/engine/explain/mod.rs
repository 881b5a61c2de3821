//! Explanations, held against the packets themselves: what `explain` says is a text in
//! `conformance/explain/`, and the same packet is then sent, by the same engines. Path, instance,
//! header bytes and the name of a drop must agree; asking must leave no trace.
//!
//! Run with `CATENA_UPDATE_GOLDENS=1` to write the texts anew, then read the difference.

mod catch;
mod corrupted;
mod follow;
mod lent;
mod live;
mod scenes;
mod translated;
mod why_not;

use crate::rig::Rig;
use crate::town::{node_name, tunnel_end};
use catena_model::NodeName;
use catena_model::explain::{DepartureBy, ExplainAt, ExplainRequest, FrameBytes, Journey, Told};
use catena_model::id::ChainId;
use catena_model::topology::PortNumber;
use std::fmt::Write;
use std::path::PathBuf;

/// What all nodes together say about a frame that comes in by a port.
pub(super) fn tell(rig: &Rig, port: &str, frame: &[u8], why_not: Option<ChainId>) -> Told {
    let port = rig.town.port_named(port);
    let (at, frame) = (ExplainAt::Port(port.id), FrameBytes(frame.to_vec()));
    let mut journey = Journey::new(node_name(port.node), ExplainRequest { at, frame, why_not });
    let number = |name: &catena_model::NodeName| {
        (0..rig.town.nodes).find(|node| node_name(*node) == *name).expect("a node of the town")
    };
    while let Some((node, request)) = journey.next_question() {
        let answer = rig.explain(number(&node), request);
        journey.heard(answer, |from, by| Ok(arrival(rig, number(from), by)));
    }
    journey.told()
}

/// Where what leaves a node arrives, and by what.
fn arrival(rig: &Rig, from: usize, by: DepartureBy) -> (NodeName, ExplainAt) {
    match by {
        DepartureBy::Tunnel { to, tunnel } => {
            let node = (0..rig.town.nodes).find(|node| tunnel_end(*node, tunnel) == to);
            let node = node.expect("a node of the town");
            (node_name(node), ExplainAt::Tunnel { tunnel, source: tunnel_end(from, tunnel) })
        }
        DepartureBy::Link(number) => {
            let mut links = rig.town.links(from).into_iter();
            let link = links.find(|(own, _)| *own == number.get());
            let (_, (node, far)) = link.expect("a cable of the town");
            (node_name(node), ExplainAt::Link(PortNumber::new(far).expect("a number")))
        }
    }
}

/// The lines as the command line prints them.
pub(super) fn text(told: &Told) -> String {
    let mut text = String::new();
    for line in &told.lines {
        let (number, verb, what) = (line.number, line.step.action.verb(), &line.step.text);
        let copy = if line.is_copy { "copy: " } else { "" };
        writeln!(text, "{number:>2} {} {verb:<11} {copy}{what}", line.node).unwrap();
    }
    writeln!(text, "verdict {}", told.verdict).unwrap();
    text
}

/// Compares a text with the one that is kept.
pub(super) fn golden(name: &str, text: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance/explain")
        .join(format!("{name}.txt"));
    if std::env::var_os("CATENA_UPDATE_GOLDENS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, stored, "{name}");
}

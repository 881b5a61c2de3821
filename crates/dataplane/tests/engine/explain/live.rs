//! Sends the explained packet, and holds what happens against what was said.

use super::{golden, tell, text};
use crate::rig::{Happening, Rig};
use crate::town::node_name;
use catena_model::explain::{ExplainAction, HeaderLayer, Told, WrittenMacs};
use catena_wire::ethernet;

/// Something that leaves a node: by which door, with which bytes in front, and with which MACs of its frame.
#[derive(Clone, Debug)]
struct Leaving {
    door: String,
    header: Vec<u8>,
    macs: WrittenMacs,
    is_on_link: bool,
}

/// What was said to leave.
fn said(told: &Told) -> Vec<Leaving> {
    let leaving = told.lines.iter().filter_map(|line| {
        let bytes = |header: &catena_model::explain::Header| header.bytes.0.clone();
        Some(match &line.step.action {
            ExplainAction::Visited { port, header, macs, .. } => {
                // The addresses in front of a source route are the frame's.
                let is_route = |header: &catena_model::explain::Header| {
                    matches!(header.layers.last(), Some(HeaderLayer::SourceRoute { .. }))
                };
                let is_written = header.as_ref().is_some_and(is_route);
                let header = header.as_ref().map_or_else(Vec::new, bytes);
                let macs = if is_written { WrittenMacs::default() } else { *macs };
                Leaving { door: port.clone(), header, macs, is_on_link: false }
            }
            ExplainAction::Delivered { port, macs } => {
                Leaving { door: port.clone(), header: Vec::new(), macs: *macs, is_on_link: false }
            }
            ExplainAction::Encapsulated { header, macs, .. } => {
                let is_on_link = matches!(
                    header.layers[..],
                    [HeaderLayer::SourceRoute { .. } | HeaderLayer::ResidueRoute { .. }]
                );
                let macs = if is_on_link { WrittenMacs::default() } else { *macs };
                Leaving { door: line.node.to_string(), header: bytes(header), macs, is_on_link }
            }
            ExplainAction::PassedOn { header, .. } => {
                let (door, header) =
                    (line.node.to_string(), header.as_ref().map_or_else(Vec::new, bytes));
                Leaving { door, header, macs: WrittenMacs::default(), is_on_link: true }
            }
            _ => return None,
        })
    });
    leaving.collect()
}

/// Does what happened begin with what was said?
fn agrees(said: &Leaving, happened: &Happening) -> bool {
    let (door, bytes) = match happened {
        Happening::Frame { port, bytes } => (port.clone(), bytes),
        Happening::Datagram { from, bytes } => (node_name(*from).to_string(), bytes),
    };
    // On a link a header begins with the addresses that the frame has: a function may have written others.
    let own = if said.is_on_link { ethernet::ADDRESSES_BYTES } else { 0 };
    let (header, bytes) = (said.header.get(own..).unwrap_or_default(), bytes.get(own..));
    let Some(frame) = bytes.and_then(|bytes| bytes.strip_prefix(header)) else { return false };
    let WrittenMacs { destination, source } = said.macs;
    let is_addressed = destination.is_none() || ethernet::destination(frame) == destination;
    let is_sent_by = source.is_none() || ethernet::source(frame) == source;
    door == said.door && is_addressed && is_sent_by
}

/// The names of drops that were said, sorted.
fn said_drops(told: &Told) -> Vec<String> {
    let drops = told.lines.iter().filter_map(|line| match &line.step.action {
        ExplainAction::Dropped { reason } => Some(reason.name().to_owned()),
        _ => None,
    });
    let mut drops: Vec<String> = drops.collect();
    drops.sort();
    drops
}

/// Explains, compares with the text that is kept, sends, compares with what happened.
#[track_caller]
pub(super) fn explain_and_send(name: &str, rig: &mut Rig, port: &str, frame: &[u8]) -> Told {
    let told = tell(rig, port, frame, None);
    golden(name, &text(&told));
    send_and_compare(rig, port, frame, &told);
    told
}

/// Sends the packet; what happens must be what was told.
#[track_caller]
pub(super) fn send_and_compare(rig: &mut Rig, port: &str, frame: &[u8], told: &Told) {
    rig.moved();
    let again = tell(rig, port, frame, None);
    assert_eq!(rig.moved(), std::collections::BTreeMap::new(), "asking has left a trace");
    assert_eq!(text(&again), text(told), "the same question has two answers");
    rig.log.clear();
    // A port that refuses is no happening: the frame is not seen, and its drop has a name.
    rig.send(port, frame);
    let refused = |leaving: &Leaving| rig.refusals.contains_key(&leaving.door);
    let said: Vec<Leaving> = said(told).into_iter().filter(|leaving| !refused(leaving)).collect();
    let dropped_between = rig.log.len() < said.len();
    let has_copies = told.lines.iter().any(|line| line.is_copy);
    let mut log = rig.log.clone();
    if has_copies {
        for leaving in &said {
            let found = log.iter().position(|happening| agrees(leaving, happening));
            let found = found.unwrap_or_else(|| panic!("{leaving:?} did not happen: {log:#?}"));
            log.remove(found);
        }
        assert!(log.is_empty(), "nobody said {log:#?}");
    } else {
        for (leaving, happening) in said.iter().zip(&log) {
            assert!(agrees(leaving, happening), "said {leaving:?}, happened {happening:?}");
        }
        // What is too large is said to be encapsulated, and dropped by name before it leaves.
        let unsent = usize::from(dropped_between && !said_drops(told).is_empty());
        assert_eq!(log.len() + unsent, said.len(), "said {said:#?}, happened {log:#?}");
    }
    let moved = rig.moved();
    let is_drop = |name: &&String| name.contains(" dropped ") && !name.contains(" path ");
    let mut drops: Vec<String> = Vec::new();
    for name in moved.keys().filter(is_drop) {
        let reason = name.rsplit(' ').next().unwrap_or_default().to_owned();
        drops.extend(std::iter::repeat_n(reason, usize::try_from(moved[name]).unwrap()));
    }
    drops.sort();
    assert_eq!(drops, said_drops(told), "{moved:#?}");
}

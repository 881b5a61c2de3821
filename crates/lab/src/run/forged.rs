//! Frames with headers of source routes where nobody may send any: from an endpoint, from a function, by a
//! link at whose other end no node is, and, where headers have tags, with another one by a cable between two nodes.
//! Knows how they are made and who counts them; whether any travels is the proof's affair.

mod sealed;

use super::accounting::{Snapshot, settle};
use super::capture::Captures;
use super::evidence::{Evidence, RunEvidence};
use super::proof::{self, Question};
use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::LinkEnd;
use crate::wiring::{PortPlan, STRANGE_END, STRANGE_LINK, strange_node};
use catena_client::deploy::ChainStep;
use catena_io::StampedSocket;
use catena_model::DropReason;
use catena_model::resource::Encapsulation;
use catena_wire::ethernet;
use catena_wire::scalar::{EtherType, MacAddr, Spi};
use catena_wire::source_route::SourceRouteError;
use catena_wire::source_route::marked::{self, MarkedHeader};
use catena_wire::source_route::native::{NativeHeader, PortWidth};
use catena_wire::source_route::polka::{Degree, PolkaHeader};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::path::Path;
use std::time::Duration;

/// By what the frames are found again, wherever they come.
const MARKER: [u8; 16] = *b"forged by a lab!";
/// Where the frames would go.
const TOWARDS: MacAddr = MacAddr([2, 0, 0, 0xf0, 0x46, 0xed]);
/// Ports that their ways begin with: those of links are among them.
const FIRST_PORTS: std::ops::RangeInclusive<u8> = 1..=6;
/// Ports of a way behind the first.
const BEHIND: [u8; 3] = [1, 2, 4];
/// A path that chains may have.
const PATH: u16 = 1;
/// Bytes of a frame: none is shorter.
const FRAME_BYTES: usize = 96;
/// Nothing is received by what sends.
const RECEIVE_BYTES: usize = 4_096;
const RECEIVE_WAIT: Duration = Duration::from_millis(1);

/// What became of the frames that were put at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Forgery {
    /// Where, for people.
    pub place: String,
    /// How many were sent.
    pub sent: u64,
    /// By which name they are to be dropped.
    pub reason: DropReason,
    /// How many were.
    pub dropped: u64,
}

/// What became of all of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Forged {
    /// By place.
    pub places: Vec<Forgery>,
    /// What the accounting identity leaves over.
    pub unaccounted: u64,
    /// The independent proof's verdict on whether any travels.
    pub proof: Value,
}

/// How often it is tried where captures lose frames: many of them run at once, beside everything else.
const ATTEMPTS: u32 = 3;

/// Where frames are put, and which.
struct Door {
    node: String,
    interface: String,
    frames: Vec<Vec<u8>>,
    /// The links by which they come in, as they were put.
    seen: Vec<LinkEnd>,
    /// The node, and the name by which its data plane counts what comes in where they end.
    counted_at: (Option<String>, String),
    reason: DropReason,
}

/// Sends them, while everything is captured; again where a capture lost frames, which shows nothing, and nothing else
/// speaks against it.
pub(crate) fn carry_out(running: &RunningLab, folder: &Path) -> Result<Forged> {
    let mut forged = send_captured(running, &folder.join("1"))?;
    for attempt in 2..=ATTEMPTS {
        if !shows_nothing(&forged.proof) {
            break;
        }
        forged = send_captured(running, &folder.join(attempt.to_string()))?;
    }
    Ok(forged)
}

/// Did captures lose frames, and is that all?
fn shows_nothing(proof: &Value) -> bool {
    let lost = proof["lost"].as_u64().unwrap_or_default();
    lost > 0 && proof["violation_count"].as_u64() == Some(lost)
}

fn send_captured(running: &RunningLab, folder: &Path) -> Result<Forged> {
    let before = Snapshot::take_at_rest(&running.client)?;
    let captures = Captures::start_everywhere(running, folder)?;
    let doors = doors(running)?;
    let sent = doors.iter().map(|door| send(running, door)).collect::<Result<Vec<u64>>>()?;
    let (account, after) = settle(&running.client, &before, &running.lab, &[])?;
    let captured = captures.end(running, &after.frames_since(&before))?;
    let places = doors.iter().zip(&sent).map(|(door, sent)| {
        let (node, port) = &door.counted_at;
        let count = |at: &Snapshot| at.dropped_at(node.as_deref(), port, door.reason);
        Forgery {
            place: format!("{}:{}", door.node, door.interface),
            sent: *sent,
            reason: door.reason,
            dropped: count(&after).saturating_sub(count(&before)),
        }
    });
    // By these the captures show that they see such frames.
    let seen = doors.iter().zip(&sent).flat_map(|(door, sent)| {
        let one = move |end: &LinkEnd| {
            json!({"node": end.node, "interface": end.interface, "frames": sent})
        };
        door.seen.iter().map(one)
    });
    let marker: String = MARKER.iter().map(|octet| format!("{octet:02x}")).collect();
    let mut told = Map::new();
    told.insert("marker".into(), json!(marker));
    told.insert("captures".into(), json!(captured.between));
    told.insert("entrances".into(), seen.collect());
    let places = places.collect();
    let proof = proof::ask(Question::Forged, running, &captured, told)?;
    Ok(Forged { places, unaccounted: account.unaccounted, proof })
}

/// The ports of the first chain's source and of its first function, the strange link, and the first cable on the way of
/// a chain whose headers have tags.
fn doors(running: &RunningLab) -> Result<Vec<Door>> {
    let chain = running.lab.chains.first();
    let source = chain.map(|chain| chain.document.source.as_str());
    let functions = chain.into_iter().flat_map(|chain| &chain.document.chain);
    let function = functions.flat_map(ChainStep::all_instances).next().map(|one| one.name);
    let is_one = move |port: &&PortPlan| {
        Some(port.device.as_str()) == source || Some(&port.device) == function.as_ref()
    };
    let mut doors = Vec::new();
    for port in running.plan.ports.iter().filter(is_one) {
        doors.push(Door {
            node: port.device.clone(),
            interface: port.network.clone(),
            frames: frames(MacAddr(port.mac)).map_err(mistake)?,
            seen: Vec::new(),
            counted_at: (None, port.name()),
            reason: DropReason::ForeignChainHeader,
        });
    }
    if let Some(node) = strange_node(&running.lab) {
        doors.push(Door {
            node: node.to_owned(),
            interface: STRANGE_END.to_owned(),
            frames: frames(MacAddr([2, 0, 0, 0, 0, 1])).map_err(mistake)?,
            seen: vec![LinkEnd { node: node.to_owned(), interface: STRANGE_LINK.to_owned() }],
            counted_at: (Some(node.to_owned()), STRANGE_LINK.to_owned()),
            reason: DropReason::UnknownNeighbour,
        });
    }
    doors.extend(sealed_door(running)?);
    Ok(doors)
}

/// The first cable on a way of a chain whose headers have tags.
fn sealed_door(running: &RunningLab) -> Result<Option<Door>> {
    let listed = running.client.paths()?.into_iter().filter(sealed::is_sealed);
    // A list does not tell ways.
    let told = listed.map(|path| running.client.path(&path.path.0.to_string()));
    let paths = told.collect::<std::result::Result<Vec<_>, _>>()?;
    let Some(way) = sealed::find(&paths, &running.client.links()?) else { return Ok(None) };
    let frames = way.frames().map_err(mistake)?;
    let sealed::SealedWay { entrance, seen, .. } = way;
    let end = seen.last().map(|end| (Some(end.node.clone()), end.interface.clone()));
    Ok(end.map(|counted_at| Door {
        node: entrance.node,
        interface: entrance.interface,
        frames,
        seen,
        counted_at,
        reason: DropReason::WrongRouteTag,
    }))
}

fn mistake(error: SourceRouteError) -> LabError {
    LabError::Tool {
        tool: "forged frames".into(),
        problem: error.to_string(),
        advice: "this is a mistake of the lab; report it".into(),
    }
}

/// Sends the frames of a door. Answers how many.
fn send(running: &RunningLab, door: &Door) -> Result<u64> {
    let place = || format!("{}:{}", door.node, door.interface);
    let open = || StampedSocket::open(&door.interface, RECEIVE_BYTES, RECEIVE_WAIT);
    let socket = running.doorway(&door.node)?.inside(open)?;
    let socket = socket.map_err(|error| LabError::Tool {
        tool: format!("forged frames at {}", place()),
        problem: error.to_string(),
        advice: "look whether the interface is there: catena lab shell".into(),
    })?;
    let mut sent = 0;
    for frame in &door.frames {
        let one = socket.send(&[frame]).map_err(|error| LabError::io("send", place(), error))?;
        sent += one as u64;
    }
    Ok(sent)
}

/// Frames by `native`, `polka` and the two profiles in a VLAN tag and a label, each with every first port.
fn frames(source: MacAddr) -> std::result::Result<Vec<Vec<u8>>, SourceRouteError> {
    let mut frames = Vec::new();
    for first in FIRST_PORTS {
        let way = [&[first], BEHIND.as_slice()].concat();
        let path = Spi::new(PATH.into()).ok();
        let native = NativeHeader {
            width: PortWidth::Eight,
            way: &way,
            path,
            tag: None,
            detours: &[],
            ether_type: EtherType::IPV4,
        };
        // Whatever it leaves: a number is divided by whoever reads it.
        let number = [0, first, 0, 1, 0, 2, 0, 4];
        let polka = PolkaHeader {
            degree: Degree::Sixteen,
            pass: 0,
            hops: 3,
            number: &number,
            path,
            ether_type: EtherType::IPV4,
        };
        frames.push(frame(source, |room| native.emit(room))?);
        frames.push(frame(source, |room| polka.emit(room))?);
        for profile in marked::PROFILES {
            let header = MarkedHeader::new(profile, &way, PATH)?;
            frames.push(frame(source, |room| header.emit(room))?);
        }
    }
    Ok(frames)
}

/// A frame from an address, with a header, and the marker at its end.
fn frame(
    source: MacAddr,
    emit: impl FnOnce(&mut [u8]) -> std::result::Result<usize, SourceRouteError>,
) -> std::result::Result<Vec<u8>, SourceRouteError> {
    let mut frame = vec![0; FRAME_BYTES];
    frame[..6].copy_from_slice(&TOWARDS.0);
    frame[6..12].copy_from_slice(&source.0);
    emit(&mut frame[..FRAME_BYTES - MARKER.len()])?;
    frame[FRAME_BYTES - MARKER.len()..].copy_from_slice(&MARKER);
    Ok(frame)
}

const _: () =
    assert!(FRAME_BYTES > marked::LEN + MARKER.len() && FRAME_BYTES > ethernet::HEADER_BYTES);

/// Holds if in each run every frame was dropped by its name where it was put, or came out, and the proof saw none
/// elsewhere; and where headers have tags, if some had another one.
pub(super) fn judge(evidence: &Evidence) -> (bool, String) {
    let of = |run: &'_ RunEvidence| -> Option<(bool, String)> {
        let forged = run.forged.as_ref()?;
        let told = |one: &Forgery| {
            let Forgery { place, sent, reason, dropped } = one;
            format!("{place}: {dropped} of {sent} ended as {}", reason.name())
        };
        let is_counted = |one: &Forgery| one.sent > 0 && one.dropped == one.sent;
        let are_counted = !forged.places.is_empty() && forged.places.iter().all(is_counted);
        let is_proved = forged.proof["ok"].as_bool() == Some(true);
        let is_tagged = run.encapsulation.is_some_and(Encapsulation::is_tagged);
        let has_wrong_tag = forged.places.iter().any(|one| one.reason == DropReason::WrongRouteTag);
        let places: Vec<String> = forged.places.iter().map(told).collect();
        let mut found = format!(
            "{}: {}; seen elsewhere: {}, in {} captures; {} unaccounted",
            run.case,
            places.join(", "),
            forged.proof["elsewhere"],
            forged.proof["captures"],
            forged.unaccounted
        );
        if !is_proved {
            found += &format!("; the proof: {}", forged.proof["violations"][0]);
        }
        if is_tagged && !has_wrong_tag {
            found += "; no way was found to try a wrong tag on";
        }
        let is_tried = has_wrong_tag || !is_tagged;
        Some((are_counted && is_proved && is_tried && forged.unaccounted == 0, found))
    };
    let all: Vec<(bool, String)> = evidence.runs.iter().filter_map(of).collect();
    let holds = !all.is_empty() && all.iter().all(|(holds, _)| *holds);
    match all.is_empty() {
        true => (false, "no frame was forged".to_owned()),
        false => (holds, all.into_iter().map(|(_, found)| found).collect::<Vec<_>>().join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::source_route;

    #[test]
    fn forged_frames_are_source_routes_of_every_kind_that_is_named_and_have_their_marker() {
        let source = MacAddr([2, 0, 0, 0, 0, 9]);
        let frames = frames(source).unwrap();
        assert_eq!(frames.len(), 4 * FIRST_PORTS.count());
        let mut kinds = std::collections::BTreeSet::new();
        for frame in &frames {
            assert!(frame.ends_with(&MARKER) && frame[6..12] == source.0);
            kinds.insert(format!("{:?}", source_route::profile(frame).unwrap()));
        }
        assert_eq!(kinds.len(), 4, "{kinds:?}");
        let types: std::collections::BTreeSet<_> = frames.iter().map(|f| &f[12..14]).collect();
        let expected = [[0x81, 0x00], [0x88, 0xb5], [0x88, 0xb6]];
        assert!(types.into_iter().eq(expected.iter().map(<[u8; 2]>::as_slice)));
    }

    #[test]
    fn forged_frames_hold_only_where_each_is_counted_and_none_travels() {
        let run = |change: fn(&mut Forged)| {
            let place = |reason| Forgery { place: "G:net".into(), sent: 3, reason, dropped: 3 };
            let mut forged = Forged {
                places: [DropReason::ForeignChainHeader, DropReason::UnknownNeighbour]
                    .map(place)
                    .into(),
                unaccounted: 0,
                proof: json!({"ok": true, "elsewhere": 0, "captures": 9, "violations": []}),
            };
            change(&mut forged);
            let mut run = RunEvidence::new("native".into(), None, None);
            run.forged = Some(forged);
            judge(&Evidence { runs: vec![run], ..Evidence::default() })
        };
        assert!(run(|_| ()).0, "{:?}", run(|_| ()));
        assert!(!run(|forged| forged.places[1].dropped = 2).0);
        assert!(!run(|forged| forged.places[0].sent = 0).0);
        assert!(!run(|forged| forged.unaccounted = 1).0);
        assert!(!run(|forged| forged.places.clear()).0);
        let proof = |lost, all| json!({"lost": lost, "violation_count": all});
        assert!(shows_nothing(&proof(2, 2)) && !shows_nothing(&proof(1, 2)));
        assert!(!shows_nothing(&proof(0, 0)));
        let travelled = run(|forged| {
            forged.proof =
                json!({"ok": false, "elsewhere": 1, "captures": 9, "violations": ["at e1"]});
        });
        assert!(!travelled.0 && travelled.1.contains("at e1"), "{travelled:?}");
        assert!(!judge(&Evidence::default()).0);
        // Under tags, only if some frames had another one.
        let tagged = |reason| {
            let tagged = Encapsulation::SourceRouteNativeTagged;
            let mut run = RunEvidence::new("tagged".into(), Some(tagged), None);
            let places = vec![Forgery { place: "h1:l-a1".into(), sent: 3, reason, dropped: 3 }];
            let proof = json!({"ok": true, "elsewhere": 0, "captures": 9, "violations": []});
            run.forged = Some(Forged { places, unaccounted: 0, proof });
            judge(&Evidence { runs: vec![run], ..Evidence::default() })
        };
        assert!(tagged(DropReason::WrongRouteTag).0);
        let untried = tagged(DropReason::UnknownNeighbour);
        assert!(!untried.0 && untried.1.contains("a wrong tag"), "{untried:?}");
    }
}

//! What parts of the house say to one another: programs, changes of them, messages on sockets. A
//! taken-over peer may say anything.

use crate::seeds;
use catena_dataplane::engine::Tables;
use catena_model::entry::{Change, Program, checksum};
use catena_model::{BlueprintNumber, NodeName, NodeProgram};
use catena_protocol::delta::{Draft, DraftError, deltas};
use catena_protocol::frame::FrameReader;
use catena_protocol::session::ControllerSession;
use catena_protocol::{former, message};
use prost::Message;
use std::hint::black_box;

fn node() -> NodeName {
    NodeName::new("host1").expect("a name")
}

/// A program in JSON, as data planes kept it: as it comes, and one of ours with parts of it replaced.
/// What is read comes back without loss from the parts that tell it, and is compiled or refused.
pub(crate) fn program(bytes: &[u8]) {
    let edited = seeds::edited(seeds::program(), bytes);
    for body in [bytes.to_vec(), edited.to_string().into_bytes()] {
        let checksum = checksum(&body);
        let packed = message::Program { body, checksum, ..message::Program::default() };
        let read = former::read(&packed.encode_to_vec(), |_| Vec::new());
        let Ok((_, program)) = read else { continue };
        assert_eq!(told_again(&Program::default(), &program).as_ref(), Ok(&program));
        let whole = program.entries.program(node(), program.number);
        black_box(Tables::compile(&whole).is_ok());
    }
}

/// A part of a change, of no program and of one of ours: as it comes, the bytes as its edits, and a program
/// of ours with some bytes replaced. What is taken makes what its edits make, and comes back from the
/// parts that tell it.
pub(crate) fn delta(bytes: &[u8]) {
    let decoded = message::Delta::decode(bytes).unwrap_or_default();
    let edits = message::Delta { changes: bytes.to_vec(), number: 2, ..message::Delta::default() };
    let ours: NodeProgram = serde_json::from_value(seeds::program()).expect("a program");
    let ours = Program::new(ours.number, ours.entries());
    let mut replaced = deltas(&node(), &Program::default(), &ours).remove(0);
    if let Some((place, other)) = bytes.split_first_chunk() {
        let begin = usize::from(u16::from_be_bytes(*place)) % replaced.changes.len();
        let end = replaced.changes.len().min(begin + other.len());
        replaced.changes.splice(begin..end, other.iter().copied());
    }
    for part in [decoded, edits, replaced] {
        for base in [&Program::default(), &ours] {
            let mut draft = Draft::begin(&part, base);
            if draft.add(&part).is_err() {
                continue;
            }
            let mut entries = base.entries.clone();
            for change in
                Change::read_all(&part.changes, usize::MAX).expect("they were read before")
            {
                entries.edit(change).expect("the draft took it");
            }
            let made = base.following(BlueprintNumber(part.number), entries);
            let is_announced = made.version() == part.to_version();
            assert_eq!(draft.finish(base).is_ok(), is_announced);
            assert_eq!(told_again(base, &made), Ok(made));
        }
    }
}

/// The program that comes of the parts that make it of another.
fn told_again(base: &Program, program: &Program) -> Result<Program, DraftError> {
    let parts = deltas(&node(), base, program);
    let mut draft = Draft::begin(&parts[0], base);
    parts.iter().try_for_each(|part| draft.add(part))?;
    draft.finish(base)
}

/// What an agent says to its controller, message after message.
pub(crate) fn agent_messages(bytes: &[u8]) {
    let mut session = ControllerSession::new(node(), Vec::new());
    let mut reader = FrameReader::default();
    reader.push(bytes);
    while let Ok(Some(message)) = reader.next_message::<message::FromAgent>() {
        if session.accept(message).is_err() {
            return;
        }
        while let Some(output) = session.poll_output() {
            black_box(output);
        }
    }
}

/// What comes at either end of the socket between agent and data plane, in pieces.
pub(crate) fn control_frames(bytes: &[u8]) {
    let (mut down, mut up) = (FrameReader::default(), FrameReader::default());
    for piece in bytes.chunks(7) {
        down.push(piece);
        up.push(piece);
        if down.next_message::<message::ToDataplane>().is_err()
            | up.next_message::<message::FromDataplane>().is_err()
        {
            return;
        }
    }
}

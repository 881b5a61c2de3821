//! What parts of the house say to one another: programs, deltas of slices, messages on sockets. A
//! taken-over peer may say anything.

use crate::seeds;
use catena_dataplane::engine::Tables;
use catena_protocol::frame::FrameReader;
use catena_protocol::message;
use catena_protocol::session::ControllerSession;
use catena_protocol::{program, slices};
use prost::Message;
use std::hint::black_box;

/// A program in JSON: as it comes, and one of ours with parts of it replaced. What is accepted is
/// packed and unpacked without loss, and compiled or refused.
pub(crate) fn program(bytes: &[u8]) {
    let edited = seeds::edited(seeds::program(), bytes);
    for body in [bytes.to_vec(), edited.to_string().into_bytes()] {
        let number = body_number(&body);
        let packed = message::Program {
            number,
            checksum: program::checksum(&body),
            body,
            ..message::Program::default()
        };
        let Ok(program) = program::unpack(&packed) else { continue };
        let again = program::unpack(&program::pack(&program)).expect("what we pack we unpack");
        assert_eq!(again, program);
        black_box(Tables::compile(&program).is_ok());
    }
}

/// The number that a program's body says it has, or any.
fn body_number(body: &[u8]) -> u64 {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    parsed.and_then(|value| value["number"].as_u64()).unwrap_or_default()
}

/// A delta of slices: what is unpacked says the same when it is packed again.
pub(crate) fn slice_delta(bytes: &[u8]) {
    let Ok(packed) = message::SliceDelta::decode(bytes) else { return };
    let Ok(delta) = slices::unpack(&packed) else { return };
    let again = slices::pack(&delta, number_of(&packed), packed.is_last);
    assert_eq!(slices::unpack(&again).expect("what we pack we unpack"), delta);
}

fn number_of(packed: &message::SliceDelta) -> catena_model::BlueprintNumber {
    catena_model::BlueprintNumber(packed.number)
}

/// What an agent says to its controller, message after message.
pub(crate) fn agent_messages(bytes: &[u8]) {
    let mut session: ControllerSession = ControllerSession::new("host1");
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

//! What a data plane and a function in a process of its own say to each other: questions with the packets that they are
//! about, and answers. Knows their bytes; refuses to know how these get there.
//!
//! Answers are held for hostile: whatever comes is an answer to its question that is sound in itself, or none.

use crate::function::{Answer, Function, Portion, RuleCount, StateEntry, Waiting};
use crate::outcome::Outcomes;
use crate::packet::{Direction, Metadata, Packet, Time};
use crate::registry::Surroundings;
use catena_model::bundle::Configuration;
use catena_model::limits::{FUNCTION_FLOWS_MAX, FUNCTION_RULES_MAX};
use catena_wire::field::UpperChecksum;
use catena_wire::frame::FrameView;
use serde::{Deserialize, Serialize};
use std::any::Any;

#[cfg(test)]
mod tests;

/// What is said to a function.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Question {
    /// To be made of this, once, before all others.
    Make(Configuration, Surroundings),
    /// As [`Function::process`]; the packets come behind it.
    Process(Time, Direction),
    /// As [`Function::elapse`].
    Elapse(Time),
    /// As [`Function::inquire`].
    Inquire(Time),
    /// As [`Function::ask`]; the packet comes behind it.
    Ask(Time, Direction),
    /// As [`Function::export_portion`].
    Export(Portion),
    /// As [`Function::import`].
    Import(Vec<StateEntry>),
    /// As [`Function::report`].
    Report,
    /// As [`Function::rule_in_words`].
    Rule(u32),
}

/// What a function says.
#[derive(Debug, Serialize, Deserialize)]
pub enum Said {
    /// It is there.
    Made,
    /// It cannot be made, or was asked what it does not understand.
    Refused(String),
    /// What it made of packets or of time, and what waits in it since.
    Outcomes(Outcomes, Waiting),
    /// What would become of a packet.
    Asked(Answer),
    /// A portion of what it remembers; true: there is more.
    Exported(Vec<StateEntry>, bool),
    /// How many entries were taken.
    Imported(u64),
    /// What its rules have counted.
    Counts(Vec<RuleCount>),
    /// A rule in its writer's words.
    Words(Option<String>),
}

/// What stands beside a packet's bytes.
#[derive(Serialize, Deserialize)]
struct Beside {
    length: u32,
    is_open: bool,
    wire_packets: u32,
    wire_bytes: u64,
}

/// What is told and made at one moment, at most: of itself, and for each packet.
const ROWS_MAX: usize = 4_096;
const ROWS_OF_PACKET: usize = 64;
/// Entries of one portion of an export, at most.
const EXPORTED_MAX: usize = 4 * FUNCTION_FLOWS_MAX;
/// Rules that are counted, at most: those of both versions of IP, and of all tables.
const COUNTS_MAX: usize = 16 * FUNCTION_RULES_MAX;
/// Bytes of a rule in its writer's words, at most.
const WORDS_BYTES: usize = 16 * 1_024;

/// Bytes of a question besides its packets, at most: of all but those that carry a configuration or state.
pub const QUESTION_BYTES: usize = 64;
/// Bytes of a packet besides its frame, at most.
pub const PACKET_BYTES: usize = 32;

/// Writes a question in place of what is there.
pub fn write_question(question: &Question, packets: &[Packet<'_>], into: &mut Vec<u8>) {
    into.clear();
    // Writing to memory does not fail.
    extend(into, question);
    extend(into, &(packets.len() as u64));
    for packet in packets {
        debug_assert_eq!(FrameView::parse(packet.frame).ok(), Some(packet.view));
        debug_assert_eq!(packet.metadata, Metadata::default(), "no data plane knows any");
        let beside = Beside {
            length: u32::try_from(packet.frame.len()).unwrap_or(u32::MAX),
            is_open: packet.upper == UpperChecksum::Open,
            wire_packets: packet.wire_packets,
            wire_bytes: packet.wire_bytes,
        };
        extend(into, &beside);
        into.extend_from_slice(packet.frame);
    }
}

/// Reads a question with its packets; none: it is none.
#[must_use]
pub fn read_question(bytes: &[u8]) -> Option<(Question, Vec<Packet<'_>>)> {
    let (question, rest) = postcard::take_from_bytes(bytes).ok()?;
    let (count, mut rest) = postcard::take_from_bytes::<u64>(rest).ok()?;
    let mut packets = Vec::new();
    for _ in 0..count {
        let (beside, behind) = postcard::take_from_bytes::<Beside>(rest).ok()?;
        let (frame, behind) = behind.split_at_checked(beside.length as usize)?;
        packets.push(Packet {
            frame,
            view: FrameView::parse(frame).ok()?,
            upper: if beside.is_open { UpperChecksum::Open } else { UpperChecksum::Closed },
            wire_packets: beside.wire_packets,
            wire_bytes: beside.wire_bytes,
            metadata: Metadata::default(),
        });
        rest = behind;
    }
    rest.is_empty().then_some((question, packets))
}

/// Writes an answer in place of what is there.
pub fn write_said(said: &Said, into: &mut Vec<u8>) {
    into.clear();
    extend(into, said);
}

/// Reads an answer to a question about so many packets; none: it is none, or not sound in itself.
#[must_use]
pub fn read_said(bytes: &[u8], packets: usize) -> Option<Said> {
    let (said, rest) = postcard::take_from_bytes(bytes).ok()?;
    let is_sound = match &said {
        Said::Outcomes(outcomes, _) => {
            let rows = ROWS_MAX + ROWS_OF_PACKET * packets;
            outcomes.are_sound(packets) && outcomes.rows() <= rows
        }
        Said::Exported(entries, _) => entries.len() <= EXPORTED_MAX,
        Said::Counts(counts) => counts.len() <= COUNTS_MAX,
        Said::Words(words) => words.as_ref().is_none_or(|words| words.len() <= WORDS_BYTES),
        Said::Asked(answer) => answer.patches.len() + answer.rules.len() <= COUNTS_MAX,
        Said::Made | Said::Refused(_) | Said::Imported(_) => true,
    };
    (is_sound && rest.is_empty()).then_some(said)
}

/// What a function says to a question that is not to make it.
pub fn answer(function: &mut dyn Function, question: Question, packets: &[Packet<'_>]) -> Said {
    let mut outcomes = Outcomes::default();
    match question {
        Question::Make(..) => return Said::Refused("it is made already".to_owned()),
        Question::Process(now, direction) => {
            function.process(now, direction, packets, &mut outcomes);
        }
        Question::Elapse(now) => function.elapse(now, &mut outcomes),
        Question::Inquire(now) => function.inquire(now, &mut outcomes),
        Question::Ask(now, direction) => {
            return packets.first().map_or_else(
                || Said::Refused("it was asked about no packet".to_owned()),
                |packet| Said::Asked(function.ask(now, direction, packet)),
            );
        }
        Question::Export(portion) => {
            let mut entries = Vec::new();
            let has_more = function.export_portion(portion, &mut entries);
            return Said::Exported(entries, has_more);
        }
        Question::Import(entries) => return Said::Imported(function.import(&entries) as u64),
        Question::Report => {
            let mut counts = Vec::new();
            function.report(&mut counts);
            return Said::Counts(counts);
        }
        Question::Rule(number) => return Said::Words(function.rule_in_words(number)),
    }
    Said::Outcomes(outcomes, function.waiting())
}

/// What a function has died of, by what it said when it panicked.
#[must_use]
pub fn panic_in_words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it panicked without a word".to_owned())
}

fn extend(into: &mut Vec<u8>, what: &impl Serialize) {
    let begun = std::mem::take(into);
    // Only a writer that is full refuses, and memory is not.
    *into = postcard::to_extend(what, begun).unwrap_or_default();
}

//! The profile of a firewall, read from its rules.

use super::program::{Program, subjects};
use crate::profile::{FieldSet, Meta, Profile, StateScope};
use catena_rules::condition::Subject;
use catena_rules::rule_set::{Statement, Verdict};
use catena_wire::field::Field;

/// What says which connection a packet belongs to, whether it fits there, and whether its checksum, which
/// covers all of it, is right.
const TRACKED: [Field; 21] = [
    Field::EtherType,
    Field::Length,
    Field::FragmentFlags,
    Field::FragmentOffset,
    Field::Protocol,
    Field::Source,
    Field::Destination,
    Field::SourcePort,
    Field::DestinationPort,
    Field::Sequence,
    Field::Acknowledgment,
    Field::TcpFlags,
    Field::Window,
    Field::UrgentPointer,
    Field::TcpOptions,
    Field::UpperChecksum,
    Field::IcmpType,
    Field::IcmpCode,
    Field::IcmpIdentifier,
    Field::IcmpSequence,
    Field::Payload,
];

/// What a subject reads, of which these bits decide.
fn reads(subject: Subject, mask: u128, set: FieldSet) -> FieldSet {
    // Where a field is, what comes before it says.
    let upper = |set: FieldSet| set.with(Field::Protocol).with(Field::FragmentOffset);
    match subject {
        Subject::Field(field) => {
            let set = set.with_bits(field, mask);
            let is_upper = Field::SourcePort <= field && field <= Field::Payload;
            if is_upper { upper(set) } else { set }
        }
        Subject::Version => set.with(Field::EtherType),
        Subject::PacketBytes => set.with(Field::Length),
        Subject::IsLaterFragment => set.with(Field::FragmentOffset),
        Subject::CameIn => set.with_meta(Meta::InPort),
        Subject::State => TRACKED
            .iter()
            .fold(set, |set, field| set.with(*field))
            .with_meta(Meta::ConnectionState)
            .with_meta(Meta::ReceivedAt),
        Subject::TcpOption(_) => upper(set).with(Field::TcpOptions),
        Subject::IcmpMessage => upper(set).with(Field::IcmpType).with(Field::IcmpCode),
    }
}

/// Reads it.
pub(super) fn of(program: &Program) -> Profile {
    // Which base chains a packet meets, its version says.
    let mut profile = Profile {
        reads: FieldSet::EMPTY.with(Field::EtherType),
        has_effects: true,
        ..Profile::IDENTITY
    };
    profile.drops = program.may_drop();
    if program.tracked.v4 || program.tracked.v6 {
        // A table of connections may be full.
        profile.drops = true;
        profile.state = StateScope::Flow;
        profile.needs_both_directions = true;
        profile.effects_are_sums = false;
    }
    for statement in program.statements() {
        match statement {
            Statement::Match(_) | Statement::MatchTuple(_) | Statement::Map(_) => {
                let mask = match statement {
                    Statement::Match(condition) => condition.test.mask(),
                    _ => u128::MAX,
                };
                for subject in subjects(statement) {
                    profile.reads = reads(*subject, mask, profile.reads);
                    profile.takes_super_frames &= *subject != Subject::PacketBytes;
                }
            }
            Statement::Limit(_) => {
                profile.reads = profile.reads.with_meta(Meta::ReceivedAt);
                profile.state = StateScope::All;
                profile.is_ordered = true;
                profile.takes_super_frames = false;
                profile.effects_are_sums = false;
            }
            Statement::Log(_) => {
                profile.takes_super_frames = false;
                profile.effects_are_sums = false;
            }
            Statement::Verdict(_) | Statement::Count => {}
        }
        if statement.verdicts().any(|verdict| matches!(verdict, Verdict::Reject(_))) {
            // The answer quotes the packet, and is as long as it.
            profile.reads = FieldSet::all();
            profile.generates = true;
            profile.takes_super_frames = false;
        }
    }
    profile
}

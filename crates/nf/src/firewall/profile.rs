//! The profile of a firewall, read from its rules.

use super::program::{Program, subjects};
use crate::subject::reads;
use catena_model::profile::{FieldSet, Meta, Profile, StateScope};
use catena_rules::condition::Subject;
use catena_rules::rule_set::{Statement, Verdict};
use catena_wire::field::Field;

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

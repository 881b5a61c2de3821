//! Which functions of a chain may work on a packet side by side, so that for every input the packets, their order, the
//! drops, alerts and states are those of one after the other (specification of function parallelism, section 1).
//!
//! Knows profiles; refuses to know functions, what forking costs, and who runs what where.

mod form;
mod stages;

pub use form::{Form, FormChoice};
pub use stages::{StageMember, Stages};

use crate::profile::{FieldSet, Profile, StateScope};
use catena_wire::field::Field;

/// May a second function of a chain work beside the first?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It has to wait for the first one.
    Serial(Reason),
    /// It may.
    Parallel(Parallel),
}

/// How two functions work side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parallel {
    /// What has to be copied for the second one, if it writes into the packet. Functions that answer by patches write
    /// nowhere, and of those only the one that rebuilds a packet needs a copy.
    pub copy: PacketCopy,
    /// Are the effects of the second one held until the first one has let the packet pass? They are sums, added at the
    /// join or not at all.
    pub is_held: bool,
    /// Why.
    pub reason: Reason,
}

/// What is copied of a packet before a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketCopy {
    /// Nothing: both read the same buffer.
    Nothing,
    /// Its headers.
    Headers,
    /// All of it.
    Everything,
}

/// Why a verdict is as it is; `a` is the first function of the chain, `b` the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Nobody has held one of the profiles against its code.
    Declared,
    /// Packets wait in one of them.
    Holds,
    /// `a` takes super-frames whole, and `b` packets as on the wire.
    Granularity,
    /// `a` puts another packet in a packet's place.
    Structure,
    /// What `a` makes has to pass through `b`.
    Generated,
    /// `b` reads what `a` writes.
    ReadAfterWrite(FieldSet),
    /// `b` would act on what `a` drops.
    Dropped,
    /// What `b` puts in a packet's place holds what `a` writes.
    Encapsulates,
    /// `b` works on a packet of its own.
    Rebuilds,
    /// `b` writes what `a` reads.
    WriteAfterRead(FieldSet),
    /// Both write the same bits.
    WriteAfterWrite(FieldSet),
    /// Neither touches what the other one reads or writes.
    Disjoint,
}

impl Verdict {
    /// May they work side by side?
    #[must_use]
    pub const fn is_parallel(&self) -> bool {
        matches!(self, Self::Parallel(_))
    }

    /// Are the effects of the second one held until the first one has let the packet pass?
    #[must_use]
    pub const fn is_held(&self) -> bool {
        matches!(self, Self::Parallel(Parallel { is_held: true, .. }))
    }

    /// Why.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        match self {
            Self::Serial(reason) => *reason,
            Self::Parallel(parallel) => parallel.reason,
        }
    }

    /// Its word: `serial`, `parallel-no-copy`, `parallel-header-copy` or `parallel-full-copy`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Serial(_) => "serial",
            Self::Parallel(parallel) => match parallel.copy {
                PacketCopy::Nothing => "parallel-no-copy",
                PacketCopy::Headers => "parallel-header-copy",
                PacketCopy::Everything => "parallel-full-copy",
            },
        }
    }
}

impl Reason {
    /// In words, of functions of these names.
    #[must_use]
    pub fn in_words(&self, a: &str, b: &str) -> String {
        let fields = |set: &FieldSet| set.in_words().join(",");
        match self {
            Self::Declared => {
                format!("nobody has held the profiles of both {a} and {b} against their code")
            }
            Self::Holds => format!("packets wait in {a} or {b}"),
            Self::Granularity => {
                format!("{a} takes super-frames whole, and {b} packets as on the wire")
            }
            Self::Structure => format!("{a} changes the packet structure {b} parses"),
            Self::Generated => format!("packets {a} generates must pass through {b}"),
            Self::ReadAfterWrite(set) => format!("read-after-write on {}", fields(set)),
            Self::Dropped => format!("{b} would act on packets {a} drops"),
            Self::Encapsulates => format!("{b} encapsulates or rewrites everything {a} writes"),
            Self::Rebuilds => format!(
                "{b} rebuilds the packet; its output with {a}'s writes folded in only if disjoint"
            ),
            Self::WriteAfterRead(set) => format!("WAR on {}", fields(set)),
            Self::WriteAfterWrite(set) => format!("WAW on {}", fields(set)),
            Self::Disjoint => "disjoint".to_owned(),
        }
    }
}

/// May `b`, which comes behind `a`, work beside it? Lines 1 to 8 of section 1.2, the first that holds, and what our own
/// functions ask for beside them.
#[must_use]
pub fn judge(a: &Profile, b: &Profile) -> Verdict {
    // Behind who takes packets as on the wire, they are so for all.
    let is_cut_for_b = a.takes_super_frames && !b.takes_super_frames;
    let granularity = is_cut_for_b.then_some(Reason::Granularity);
    match unfit(a, b).or_else(|| objection(a, b)).or(granularity) {
        Some(reason) => Verdict::Serial(reason),
        None => Verdict::Parallel(copies(a, b)),
    }
}

/// Is one of them for no stage at all?
fn unfit(a: &Profile, b: &Profile) -> Option<Reason> {
    if !(a.is_verified && b.is_verified) {
        return Some(Reason::Declared);
    }
    // A slot of a join would be taken for as long as a packet waits.
    (a.holds || b.holds).then_some(Reason::Holds)
}

/// Lines 1 to 5.
fn objection(a: &Profile, b: &Profile) -> Option<Reason> {
    if a.replaces {
        return Some(Reason::Structure);
    }
    if a.generates && *b != Profile::IDENTITY {
        return Some(Reason::Generated);
    }
    let written = a.writes.with_checksums();
    let read = written.intersection(&b.reads);
    if !read.is_empty() {
        return Some(Reason::ReadAfterWrite(read));
    }
    if a.drops && acts(b) && !may_be_held(b) {
        return Some(Reason::Dropped);
    }
    (b.replaces && !a.writes.is_empty()).then_some(Reason::Encapsulates)
}

/// Lines 6 to 8.
fn copies(a: &Profile, b: &Profile) -> Parallel {
    let over_read = a.reads.intersection(&b.writes.with_checksums());
    let over_written = a.writes.intersection(&b.writes);
    let (copy, reason) = if b.replaces || over_read.bits(Field::Payload) != 0 {
        (PacketCopy::Everything, Reason::Rebuilds)
    } else if !over_read.is_empty() {
        (PacketCopy::Headers, Reason::WriteAfterRead(over_read))
    } else if !over_written.is_empty() {
        (PacketCopy::Headers, Reason::WriteAfterWrite(over_written))
    } else {
        (PacketCopy::Nothing, Reason::Disjoint)
    };
    Parallel { copy, is_held: a.drops && acts(b), reason }
}

/// Does what it sees leave something behind, beside the packet?
fn acts(profile: &Profile) -> bool {
    let remembers = profile.state != StateScope::Packet;
    profile.has_effects || remembers || profile.generates || profile.is_ordered
}

/// Line 4x: can what it leaves behind be held until another one's verdict? Where it is all sums that decide about no
/// packet, nobody has to wait for it, and nothing is taken back.
fn may_be_held(profile: &Profile) -> bool {
    profile.effects_are_sums
        && profile.state == StateScope::Packet
        && !profile.generates
        && !profile.is_ordered
}

//! Why two functions are asked side by side at a node, or one after the other, for people. Knows words; refuses to
//! judge.

use catena_model::profile::{FieldSet, Profile};
use catena_plan::parallelism::{Reason, StageMember, Verdict};

/// Of two functions of a hop, `a` before `b`.
pub(super) fn of_pair(a: &StageMember, b: &StageMember, verdict: &Verdict) -> String {
    let (first, second) = (&a.name, &b.name);
    match verdict {
        Verdict::Serial(reason) => {
            format!("{second} after {first}: {}", of_reason(reason, a, b))
        }
        // Nodes hold nobody's effects.
        Verdict::Parallel(parallel) if parallel.is_held => format!(
            "{second} after {first}: what {second} counts must leave out packets that {first} drops, and nodes hold no \
             counts back until {first} has decided"
        ),
        Verdict::Parallel(parallel) => {
            format!("{first} ∥ {second}: {}", of_reason(&parallel.reason, a, b))
        }
    }
}

/// One reason, of two functions, `a` before `b`.
pub(super) fn of_reason(reason: &Reason, a: &StageMember, b: &StageMember) -> String {
    let (first, second) = (&a.name, &b.name);
    match reason {
        Reason::Declared => {
            let who = whose(a, b, |profile| !profile.is_verified);
            format!("what {who} may read and write is declared, and held against no code")
        }
        Reason::Holds => {
            let who = whose(a, b, |profile| profile.holds);
            format!("packets wait in {who}")
        }
        Reason::Granularity => {
            format!("{first} takes super-frames whole, and {second} packets as on the wire")
        }
        Reason::Structure => {
            format!("{first} may put another packet in a packet's place, which {second} has to see")
        }
        Reason::Generated => format!("{first} makes packets of its own, which {second} has to see"),
        Reason::ReadAfterWrite(set) => {
            format!("{first} writes {}, which {second} reads", fields(set))
        }
        Reason::Dropped => format!("{second} would act on packets that {first} drops"),
        Reason::Encapsulates => format!(
            "{second} may put another packet in a packet's place, which has to hold what {first} writes"
        ),
        Reason::Rebuilds => {
            format!("{second} rebuilds packets, on a copy, and {first} sees them as they came")
        }
        Reason::WriteAfterRead(set) => {
            format!("{second} writes {}, which {first} reads as it came", fields(set))
        }
        Reason::WriteAfterWrite(set) => {
            format!("both write {}, and what {second} writes stays", fields(set))
        }
        Reason::Disjoint if only_reads(&a.profile) && only_reads(&b.profile) => {
            "both only read".to_owned()
        }
        Reason::Disjoint => "neither touches what the other reads or writes".to_owned(),
    }
}

/// The names of those of whom it is true.
fn whose(a: &StageMember, b: &StageMember, is_so: impl Fn(&Profile) -> bool) -> String {
    let who = [a, b].into_iter().filter(|member| is_so(&member.profile));
    who.map(|member| member.name.as_str()).collect::<Vec<_>>().join(" and ")
}

fn fields(set: &FieldSet) -> String {
    set.in_words().join(", ")
}

/// Does it leave packets as they are, and on their way?
fn only_reads(profile: &Profile) -> bool {
    profile.writes.is_empty() && !profile.replaces && !profile.drops && !profile.generates
}

//! Whether outcomes keep to the profile: what may run live, packet by packet, for functions that are not
//! ours.

use crate::outcome::{GeneratedKind, Outcomes, Part, Verdict};
use catena_model::profile::Profile;
use std::fmt;

/// What a function did that its profile does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It wrote bits outside of W.
    Wrote(Part),
    /// It dropped without D.
    Dropped,
    /// It made a packet without G.
    Generated,
    /// It let a packet wait, and says that none waits in it.
    Held,
    /// What waited in it did not come back as it was, once, in time.
    NotReleased,
    /// It put a packet in another's place without A.
    Replaced,
    /// It told of something, or handed something out, without E.
    Told,
    /// It answered for another number of packets than it was asked for.
    Count {
        /// Packets that it was asked for.
        asked: usize,
        /// Verdicts that it gave.
        given: usize,
    },
    /// Something that is not in R made a difference.
    Read,
    /// The order of packets of different flows made a difference without O.
    Order,
    /// Packets beyond the scope of its state made a difference.
    Scope,
    /// Another value that took its state over went on differently, or counted differently.
    NotCarried,
    /// What it answered to `ask` is not what happened, or asking changed something.
    Asked,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrote(Part::Field(field)) => {
                write!(f, "it wrote {}, which is not in what it writes", field.name())
            }
            Self::Wrote(Part::Meta(_)) => f.write_str("it wrote metadata that it does not declare"),
            Self::Dropped => f.write_str("it dropped a packet and says that it drops none"),
            Self::Generated => f.write_str("it made a packet and says that it makes none"),
            Self::Held => f.write_str("it let a packet wait and says that none waits in it"),
            Self::NotReleased => {
                f.write_str("a packet that waited in it did not come back as it was")
            }
            Self::Replaced => f.write_str("it replaced a packet and says that it replaces none"),
            Self::Told => f.write_str("it told of a packet and says that it has no effects"),
            Self::Count { asked, given } => {
                write!(f, "it was asked for {asked} packets and answered for {given}")
            }
            Self::Read => f.write_str("something that it says it does not read made a difference"),
            Self::Order => f.write_str("the order of flows made a difference"),
            Self::NotCarried => f.write_str("its state was not carried over whole"),
            Self::Asked => f.write_str("what it answers when asked is not what happens"),
            Self::Scope => f.write_str("packets beyond the scope of its state made a difference"),
        }
    }
}

/// Holds what a function made of a batch of so many packets against its profile.
///
/// # Errors
/// The first thing that the profile does not allow.
pub fn outcomes(profile: &Profile, asked: usize, outcomes: &Outcomes) -> Result<(), Fault> {
    let given = outcomes.verdicts().len();
    if given != asked {
        return Err(Fault::Count { asked, given });
    }
    if !profile.drops && outcomes.verdicts().iter().any(|one| matches!(one, Verdict::Drop(_))) {
        return Err(Fault::Dropped);
    }
    let is_released = |kind: GeneratedKind| kind == GeneratedKind::Released;
    let kinds = || outcomes.generated().iter().map(|(_, made)| made.kind);
    if !profile.generates && !kinds().all(is_released) {
        return Err(Fault::Generated);
    }
    let has_held = outcomes.verdicts().contains(&Verdict::Hold) || kinds().any(is_released);
    if has_held && !profile.holds {
        return Err(Fault::Held);
    }
    if !profile.replaces && !outcomes.replaced().is_empty() {
        return Err(Fault::Replaced);
    }
    let has_effects = !outcomes.events().is_empty() || !outcomes.handed_out().is_empty();
    if has_effects && !profile.has_effects {
        return Err(Fault::Told);
    }
    for (_, patch) in outcomes.patches() {
        let is_declared = match patch.part {
            Part::Field(field) => patch.mask & field.all() & !profile.writes.bits(field) == 0,
            Part::Meta(meta) => profile.writes.has_meta(meta),
        };
        if !is_declared {
            return Err(Fault::Wrote(patch.part));
        }
    }
    Ok(())
}

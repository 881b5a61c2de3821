//! What the stages tell of a packet while somebody listens (`explain`). Knows the decisions as the
//! stages know them, in indexes of the tables; refuses to know names and texts. In normal
//! forwarding nobody listens, and a note costs one branch.

use super::transform::{Exit, Stage};
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::{NetworkIndex, PortIndex, SliceIndex};
use catena_model::DropReason;
use catena_wire::nsh::UserContext;
use catena_wire::scalar::MacAddr;

/// One decision.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    /// The rule with this number among those in force took it.
    Classified { port: PortIndex, rule: u32, start: PathPosition },
    /// The slice with this number took it: at a port of this node, else at the end of its path.
    Sliced { port: Option<PortIndex>, slice: SliceIndex, shown: UserContext, start: PathPosition },
    /// At the end of its path, the rule with this number took it into another.
    Branched { ended: PathPosition, rule: u32, start: PathPosition },
    /// No rule took it; `never`: none was asked.
    Unclassified { port: PortIndex, never: bool },
    /// Of a hop's instances, the one with this index.
    Chosen { position: PathPosition, instance: usize, flow_hash: u64 },
    /// The chosen instance with this index is dead and passed by.
    Bypassed { position: PathPosition, instance: usize },
    /// The memory knew its flow at a function's port: it goes on at this position.
    Recalled { port: PortIndex, position: PathPosition },
    /// An aware function gave it back with a header that says this position.
    Returned { port: PortIndex, position: PathPosition },
    /// No path expects it at a function's port.
    OwnTraffic { port: PortIndex },
    /// It was a question, and is the answer now.
    Answered { port: PortIndex },
    /// It has left its path for a network; `resolved`: to this MAC, that of its destination.
    Finished { position: PathPosition, network: NetworkIndex, resolved: Option<MacAddr> },
    /// The switch looked for a MAC in a network.
    Switched { network: NetworkIndex, destination: MacAddr },
    /// It leaves, with this header in front.
    Leaves { exit: Exit, stage: Stage, header: Vec<u8> },
    /// It ends here.
    Dropped { reason: DropReason },
}

/// A note, and of which copy of the packet: 0 is the packet itself.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    pub(crate) copy: u16,
    pub(crate) note: Note,
}

/// The listener's end of a vector; nobody in normal forwarding.
#[derive(Default)]
pub(crate) struct Trace<'t>(Option<&'t mut Vec<Noted>>);

impl<'t> Trace<'t> {
    /// Writes all notes down.
    pub(crate) fn listening(notes: &'t mut Vec<Noted>) -> Self {
        Self(Some(notes))
    }

    #[inline]
    pub(crate) fn note(&mut self, copy: u16, note: impl FnOnce() -> Note) {
        if let Some(notes) = &mut self.0 {
            notes.push(Noted { copy, note: note() });
        }
    }
}

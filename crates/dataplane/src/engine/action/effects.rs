//! What becomes of a packet, effect by effect, as the stages and the last step bring it about. `explain`, checks
//! and the kernel's transforms are made of this list and of nothing else. Knows decisions in indexes of the
//! tables; refuses to know names and texts. In normal forwarding nobody listens, and an effect costs
//! one branch.

use crate::engine::account::updates::CounterUpdate;
use crate::engine::encap::PathPosition;
use crate::engine::packet::index::{NetworkIndex, PortIndex, SliceIndex};
use crate::engine::state::proxy_flows::{Key, Visit};
use crate::engine::vector::decision::{Exit, Stage};
use catena_model::program::WhenAway;
use catena_model::{DropReason, TunnelKind};
use catena_wire::flow::FlowKey;
use catena_wire::nsh::UserContext;
use catena_wire::scalar::MacAddr;

/// One effect.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// It moved a line of the counters. Of what leaves, once for all its wire packets.
    Counted(CounterUpdate),
    /// The rule with this number among those in force took it.
    Classified { port: PortIndex, rule: u32, start: PathPosition },
    /// The slice with this number took it: at a port of this node, else at the end of its path.
    Sliced { port: Option<PortIndex>, slice: SliceIndex, shown: UserContext, start: PathPosition },
    /// At the end of its path, the rule with this number took it into another.
    Branched { ended: PathPosition, rule: u32, start: PathPosition },
    /// No rule took it; `never`: none was asked.
    Unclassified { port: PortIndex, never: bool },
    /// The controller is asked for its flow, which a rule sends in here.
    Asked { port: PortIndex, start: PathPosition, away: WhenAway },
    /// Of a hop's instances, the one with this index.
    Chosen { position: PathPosition, instance: usize, flow_hash: u64 },
    /// The local instance with this number, which is inside, was asked: the rules that it met, the name by which it
    /// ends there, if it does, and its ends where it has others now.
    Judged {
        position: PathPosition,
        local: u32,
        rules: Vec<String>,
        ends: Option<DropReason>,
        becomes: Option<FlowKey>,
    },
    /// The chosen instance with this index is dead and passed by.
    Bypassed { position: PathPosition, instance: usize },
    /// The proxy's memory knew its flow by this key.
    Known { key: Key },
    /// So its flow goes on at this position, from a function's port.
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
    /// The proxy's memory keeps its visit to a function that knows nothing of chains.
    Remembered { keys: Vec<Key>, visit: Visit },
    /// It leaves.
    Leaves(Leaving),
    /// It ends here.
    Dropped { reason: DropReason },
}

/// How a packet leaves.
#[derive(Clone, Debug)]
pub(crate) struct Leaving {
    pub(crate) exit: Exit,
    pub(crate) stage: Stage,
    /// The tunnel, if it leaves by one.
    pub(crate) tunnel: TunnelKind,
    /// What stands in front of its frame.
    pub(crate) header: Vec<u8>,
    /// Bytes of the frame in whose place that stands.
    pub(crate) replaces: usize,
    /// It is what is left of the one that the packet came with.
    pub(crate) goes_on: bool,
    /// The MACs that were written over those of its frame.
    pub(crate) destination: Option<MacAddr>,
    pub(crate) source: Option<MacAddr>,
    /// Of its flow: it chooses the source port of a tunnel.
    pub(crate) flow_hash: u64,
}

/// An effect, and on which copy of the packet: 0 is the packet itself.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    pub(crate) copy: u16,
    pub(crate) effect: Effect,
}

/// The listener's end of a vector; nobody in normal forwarding.
#[derive(Default)]
pub(crate) struct Trace<'t> {
    notes: Option<&'t mut Vec<Noted>>,
    wants_answers: bool,
}

impl<'t> Trace<'t> {
    /// Writes all effects down.
    pub(crate) fn listening(notes: &'t mut Vec<Noted>) -> Self {
        Self { notes: Some(notes), wants_answers: true }
    }

    /// The same for the kernel, which repeats nothing that a function is asked about: what it says may come later.
    pub(crate) fn recording(notes: &'t mut Vec<Noted>) -> Self {
        Self { notes: Some(notes), wants_answers: false }
    }

    /// Does anybody wait for what functions say?
    pub(crate) const fn wants_answers(&self) -> bool {
        self.wants_answers
    }

    #[inline]
    pub(crate) fn note(&mut self, copy: u16, effect: impl FnOnce() -> Effect) {
        if let Some(notes) = &mut self.notes {
            notes.push(Noted { copy, effect: effect() });
        }
    }
}

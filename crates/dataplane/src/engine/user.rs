//! Whose packet it is, as the tunnels around it tell: tenant network, user, QoS flow and inner flow.
//! Knows when a frame is looked into; refuses to know slices.
//!
//! A node looks into tunnels once its program has had slices or paths of them. Many users share the
//! flow of one tunnel, so what goes into an unaware function is remembered with its user then. Only
//! where a slice takes packets from is a frame judged by what is inside it: elsewhere what cannot
//! be read is a frame as any other.

use super::rendezvous::mix;
use catena_model::DropReason;
use catena_model::limits::TUNNEL_LAYERS_MAX;
use catena_wire::frame::FrameView;
use catena_wire::inside::{Inside, InsideError, InsideFault};
use catena_wire::scalar::{Qfi, Teid, Vni};

// The parser counts layers in eight bits.
const _: () = assert!(TUNNEL_LAYERS_MAX <= u8::MAX as usize);

/// Whether an engine looks into tunnels, and by which seed it tells users apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) is_on: bool,
    pub(super) seed: u64,
}

/// What was found inside a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// It is in no tunnel, or nobody looked.
    Unknown,
    /// What its tunnels tell.
    Known(Known),
    /// Its tunnels cannot be followed; by which name it ends where that matters.
    Unreadable(DropReason),
}

/// What the tunnels of a frame tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) vni: Option<Vni>,
    pub(super) teid: Option<Teid>,
    pub(super) qfi: Option<Qfi>,
    /// Tells users and inner flows of one outer flow apart; never zero.
    pub(super) identity: u64,
    /// The same for both directions of the inner flow; none: no inner flow is seen.
    flow_hash: Option<u64>,
}

impl Look {
    /// Looks into a frame.
    #[inline]
    pub(super) fn into(self, bytes: &[u8], view: &FrameView) -> User {
        if !self.is_on {
            return User::Unknown;
        }
        match Inside::parse(bytes, view, TUNNEL_LAYERS_MAX as u8) {
            Ok(None) => User::Unknown,
            Ok(Some(inside)) => User::Known(Known::new(&inside, self.seed)),
            Err(InsideError { fault: InsideFault::TooDeep, .. }) => {
                User::Unreadable(DropReason::TunnelTooDeep)
            }
            Err(_) => User::Unreadable(DropReason::MalformedTunnel),
        }
    }
}

impl Known {
    fn new(inside: &Inside, seed: u64) -> Self {
        let network = inside.vni.map_or(0, |vni| mix(u64::from(vni.get()) + 1));
        Self {
            vni: inside.vni,
            teid: inside.teid,
            qfi: inside.qfi,
            identity: inside.identity_hash(seed),
            flow_hash: inside.flow.map(|flow| flow.symmetric_hash() ^ network),
        }
    }
}

impl User {
    /// What tells users of one outer flow apart; zero: nothing is known of one.
    #[inline]
    pub(super) fn identity(&self) -> u64 {
        match self {
            Self::Known(known) => known.identity,
            Self::Unknown | Self::Unreadable(_) => 0,
        }
    }

    /// The number by which a packet on the path of a slice chooses instances, on every node the
    /// same; `outer` is that of its outer flow.
    #[inline]
    pub(super) fn flow_hash(&self, outer: u64) -> u64 {
        match self {
            Self::Known(Known { flow_hash: Some(inner), .. }) => *inner,
            _ => outer,
        }
    }
}

//! Whose packet it is, as the tunnels around it tell: tenant network, user, QoS flow and inner flow.
//! Knows when a frame is looked into; refuses to know slices.
//!
//! A node looks into tunnels once its program has had slices or paths of them. Many users share the
//! flow of one tunnel, so what goes into an unaware function is remembered with its user then. Only
//! where a slice takes packets from is a frame judged by what is inside it: elsewhere what cannot
//! be read is a frame as any other.

use catena_model::DropReason;
use catena_model::limits::TUNNEL_LAYERS_MAX;
use catena_wire::flow::mix;
use catena_wire::frame::FrameView;
use catena_wire::inside::{Inside, InsideError, InsideFault};
use catena_wire::plain::PlainFrame;

// The parser counts layers in eight bits.
const _: () = assert!(TUNNEL_LAYERS_MAX <= u8::MAX as usize);

/// Whether an engine looks into tunnels, and by which seed it tells users apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inspection {
    pub(crate) is_on: bool,
    pub(crate) seed: u64,
}

/// What was found inside a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Subscriber {
    /// It is in no tunnel, or nobody looked.
    #[default]
    Unknown,
    /// What its tunnels tell.
    Known(KnownSubscriber),
    /// Its tunnels cannot be followed; by which name it ends where that matters.
    Unreadable(DropReason),
}

/// What the tunnels of a frame tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownSubscriber {
    pub(crate) inside: Inside,
    /// By which users are told apart.
    seed: u64,
}

impl Inspection {
    /// Looks into a frame.
    #[inline]
    pub(crate) fn into(self, bytes: &[u8], view: &FrameView) -> Subscriber {
        if !self.is_on {
            return Subscriber::Unknown;
        }
        match Inside::parse(bytes, view, TUNNEL_LAYERS_MAX as u8) {
            Ok(None) => Subscriber::Unknown,
            Ok(Some(inside)) => Subscriber::Known(KnownSubscriber { inside, seed: self.seed }),
            Err(InsideError { fault: InsideFault::TooDeep, .. }) => {
                Subscriber::Unreadable(DropReason::TunnelTooDeep)
            }
            Err(_) => Subscriber::Unreadable(DropReason::MalformedTunnel),
        }
    }

    /// The same for a frame that is plain, where all that its tunnels hold is plain too; none: it has
    /// no user, nobody looks, or somebody has to walk.
    #[inline]
    pub(crate) fn into_plain(self, bytes: &[u8], frame: &PlainFrame) -> Option<Subscriber> {
        if !self.is_on {
            return None;
        }
        let inside = Inside::parse_plain(bytes, frame, TUNNEL_LAYERS_MAX as u8)?;
        Some(Subscriber::Known(KnownSubscriber { inside, seed: self.seed }))
    }
}

impl KnownSubscriber {
    /// The same for both directions of the inner flow; none: no inner flow is seen.
    fn flow_hash(&self, seed: u64) -> Option<u64> {
        let Inside { tunnel_id, flow, .. } = self.inside;
        let network = tunnel_id.map_or(0, |id| {
            let (kind, number) = id.parts();
            mix(number.wrapping_add(1) ^ u64::from(kind - 1) << 62)
        });
        flow.map(|flow| flow.symmetric_hash(seed) ^ network)
    }
}

impl Subscriber {
    /// What tells users and inner flows of one outer flow apart; zero: nothing is known of one.
    #[inline]
    pub(crate) fn identity(&self) -> u64 {
        match self {
            Self::Known(known) => known.inside.identity_hash(known.seed),
            Self::Unknown | Self::Unreadable(_) => 0,
        }
    }

    /// The number by which a packet on the path of a slice chooses instances, on every node the
    /// same; `outer` is that of its outer flow.
    #[inline]
    pub(crate) fn flow_hash(&self, seed: u64, outer: impl FnOnce() -> u64) -> u64 {
        let inner = match self {
            Self::Known(known) => known.flow_hash(seed),
            Self::Unknown | Self::Unreadable(_) => None,
        };
        inner.unwrap_or_else(outer)
    }
}

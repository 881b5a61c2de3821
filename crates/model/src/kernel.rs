//! The kernel path of a node in numbers: how many flows the kernel repeats, and why it does not
//! repeat the others. Knows names and sums; refuses to know how a flow is repeated.

use crate::account::{Account, Volume};
use crate::drop_reason::DropReason;
use crate::id::{NetworkId, PathId, PortId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

macro_rules! declined {
    ($($variant:ident $name:literal $sentence:literal,)+) => {
        /// Why the engine keeps a flow to itself.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
        )]
        #[repr(u8)]
        pub enum Declined {
            $(
                #[doc = $sentence]
                #[serde(rename = $name)]
                $variant,
            )+
        }

        impl Declined {
            /// Every cause, in the order of declaration.
            pub const ALL: &'static [Declined] = &[$(Declined::$variant),+];

            /// The short name used in counters, metrics and messages.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Declined::$variant => $name),+ }
            }
        }
    };
}

declined! {
    Dropped "dropped" "Its packets end here, and a drop is the engine's to name.",
    Answered "answered" "It was a question, which the engine answers.",
    Replicated "replicated" "It goes to several places that are no taps.",
    OwnTraffic "own_traffic" "A function sends it by itself.",
    Fields "fields" "Rules look at fields that differ between packets of a flow.",
    BundledFunction "bundled_function" "A function of its path runs inside the data plane, which asks it about each packet.",
    AwareFunction "aware_function" "Its function reads the chain header.",
    SharedFunction "shared_function" "Two versions of its path, paths of one flow, or two networks share a function, so each packet is told apart.",
    Siblings "siblings" "Several instances of its hop send from one port.",
    Pinned "pinned" "Flows of its path are pinned to the former one.",
    Watched "watched" "Probes of its instance look like its packets.",
    Bypassed "bypassed" "It goes past a dead instance.",
    Metadata "metadata" "Its path carries metadata.",
    Telemetry "telemetry" "Its packets take records along, which the engine writes.",
    Slices "slices" "Slices look deeper than the kernel does.",
    TapElsewhere "tap_elsewhere" "A tap of its path is on another node.",
    SourceRouted "source_routed" "It goes by a source route, which the kernel does not write.",
    Segmented "segmented" "It goes by segments of IPv6 whose packets the kernel does not write: there is a frame inside, or 16 bits name each node, or the way leads by another interface, or by a route with a header or an MTU of its own.",
    Changeover "changeover" "It comes by segments and goes on by a tunnel, or the other way, and keeps the mark of the first, by which a kernel would segment it.",
    RouteEnds "route_ends" "Its source route ends at this node, which takes the header off.",
    LinkUnsound "link_unsound" "The link of its source route is dead or silent, or its frames are not the kernel's.",
    UnusualRoute "unusual_route" "The kernel does not read its source route, or it is longer than its link takes.",
    Rewritten "rewritten" "More than its destination MAC changes.",
    NotSetUp "not_set_up" "The controller has yet to answer for its flow.",
    TooManyGuards "too_many_guards" "It is on more paths and networks than a transform can depend on.",
    NoAccount "no_account" "Every account of the kernel is taken.",
    NoInterface "no_interface" "A port that it leaves by is not known to the kernel.",
    Tunnel "tunnel" "It goes to another node, which the kernel does not do here.",
    LongHeader "long_header" "Its header is longer than a transform's.",
    Full "full" "As many flows are in the kernel as may be.",
    Refused "refused" "The kernel refused its transform.",
    Moved "moved" "The tables moved while it was decided.",
}

impl Declined {
    /// Is it a matter of a change that is under way, so that packets on the same path may be the
    /// kernel's soon, or were?
    #[must_use]
    pub const fn is_passing(self) -> bool {
        matches!(
            self,
            Self::SharedFunction | Self::Pinned | Self::Bypassed | Self::NoInterface | Self::Moved
        )
    }
}

/// What the kernel path of a node does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KernelCounters {
    /// Flows that the kernel repeats now, those on their way to it included.
    pub flows: u64,
    /// Flows that the kernel can hold; 0 at a switch, where it passes frames on from link to link.
    pub flows_max: u64,
    /// Transforms put in.
    pub installed: u64,
    /// Transforms taken out because nothing passed by them any more.
    pub aged: u64,
    /// Transforms taken out because what they depended on changed.
    pub ended: u64,
    /// Transforms taken out for a moment, so that the engine timed packets of their flow in a function.
    #[serde(default)]
    pub let_up: u64,
    /// Transforms that the kernel gave up for others when it was full.
    pub evicted: u64,
    /// Packets that came up from the kernel.
    pub punted: u64,
    /// Frames on their way up that were lost because the ring was full.
    pub ring_full: u64,
    /// Frames on their way up that never reached the ring: the punt device was down or gone.
    #[serde(default)]
    pub punt_lost: u64,
    /// Frames that ended in the kernel because it refused a step half way.
    #[serde(default)]
    pub refused: u64,
    /// Copies for taps that the kernel refused; they are in the accounts as if it had made them.
    #[serde(default)]
    pub copies_refused: u64,
    /// Frames that came to the program at an interface that is no port's, and ended there.
    #[serde(default)]
    pub strays: u64,
    /// Packets that the kernel carried by itself: they are in the accounts of ports and paths too.
    pub carried: Volume,
    /// How often a packet met a transform that had ended, by path.
    pub stale_paths: BTreeMap<PathId, u64>,
    /// The same, by network.
    pub stale_networks: BTreeMap<NetworkId, u64>,
    /// Flows that were not taken, or gave their place to one of another, because the kernel could
    /// take no more and their port had most: by port.
    #[serde(default)]
    pub crowded_ports: BTreeMap<PortId, u64>,
    /// The same for flows that come from functions or other nodes, by path.
    #[serde(default)]
    pub crowded_paths: BTreeMap<PathId, u64>,
    /// The same for those that come from other nodes on no path, by network.
    #[serde(default)]
    pub crowded_networks: BTreeMap<NetworkId, u64>,
    /// Packets of flows that the engine kept, by why it did so first.
    pub declined: BTreeMap<Declined, u64>,
}

impl KernelCounters {
    /// Flows that were not taken, or gave their place to one of another.
    #[must_use]
    pub fn crowded(&self) -> u64 {
        let ports = self.crowded_ports.values().chain(self.crowded_paths.values());
        ports.chain(self.crowded_networks.values()).copied().sum()
    }

    /// What was received by the program and is in no port's account, since it never came up. A
    /// super-frame counts once: what it stood for went with it.
    #[must_use]
    pub fn lost_in_kernel(&self) -> Account {
        let mut account = Account::default();
        let lost = [
            (DropReason::PuntRingFull, self.ring_full),
            (DropReason::PuntLost, self.punt_lost),
            (DropReason::KernelRefused, self.refused),
        ];
        for (reason, frames) in lost.into_iter().filter(|(_, frames)| *frames > 0) {
            account.received.add(frames, 0);
            account.dropped.insert(reason, frames);
        }
        account
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_has_a_name_of_its_own_which_is_what_is_written() {
        let mut names = std::collections::BTreeSet::new();
        for cause in Declined::ALL {
            assert!(names.insert(cause.name()), "{} twice", cause.name());
            assert_eq!(serde_json::to_string(cause).unwrap(), format!("\"{}\"", cause.name()));
        }
    }
}

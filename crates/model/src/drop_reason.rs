//! The one list of reasons for which a packet ends here. Counters, metrics, CLI and documentation
//! are made from it; nobody else names a drop.

use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

macro_rules! drop_reasons {
    ($($variant:ident $name:literal $sentence:literal,)+) => {
        /// Why a packet was dropped.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema,
        )]
        #[repr(u8)]
        pub enum DropReason {
            $(
                #[doc = $sentence]
                #[serde(rename = $name)]
                $variant,
            )+
        }

        impl DropReason {
            /// Every reason, in the order of declaration: the index of each is `self as usize`.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant),+];
            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The short name used in counters, metrics and messages.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name),+ }
            }

            /// One sentence for people.
            #[must_use]
            pub const fn sentence(self) -> &'static str {
                match self { $(DropReason::$variant => $sentence),+ }
            }
        }
    };
}

drop_reasons! {
    MalformedEthernet "malformed_ethernet" "The Ethernet header is cut short.",
    MalformedArp "malformed_arp" "The ARP message is cut short or of an unknown kind.",
    MalformedIp "malformed_ip" "The IPv4 or IPv6 header is cut short or contradicts itself.",
    MalformedTransport "malformed_transport" "The TCP, UDP or ICMP header is cut short.",
    MalformedVxlan "malformed_vxlan" "The VXLAN header is cut short or lacks its VNI flag.",
    MalformedVxlanGpe "malformed_vxlan_gpe" "The VXLAN-GPE header is cut short or illegal.",
    MalformedNsh "malformed_nsh" "The NSH header is cut short, of a wrong version or length.",
    MalformedMpls "malformed_mpls" "The MPLS label stack is not an SFC label pair.",
    MalformedSourceRoute "malformed_source_route" "The source route is cut short or contradicts itself.",
    WrongRouteTag "wrong_route_tag" "The source route has another tag than the domain's key gives it, or none where its path asks for one.",
    MalformedSrv6 "malformed_srv6" "The IPv6 header or its segment routing header is cut short or contradicts itself.",
    ForeignSegment "foreign_segment" "The active segment is not one of this node's.",
    SegmentFromPort "segment_from_port" "A port sent a packet to a segment of the domain's, which nodes alone may do (RFC 8754 section 5.1).",
    CongestionUntold "congestion_untold" "The packet met congestion on its way, and the one inside cannot say so (RFC 6040 section 4.2).",
    MalformedTunnel "malformed_tunnel" "A header inside a tunnel that slices look into is cut short or contradicts itself.",
    TunnelTooDeep "tunnel_too_deep" "More tunnels are in one another than slices look into.",
    FragmentWithoutFirst "fragment_without_first" "A later fragment that a rule or path could want came, and the first of its packet did not in time.",
    SecondFirstFragment "second_first_fragment" "Another first fragment with this name came before, and differs: of the same packet, or within a minute of one that went another way.",
    FragmentOverlap "fragment_overlap" "A later fragment overlaps the first of its packet, or the transport header.",
    FragmentInTunnel "fragment_in_tunnel" "The packet inside a tunnel is a fragment, so that nobody can tell which of the slices that could want it is its user's.",
    FragmentsWaitingFull "fragments_waiting_full" "Too many later fragments wait for the first of their packets.",
    TruncatedByRing "truncated_by_ring" "The frame was longer than a slot of the port's ring.",
    PuntRingFull "punt_ring_full" "The kernel path had no transform for the frame, and the ring to the engine was full.",
    PuntLost "punt_lost" "The kernel path had no transform for the frame, and it never reached the ring to the engine: the punt device was down or gone.",
    PuntShareFull "punt_share_full" "The kernel path had no transform for the frame, and its port has as many frames on their way to the engine as may be beside those of others.",
    KernelRefused "kernel_refused" "The kernel refused a step of the kernel path half way.",
    UnsupportedOffload "unsupported_offload" "The kernel marked the frame with an offload that is unknown here.",
    UnsupportedNextProtocol "unsupported_next_protocol" "The tunnel carries something that is neither Ethernet nor NSH.",
    UnsupportedEncapsulation "unsupported_encapsulation" "The frame speaks an encapsulation that this port does not take.",
    ForeignChainHeader "foreign_chain_header" "A tenant port sent a frame that already carries a chain header.",
    UnknownTunnelSource "unknown_tunnel_source" "The datagram came from an address that is no node of the program.",
    ForeignDevice "foreign_device" "The datagram came in by a device that is none of the underlay.",
    UnknownNetwork "unknown_network" "The VNI belongs to no tenant network of this node.",
    UnknownPort "unknown_port" "The port is not in the program.",
    UnknownMac "unknown_mac" "No port of the tenant network has the destination MAC.",
    HairpinToSource "hairpin_to_source" "The destination is the port that the frame came from.",
    FloodLimited "flood_limited" "The port sends more to everybody in its network than its rate.",
    UnicastInGroupFrame "unicast_in_group_frame" "The frame is for a group of stations and the packet in it for one, which a chain or a slice could want.",
    FloodRepeated "flood_repeated" "A function's machine repeated what another station of the network had sent to everybody in it.",
    VlanNotInNetwork "vlan_not_in_network" "The frame carries a VLAN tag that its port does not take.",
    NoSourceRoute "no_source_route" "A link brought a frame that is on no source route.",
    UnknownNeighbour "unknown_neighbour" "The link that brought the frame has no neighbour of this domain at its other end, or the word was not his.",
    LinkDead "link_dead" "The link that the source route leads over is dead, and the frame knows no way round it.",
    NoRoute "no_route" "No way over links is known to the node of the packet's function.",
    UnknownExit "unknown_exit" "The source route names a port number that leads nowhere from this node.",
    RouteEnded "route_ended" "The source route is at its end at a node that is no edge of its chain.",
    NoSegments "no_segments" "A node of the path has no place in the IPv6 underlay, or this one has none.",
    NoSegmentRoute "no_segment_route" "The node's host has no route to the next segment.",
    SegmentsUnfit "segments_unfit" "The path leads to more nodes than a header of segments holds.",
    RouteUnfit "route_unfit" "The way to the packet's function has more ports than a header of its profile holds.",
    NotPlainIp "not_plain_ip" "What carries its path takes IP packets without a VLAN tag alone, and the frame is another.",
    NoPath "no_path" "The path identifier is not in the program of this node.",
    IndexExhausted "index_exhausted" "The service index points behind the end of its path.",
    ContextTooLong "context_too_long" "The chain header carries more metadata than is passed on.",
    ContextMemoryFull "context_memory_full" "No further metadata can be kept on its way: all places are in use, or others took this packet's.",
    TtlExpired "ttl_expired" "The TTL of the chain header reached zero.",
    PositionElsewhere "position_elsewhere" "The path position belongs to a function of another node.",
    ForeignPath "foreign_path" "The node that sent the datagram has no business at this position of the path.",
    ForeignAddress "foreign_address" "Several networks share the function, and the packet's address is not of its own network.",
    NoInstance "no_instance" "The function has no instance that takes traffic.",
    FunctionDead "function_dead" "The function's instance is dead, and its packets are blocked or have no other to go to.",
    PathRemoved "path_removed" "The packet came back from a function after its path was removed.",
    UnknownReturn "unknown_return" "A function sent on a packet that no path expects back.",
    UndeclaredPort "undeclared_port" "A function's machine sent what no path expects by a port that no chain of it takes packets from, and not from an address of its own.",
    NoNeighbour "no_neighbour" "At the end of the path no MAC is known for the destination address and its network has no gateway.",
    FlowMemoryFull "flow_memory_full" "The proxy has no room for a further flow: its entries are in use, and whoever has them has no more than this packet's port or path.",
    PortUnbound "port_unbound" "The port of the program has no interface yet.",
    MtuExceeded "mtu_exceeded" "The packet with its tunnel header is larger than the underlay takes.",
    MtuUntold "mtu_untold" "The packet is larger than the underlay takes, and so many of its port were answered lately that this one was not.",
    SliceRateExceeded "slice_rate_exceeded" "The packet is over the rate of its slice.",
    SliceQueueFull "slice_queue_full" "Too many packets of slices wait for their turn.",
    SetupFlowFull "setup_flow_full" "As many packets of the flow are held as may be until the controller has answered for it.",
    SetupNodeFull "setup_node_full" "Too many packets or flows of the port or the node wait for an answer of the controller.",
    SetupRateExceeded "setup_rate_exceeded" "The port brings more new flows a second than the controller may be asked for.",
    SetupUnanswered "setup_unanswered" "The controller is away, or did not answer for the flow in time, and its chain drops packets then.",
    TransmitFailed "transmit_failed" "The kernel refused to send the frame.",
    BuffersExhausted "buffers_exhausted" "No packet buffer was free.",
    FunctionDenied "function_denied" "A rule of a bundled function says that the packet ends there.",
    FunctionFull "function_full" "A bundled function has no room for what the packet needs.",
    FunctionFailed "function_failed" "A bundled function that protects died of the packet or did not come back from it, or one answered with what its profile does not say, so that nothing it said counts.",
    FunctionUnasked "function_unasked" "The packet is addressed to a bundled function, and no chain leads it there.",
}

impl DropReason {
    /// Does it end frames that nobody has looked into, so that they are in no path's account?
    #[must_use]
    pub const fn is_unseen(self) -> bool {
        matches!(self, Self::PuntShareFull | Self::TruncatedByRing | Self::UnsupportedOffload)
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_indexes_are_dense() {
        let mut names = std::collections::BTreeSet::new();
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, index);
            assert!(names.insert(reason.name()), "{} twice", reason.name());
            assert!(reason.sentence().ends_with('.'));
            let json = serde_json::to_string(reason).unwrap();
            assert_eq!(json, format!("\"{}\"", reason.name()));
        }
    }
}

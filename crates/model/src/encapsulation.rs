//! Path encapsulations and what each can do: one table, which planning, the API and the data plane read.
//! How a header is written is known to the data plane alone.

mod table;

pub use table::Capabilities;
pub(crate) use table::Carriage;

use crate::limits::{
    LABELLED_ROUTE_PORTS_MAX, NODE_ROUTE_IDENTITIES, RESIDUE_ROUTE_PORTS_MAX, ROUTE_FUNCTIONS_MAX,
    ROUTE_PORTS_MAX,
};
use crate::topology::PortNumber;
use catena_wire::source_route::native::{BYTES_WITHOUT_PORTS, PortWidth, TAG_BYTES};
use catena_wire::source_route::polka::{self, Degree};
use catena_wire::source_route::{Profile, marked, sr_mpls};
use catena_wire::{ethernet, ipv4, ipv6, srv6, srv6_int, udp};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;
use utoipa::ToSchema;

/// A path encapsulation between hosts, or towards a function that speaks it.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    ToSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Encapsulation {
    /// Network Service Header (RFC 8300).
    #[default]
    Nsh,
    /// MPLS SFC label pair (RFC 8595).
    Mpls,
    /// The ports of the way in a header of ours behind the addresses of Ethernet.
    #[serde(rename = "source-route/native")]
    SourceRouteNative,
    /// The same in fields of ordinary Ethernet, none of which ever has a reserved value.
    #[serde(rename = "source-route/safe-9")]
    SourceRouteSafe9,
    /// The same in all bits of those fields.
    #[serde(rename = "source-route/classic-80")]
    SourceRouteClassic80,
    /// A label of MPLS for each port of the way, in front of the frame.
    #[serde(rename = "source-route/sr-mpls")]
    SourceRouteSrMpls,
    /// One number for all ports of the way, which nodes divide by polynomials of their own.
    #[serde(rename = "source-route/polka")]
    SourceRoutePolka,
    /// As `source-route/native`, sealed by a tag that who does not have the key of the domain cannot make.
    #[serde(rename = "source-route/native-tagged")]
    SourceRouteNativeTagged,
    /// Segments of the way in a routing header of IPv6 (RFC 8754), IP packets inside.
    Srv6,
    /// The same with whole frames inside.
    #[serde(rename = "srv6/ethernet")]
    Srv6Ethernet,
    /// As `srv6`, each node but the last one named by 16 bits (NEXT-CSID, RFC 9800).
    #[serde(rename = "srv6/csid")]
    Srv6Csid,
    /// One that proves what another would cost: path, hop and time to live as they are.
    #[cfg(dummy_encapsulation)]
    Dummy,
}

impl Encapsulation {
    /// Every encapsulation.
    #[cfg(not(dummy_encapsulation))]
    pub const ALL: [Self; 11] = [
        Self::Nsh,
        Self::Mpls,
        Self::SourceRouteNative,
        Self::SourceRouteSafe9,
        Self::SourceRouteClassic80,
        Self::SourceRouteSrMpls,
        Self::SourceRoutePolka,
        Self::SourceRouteNativeTagged,
        Self::Srv6,
        Self::Srv6Ethernet,
        Self::Srv6Csid,
    ];
    /// Every encapsulation.
    #[cfg(dummy_encapsulation)]
    pub const ALL: [Self; 12] = [
        Self::Nsh,
        Self::Mpls,
        Self::SourceRouteNative,
        Self::SourceRouteSafe9,
        Self::SourceRouteClassic80,
        Self::SourceRouteSrMpls,
        Self::SourceRoutePolka,
        Self::SourceRouteNativeTagged,
        Self::Srv6,
        Self::Srv6Ethernet,
        Self::Srv6Csid,
        Self::Dummy,
    ];
    /// Those that travel in tunnels between nodes.
    #[cfg(not(dummy_encapsulation))]
    pub const TUNNELLED: [Self; 2] = [Self::Nsh, Self::Mpls];
    /// Those that travel in tunnels between nodes.
    #[cfg(dummy_encapsulation)]
    pub const TUNNELLED: [Self; 3] = [Self::Nsh, Self::Mpls, Self::Dummy];

    /// Those whose headers functions may read.
    pub const SPOKEN: [Self; Self::TUNNELLED.len() + 1] = {
        let mut all = [Self::SourceRouteNative; Self::TUNNELLED.len() + 1];
        let mut number = 0;
        while number < Self::TUNNELLED.len() {
            all[number] = Self::TUNNELLED[number];
            number += 1;
        }
        all
    };

    /// What networking-sfc means where a chain does not say it.
    pub const OF_NETWORKING_SFC: Self = Self::Mpls;

    /// What it can do.
    #[must_use]
    pub const fn capabilities(self) -> &'static Capabilities {
        match self {
            Self::Nsh => &table::NSH,
            Self::Mpls => &table::MPLS,
            Self::SourceRouteNative => &table::SOURCE_ROUTE_NATIVE,
            Self::SourceRouteSafe9 => &table::SOURCE_ROUTE_SAFE_9,
            Self::SourceRouteClassic80 => &table::SOURCE_ROUTE_CLASSIC_80,
            Self::SourceRouteSrMpls => &table::SOURCE_ROUTE_SR_MPLS,
            Self::SourceRoutePolka => &table::SOURCE_ROUTE_POLKA,
            Self::SourceRouteNativeTagged => &table::SOURCE_ROUTE_NATIVE_TAGGED,
            Self::Srv6 => &table::SRV6,
            Self::Srv6Ethernet => &table::SRV6_ETHERNET,
            Self::Srv6Csid => &table::SRV6_CSID,
            #[cfg(dummy_encapsulation)]
            Self::Dummy => &table::DUMMY,
        }
    }

    /// The name in files and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.capabilities().name
    }

    /// The name in what people read: abbreviations are in capitals.
    #[must_use]
    pub fn title(self) -> String {
        match self.capabilities().carriage {
            Carriage::Tunnel(..) => self.name().to_uppercase(),
            Carriage::Links(_) => self.name().to_owned(),
            Carriage::Segments => self.name().replace("srv6", "SRv6"),
        }
    }

    /// The encapsulation of this name, if there is one.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Does it travel by links, over the ports that stand in the packet?
    #[must_use]
    pub const fn is_source_route(self) -> bool {
        self.profile().is_some()
    }

    /// How its frames carry their ports, where they do.
    #[must_use]
    pub const fn profile(self) -> Option<Profile> {
        match self.capabilities().carriage {
            Carriage::Tunnel(..) | Carriage::Segments => None,
            Carriage::Links(profile) => Some(profile),
        }
    }

    /// Does it travel in tunnels over UDP?
    #[must_use]
    pub const fn is_tunnelled(self) -> bool {
        matches!(self.capabilities().carriage, Carriage::Tunnel(..))
    }

    /// Does it travel in IPv6 packets of its own, by the segments that stand in the packet?
    #[must_use]
    #[inline]
    pub const fn is_segmented(self) -> bool {
        // Each packet asks: the table of what encapsulations can is not read for it.
        matches!(self, Self::Srv6 | Self::Srv6Ethernet | Self::Srv6Csid)
    }

    /// Do 16 bits name each node but the last one?
    #[must_use]
    #[inline]
    pub const fn is_compressed(self) -> bool {
        matches!(self, Self::Srv6Csid)
    }

    /// Have its headers a tag, by the key of the domain?
    #[must_use]
    pub const fn is_tagged(self) -> bool {
        matches!(self, Self::SourceRouteNativeTagged)
    }

    /// Do its frames bring ways round dead cables with them?
    #[must_use]
    pub fn carries_detours(self) -> bool {
        self.profile() == Some(Profile::Native)
    }

    /// What functions speak that get the headers of its chains; none: no function does.
    #[must_use]
    pub fn spoken(self) -> Option<Self> {
        match self.profile() {
            None if self.is_segmented() => None,
            None => Some(self),
            // With its tag, if it has one.
            Some(Profile::Native) => Some(Self::SourceRouteNative),
            Some(Profile::Safe9 | Profile::Classic80 | Profile::SrMpls | Profile::Polka) => None,
        }
    }

    /// Must each node on a way have an identity of its own to read its port?
    #[must_use]
    pub fn needs_identities(self) -> bool {
        self.profile() == Some(Profile::Polka)
    }

    /// The encapsulation whose frames carry their ports like this, and have no tag.
    #[must_use]
    pub fn of_profile(profile: Profile) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.profile() == Some(profile))
    }

    /// May the paths of slices be carried by it?
    #[must_use]
    pub fn takes_slices(self) -> bool {
        !self.capabilities().slice_path_ids.is_empty()
    }

    /// Ports of a way at most; 0: none stand in its packets.
    #[must_use]
    pub const fn route_ports_max(self) -> usize {
        match self.profile() {
            None => 0,
            Some(Profile::Native) => ROUTE_PORTS_MAX,
            Some(Profile::Safe9 | Profile::Classic80) => marked::PORTS,
            Some(Profile::SrMpls) => LABELLED_ROUTE_PORTS_MAX,
            Some(Profile::Polka) => RESIDUE_ROUTE_PORTS_MAX,
        }
    }

    /// Functions that one header may lead to; 0: ways do not stand in headers.
    #[must_use]
    pub const fn route_functions_max(self) -> usize {
        match self.profile() {
            None => 0,
            // A number has one port of each node for each of its identities, and each function begins another pass.
            Some(Profile::Polka) => NODE_ROUTE_IDENTITIES,
            Some(Profile::Native | Profile::Safe9 | Profile::Classic80 | Profile::SrMpls) => {
                ROUTE_FUNCTIONS_MAX
            }
        }
    }

    /// Bytes by which a frame gets shorter where a port of its way is taken.
    #[must_use]
    pub const fn route_bytes_per_port_taken(self) -> usize {
        match self.profile() {
            Some(Profile::SrMpls) => sr_mpls::PORT_BYTES,
            _ => 0,
        }
    }

    /// Why no packet may have these ports in its header, if none may.
    #[must_use]
    pub fn fault_of_route(self, route: &[PortNumber]) -> Option<String> {
        let (ports, most) = (route.len(), self.route_ports_max());
        let profile = self.profile()?;
        if ports > most {
            let name = self.name();
            return Some(format!("a way of {ports} ports, and a header of {name} holds {most}"));
        }
        let way: Vec<u8> = route.iter().map(|port| port.get()).collect();
        let header = marked::MarkedHeader::new(profile, &way, 0).ok()?;
        let reserved = header.reserved()?;
        Some(format!(
            "a way whose header in {} others take for something else: {reserved}; {} has no such \
             headers",
            self.name(),
            Self::SourceRouteSafe9.name()
        ))
    }

    /// Bytes by which a packet without metadata grows between nodes, outer Ethernet, IP and UDP included. `route`: the
    /// ports of its way, where these stand in it.
    #[must_use]
    pub fn added_bytes(self, route: &[PortNumber], is_ipv6: bool) -> usize {
        match self.profile() {
            Some(Profile::Native) => {
                let widest = route.iter().map(|port| port.get()).max().unwrap_or_default();
                let bits = route.len() * usize::from(PortWidth::for_port(widest).bits());
                let tag = if self.is_tagged() { TAG_BYTES } else { 0 };
                BYTES_WITHOUT_PORTS - ethernet::HEADER_BYTES + bits.div_ceil(8) + tag
            }
            Some(Profile::Safe9 | Profile::Classic80) => marked::ADDED_BYTES,
            // Who begins the way takes its first label off before the frame leaves.
            Some(Profile::SrMpls) => {
                sr_mpls::BYTES_WITHOUT_PORTS + route.len().saturating_sub(1) * sr_mpls::PORT_BYTES
            }
            // Who begins the way takes its first port without a division.
            Some(Profile::Polka) => {
                polka::BYTES_WITHOUT_NUMBER - ethernet::HEADER_BYTES
                    + Degree::Sixteen.octets(route.len().saturating_sub(1))
            }
            // One segment; of more, a caller knows how many.
            None if self.is_segmented() => self.segmented_bytes(1),
            None => {
                let ip = if is_ipv6 { ipv6::HEADER_BYTES } else { ipv4::HEADER_BYTES };
                ethernet::HEADER_BYTES + ip + udp::HEADER_BYTES + self.capabilities().header_bytes
            }
        }
    }

    /// Bytes by which a packet grows between nodes that so many segments lead to, outer Ethernet included.
    #[must_use]
    pub const fn segmented_bytes(self, segments: usize) -> usize {
        let replaced = if self.capabilities().keeps_frame { 0 } else { ethernet::HEADER_BYTES };
        let header = match (self.is_compressed(), segments.saturating_sub(1)) {
            (false, _) => srv6::FIXED_BYTES + segments * srv6::SEGMENT_BYTES,
            // The only one is the destination.
            (true, 0) => 0,
            // The first container is the destination.
            (true, before) => {
                srv6::FIXED_BYTES + before.div_ceil(srv6::CSIDS_MAX) * srv6::SEGMENT_BYTES
            }
        };
        ethernet::HEADER_BYTES + ipv6::HEADER_BYTES + header - replaced
    }

    /// The same with records of nodes: they stand in segments that are done with, and what they are is said behind all.
    #[must_use]
    pub const fn recorded_bytes(self, segments: usize) -> usize {
        self.segmented_bytes(segments) + srv6_int::TAIL_BYTES
    }

    /// All identifiers that its headers may hold, of chains and of slices.
    #[must_use]
    pub fn identifiers(self) -> RangeInclusive<u32> {
        let Capabilities { path_ids, path_id_max, .. } = self.capabilities();
        *path_ids.start()..=*path_id_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_identifier_of_a_slice_is_in_two_pools_or_that_of_a_chain() {
        let slices = || Encapsulation::ALL.iter().map(|one| &one.capabilities().slice_path_ids);
        for (number, one) in slices().enumerate() {
            let others = slices().enumerate().filter(|(other, _)| *other != number);
            let chains = Encapsulation::ALL.iter().map(|one| &one.capabilities().path_ids);
            for other in others.map(|(_, other)| other).chain(chains) {
                let overlap = one.start() <= other.end() && other.start() <= one.end();
                assert!(!overlap, "{one:?} and {other:?}");
            }
        }
        for of_24_bits in [Encapsulation::Nsh, Encapsulation::SourceRouteNative] {
            assert_eq!(of_24_bits.identifiers(), 1..=0xff_ffff);
        }
        assert_eq!(Encapsulation::Mpls.identifiers(), 16..=0xf_feff);
        assert_eq!(Encapsulation::SourceRouteSrMpls.identifiers(), 16..=0x7_ffff);
    }

    #[test]
    fn segments_alone_have_room_for_records_and_are_eight_bytes_longer_with_them() {
        for one in Encapsulation::ALL {
            let has_segments = matches!(one.capabilities().carriage, Carriage::Segments);
            let is_compressed = one == Encapsulation::Srv6Csid;
            assert_eq!((one.is_segmented(), one.is_compressed()), (has_segments, is_compressed));
            let Capabilities { takes_records, visits_others, .. } = *one.capabilities();
            assert_eq!([takes_records, visits_others], [has_segments && !is_compressed; 2]);
        }
        for segments in 1..=16 {
            let bytes = srv6_int::encapsulation_bytes(segments);
            let [packets, frames] = [Encapsulation::Srv6, Encapsulation::Srv6Ethernet];
            assert_eq!(packets.recorded_bytes(segments), bytes);
            assert_eq!(frames.recorded_bytes(segments), bytes + ethernet::HEADER_BYTES);
            assert_eq!(packets.segmented_bytes(segments) + 8, bytes);
        }
    }

    #[test]
    fn sixteen_bits_name_each_node_but_the_last_one() {
        let by = Encapsulation::Srv6Csid;
        // The destination; with a routing header of the last one; with one of another container, too.
        for (segments, header) in [(1, 40), (2, 64), (7, 64), (8, 80), (13, 80), (14, 96)] {
            assert_eq!(by.segmented_bytes(segments), header, "{segments}");
            assert!(by.segmented_bytes(segments) < Encapsulation::Srv6.segmented_bytes(segments));
        }
    }

    #[test]
    fn what_ways_a_header_cannot_have_is_said() {
        let fault = |encapsulation: Encapsulation, route: &[u8]| {
            let route: Vec<_> = route.iter().filter_map(|port| PortNumber::new(*port)).collect();
            encapsulation.fault_of_route(&route)
        };
        let all = [Encapsulation::SourceRouteSafe9, Encapsulation::SourceRouteClassic80];
        for encapsulation in all {
            assert_eq!(
                Encapsulation::of_profile(encapsulation.profile().unwrap()),
                Some(encapsulation)
            );
            assert_eq!(fault(encapsulation, &[255, 1, 2, 3, 4, 5, 2]), None);
            let long = fault(encapsulation, &[2; 8]).unwrap();
            assert!(long.contains("8 ports") && long.contains("holds 7"), "{long}");
        }
        let [safe, classic] = all;
        assert_eq!(
            (fault(safe, &[1, 255]), fault(Encapsulation::SourceRouteNative, &[3; 8])),
            (None, None)
        );
        for (last, case) in [(3, "that of a group"), (255, "that of a group")] {
            let found = fault(classic, &[last; 6]).unwrap();
            assert!(found.contains(case) && found.contains("source-route/safe-9"), "{found}");
        }
    }
}

//! What each encapsulation can do, line by line. Knows figures of headers and pools of identifiers; refuses to know who
//! reads them.

use crate::limits::{
    MARKED_PATH_IDS_MAX, MPLS_PATH_IDS_MAX, NSH_PATH_IDS_MAX, SLICE_PATH_IDS_FROM,
    SOURCE_ROUTE_SLICE_PATH_IDS_FROM,
};
use crate::place::LOCATORS_SINCE_PROTOCOL;
use catena_wire::ports;
use catena_wire::scalar::{EtherType, MplsLabel};
use catena_wire::source_route::{Profile, sr_mpls};
use std::ops::RangeInclusive;

/// What an encapsulation can do.
#[derive(Debug)]
pub struct Capabilities {
    /// The name in files and messages, and as `correlation` of networking-sfc.
    pub name: &'static str,
    /// The identifiers that paths of chains may have; pools may overlap.
    pub path_ids: RangeInclusive<u32>,
    /// Those that paths of slices may have, none if it carries no slices: no two pools overlap, because a node
    /// tells paths apart by the number alone.
    pub slice_path_ids: RangeInclusive<u32>,
    /// The greatest identifier that its headers hold.
    pub path_id_max: u32,
    /// How it travels between nodes.
    pub carriage: Carriage,
    /// What follows the Ethernet header towards a function that speaks it, or on a link; none: nothing that is its
    /// alone.
    pub ether_type: Option<EtherType>,
    /// Bytes of its header in front of a frame, in a tunnel, without metadata; 0: it depends on the way.
    pub header_bytes: usize,
    /// Is there room for metadata: what classifiers write, and whose packet it is?
    pub has_metadata: bool,
    /// May segments of others stand in its headers, on the way to functions?
    pub visits_others: bool,
    /// Is there room for records that nodes write of a packet on its way?
    pub takes_records: bool,
    /// Do frames keep destination address, EtherType and tags? If not, it carries IP packets alone.
    pub keeps_frame: bool,
    /// The version of the protocol from which on every node can read it, also one that its frames only pass.
    pub since_protocol: u32,
}

/// Nodes of before this version of the protocol may know neither labels nor numbers of ways.
const LABELS_AND_NUMBERS_SINCE: u32 = 9;

/// Nodes of before this version of the protocol give a header with a tag no detour.
const TAGS_SINCE: u32 = 11;

/// Nodes of before this version of the protocol know no compressed identifiers.
const COMPRESSED_SINCE: u32 = 20;

/// How packets travel between nodes.
#[derive(Clone, Copy, Debug)]
pub enum Carriage {
    /// In a tunnel of this name in messages, to this UDP port.
    Tunnel(&'static str, u16),
    /// By links, over the ports that stand in the packet.
    Links(Profile),
    /// As IPv6 packets of their own, from node to node of those that stand in the packet.
    Segments,
}

pub(super) const NSH: Capabilities = Capabilities {
    name: "nsh",
    path_ids: 1..=SLICE_PATH_IDS_FROM - 1,
    slice_path_ids: MplsLabel::MAX + 1..=SOURCE_ROUTE_SLICE_PATH_IDS_FROM - 1,
    path_id_max: NSH_PATH_IDS_MAX,
    // VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe).
    carriage: Carriage::Tunnel("vxlan_gpe", ports::VXLAN_GPE),
    ether_type: Some(EtherType::NSH),
    // VXLAN-GPE, and NSH with metadata of type 1 (RFC 8300 section 2.4).
    header_bytes: 8 + 24,
    has_metadata: true,
    visits_others: false,
    takes_records: false,
    keeps_frame: true,
    since_protocol: 0,
};

pub(super) const MPLS: Capabilities = Capabilities {
    name: "mpls",
    // Labels below 16 are reserved (RFC 3032 section 2.1).
    path_ids: 16..=SLICE_PATH_IDS_FROM - 1,
    slice_path_ids: SLICE_PATH_IDS_FROM..=MPLS_PATH_IDS_MAX,
    path_id_max: MPLS_PATH_IDS_MAX,
    // MPLS over UDP (RFC 7510, RFC 8595).
    carriage: Carriage::Tunnel("mpls_udp", ports::MPLS_UDP),
    ether_type: Some(EtherType::MPLS),
    // Two labels (RFC 8595 section 3).
    header_bytes: 8,
    has_metadata: false,
    visits_others: false,
    takes_records: false,
    keeps_frame: true,
    since_protocol: 0,
};

pub(super) const SOURCE_ROUTE_NATIVE: Capabilities = Capabilities {
    name: "source-route/native",
    path_ids: 1..=SLICE_PATH_IDS_FROM - 1,
    slice_path_ids: SOURCE_ROUTE_SLICE_PATH_IDS_FROM..=NSH_PATH_IDS_MAX,
    path_id_max: NSH_PATH_IDS_MAX,
    carriage: Carriage::Links(Profile::Native),
    ether_type: Some(EtherType::SOURCE_ROUTE),
    header_bytes: 0,
    has_metadata: false,
    visits_others: false,
    takes_records: false,
    keeps_frame: true,
    since_protocol: 0,
};

pub(super) const SOURCE_ROUTE_SAFE_9: Capabilities = marked("source-route/safe-9", Profile::Safe9);
pub(super) const SOURCE_ROUTE_CLASSIC_80: Capabilities =
    marked("source-route/classic-80", Profile::Classic80);

/// A profile whose headers hold a mark beside a few ports: the identifier of the path.
const fn marked(name: &'static str, profile: Profile) -> Capabilities {
    Capabilities {
        name,
        path_ids: 1..=MARKED_PATH_IDS_MAX,
        slice_path_ids: RangeInclusive::new(1, 0),
        path_id_max: MARKED_PATH_IDS_MAX,
        carriage: Carriage::Links(profile),
        ether_type: None,
        header_bytes: 0,
        has_metadata: false,
        visits_others: false,
        takes_records: false,
        keeps_frame: false,
        since_protocol: 0,
    }
}

pub(super) const SOURCE_ROUTE_SR_MPLS: Capabilities = Capabilities {
    name: "source-route/sr-mpls",
    path_ids: sr_mpls::PATH_LABELS,
    // All other labels are those of MPLS, or name ports.
    slice_path_ids: RangeInclusive::new(1, 0),
    path_id_max: *sr_mpls::PATH_LABELS.end(),
    carriage: Carriage::Links(Profile::SrMpls),
    ether_type: None,
    header_bytes: 0,
    has_metadata: false,
    visits_others: false,
    takes_records: false,
    keeps_frame: true,
    since_protocol: LABELS_AND_NUMBERS_SINCE,
};

pub(super) const SOURCE_ROUTE_POLKA: Capabilities = Capabilities {
    name: "source-route/polka",
    path_ids: 1..=SLICE_PATH_IDS_FROM - 1,
    slice_path_ids: RangeInclusive::new(1, 0),
    path_id_max: SLICE_PATH_IDS_FROM - 1,
    carriage: Carriage::Links(Profile::Polka),
    ether_type: Some(EtherType::RESIDUE_ROUTE),
    header_bytes: 0,
    has_metadata: false,
    visits_others: false,
    takes_records: false,
    keeps_frame: true,
    since_protocol: LABELS_AND_NUMBERS_SINCE,
};

pub(super) const SOURCE_ROUTE_NATIVE_TAGGED: Capabilities = Capabilities {
    name: "source-route/native-tagged",
    // Each pool of slices is one encapsulation's alone.
    slice_path_ids: RangeInclusive::new(1, 0),
    path_id_max: SLICE_PATH_IDS_FROM - 1,
    ether_type: None,
    since_protocol: TAGS_SINCE,
    ..SOURCE_ROUTE_NATIVE
};

pub(super) const SRV6: Capabilities = Capabilities {
    name: "srv6",
    path_ids: 1..=SLICE_PATH_IDS_FROM - 1,
    slice_path_ids: RangeInclusive::new(1, 0),
    path_id_max: SLICE_PATH_IDS_FROM - 1,
    carriage: Carriage::Segments,
    ether_type: None,
    header_bytes: 0,
    has_metadata: false,
    visits_others: true,
    takes_records: true,
    keeps_frame: false,
    since_protocol: LOCATORS_SINCE_PROTOCOL,
};

pub(super) const SRV6_ETHERNET: Capabilities = Capabilities {
    name: "srv6/ethernet",
    slice_path_ids: RangeInclusive::new(1, 0),
    keeps_frame: true,
    ..SRV6
};

pub(super) const SRV6_CSID: Capabilities = Capabilities {
    name: "srv6/csid",
    slice_path_ids: RangeInclusive::new(1, 0),
    visits_others: false,
    takes_records: false,
    since_protocol: COMPRESSED_SINCE,
    ..SRV6
};

#[cfg(dummy_encapsulation)]
pub(super) const DUMMY: Capabilities = Capabilities {
    name: "dummy",
    path_ids: 1..=SLICE_PATH_IDS_FROM - 1,
    slice_path_ids: NSH_PATH_IDS_MAX + 1..=NSH_PATH_IDS_MAX + 0x1_0000,
    path_id_max: NSH_PATH_IDS_MAX + 0x1_0000,
    // A port for experiments (RFC 4727), and an EtherType that is nobody's: source routes have both for experiments.
    carriage: Carriage::Tunnel("dummy", 1021),
    ether_type: Some(EtherType(0xfffe)),
    header_bytes: 0,
    has_metadata: false,
    visits_others: false,
    takes_records: false,
    keeps_frame: true,
    since_protocol: 0,
};

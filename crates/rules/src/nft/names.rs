//! Names of numbers, as nft has them. Knows the lists; refuses to know where they are used.

/// Names and what they stand for.
pub(crate) type Names = &'static [(&'static str, u128)];

/// Protocols, as `/etc/protocols` names them.
pub(crate) const PROTOCOLS: Names = &[
    ("ip", 0),
    ("hopopt", 0),
    ("icmp", 1),
    ("igmp", 2),
    ("ggp", 3),
    ("ipencap", 4),
    ("st", 5),
    ("tcp", 6),
    ("egp", 8),
    ("igp", 9),
    ("pup", 12),
    ("udp", 17),
    ("hmp", 20),
    ("xns-idp", 22),
    ("rdp", 27),
    ("iso-tp4", 29),
    ("dccp", 33),
    ("xtp", 36),
    ("ddp", 37),
    ("idpr-cmtp", 38),
    ("ipv6", 41),
    ("ipv6-route", 43),
    ("ipv6-frag", 44),
    ("idrp", 45),
    ("rsvp", 46),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("skip", 57),
    ("ipv6-icmp", 58),
    ("icmpv6", 58),
    ("ipv6-nonxt", 59),
    ("ipv6-opts", 60),
    ("rspf", 73),
    ("vmtp", 81),
    ("eigrp", 88),
    ("ospf", 89),
    ("ax.25", 93),
    ("ipip", 94),
    ("etherip", 97),
    ("encap", 98),
    ("pim", 103),
    ("comp", 108),
    ("ipcomp", 108),
    ("vrrp", 112),
    ("l2tp", 115),
    ("isis", 124),
    ("sctp", 132),
    ("fc", 133),
    ("mobility-header", 135),
    ("udplite", 136),
    ("mpls-in-ip", 137),
    ("manet", 138),
    ("hip", 139),
    ("shim6", 140),
    ("wesp", 141),
    ("rohc", 142),
    ("ethernet", 143),
];

/// EtherTypes.
pub(super) const ETHER_TYPES: Names = &[
    ("ip", 0x0800),
    ("arp", 0x0806),
    ("ip6", 0x86dd),
    ("8021q", 0x8100),
    ("vlan", 0x8100),
    ("8021ad", 0x88a8),
];

/// Families of protocols (`NFPROTO_*`).
pub(super) const NF_PROTOCOLS: Names = &[("ipv4", 2), ("ipv6", 10)];

/// Control bits of TCP.
pub(super) const TCP_FLAGS: Names = &[
    ("fin", 0x01),
    ("syn", 0x02),
    ("rst", 0x04),
    ("psh", 0x08),
    ("ack", 0x10),
    ("urg", 0x20),
    ("ecn", 0x40),
    ("cwr", 0x80),
];

/// Differentiated services code points.
pub(super) const DSCP: Names = &[
    ("cs0", 0x00),
    ("df", 0x00),
    ("be", 0x00),
    ("lephb", 0x01),
    ("cs1", 0x08),
    ("af11", 0x0a),
    ("af12", 0x0c),
    ("af13", 0x0e),
    ("cs2", 0x10),
    ("af21", 0x12),
    ("af22", 0x14),
    ("af23", 0x16),
    ("cs3", 0x18),
    ("af31", 0x1a),
    ("af32", 0x1c),
    ("af33", 0x1e),
    ("cs4", 0x20),
    ("af41", 0x22),
    ("af42", 0x24),
    ("af43", 0x26),
    ("cs5", 0x28),
    ("va", 0x2c),
    ("ef", 0x2e),
    ("cs6", 0x30),
    ("cs7", 0x38),
];

/// Explicit congestion notification.
pub(super) const ECN: Names = &[("not-ect", 0), ("ect1", 1), ("ect0", 2), ("ce", 3)];

/// Types of ICMP.
pub(super) const ICMP_TYPES: Names = &[
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("source-quench", 4),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
    ("info-request", 15),
    ("info-reply", 16),
    ("address-mask-request", 17),
    ("address-mask-reply", 18),
];

/// Types of ICMPv6.
pub(super) const ICMPV6_TYPES: Names = &[
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("mld-listener-query", 130),
    ("mld-listener-report", 131),
    ("mld-listener-done", 132),
    ("mld-listener-reduction", 132),
    ("nd-router-solicit", 133),
    ("nd-router-advert", 134),
    ("nd-neighbor-solicit", 135),
    ("nd-neighbor-advert", 136),
    ("nd-redirect", 137),
    ("router-renumbering", 138),
    ("ind-neighbor-solicit", 141),
    ("ind-neighbor-advert", 142),
    ("mld2-listener-report", 143),
];

/// Codes of ICMP, of the type «destination unreachable».
pub(super) const ICMP_CODES: Names = &[
    ("net-unreachable", 0),
    ("host-unreachable", 1),
    ("prot-unreachable", 2),
    ("port-unreachable", 3),
    ("frag-needed", 4),
    ("net-prohibited", 9),
    ("host-prohibited", 10),
    ("admin-prohibited", 13),
];

/// The same of ICMPv6.
pub(super) const ICMPV6_CODES: Names = &[
    ("no-route", 0),
    ("admin-prohibited", 1),
    ("addr-unreachable", 3),
    ("port-unreachable", 4),
    ("policy-fail", 5),
    ("reject-route", 6),
];

/// Periods of rates, seconds.
pub(super) const PERIODS: Names =
    &[("second", 1), ("minute", 60), ("hour", 3_600), ("day", 86_400), ("week", 604_800)];

/// What a name stands for.
pub(crate) fn number(names: Names, name: &str) -> Option<u128> {
    names.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// Codes of `icmpx`, which stand for one of each version.
pub(super) const ICMPX_CODES: Names =
    &[("no-route", 0), ("port-unreachable", 1), ("host-unreachable", 2), ("admin-prohibited", 3)];

/// What each of them is in ICMP and in ICMPv6 (`nft_reject_icmp_code`, `nft_reject_icmpv6_code`).
pub(super) const OF_VERSION: [(u8, u8); 4] = [(0, 0), (3, 4), (1, 3), (13, 1)];

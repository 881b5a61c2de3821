//! Every bound of the system that more than one crate must respect, by name and unit.

/// Functions in one chain. NSH's service index starts at 255 and the last position must stay
/// above zero (RFC 8300 section 2.3).
pub const CHAIN_FUNCTIONS_MAX: usize = 64;
/// Instances of one service function.
pub const FUNCTION_INSTANCES_MAX: usize = 256;
/// Classification rules in one node's program.
pub const NODE_RULES_MAX: usize = 65_536;
/// Paths in one node's program.
pub const NODE_PATHS_MAX: usize = 65_536;
/// Ports in one node's program, local and remote.
pub const NODE_PORTS_MAX: usize = 16_384;
/// Flows that the proxies of one node remember.
pub const NODE_FLOWS_MAX: usize = 65_536;
/// Largest program on the wire and on disk, in bytes.
pub const PROGRAM_BYTES_MAX: usize = 64 * 1024 * 1024;
/// MTU of tenant networks, in bytes: the underlay's 1,500 less the largest of our tunnel headers
/// (IPv4 20 + UDP 8 + VXLAN-GPE 8 + NSH 24 + inner Ethernet 14 = 74), rounded down.
pub const TENANT_MTU_BYTES: u16 = 1_400;
/// Path identifiers of NSH: 24 bits without zero (RFC 8300 section 2.3).
pub const NSH_PATH_IDS: std::ops::RangeInclusive<u32> = 1..=0xff_ffff;
/// Path identifiers of MPLS: 20 bits without the special-purpose labels 0–15 (RFC 8595, RFC 7274).
pub const MPLS_PATH_IDS: std::ops::RangeInclusive<u32> = 16..=0xf_ffff;
/// How many blueprints must follow the removal of a path before its identifier is used again.
pub const PATH_ID_QUARANTINE_BLUEPRINTS: u64 = 16;
/// How long an unanswered chain request waits for its nodes, in milliseconds.
pub const CHAIN_ANSWER_WAIT_MS: u64 = 5_000;

//! UDP destination ports of the encapsulations. Knows numbers, no header.

/// VXLAN (RFC 7348 section 5).
pub const VXLAN: u16 = 4789;
/// VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe section 3.1).
pub const VXLAN_GPE: u16 = 4790;
/// MPLS over UDP (RFC 7510 section 3).
pub const MPLS_UDP: u16 = 6635;

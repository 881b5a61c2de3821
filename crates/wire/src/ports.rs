//! Destination ports of the encapsulations, of UDP where nothing else is said. Knows numbers, no header.

/// VXLAN (RFC 7348 section 5).
pub const VXLAN: u16 = 4789;
/// VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe section 3.1).
pub const VXLAN_GPE: u16 = 4790;
/// MPLS over UDP (RFC 7510 section 3).
pub const MPLS_UDP: u16 = 6635;
/// GTP-U (TS 29.281 section 4.4.2).
pub const GTP_U: u16 = 2152;
/// GENEVE (RFC 8926 section 3.3).
pub const GENEVE: u16 = 6081;
/// STT, as a port of TCP (draft-davie-stt section 3.1).
pub const STT: u16 = 7471;

//! Checked scalars: if a value exists, it is legal. Knows ranges and text forms, no header.

use core::fmt;
use core::str::FromStr;

/// Why a number or text is not the scalar it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScalarError {
    /// The number has more bits than the field.
    TooLarge {
        /// The number.
        value: u32,
        /// Largest legal number.
        max: u32,
    },
    /// The number is set aside by the standard.
    Reserved(u32),
    /// The lower bound is above the upper.
    EmptyRange {
        /// Lower bound.
        min: u16,
        /// Upper bound.
        max: u16,
    },
    /// The first tunnel endpoint identifier is above the last.
    EmptyTeids {
        /// The first.
        first: u32,
        /// The last.
        last: u32,
    },
    /// The text has another form.
    Text(&'static str),
}

impl fmt::Display for ScalarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { value, max } => write!(f, "{value} is above {max}"),
            Self::Reserved(value) => write!(f, "{value} is reserved"),
            Self::EmptyRange { min, max } => write!(f, "the range {min}-{max} is empty"),
            Self::EmptyTeids { first, last } => write!(f, "the range {first}-{last} is empty"),
            Self::Text(expected) => write!(f, "expected {expected}"),
        }
    }
}

impl core::error::Error for ScalarError {}

macro_rules! bounded {
    ($(#[$doc:meta])* $name:ident($inner:ty) max $max:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(try_from = "u32", into = "u32"))]
        pub struct $name($inner);

        impl $name {
            /// Largest legal value.
            pub const MAX: u32 = $max;

            /// Checks the number.
            ///
            /// # Errors
            /// When it does not fit the field.
            pub const fn new(value: u32) -> Result<Self, ScalarError> {
                if value > $max {
                    return Err(ScalarError::TooLarge { value, max: $max });
                }
                #[allow(clippy::cast_possible_truncation)]
                Ok(Self(value as $inner))
            }

            /// The low bits of a word, as many as the field has.
            #[allow(clippy::cast_possible_truncation)]
            pub(crate) const fn from_low_bits(word: u32) -> Self {
                Self((word & $max) as $inner)
            }

            /// The number.
            #[must_use]
            pub const fn get(self) -> $inner {
                self.0
            }
        }

        impl TryFrom<u32> for $name {
            type Error = ScalarError;
            fn try_from(value: u32) -> Result<Self, ScalarError> {
                Self::new(value)
            }
        }

        impl From<$name> for u32 {
            fn from(value: $name) -> u32 {
                u32::from(value.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

bounded! {
    /// Service path identifier (RFC 8300 section 2.3), 24 bits.
    Spi(u32) max 0xff_ffff
}
bounded! {
    /// NSH time to live (RFC 8300 section 2.2), 6 bits.
    NshTtl(u8) max 63
}
bounded! {
    /// VXLAN network identifier (RFC 7348 section 5), 24 bits.
    Vni(u32) max 0xff_ffff
}
bounded! {
    /// VLAN identifier (IEEE 802.1Q), 12 bits.
    VlanId(u16) max 4_095
}
bounded! {
    /// Any MPLS label as read from a packet (RFC 3032 section 2.1), 20 bits.
    MplsLabel(u32) max 0xf_ffff
}

bounded! {
    /// IPv6 flow label (RFC 6437), 20 bits.
    FlowLabel(u32) max 0xf_ffff
}
bounded! {
    /// QoS flow identifier (TS 38.415 section 5.5.3.3), 6 bits.
    Qfi(u8) max 63
}
bounded! {
    /// Where a fragment begins in its packet, in units of 8 bytes (RFC 791, RFC 8200), 13 bits.
    FragmentOffset(u16) max 0x1fff
}

bounded! {
    /// How long functions took, in units of 128 ns, as telemetry over segment routing has it, 24 bits.
    LatencyUnits(u32) max 0xff_ffff
}
bounded! {
    /// A queue of a node, as telemetry over segment routing has it, 4 bits.
    QueueId(u8) max 15
}
bounded! {
    /// Packets in a queue, as telemetry over segment routing has it, 12 bits.
    QueueLength(u16) max 0xfff
}
bounded! {
    /// Packets of a flow at a node modulo 2^20, as telemetry over segment routing has it.
    FlowCounter(u32) max 0xf_ffff
}
bounded! {
    /// A function among those of one node, as telemetry over segment routing has it, 7 bits.
    FunctionIndex(u8) max 127
}

bounded! {
    /// Part of a node that sends telemetry reports (Telemetry Report 2.0), 6 bits.
    HardwareId(u8) max 63
}
bounded! {
    /// Number of a group of telemetry reports (Telemetry Report 2.0), modulo 2^22.
    ReportSequence(u32) max 0x3f_ffff
}
bounded! {
    /// How full a queue is in a telemetry report (Telemetry Report 2.0), 24 bits.
    QueueOccupancy(u32) max 0xff_ffff
}

impl FragmentOffset {
    /// The offset in bytes.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        self.0 as u32 * 8
    }
}

impl MplsLabel {
    /// Labels below are for special purposes (RFC 7274).
    pub const SPECIAL_BELOW: u32 = 16;

    /// A label for a path: no special-purpose one.
    ///
    /// # Errors
    /// When it does not fit 20 bits or is one of 0 to 15.
    pub const fn ordinary(value: u32) -> Result<Self, ScalarError> {
        if value < Self::SPECIAL_BELOW {
            return Err(ScalarError::Reserved(value));
        }
        Self::new(value)
    }
}

/// Service index (RFC 8300 section 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceIndex(pub u8);

/// An Ethernet hardware address.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The broadcast address.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Is the group bit set? True for broadcast too.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Is it ff:ff:ff:ff:ff:ff?
    #[must_use]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// Is it one of the addresses that no bridge forwards (IEEE 802.1Q, 01:80:c2:00:00:00 to 0f)?
    #[must_use]
    pub const fn is_link_local_reserved(self) -> bool {
        matches!(self.0, [0x01, 0x80, 0xc2, 0, 0, last] if last < 0x10)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddr {
    type Err = ScalarError;

    fn from_str(text: &str) -> Result<Self, ScalarError> {
        const FORM: ScalarError = ScalarError::Text("a MAC address such as 02:00:00:00:00:01");
        let mut parts = text.split([':', '-']);
        let mut octets = [0; 6];
        for octet in &mut octets {
            // `from_str_radix` would take a sign.
            let is_octet =
                |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
            let part = parts.next().filter(is_octet).ok_or(FORM)?;
            *octet = u8::from_str_radix(part, 16).map_err(|_| FORM)?;
        }
        if parts.next().is_some() { Err(FORM) } else { Ok(Self(octets)) }
    }
}

/// As text for people, as its bytes for machines.
#[cfg(feature = "serde")]
impl serde::Serialize for MacAddr {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for MacAddr {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if deserializer.is_human_readable() {
            let text = alloc::string::String::deserialize(deserializer)?;
            text.parse().map_err(serde::de::Error::custom)
        } else {
            <[u8; 6]>::deserialize(deserializer).map(Self)
        }
    }
}

/// EtherType (IEEE 802 numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4.
    pub const IPV4: Self = Self(0x0800);
    /// ARP (RFC 826).
    pub const ARP: Self = Self(0x0806);
    /// VLAN tag (IEEE 802.1Q).
    pub const VLAN: Self = Self(0x8100);
    /// Service VLAN tag (IEEE 802.1ad).
    pub const SERVICE_VLAN: Self = Self(0x88a8);
    /// IPv6.
    pub const IPV6: Self = Self(0x86dd);
    /// MPLS unicast (RFC 3032).
    pub const MPLS: Self = Self(0x8847);
    /// Source routes of ours: IEEE 802 local experimental type 1.
    pub const SOURCE_ROUTE: Self = Self(0x88b5);
    /// Source routes of ours by residues: IEEE 802 local experimental type 2.
    pub const RESIDUE_ROUTE: Self = Self(0x88b6);
    /// LLDP (IEEE 802.1AB).
    pub const LLDP: Self = Self(0x88cc);
    /// NSH (RFC 8300 section 2).
    pub const NSH: Self = Self(0x894f);
    /// A whole Ethernet frame (RFC 1701, RFC 8926 section 3.4).
    pub const TRANSPARENT_ETHERNET: Self = Self(0x6558);
}

/// IP protocol number (IANA).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: Self = Self(0);
    /// A whole IPv4 packet (RFC 2003).
    pub const IPV4: Self = Self(4);
    /// ICMP.
    pub const ICMP: Self = Self(1);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// Datagram Congestion Control Protocol (RFC 4340).
    pub const DCCP: Self = Self(33);
    /// A whole IPv6 packet (RFC 2473).
    pub const IPV6: Self = Self(41);
    /// IPv6 routing header.
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: Self = Self(44);
    /// Generic Routing Encapsulation (RFC 2784).
    pub const GRE: Self = Self(47);
    /// Authentication header.
    pub const AUTHENTICATION: Self = Self(51);
    /// ICMPv6.
    pub const ICMPV6: Self = Self(58);
    /// Nothing follows.
    pub const NO_NEXT: Self = Self(59);
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: Self = Self(60);
    /// SCTP (RFC 9260).
    pub const SCTP: Self = Self(132);
    /// UDP-Lite (RFC 3828).
    pub const UDP_LITE: Self = Self(136);
    /// A whole Ethernet frame (RFC 8986 section 10.1).
    pub const ETHERNET: Self = Self(143);
}

/// Whose network a tunnel header names: what Open vSwitch and Linux call the tunnel's identifier
/// (`tun_id`). As text and in documents by its own word, `vni`, `gre_key` or `stt_context`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum TunnelId {
    /// Network identifier of VXLAN, VXLAN-GPE or GENEVE.
    Vni(Vni),
    /// Key of GRE (RFC 2890 section 2.1), all of its 32 bits.
    GreKey(u32),
    /// Context identifier of STT (draft-davie-stt-08 section 3.2).
    SttContext(u64),
}

impl TunnelId {
    /// Two numbers that no other identifier has both: its kind, from 1 on, and its value.
    #[must_use]
    #[inline]
    pub const fn parts(self) -> (u8, u64) {
        match self {
            Self::Vni(vni) => (1, vni.0 as u64),
            Self::GreKey(key) => (2, key as u64),
            Self::SttContext(context) => (3, context),
        }
    }
}

impl fmt::Display for TunnelId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Vni(vni) => write!(f, "VNI {vni}"),
            Self::GreKey(key) => write!(f, "GRE key {key}"),
            Self::SttContext(context) => write!(f, "STT context {context}"),
        }
    }
}

/// Tunnel endpoint identifier of GTP-U (TS 29.281 section 5.1): names one user's tunnel at its
/// receiving end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
pub struct Teid(pub u32);

impl fmt::Display for Teid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// An inclusive range of tunnel endpoint identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "(u32, u32)", into = "(u32, u32)"))]
pub struct TeidRange {
    first: Teid,
    last: Teid,
}

impl TeidRange {
    /// Checks the bounds.
    ///
    /// # Errors
    /// When the first is above the last.
    pub const fn new(first: Teid, last: Teid) -> Result<Self, ScalarError> {
        if first.0 > last.0 {
            return Err(ScalarError::EmptyTeids { first: first.0, last: last.0 });
        }
        Ok(Self { first, last })
    }

    /// The range of one identifier.
    #[must_use]
    pub const fn one(teid: Teid) -> Self {
        Self { first: teid, last: teid }
    }

    /// Lowest identifier.
    #[must_use]
    pub const fn first(self) -> Teid {
        self.first
    }

    /// Highest identifier.
    #[must_use]
    pub const fn last(self) -> Teid {
        self.last
    }

    /// Is the identifier inside?
    #[must_use]
    pub const fn contains(self, teid: Teid) -> bool {
        self.first.0 <= teid.0 && teid.0 <= self.last.0
    }
}

impl TryFrom<(u32, u32)> for TeidRange {
    type Error = ScalarError;
    fn try_from((first, last): (u32, u32)) -> Result<Self, ScalarError> {
        Self::new(Teid(first), Teid(last))
    }
}

impl From<TeidRange> for (u32, u32) {
    fn from(range: TeidRange) -> Self {
        (range.first.0, range.last.0)
    }
}

/// An inclusive range of transport ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "(u16, u16)", into = "(u16, u16)"))]
pub struct PortRange {
    min: u16,
    max: u16,
}

impl PortRange {
    /// Checks the bounds.
    ///
    /// # Errors
    /// When the lower is above the upper.
    pub const fn new(min: u16, max: u16) -> Result<Self, ScalarError> {
        if min > max { Err(ScalarError::EmptyRange { min, max }) } else { Ok(Self { min, max }) }
    }

    /// Lowest port.
    #[must_use]
    pub const fn min(self) -> u16 {
        self.min
    }

    /// Highest port.
    #[must_use]
    pub const fn max(self) -> u16 {
        self.max
    }

    /// Is the port inside?
    #[must_use]
    pub const fn contains(self, port: u16) -> bool {
        self.min <= port && port <= self.max
    }
}

impl TryFrom<(u16, u16)> for PortRange {
    type Error = ScalarError;
    fn try_from((min, max): (u16, u16)) -> Result<Self, ScalarError> {
        Self::new(min, max)
    }
}

impl From<PortRange> for (u16, u16) {
    fn from(range: PortRange) -> Self {
        (range.min, range.max)
    }
}

#[cfg(test)]
mod tests;

//! Headers and frames as people read them: the bytes in hexadecimal digits, and what a header says.
//! Knows texts; refuses to parse a header.

use catena_wire::scalar::MacAddr;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv6Addr;

/// Bytes that travel and are shown as hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FrameBytes(pub Vec<u8>);

/// A text is no row of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a frame is given by two hexadecimal digits for each byte; '{0}' are none")]
pub struct FrameBytesError(String);

impl TryFrom<String> for FrameBytes {
    type Error = FrameBytesError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|d| u8::try_from(d).ok());
        let byte = |pair: &[u8]| match pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        };
        let bad = |pair: &[u8]| FrameBytesError(String::from_utf8_lossy(pair).into_owned());
        let pairs = text.as_bytes().chunks(2);
        pairs.map(|pair| byte(pair).ok_or_else(|| bad(pair))).collect::<Result<_, _>>().map(Self)
    }
}

impl From<FrameBytes> for String {
    fn from(bytes: FrameBytes) -> Self {
        bytes.to_string()
    }
}

impl fmt::Display for FrameBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One protocol of a header, and what its fields say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderLayer {
    /// Ethernet, towards a function that reads the chain header behind it.
    Ethernet {
        /// Destination.
        destination: MacAddr,
        /// Type of what follows.
        ether_type: u16,
    },
    /// VXLAN (RFC 7348).
    Vxlan {
        /// The tenant network.
        vni: u32,
    },
    /// VXLAN-GPE (draft-ietf-nvo3-vxlan-gpe).
    VxlanGpe {
        /// The network of delivery.
        vni: u32,
    },
    /// NSH (RFC 8300).
    Nsh {
        /// The path.
        spi: u32,
        /// The position on it.
        si: u8,
        /// Forwarders the packet may still pass.
        ttl: u8,
        /// MD type.
        md_type: u8,
        /// Metadata, for people.
        context: Vec<String>,
    },
    /// IPv6 with a segment routing header (RFC 8754).
    Segments {
        /// The active segment.
        destination: Ipv6Addr,
        /// The segments in the order of the way.
        way: Vec<Ipv6Addr>,
        /// Segments that are still to be visited.
        left: u8,
        /// Routers the packet may still pass.
        hop_limit: u8,
        /// The path, where the active segment says one.
        path: Option<u32>,
        /// The position on it.
        hop: Option<u16>,
    },
    /// A source route.
    SourceRoute {
        /// Its profile.
        profile: String,
        /// The port numbers of the way, in the order in which they are taken.
        ports: Vec<u8>,
        /// How many of them are still to be taken.
        left: u8,
        /// The path.
        path: Option<u32>,
    },
    /// A source route whose ports are the remainders of one number.
    ResidueRoute {
        /// Its profile.
        profile: String,
        /// The number, in hexadecimal digits.
        number: String,
        /// Which of its polynomials each node divides by.
        pass: u8,
        /// How many nodes it may still pass.
        left: u8,
        /// The path.
        path: Option<u32>,
    },
    /// MPLS SFC label pair (RFC 8595).
    Mpls {
        /// The context label: the path.
        context_label: u32,
        /// The SF label.
        function_label: u32,
        /// The position that the SF label says.
        index: u8,
        /// Forwarders the packet may still pass.
        ttl: u8,
    },
}

impl fmt::Display for HeaderLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ethernet { destination, ether_type } => {
                write!(f, "Ethernet {ether_type:#06x} to {destination}")
            }
            Self::Vxlan { vni } => write!(f, "VXLAN vni {vni}"),
            Self::VxlanGpe { vni } => write!(f, "VXLAN-GPE vni {vni}"),
            Self::Nsh { spi, si, ttl, md_type, context } => {
                write!(f, "NSH spi {spi} si {si} ttl {ttl} md{md_type}")?;
                if context.is_empty() { Ok(()) } else { write!(f, " [{}]", context.join(", ")) }
            }
            Self::Segments { destination, way, left, hop_limit, path, hop } => {
                let way: Vec<String> = way.iter().map(Ipv6Addr::to_string).collect();
                write!(f, "SRv6 to {destination}, segments {} left {left}", way.join(" "))?;
                if let (Some(path), Some(hop)) = (path, hop) {
                    write!(f, " path {path} hop {hop}")?;
                }
                write!(f, " hop limit {hop_limit}")
            }
            Self::SourceRoute { profile, ports, left, path } => {
                if ports.is_empty() {
                    write!(f, "{profile} without ports")?;
                } else {
                    let ports: Vec<String> = ports.iter().map(u8::to_string).collect();
                    write!(f, "{profile} ports {} left {left}", ports.join(" "))?;
                }
                path.map_or(Ok(()), |path| write!(f, " path {path}"))
            }
            Self::ResidueRoute { profile, number, pass, left, path } => {
                write!(f, "{profile} number {number} pass {pass} left {left}")?;
                path.map_or(Ok(()), |path| write!(f, " path {path}"))
            }
            Self::Mpls { context_label, function_label, index, ttl } => {
                write!(f, "MPLS labels {context_label}, {function_label} (si {index}) ttl {ttl}")
            }
        }
    }
}

/// A header in front of a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Its protocols, outermost first.
    pub layers: Vec<HeaderLayer>,
    /// The bytes.
    pub bytes: FrameBytes,
}

impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.layers.iter().rev().map(ToString::to_string).collect();
        f.write_str(&words.join(" in "))
    }
}

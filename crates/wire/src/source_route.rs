//! Source routing: the output ports of a frame's way stand in the frame itself, and the nodes between look
//! nothing up.
//!
//! Knows where each profile keeps its ports and its counter, and a node's step along them. Refuses to know which
//! port leads where.
//!
//! A way of `n` ports is kept by position: the port that is taken first stands at position `n`, the one that
//! is taken last at position 1. The counter is the number of ports that are still to be taken, and so the position
//! of the next one; a node takes it and leaves the counter one less. With a counter of 0 the way is at its end.
//!
//! - [`native`]: a header of its own behind the addresses of Ethernet.
//! - [`classic`]: 80 bits of destination address, VLAN identifier and MPLS label, and more labels.
//! - [`safe`]: 72 bits of the same fields, such that ordinary equipment sees nothing but ordinary values.
//! - [`sr_mpls`]: a stack of labels in front of the frame, one for each port.
//! - [`polka`]: one number for the whole way, which nodes divide by a polynomial of theirs.
//! - [`marked`]: headers of [`classic`] and [`safe`] with a mark in the positions that a short way leaves free.
//!
//! [`hello`] is no route: it is what the ends of a cable say to each other.

mod carrier;
pub mod classic;
pub mod hello;
pub mod marked;
pub mod native;
pub mod polka;
pub mod safe;
pub mod sr_mpls;

use core::fmt;
use core::hash::Hasher;
use siphasher::sip::SipHasher24;

use polka::residues::Reducer;

use crate::ethernet;
use crate::scalar::EtherType;

/// Ports of one header at most: its counter is an octet.
pub const PORTS_MAX: usize = 255;

/// How a frame carries its ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Profile {
    /// A header of its own.
    Native,
    /// Nine ports in fields of ordinary Ethernet, none of which has a reserved value.
    Safe9,
    /// Ten ports in the same fields, and more in further labels.
    Classic80,
    /// A label for each port.
    SrMpls,
    /// One number for all ports.
    Polka,
}

impl Profile {
    /// All of them; each has a number in the kernel's program, by its place here.
    pub const ALL: [Self; 5] =
        [Self::Native, Self::Safe9, Self::Classic80, Self::SrMpls, Self::Polka];
}

/// What a node does with a frame by its header alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Sends it out of this port; the counter has been written.
    Port(u8),
    /// Sends it out of this port, which its header names no longer: it begins [`sr_mpls::PORT_BYTES`] further on.
    Pop(u8),
    /// The way is at its end: the header comes off here.
    End,
}

impl Next {
    /// The port that it leaves by; none: it leaves by none.
    #[must_use]
    #[inline]
    pub const fn port(self) -> Option<u8> {
        match self {
            Self::Port(port) | Self::Pop(port) => Some(port),
            Self::End => None,
        }
    }
}

/// The profile of a frame with these bytes; none: it is on no source route. A frame that has the look of
/// [`safe`] is never [`classic`]: no header of that profile may have it ([`classic::Reserved`]). Any other MPLS in a
/// VLAN is taken for `classic-80`, and any without one for `sr-mpls`, so only links on which these are spoken may be
/// asked.
#[must_use]
#[inline]
pub fn profile(frame: &[u8]) -> Option<Profile> {
    if ethernet::ethertype_is(frame, EtherType::SOURCE_ROUTE) {
        return Some(Profile::Native);
    }
    if ethernet::ethertype_is(frame, EtherType::MPLS) {
        return Some(Profile::SrMpls);
    }
    if ethernet::ethertype_is(frame, EtherType::RESIDUE_ROUTE) {
        return Some(Profile::Polka);
    }
    carrier::is_carrier(frame)
        .then(|| if safe::has_signature(frame) { Profile::Safe9 } else { Profile::Classic80 })
}

/// What a node does with a frame, which stays as it is. `own`: what the node divides numbers of ways by, for
/// each pass.
///
/// # Errors
/// As [`advance`] says.
#[inline]
pub fn next(frame: &[u8], own: &[Reducer]) -> Result<Next, SourceRouteError> {
    match profile(frame).ok_or(SourceRouteError::NoProfile)? {
        Profile::Native => native::next(frame),
        Profile::Safe9 => safe::next(frame),
        Profile::Classic80 => classic::next(frame),
        Profile::SrMpls => sr_mpls::next(frame),
        Profile::Polka => polka::next(frame, own),
    }
}

/// A node's step: takes the next port, and writes the counter; `own` is as [`next`] says. A node between looks
/// no further than the ports: what is behind them, edges read.
///
/// # Errors
/// The frame is on no source route, or its header does not allow the step; it is left as it was.
#[inline]
pub fn advance(frame: &mut [u8], own: &[Reducer]) -> Result<Next, SourceRouteError> {
    match profile(frame).ok_or(SourceRouteError::NoProfile)? {
        Profile::Native => native::advance(frame),
        Profile::Safe9 => safe::advance(frame),
        Profile::Classic80 => classic::advance(frame),
        Profile::SrMpls => sr_mpls::advance(frame),
        Profile::Polka => polka::advance(frame, own),
    }
}

/// A key for one purpose, made of a domain's: it tells neither that nor one for another purpose.
fn key_for(purpose: &[u8], domain: &[u8; 16]) -> [u8; 16] {
    let part = |number: u8| {
        let mut hasher = SipHasher24::new_with_key(domain);
        hasher.write(purpose);
        hasher.write(&[number]);
        hasher.finish().to_be_bytes()
    };
    let mut made = [0; 16];
    made[..8].copy_from_slice(&part(1));
    made[8..].copy_from_slice(&part(2));
    made
}

/// Why bytes are no header of source routing, or where none fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceRouteError {
    /// Too few bytes, counted from the start of the frame.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// The frame is on no source route.
    NoProfile,
    /// An unknown version.
    Version(u8),
    /// A width of ports that is none of 4, 6 and 8 bits.
    Width(u8),
    /// A flag that nobody knows is set.
    Flags(u8),
    /// More ports are to be taken than there are.
    Counter {
        /// Ports to be taken.
        counter: u8,
        /// Ports there.
        ports: usize,
    },
    /// A way without a port.
    NoPorts,
    /// More ports than the header holds.
    TooManyPorts {
        /// Ports of the way.
        ports: usize,
        /// Ports that it holds.
        most: usize,
    },
    /// A port number that needs more bits than it has.
    WidePort {
        /// The port.
        port: u8,
        /// Bits of each.
        width: u8,
    },
    /// No label of the stack is the last.
    NoBottom,
    /// More labels follow than the profile has.
    MoreLabels,
    /// A label that a source route has not at this place.
    Label(u32),
    /// What stands behind the labels is no frame, or one of a row whose order counts.
    ControlWord(u32),
    /// A degree of polynomials that is none, or not this node's.
    Degree(u8),
    /// A pass for which this node has no polynomial.
    Pass(u8),
    /// A number of a way that is no multiple of its degree, or too long.
    Length(usize),
    /// No port has this number.
    Residue(u16),
    /// A time to live of 0, which no frame on its way has.
    TtlExpired,
    /// An integrity tag without the path identifier that it is made of.
    TagWithoutPath,
    /// The integrity tag is not that of ports and path.
    Tag,
    /// The header would be read as one of another profile.
    LooksSafe,
    /// The header has no detour for this position.
    NoDetour(u8),
    /// More detours than can be counted.
    TooManyDetours(usize),
    /// A detour that is for no position, or leads back.
    Detour {
        /// For which position.
        counter: u8,
        /// Where it is on the way again.
        rejoin: u8,
    },
    /// The header has no mark that says whose packet it is on.
    NoMark,
    /// A payload that is no IP packet, and whose EtherType the header cannot keep.
    NotIp,
}

impl fmt::Display for SourceRouteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "the source route needs {need} bytes, there are {have}")
            }
            Self::NoProfile => f.write_str("the frame is on no source route"),
            Self::Version(version) => write!(f, "source route of unknown version {version}"),
            Self::Width(width) => write!(f, "source route with ports of {width} bits"),
            Self::Flags(flags) => write!(f, "source route with unknown flags {flags:#04x}"),
            Self::Counter { counter, ports } => {
                write!(f, "source route with {counter} ports to take, and {ports} in all")
            }
            Self::NoPorts => f.write_str("source route without a port"),
            Self::TooManyPorts { ports, most } => {
                write!(f, "a way of {ports} ports, and the header holds {most}")
            }
            Self::WidePort { port, width } => write!(f, "port {port} needs more than {width} bits"),
            Self::NoBottom => f.write_str("no label of the source route is the last"),
            Self::MoreLabels => f.write_str("more labels follow than a source route has"),
            Self::Label(label) => write!(f, "no source route has label {label} at this place"),
            Self::ControlWord(word) => {
                write!(f, "the control word of the source route is {word:#010x}")
            }
            Self::Degree(degree) => write!(f, "no polynomial of degree {degree} is this node's"),
            Self::Pass(pass) => write!(f, "this node has no polynomial for pass {pass}"),
            Self::Length(length) => write!(f, "no way has a number of {length} octets"),
            Self::Residue(residue) => write!(f, "no port has the number {residue}"),
            Self::TtlExpired => f.write_str("the time to live of the source route is 0"),
            Self::TagWithoutPath => f.write_str("an integrity tag without a path"),
            Self::Tag => f.write_str("the integrity tag is not that of ports and path"),
            Self::LooksSafe => f.write_str("a header of classic-80 that would be read as safe-9"),
            Self::NoDetour(counter) => write!(f, "the header has no detour for position {counter}"),
            Self::TooManyDetours(count) => write!(f, "{count} detours are more than 255"),
            Self::Detour { counter, rejoin } => {
                write!(f, "a detour from position {counter} to {rejoin} is none")
            }
            Self::NoMark => f.write_str("the source route does not say whose packet it is on"),
            Self::NotIp => f.write_str("the payload is no IP packet"),
        }
    }
}

impl core::error::Error for SourceRouteError {}

/// Ports of a way.
///
/// # Errors
/// There is none, or there are too many.
fn count(way: &[u8], most: usize) -> Result<u8, SourceRouteError> {
    let ports = way.len();
    if ports == 0 {
        return Err(SourceRouteError::NoPorts);
    }
    let count = u8::try_from(ports).ok().filter(|_| ports <= most);
    count.ok_or(SourceRouteError::TooManyPorts { ports, most })
}

/// The EtherType of an IP packet, by its first octet (RFC 791, RFC 8200): two profiles keep none.
///
/// # Errors
/// It is none.
pub fn ip_ether_type(payload: &[u8]) -> Result<EtherType, SourceRouteError> {
    match payload.first().map(|first| first >> 4) {
        Some(4) => Ok(EtherType::IPV4),
        Some(6) => Ok(EtherType::IPV6),
        _ => Err(SourceRouteError::NotIp),
    }
}

#[cfg(test)]
mod tests;

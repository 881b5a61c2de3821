//! Link Layer Discovery Protocol, IEEE 802.1AB-2016 sections 8 and 9: who is at the other end of a cable.
//!
//! Knows the TLVs that every frame must have, the names, and one of our own. Refuses to know who may be believed:
//! it says which octets a signature covers, and does not judge it.
//!
//! ```text
//! | 01:80:c2:00:00:0e 6 | source 6 | 0x88cc | TLV* | 0x0000
//! TLV: | type 7b, length 9b | value
//!      1 chassis, 2 port: | subtype 1 | identifier 1..255     3 time to live: | seconds 2
//!      4 port description, 5 system name: text                127: | organisation 3 | subtype 1 | value
//! our own (127): | 0a:ca:7e | 1 | boot 8 | sequence 8 | port number 1 | signature 16
//! ```

use core::fmt;

use crate::ethernet::{EthernetError, EthernetHeader, EthernetView, HEADER_BYTES};
use crate::scalar::{EtherType, MacAddr};

/// The nearest bridge and no further (section 7.1).
pub const NEAREST_BRIDGE: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);
/// An identifier or text of a TLV at most.
pub const TEXT_MAX: usize = 255;
/// Octets of a frame at most, as we write it.
pub const FRAME_MAX: usize = HEADER_BYTES + 4 * (3 + TEXT_MAX) + 4 + OWN_BYTES + 2 + 2;

/// Where the sender's address is.
const SOURCE_AT: usize = 6;
/// An organisation that nobody has registered, with the bit of local administration.
const ORGANISATION: [u8; 3] = [0x0a, 0xca, 0x7e];
const OWN_SUBTYPE: u8 = 1;
const NUMBERS_BYTES: usize = 17;
const SIGNATURE_BYTES: usize = 16;
const OWN_BYTES: usize = ORGANISATION.len() + 1 + NUMBERS_BYTES + SIGNATURE_BYTES;

mod kind {
    pub(super) const END: u8 = 0;
    pub(super) const CHASSIS: u8 = 1;
    pub(super) const PORT: u8 = 2;
    pub(super) const TIME_TO_LIVE: u8 = 3;
    pub(super) const PORT_DESCRIPTION: u8 = 4;
    pub(super) const SYSTEM_NAME: u8 = 5;
    pub(super) const ORGANISATION: u8 = 127;
}

/// An identifier of a chassis or a port, and what kind of identifier it is (sections 8.5.2, 8.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identifier<'p> {
    /// Of a chassis: 4 a MAC, 7 chosen locally. Of a port: 3 a MAC, 5 the name of an interface, 7 chosen locally.
    pub subtype: u8,
    /// The octets.
    pub value: &'p [u8],
}

impl<'p> Identifier<'p> {
    /// Chosen locally.
    pub const LOCAL: u8 = 7;
    /// The name of an interface, of a port.
    pub const INTERFACE_NAME: u8 = 5;

    const fn read(value: &'p [u8]) -> Option<Self> {
        match value {
            [subtype, value @ ..] if !value.is_empty() && value.len() <= TEXT_MAX => {
                Some(Self { subtype: *subtype, value })
            }
            _ => None,
        }
    }
}

/// What a node of ours says of the end of its cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTlv {
    /// When the sender began to count, in nanoseconds since 1970: it counts anew when it is started anew.
    pub boot: u64,
    /// Grows with each frame.
    pub sequence: u64,
    /// The number of the port in source routes.
    pub port: u8,
    /// By the key of the domain, over [`LldpFrame::signed`].
    pub signature: [u8; SIGNATURE_BYTES],
}

impl OwnTlv {
    fn read(value: &[u8]) -> Option<Self> {
        let (boot, rest) = value.split_first_chunk()?;
        let (sequence, rest) = rest.split_first_chunk()?;
        let (&[port], signature) = rest.split_first_chunk()?;
        Some(Self {
            boot: u64::from_be_bytes(*boot),
            sequence: u64::from_be_bytes(*sequence),
            port,
            signature: signature.try_into().ok()?,
        })
    }
}

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LldpFrame<'p> {
    /// Who sent it.
    pub source: MacAddr,
    /// The chassis.
    pub chassis: Identifier<'p>,
    /// Its port.
    pub port: Identifier<'p>,
    /// For how many seconds it holds; 0: not any more.
    pub seconds: u16,
    /// What the port is called, as text.
    pub port_description: Option<&'p [u8]>,
    /// What the system is called, as text.
    pub system_name: Option<&'p [u8]>,
    /// What a node of ours says.
    pub own: Option<OwnTlv>,
    /// The octets from the sender's address on to the signature; none without one.
    pub signed: &'p [u8],
}

impl<'p> LldpFrame<'p> {
    /// Reads a frame. TLVs that nobody here knows are passed over (section 9.2.7.7.1).
    ///
    /// # Errors
    /// It is no frame of this protocol, or its TLVs are not those that there must be, in their order.
    pub fn parse(frame: &'p [u8]) -> Result<Self, LldpError> {
        let ethernet = EthernetView::parse(frame).map_err(LldpError::Ethernet)?;
        if ethernet.ethertype() != EtherType::LLDP {
            return Err(LldpError::EtherType(ethernet.ethertype()));
        }
        // What has come over a bridge is no neighbour's.
        if ethernet.destination() != NEAREST_BRIDGE || ethernet.vlan().is_some() {
            return Err(LldpError::NotFromNeighbour);
        }
        let all = ethernet.payload();
        let mut tlvs = Tlvs { rest: all };
        let chassis = Identifier::read(tlvs.required(kind::CHASSIS)?);
        let chassis = chassis.ok_or(LldpError::Value(kind::CHASSIS))?;
        let port = Identifier::read(tlvs.required(kind::PORT)?);
        let port = port.ok_or(LldpError::Value(kind::PORT))?;
        let seconds = tlvs.required(kind::TIME_TO_LIVE)?.try_into();
        let seconds = seconds.map_err(|_| LldpError::Value(kind::TIME_TO_LIVE))?;
        let mut read = Self {
            source: ethernet.source(),
            chassis,
            port,
            seconds: u16::from_be_bytes(seconds),
            port_description: None,
            system_name: None,
            own: None,
            signed: &[],
        };
        loop {
            let before = all.len() - tlvs.rest.len();
            let (kind, value) = tlvs.take()?;
            match kind {
                kind::END if value.is_empty() => return Ok(read),
                // What is behind the signature is signed by nobody.
                _ if read.own.is_some() => return Err(LldpError::Order(kind)),
                kind::END | kind::CHASSIS | kind::PORT | kind::TIME_TO_LIVE => {
                    return Err(LldpError::Order(kind));
                }
                kind::PORT_DESCRIPTION => {
                    once(&mut read.port_description, text(value, kind)?, kind)?;
                }
                kind::SYSTEM_NAME => once(&mut read.system_name, text(value, kind)?, kind)?,
                kind::ORGANISATION => {
                    let Some(value) = own_value(value) else { continue };
                    let own = OwnTlv::read(value).ok_or(LldpError::Value(kind))?;
                    read.own = Some(own);
                    let end = HEADER_BYTES + before + 2 + OWN_BYTES - SIGNATURE_BYTES;
                    read.signed = frame.get(SOURCE_AT..end).unwrap_or_default();
                }
                _ => {}
            }
        }
    }

    /// Writes the frame and answers its length; the signature stands in the last octets of its last TLV but the
    /// end. `sign` makes it of the octets that it covers; [`OwnTlv::signature`] is not read.
    ///
    /// # Errors
    /// There is not room for it, or an identifier or name is empty or too long.
    pub fn emit(
        &self,
        into: &mut [u8],
        sign: impl FnOnce(&[u8]) -> [u8; SIGNATURE_BYTES],
    ) -> Result<usize, LldpError> {
        let header = EthernetHeader::untagged(NEAREST_BRIDGE, self.source, EtherType::LLDP);
        let at = header.emit(into).map_err(LldpError::Ethernet)?;
        let mut writer = Writer { into, at };
        for (kind, Identifier { subtype, value }) in
            [(kind::CHASSIS, self.chassis), (kind::PORT, self.port)]
        {
            writer.put(kind, &[&[subtype], value], 1)?;
        }
        writer.put(kind::TIME_TO_LIVE, &[&self.seconds.to_be_bytes()], 0)?;
        for (kind, text) in
            [(kind::PORT_DESCRIPTION, self.port_description), (kind::SYSTEM_NAME, self.system_name)]
        {
            text.map_or(Ok(()), |text| writer.put(kind, &[text], 0))?;
        }
        if let Some(OwnTlv { boot, sequence, port, .. }) = self.own {
            let (boot, sequence) = (boot.to_be_bytes(), sequence.to_be_bytes());
            let unsigned = [0; SIGNATURE_BYTES];
            let parts: [&[u8]; 6] =
                [&ORGANISATION, &[OWN_SUBTYPE], &boot, &sequence, &[port], &unsigned];
            writer.put(kind::ORGANISATION, &parts, 0)?;
            let place = writer.at - SIGNATURE_BYTES;
            let (signed, signature) = writer.into.split_at_mut(place);
            let made = sign(signed.get(SOURCE_AT..).unwrap_or_default());
            if let Some(signature) = signature.first_chunk_mut() {
                *signature = made;
            }
        }
        writer.put(kind::END, &[], 0)?;
        Ok(writer.at)
    }
}

/// The value of our own TLV, if this is one.
fn own_value(value: &[u8]) -> Option<&[u8]> {
    value.strip_prefix(&ORGANISATION)?.strip_prefix(&[OWN_SUBTYPE])
}

fn text(value: &[u8], kind: u8) -> Result<&[u8], LldpError> {
    if value.len() <= TEXT_MAX { Ok(value) } else { Err(LldpError::Value(kind)) }
}

fn once<T>(place: &mut Option<T>, value: T, kind: u8) -> Result<(), LldpError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(LldpError::Twice(kind)),
    }
}

/// The TLVs of a frame, one after the other.
struct Tlvs<'p> {
    rest: &'p [u8],
}

impl<'p> Tlvs<'p> {
    fn take(&mut self) -> Result<(u8, &'p [u8]), LldpError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(LldpError::NoEnd)?;
        let head = u16::from_be_bytes(*head);
        let (kind, length) = ((head >> 9) as u8, usize::from(head & 0x1ff));
        let (value, rest) = rest.split_at_checked(length).ok_or(LldpError::Cut(kind))?;
        self.rest = rest;
        Ok((kind, value))
    }

    fn required(&mut self, wanted: u8) -> Result<&'p [u8], LldpError> {
        match self.take()? {
            (kind, value) if kind == wanted => Ok(value),
            (kind, _) => Err(LldpError::Order(kind)),
        }
    }
}

struct Writer<'w> {
    into: &'w mut [u8],
    at: usize,
}

impl Writer<'_> {
    /// A TLV of these parts; of text there are no more than [`TEXT_MAX`] octets behind the first `before`.
    fn put(&mut self, kind: u8, parts: &[&[u8]], before: usize) -> Result<(), LldpError> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let is_identifier_empty = before > 0 && length <= before;
        if length > TEXT_MAX + before || is_identifier_empty {
            return Err(LldpError::Value(kind));
        }
        let (need, have) = (self.at + 2 + length, self.into.len());
        let place = self.into.get_mut(self.at..need);
        let place = place.ok_or(LldpError::Ethernet(EthernetError::Truncated { need, have }))?;
        let (head, mut rest) = place.split_at_mut(2);
        head.copy_from_slice(&(u16::from(kind) << 9 | length as u16).to_be_bytes());
        for part in parts {
            let (own, behind) = rest.split_at_mut(part.len());
            own.copy_from_slice(part);
            rest = behind;
        }
        self.at = need;
        Ok(())
    }
}

/// Why a frame is none of this protocol, or none can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LldpError {
    /// Its Ethernet header, or the room for the frame.
    Ethernet(EthernetError),
    /// It is of another protocol.
    EtherType(EtherType),
    /// It is not for the nearest bridge alone, or has a VLAN tag: it may have come from further away.
    NotFromNeighbour,
    /// Its TLVs have no end.
    NoEnd,
    /// A TLV of this type ends behind the frame.
    Cut(u8),
    /// A TLV of this type stands where none may.
    Order(u8),
    /// A TLV of this type stands there twice.
    Twice(u8),
    /// The value of a TLV of this type is none.
    Value(u8),
}

impl fmt::Display for LldpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ethernet(error) => error.fmt(f),
            Self::EtherType(EtherType(other)) => write!(f, "no LLDP but EtherType {other:#06x}"),
            Self::NotFromNeighbour => {
                f.write_str("the LLDP frame is not for the nearest bridge alone, untagged")
            }
            Self::NoEnd => f.write_str("the TLVs of LLDP have no end"),
            Self::Cut(kind) => write!(f, "the LLDP TLV of type {kind} is cut short"),
            Self::Order(kind) => write!(f, "an LLDP TLV of type {kind} stands where none may"),
            Self::Twice(kind) => write!(f, "the LLDP TLV of type {kind} stands there twice"),
            Self::Value(kind) => write!(f, "the LLDP TLV of type {kind} has a value that is none"),
        }
    }
}

impl core::error::Error for LldpError {}

#[cfg(test)]
mod tests;

//! GTP-U, TS 29.281 sections 5.1 and 5.2, and the PDU session container, TS 38.415 section 5.5.
//!
//! Knows the header, its optional word and the chain of extension headers, of which it reads the
//! PDU session container and passes all others by their length. Refuses to know whose tunnel an
//! identifier names, and what a G-PDU carries.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! | Ver |T|*|E|S|N|  Message Type |             Length            |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                  Tunnel Endpoint Identifier                   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |       Sequence Number         |  N-PDU Number | Next Extension|  with E, S or N
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~ extension headers: length in words, content, type of the next ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use core::fmt;

use crate::scalar::{Qfi, Teid};

mod field {
    //! Where each field lies.
    pub(super) const VERSION_SHIFT: u32 = 5;
    pub(super) const PROTOCOL_TYPE: u8 = 0x10;
    pub(super) const FLAG_EXTENSION: u8 = 0x04;
    pub(super) const FLAG_SEQUENCE: u8 = 0x02;
    /// Any of these: the optional word is there, all of it (section 5.1).
    pub(super) const FLAGS_OPTIONAL: u8 = 0x07;
    pub(super) const PDU_TYPE_SHIFT: u32 = 4;
    pub(super) const QFI_MASK: u8 = 0x3f;
}

/// Bytes of the mandatory header.
pub const HEADER_BYTES: usize = 8;
/// Bytes of the word that the flags E, S and PN bring.
pub const OPTIONAL_BYTES: usize = 4;
/// Extension headers walked before a packet is refused: the standard knows seven types.
pub const EXTENSION_HEADERS_MAX: usize = 8;
const VERSION: u8 = 1;
const WORD: usize = 4;
const NO_MORE_EXTENSIONS: u8 = 0;
const PDU_SESSION_CONTAINER: u8 = 0x85;
/// Words of the shortest container (TS 38.415 section 5.5.2).
const CONTAINER_WORDS: u8 = 1;

/// What a message is for (TS 29.281 table 6.1-1): an open registry, so an unknown number is a
/// value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GtpUMessage(pub u8);

impl GtpUMessage {
    /// Is the path alive? It names no tunnel.
    pub const ECHO_REQUEST: Self = Self(1);
    /// It is. It names no tunnel.
    pub const ECHO_RESPONSE: Self = Self(2);
    /// The last packet of a tunnel that is moved.
    pub const END_MARKER: Self = Self(254);
    /// A user's packet.
    pub const G_PDU: Self = Self(255);

    /// Is the identifier in its header that of a user's tunnel? Of other messages it is zero
    /// (section 5.1).
    #[must_use]
    pub const fn names_tunnel(self) -> bool {
        matches!(self, Self::G_PDU | Self::END_MARKER)
    }
}

/// What a PDU session container says (TS 38.415 section 5.5.2), as far as it is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PduSession {
    /// 0: downlink, 1: uplink; four bits.
    pub pdu_type: u8,
    /// The QoS flow.
    pub qfi: Qfi,
}

/// A view of a message. Once [`GtpUView::parse`] has returned it, no accessor can fail.
#[derive(Clone, Copy, Debug)]
pub struct GtpUView<'p> {
    message: GtpUMessage,
    teid: Teid,
    sequence: Option<u16>,
    pdu_session: Option<PduSession>,
    payload: &'p [u8],
}

impl<'p> GtpUView<'p> {
    /// Reads the message at the front of a UDP payload; what is after its length is not part of it.
    ///
    /// # Errors
    /// When version, lengths or extension headers contradict the bytes.
    #[inline]
    pub fn parse(bytes: &'p [u8]) -> Result<Self, GtpUError> {
        Self::read(bytes, false)
    }

    /// The same for what a fragment holds of a message: its length may reach beyond the bytes.
    ///
    /// # Errors
    /// As [`GtpUView::parse`].
    #[inline]
    pub fn parse_cut(bytes: &'p [u8]) -> Result<Self, GtpUError> {
        Self::read(bytes, true)
    }

    #[inline]
    fn read(bytes: &'p [u8], is_cut: bool) -> Result<Self, GtpUError> {
        let (&[flags, message, high, low, a, b, c, d], rest) = bytes
            .split_first_chunk::<HEADER_BYTES>()
            .ok_or(GtpUError::Truncated { need: HEADER_BYTES, have: bytes.len() })?;
        if flags >> field::VERSION_SHIFT != VERSION || flags & field::PROTOCOL_TYPE == 0 {
            return Err(GtpUError::Version { flags });
        }
        let length = u16::from_be_bytes([high, low]);
        let body = match rest.get(..usize::from(length)) {
            Some(body) => body,
            None if is_cut => rest,
            None => return Err(GtpUError::Length { field: length, have: rest.len() }),
        };
        let mut view = Self {
            message: GtpUMessage(message),
            teid: Teid(u32::from_be_bytes([a, b, c, d])),
            sequence: None,
            pdu_session: None,
            payload: body,
        };
        if flags & field::FLAGS_OPTIONAL != 0 {
            view.read_optional(flags, body)?;
        }
        Ok(view)
    }

    fn read_optional(&mut self, flags: u8, body: &'p [u8]) -> Result<(), GtpUError> {
        let (&[high, low, _, next], rest) = body
            .split_first_chunk::<OPTIONAL_BYTES>()
            .ok_or(GtpUError::OptionalTruncated { have: body.len() })?;
        if flags & field::FLAG_SEQUENCE != 0 {
            self.sequence = Some(u16::from_be_bytes([high, low]));
        }
        self.payload = rest;
        if flags & field::FLAG_EXTENSION != 0 { self.walk(next) } else { Ok(()) }
    }

    /// Goes through the extension headers (section 5.2.1): each begins with its length in words and
    /// ends with the type of the next.
    fn walk(&mut self, first: u8) -> Result<(), GtpUError> {
        let mut kind = first;
        for _ in 0..=EXTENSION_HEADERS_MAX {
            if kind == NO_MORE_EXTENSIONS {
                return Ok(());
            }
            let words = *self.payload.first().ok_or(GtpUError::Extension { kind, words: 0 })?;
            let wrong = GtpUError::Extension { kind, words };
            let length = usize::from(words) * WORD;
            let (extension, rest) = self.payload.split_at_checked(length).ok_or(wrong)?;
            // Not even the two bytes of length and next type: zero words.
            let (&next, extension) = extension.split_last().ok_or(wrong)?;
            if kind == PDU_SESSION_CONTAINER
                && self.pdu_session.is_none()
                && let [_, first, second, ..] = *extension
            {
                self.pdu_session = Some(PduSession {
                    pdu_type: first >> field::PDU_TYPE_SHIFT,
                    qfi: Qfi::from_low_bits(u32::from(second & field::QFI_MASK)),
                });
            }
            kind = next;
            self.payload = rest;
        }
        Err(GtpUError::TooManyExtensions)
    }

    /// What the message is for.
    #[must_use]
    pub const fn message(&self) -> GtpUMessage {
        self.message
    }

    /// The tunnel's identifier at its receiving end.
    #[must_use]
    pub const fn teid(&self) -> Teid {
        self.teid
    }

    /// The number of the message, if it has one.
    #[must_use]
    pub const fn sequence(&self) -> Option<u16> {
        self.sequence
    }

    /// The PDU session container, if there is one; the first, if there are several.
    #[must_use]
    pub const fn pdu_session(&self) -> Option<PduSession> {
        self.pdu_session
    }

    /// What the message carries: of a G-PDU the user's packet.
    #[must_use]
    pub const fn payload(&self) -> &'p [u8] {
        self.payload
    }
}

/// The meaning of a header. If it exists, it can be emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtpUHeader {
    /// What the message is for.
    pub message: GtpUMessage,
    /// The tunnel's identifier at its receiving end.
    pub teid: Teid,
    /// The number of the message, if it has one.
    pub sequence: Option<u16>,
    /// The PDU session container, if there is one.
    pub pdu_session: Option<PduSession>,
    /// Bytes that follow the header and its extensions.
    pub payload_bytes: u16,
}

impl GtpUHeader {
    /// Bytes that [`GtpUHeader::emit`] writes.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        let optional = self.sequence.is_some() || self.pdu_session.is_some();
        let extension = if self.pdu_session.is_some() { WORD } else { 0 };
        HEADER_BYTES + if optional { OPTIONAL_BYTES } else { 0 } + extension
    }

    /// Writes the header at the start of `into` and answers its length.
    ///
    /// # Errors
    /// When `into` is shorter than the header, or the length field too small for the payload.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, GtpUError> {
        let (need, have) = (self.len_bytes(), into.len());
        let header = into.get_mut(..need).ok_or(GtpUError::Truncated { need, have })?;
        let field = usize::from(self.payload_bytes) + need - HEADER_BYTES;
        let length =
            u16::try_from(field).map_err(|_| GtpUError::Length { field: 0, have: field })?;
        let extension = if self.pdu_session.is_some() { field::FLAG_EXTENSION } else { 0 };
        let sequence = if self.sequence.is_some() { field::FLAG_SEQUENCE } else { 0 };
        header[0] = VERSION << field::VERSION_SHIFT | field::PROTOCOL_TYPE | extension | sequence;
        header[1] = self.message.0;
        header[2..4].copy_from_slice(&length.to_be_bytes());
        header[4..HEADER_BYTES].copy_from_slice(&self.teid.0.to_be_bytes());
        if let Some(optional) = header[HEADER_BYTES..].first_chunk_mut::<OPTIONAL_BYTES>() {
            let [high, low] = self.sequence.unwrap_or(0).to_be_bytes();
            let next = if extension == 0 { NO_MORE_EXTENSIONS } else { PDU_SESSION_CONTAINER };
            *optional = [high, low, 0, next];
        }
        if let Some(PduSession { pdu_type, qfi }) = self.pdu_session {
            let first = pdu_type << field::PDU_TYPE_SHIFT;
            let container = [CONTAINER_WORDS, first, qfi.get(), NO_MORE_EXTENSIONS];
            header[HEADER_BYTES + OPTIONAL_BYTES..].copy_from_slice(&container);
        }
        Ok(need)
    }
}

/// Why bytes are no GTP-U message, or where none fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GtpUError {
    /// Too few bytes for the mandatory header at offset 0.
    Truncated {
        /// Bytes needed.
        need: usize,
        /// Bytes there.
        have: usize,
    },
    /// A version other than 1, or GTP′ (offset 0).
    Version {
        /// The flags byte.
        flags: u8,
    },
    /// The length is longer than the bytes (offset 2).
    Length {
        /// The length field, bytes.
        field: u16,
        /// Bytes there are.
        have: usize,
    },
    /// The length ends inside the optional word (offset 8).
    OptionalTruncated {
        /// Bytes of it.
        have: usize,
    },
    /// An extension header of no words, or one that ends behind the message.
    Extension {
        /// Its type.
        kind: u8,
        /// Its length field.
        words: u8,
    },
    /// More than [`EXTENSION_HEADERS_MAX`] extension headers.
    TooManyExtensions,
}

impl fmt::Display for GtpUError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { need, have } => {
                write!(f, "a GTP-U header needs {need} bytes, there are {have}")
            }
            Self::Version { flags } => write!(f, "GTP flags {flags:#04x} are not those of GTP-U"),
            Self::Length { field, have } => write!(f, "GTP-U length {field} in {have} bytes"),
            Self::OptionalTruncated { have } => {
                write!(f, "the optional word of GTP-U has {have} bytes")
            }
            Self::Extension { kind, words } => {
                write!(f, "GTP-U extension header {kind:#04x} of {words} words is illegal")
            }
            Self::TooManyExtensions => {
                write!(f, "more than {EXTENSION_HEADERS_MAX} GTP-U extension headers")
            }
        }
    }
}

impl core::error::Error for GtpUError {}

#[cfg(test)]
mod tests;

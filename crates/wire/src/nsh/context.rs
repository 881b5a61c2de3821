//! Context headers of NSH MD type 2, RFC 8300 section 2.5.1.
//!
//! Knows how they are laid out one after another. Refuses to know what a class or type means.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |          Metadata Class       |      Type     |U|    Length   |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ~            Value: Length bytes, then zeros to a word          ~
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use super::{FIXED, NshError, NshHeader, WORD};

/// Low seven bits of the fourth byte; the high one is unassigned.
const LENGTH_MASK: u8 = 0x7f;

/// One piece of metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContextHeader<'p> {
    /// Who defines the type.
    pub class: u16,
    /// What the value is, within the class.
    pub kind: u8,
    /// At most [`Self::VALUE_LEN_MAX`] bytes.
    pub value: &'p [u8],
}

impl<'p> ContextHeader<'p> {
    /// The class of the IETF's base types (RFC 9263 section 4).
    pub const CLASS_BASE: u16 = 0x0000;
    /// Type in that class: the subscriber (RFC 8979 section 3).
    pub const SUBSCRIBER: u8 = 0x00;
    /// Type in that class: how well its traffic is to be served (RFC 8979 section 4).
    pub const PERFORMANCE_POLICY: u8 = 0x01;
    /// Type in that class: the network that it came from (RFC 9263 section 4.1).
    pub const FORWARDING: u8 = 0x04;
    /// Type in that class: whose traffic it is (RFC 9263 section 4.2).
    pub const TENANT: u8 = 0x05;
    /// Type in that class: the node that took the packet in (RFC 9263 section 4.3).
    pub const INGRESS_NODE: u8 = 0x06;
    /// Type in that class: the flow (RFC 9263 section 4.5).
    pub const FLOW: u8 = 0x08;
    /// Type in that class: a policy (RFC 9263 section 4.7).
    pub const POLICY: u8 = 0x0a;
    /// Bytes of the longest value: seven bits count them.
    pub const VALUE_LEN_MAX: usize = LENGTH_MASK as usize;

    /// The first context header, and the bytes after it and its padding.
    fn parse(bytes: &'p [u8]) -> Option<(Self, &'p [u8])> {
        let (&[class_high, class_low, kind, length], rest) = bytes.split_first_chunk::<WORD>()?;
        let length = usize::from(length & LENGTH_MASK);
        let (padded, rest) = rest.split_at_checked(length.next_multiple_of(WORD))?;
        let class = u16::from_be_bytes([class_high, class_low]);
        Some((Self { class, kind, value: padded.get(..length)? }, rest))
    }

    /// Bytes that [`Self::emit`] writes.
    #[must_use]
    pub const fn len_bytes(&self) -> usize {
        WORD + self.value.len().next_multiple_of(WORD)
    }

    /// Writes the header, value and padding at the start of `into` and answers their length.
    ///
    /// # Errors
    /// When `into` is too short or the value too long.
    pub fn emit(&self, into: &mut [u8]) -> Result<usize, NshError> {
        let have = self.value.len();
        let length = u8::try_from(have)
            .ok()
            .filter(|&length| length <= LENGTH_MASK)
            .ok_or(NshError::MetadataTooLong { have })?;
        let (need, have) = (self.len_bytes(), into.len());
        let into = into.get_mut(..need).ok_or(NshError::Truncated { need, have })?;
        let (header, padded) = into.split_at_mut(WORD);
        let (value, padding) = padded.split_at_mut(self.value.len());
        let [class_high, class_low] = self.class.to_be_bytes();
        header.copy_from_slice(&[class_high, class_low, self.kind, length]);
        value.copy_from_slice(self.value);
        padding.fill(0);
        Ok(need)
    }
}

/// Context headers one after another, walked once already: none is cut short.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextHeaders<'p>(&'p [u8]);

impl<'p> ContextHeaders<'p> {
    /// Bytes that fit one NSH.
    pub const LEN_MAX: usize = NshHeader::LEN_MAX - FIXED;

    /// Checks that whole context headers fill the bytes exactly. Each step takes at least four
    /// bytes, so the walk is bounded by [`Self::LEN_MAX`].
    ///
    /// # Errors
    /// When one is cut short, or the bytes are more than one NSH can carry.
    pub fn parse(bytes: &'p [u8]) -> Result<Self, NshError> {
        if bytes.len() > Self::LEN_MAX {
            return Err(NshError::MetadataTooLong { have: bytes.len() });
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let offset = bytes.len() - rest.len();
            (_, rest) = ContextHeader::parse(rest).ok_or(NshError::ContextHeader { offset })?;
        }
        Ok(Self(bytes))
    }

    /// The bytes, padding included.
    #[must_use]
    pub const fn bytes(&self) -> &'p [u8] {
        self.0
    }
}

impl<'p> Iterator for ContextHeaders<'p> {
    type Item = ContextHeader<'p>;

    fn next(&mut self) -> Option<ContextHeader<'p>> {
        let (header, rest) = ContextHeader::parse(self.0)?;
        self.0 = rest;
        Some(header)
    }
}

//! Words that data planes exchange over a cable, so that one who is silent is noticed without anybody else. Knows
//! their bytes and who can have written them; refuses to know when silence is one.
//!
//! ```text
//! | 03:00:00:00:88:b5 | source 6 | 0x88b5 | version 4b, 0 4b | port | speaker 8 | heard 8 | sequence 8 | tag 8 | 0.. |
//! ```
//!
//! It looks like a header of [`native`](super::native) whose ports have no width, which no header has. `speaker` names
//! the port that speaks, another with each start; `heard` is the one that it heard last, so that a word which names its
//! hearer was said after that began, by somebody who hears it: the cable carries both ways, and nobody has kept the
//! word. The tag is SipHash-2-4 over all in front of it, by a key made of the domain's.

use super::{SourceRouteError, key_for, native};
use crate::ethernet::{self, ADDRESSES_BYTES};
use crate::scalar::{EtherType, MacAddr};
use core::fmt;
use core::hash::Hasher;
use siphasher::sip::SipHasher24;

/// Bytes of a frame with a word, addresses included: no frame of Ethernet is shorter (IEEE 802.3, without its check
/// sequence).
pub const HELLO_BYTES: usize = 60;
/// Group address of every other end: locally administered, so that bridges between pass it on.
const DESTINATION: MacAddr = MacAddr([3, 0, 0, 0, 0x88, 0xb5]);
/// The octet of a header in which its ports have no width.
const FORM: u8 = native::VERSION << 4;

mod field {
    use crate::ethernet::HEADER_BYTES;
    use core::ops::Range;

    pub(super) const FORM: usize = HEADER_BYTES;
    pub(super) const PORT: usize = FORM + 1;
    pub(super) const SPEAKER: Range<usize> = PORT + 1..PORT + 9;
    pub(super) const HEARD: Range<usize> = SPEAKER.end..SPEAKER.end + 8;
    pub(super) const SEQUENCE: Range<usize> = HEARD.end..HEARD.end + 8;
    pub(super) const TAG: Range<usize> = SEQUENCE.end..SEQUENCE.end + 8;
}

const _: () = assert!(field::TAG.end <= HELLO_BYTES, "a word fits no short frame");

/// By what nodes of a domain know each other's words.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HelloKey([u8; 16]);

impl fmt::Debug for HelloKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HelloKey(..)")
    }
}

impl HelloKey {
    /// That of the domain with this key, which it does not tell.
    #[must_use]
    pub fn of_domain(key: &[u8; 16]) -> Self {
        Self(key_for(b"hello", key))
    }

    fn tag(&self, said: &[u8]) -> [u8; 8] {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(said);
        hasher.finish().to_be_bytes()
    }
}

/// A word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The number of the port that speaks.
    pub port: u8,
    /// Its name since its node's start; never 0.
    pub speaker: u64,
    /// The name that it heard last; 0: none.
    pub heard: u64,
    /// More with each word of this speaker.
    pub sequence: u64,
}

impl Hello {
    /// Is a frame a word, whoever said it? It reads as a header that nobody can take.
    #[must_use]
    #[inline]
    pub fn is_one(frame: &[u8]) -> bool {
        frame.get(field::FORM) == Some(&FORM)
            && ethernet::ethertype_is(frame, EtherType::SOURCE_ROUTE)
    }

    /// Reads a word that somebody with the key has said.
    ///
    /// # Errors
    /// The frame is none or too short, or the tag is not the key's.
    pub fn parse(frame: &[u8], key: &HelloKey) -> Result<Self, SourceRouteError> {
        let truncated = SourceRouteError::Truncated { need: HELLO_BYTES, have: frame.len() };
        let frame: &[u8; HELLO_BYTES] = frame.first_chunk().ok_or(truncated)?;
        if !Self::is_one(frame) {
            return Err(SourceRouteError::NoProfile);
        }
        let number = |range: core::ops::Range<usize>| {
            let octets = frame.get(range).and_then(|octets| octets.first_chunk());
            u64::from_be_bytes(octets.copied().unwrap_or_default())
        };
        if frame[field::TAG] != key.tag(&frame[..field::TAG.start]) {
            return Err(SourceRouteError::Tag);
        }
        Ok(Self {
            port: frame[field::PORT],
            speaker: number(field::SPEAKER),
            heard: number(field::HEARD),
            sequence: number(field::SEQUENCE),
        })
    }

    /// The frame with it.
    #[must_use]
    pub fn emit(&self, key: &HelloKey) -> [u8; HELLO_BYTES] {
        let mut frame = [0; HELLO_BYTES];
        let [.., a, b, c, d, e] = self.speaker.to_be_bytes();
        frame[..6].copy_from_slice(&DESTINATION.0);
        // Another for each speaker, so that bridges between learn no wrong place of it.
        frame[6..ADDRESSES_BYTES].copy_from_slice(&[2, a, b, c, d, e]);
        frame[ADDRESSES_BYTES..field::FORM]
            .copy_from_slice(&EtherType::SOURCE_ROUTE.0.to_be_bytes());
        frame[field::FORM] = FORM;
        frame[field::PORT] = self.port;
        frame[field::SPEAKER].copy_from_slice(&self.speaker.to_be_bytes());
        frame[field::HEARD].copy_from_slice(&self.heard.to_be_bytes());
        frame[field::SEQUENCE].copy_from_slice(&self.sequence.to_be_bytes());
        let tag = key.tag(&frame[..field::TAG.start]);
        frame[field::TAG].copy_from_slice(&tag);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_route::{advance, profile};
    use std::format;

    const KEY: [u8; 16] = [7; 16];

    fn hello() -> Hello {
        Hello { port: 200, speaker: 0x0102_0304_0506_0708, heard: 9, sequence: 10 }
    }

    #[test]
    fn a_word_is_read_as_it_was_said_and_no_bit_of_it_can_be_another() {
        let key = HelloKey::of_domain(&KEY);
        let frame = hello().emit(&key);
        assert!(Hello::is_one(&frame));
        assert_eq!(Hello::parse(&frame, &key), Ok(hello()));
        for bit in 0..field::TAG.end * 8 {
            let mut other = frame;
            other[bit / 8] ^= 1 << (bit % 8);
            assert!(Hello::parse(&other, &key).is_err(), "bit {bit}");
        }
        for length in 0..HELLO_BYTES {
            assert!(Hello::parse(&frame[..length], &key).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn who_has_another_key_says_nothing() {
        let mut other = KEY;
        other[15] ^= 1;
        let frame = hello().emit(&HelloKey::of_domain(&other));
        let read = Hello::parse(&frame, &HelloKey::of_domain(&KEY));
        assert_eq!(read, Err(SourceRouteError::Tag));
        assert_eq!(format!("{:?}", HelloKey::of_domain(&KEY)), "HelloKey(..)");
    }

    #[test]
    fn no_node_takes_a_word_for_a_route() {
        let mut frame = hello().emit(&HelloKey::of_domain(&KEY));
        assert_eq!(profile(&frame), Some(super::super::Profile::Native));
        assert_eq!(advance(&mut frame, &[]), Err(SourceRouteError::Width(0)));
    }
}

//! The HMAC of the segment routing header, RFC 8754 section 2.1.2: HMAC-SHA-256 (RFC 2104, FIPS 180-4).
//!
//! Knows what it covers. Refuses to know keys of others, and which key has which number.
//!
//! ```text
//! | source address (16) | last entry | flags | key identifier (4) | segment list, entry 0 first |
//! ```
//!
//! Segments Left, the tag and other TLVs are not covered.

use core::fmt;
use core::net::Ipv6Addr;

use ::hmac::digest::Output;
use ::hmac::{Hmac, Mac};
use sha2::Sha256;

use super::{HmacTlv, SegmentRoutingView, Srv6Error, Srv6View, TlvType};
use crate::ipv6;

/// A key, which it does not tell.
#[derive(Clone)]
pub struct HmacKey(Hmac<Sha256>);

impl fmt::Debug for HmacKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HmacKey(..)")
    }
}

impl HmacKey {
    /// Bytes of the longest secret: Linux has none longer.
    pub const SECRET_BYTES_MAX: usize = 64;

    /// That of a secret.
    ///
    /// # Errors
    /// When the secret is empty or longer than [`Self::SECRET_BYTES_MAX`].
    pub fn new(secret: &[u8]) -> Result<Self, Srv6Error> {
        let error = Srv6Error::KeyLength(secret.len());
        if !(1..=Self::SECRET_BYTES_MAX).contains(&secret.len()) {
            return Err(error);
        }
        Hmac::new_from_slice(secret).map(Self).map_err(|_| error)
    }

    fn over(&self, source: Ipv6Addr, view: &SegmentRoutingView<'_>, key_id: u32) -> Hmac<Sha256> {
        let mut hmac = self.0.clone();
        hmac.update(&source.octets());
        hmac.update(&[view.last_entry(), view.flags().0]);
        hmac.update(&key_id.to_be_bytes());
        hmac.update(view.list().as_flattened());
        hmac
    }
}

/// Writes the digest of a packet that has an HMAC, whatever stood there.
///
/// # Errors
/// When the packet is none of segment routing, has no HMAC, or one that is too short. It is left as it was.
pub fn sign(packet: &mut [u8], key: &HmacKey) -> Result<(), Srv6Error> {
    let view = Srv6View::parse(packet)?;
    let (routing, tlvs) = (view.routing(), view.routing().tlvs());
    let hmac = whole(routing)?;
    let digest: Output<Sha256> =
        key.over(view.header().source, routing, hmac.key_id).finalize().into_bytes();
    let value = tlvs.place(TlvType::HMAC).ok_or(Srv6Error::NoHmac)?;
    let start = ipv6::HEADER_BYTES + routing.behind_offset() + value.start + HmacTlv::DIGEST_AT;
    let have = packet.len();
    let place = packet.get_mut(start..start + HmacTlv::DIGEST_BYTES);
    let need = start + HmacTlv::DIGEST_BYTES;
    place.ok_or(Srv6Error::Truncated { need, have })?.copy_from_slice(&digest);
    Ok(())
}

/// Holds the digest of a packet against what it covers, and, unless the header is reduced, its destination against
/// the active segment.
///
/// # Errors
/// When the packet has no HMAC, one of another key, or is not what was signed.
pub fn verify(view: &Srv6View<'_>, key: &HmacKey) -> Result<(), Srv6Error> {
    let routing = view.routing();
    let hmac = whole(routing)?;
    let active = routing.segment(routing.segments_left());
    if !hmac.is_reduced && active != Some(view.header().destination) {
        return Err(Srv6Error::Destination);
    }
    let computed = key.over(view.header().source, routing, hmac.key_id);
    computed.verify_slice(hmac.digest).map_err(|_| Srv6Error::Hmac)
}

/// Shorter digests than that of SHA-256 would be easier to forge.
fn whole<'p>(routing: &SegmentRoutingView<'p>) -> Result<HmacTlv<'p>, Srv6Error> {
    let hmac = routing.hmac().ok_or(Srv6Error::NoHmac)?;
    match hmac.digest.len() {
        HmacTlv::DIGEST_BYTES => Ok(hmac),
        bytes => Err(Srv6Error::HmacLength { bytes }),
    }
}

#[cfg(test)]
mod tests {
    //! Published answers.

    use std::vec::Vec;

    use super::*;
    use crate::golden::hex;

    #[test]
    fn digests_are_those_of_rfc_4231() {
        // Sections 4.2, 4.3 and 4.4: key, data, HMAC-SHA-256.
        let cases: [(Vec<u8>, Vec<u8>, &str); 3] = [
            (
                [0x0b; 20].to_vec(),
                b"Hi There".to_vec(),
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe".to_vec(),
                b"what do ya want for nothing?".to_vec(),
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                [0xaa; 20].to_vec(),
                [0xdd; 50].to_vec(),
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
            ),
        ];
        for (secret, data, digest) in cases {
            let mut hmac = HmacKey::new(&secret).unwrap().0;
            hmac.update(&data);
            assert_eq!(hmac.finalize().into_bytes()[..], hex(digest));
        }
    }

    #[test]
    fn a_key_is_not_told_and_has_a_length_that_linux_has_too() {
        let key = HmacKey::new(b"secret").unwrap();
        assert_eq!(std::format!("{key:?}"), "HmacKey(..)");
        for bytes in 0..=HmacKey::SECRET_BYTES_MAX + 1 {
            let expected = match bytes {
                1..=64 => None,
                other => Some(Srv6Error::KeyLength(other)),
            };
            assert_eq!(HmacKey::new(&[7; 65][..bytes]).err(), expected);
        }
    }
}

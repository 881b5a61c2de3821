//! The checksum of SCTP: RFC 9260 section 6.8 and appendix A, a CRC32c over the whole packet.
//!
//! Knows where it stands and how it is made. Refuses to know chunks, and whose job it is.

/// Bytes of the common header (RFC 9260 section 3.1).
pub const HEADER_BYTES: usize = 12;
/// Where the checksum stands in it.
pub const CHECKSUM_OFFSET: usize = 8;

/// Castagnoli's polynomial, its bits turned round.
const POLYNOMIAL: u32 = 0x82f6_3b78;
const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < table.len() {
        let mut rest = byte as u32;
        let mut bit = 0;
        while bit < u8::BITS {
            rest = if rest & 1 == 1 { rest >> 1 ^ POLYNOMIAL } else { rest >> 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

/// The CRC32c of a byte string, so that the wire has its least significant byte first.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    !with(!0, bytes)
}

/// Moves the register on by some bytes.
fn with(register: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(register, |rest, byte| {
        let [low, ..] = (rest ^ u32::from(*byte)).to_le_bytes();
        rest >> 8 ^ TABLE[usize::from(low)]
    })
}

/// Writes the checksum of a whole SCTP packet, whatever stood in its place; false, and nothing
/// written, if the packet is shorter than its header.
#[must_use]
pub fn finish_checksum(packet: &mut [u8]) -> bool {
    let place = CHECKSUM_OFFSET..HEADER_BYTES;
    let Some(field) = packet.get_mut(place.clone()) else { return false };
    field.fill(0);
    let checksum = crc32c(packet).to_le_bytes();
    if let Some(field) = packet.get_mut(place) {
        field.copy_from_slice(&checksum);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn the_checksum_is_that_of_the_vectors() {
        // RFC 3720 appendix B.4, as the octets stand on the wire, and the check value of the CRC.
        let rising: Vec<u8> = (0..32).collect();
        let falling: Vec<u8> = (0..32).rev().collect();
        for (bytes, octets) in [
            (&[0; 32][..], [0xaa, 0x36, 0x91, 0x8a]),
            (&[0xff; 32], [0x43, 0xab, 0xa8, 0x62]),
            (&rising, [0x4e, 0x79, 0xdd, 0x46]),
            (&falling, [0x5c, 0xdb, 0x3f, 0x11]),
            (b"123456789", [0x83, 0x92, 0x06, 0xe3]),
        ] {
            assert_eq!(crc32c(bytes).to_le_bytes(), octets, "{bytes:02x?}");
        }
    }

    #[test]
    fn whatever_stood_in_its_place_does_not_count() {
        let mut packet: Vec<u8> = (0..40).collect();
        assert!(finish_checksum(&mut packet));
        let mut other = packet.clone();
        other[CHECKSUM_OFFSET..HEADER_BYTES].fill(0xa5);
        assert!(finish_checksum(&mut other));
        assert_eq!(packet, other);
        other[CHECKSUM_OFFSET..HEADER_BYTES].fill(0);
        assert_eq!(packet[CHECKSUM_OFFSET..HEADER_BYTES], crc32c(&other).to_le_bytes());
        assert!(!finish_checksum(&mut [0; HEADER_BYTES - 1]));
    }
}

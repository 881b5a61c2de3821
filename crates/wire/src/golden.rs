//! Golden packets for tests: reads their text form and damages them in every small way.
//!
//! A golden is a file of hexadecimal digits under `conformance/`; spaces and line ends are free and
//! everything after `#` is a comment, the first of which cites the section it illustrates.

use std::vec::Vec;

/// The bytes of a golden file.
///
/// # Panics
/// When the text holds anything but whole hexadecimal octets.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .lines()
        .filter_map(|line| line.split('#').next())
        .flat_map(str::bytes)
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            other => panic!("{:?} is no hexadecimal digit", char::from(other)),
        })
        .collect();
    let (octets, half) = digits.as_chunks::<2>();
    assert!(half.is_empty(), "a golden holds half an octet");
    octets.iter().map(|[high, low]| high << 4 | low).collect()
}

/// Shows every proper prefix of the packet, the empty one first.
pub(crate) fn each_truncation(bytes: &[u8], mut see: impl FnMut(&[u8])) {
    for length in 0..bytes.len() {
        see(&bytes[..length]);
    }
}

/// Shows the packet with each single bit inverted, one at a time.
pub(crate) fn each_bit_flip(bytes: &[u8], mut see: impl FnMut(&[u8])) {
    let mut damaged = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        damaged[bit / 8] ^= 0x80 >> (bit % 8);
        see(&damaged);
        damaged[bit / 8] ^= 0x80 >> (bit % 8);
    }
}

#[test]
fn a_golden_is_read_without_its_comments() {
    assert_eq!(hex("# RFC 1 section 2: words ff\n 00 a5\nFf # tail\n"), [0x00, 0xa5, 0xff]);
}

#[test]
fn damage_is_complete_and_undone() {
    let mut prefixes = 0;
    each_truncation(&[1, 2, 3], |cut| {
        assert_eq!(cut.len(), prefixes);
        prefixes += 1;
    });
    assert_eq!(prefixes, 3);
    let mut flips = Vec::new();
    each_bit_flip(&[0, 0], |flipped| flips.push(u16::from_be_bytes([flipped[0], flipped[1]])));
    assert_eq!(flips.len(), 16);
    assert!(flips.iter().enumerate().all(|(bit, &value)| value == 0x8000 >> bit));
}

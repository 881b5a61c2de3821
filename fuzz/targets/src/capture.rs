//! Capture files that people are sent: what is taken from one is a frame of it, and whatever is wrong is
//! told in words.

use catena_client::capture;
use std::io::Write as _;

/// Edits that one input makes at most.
const EDITS_MAX: usize = 8;
const FRAME: [u8; 60] = [1; 60];
const LENGTH: u32 = FRAME.len() as u32;
const ETHERNET: u32 = 1;

/// A file as it comes, and one of ours of either format with bytes replaced, two for the place and one
/// for the byte. The first byte is the number of the packet.
pub(crate) fn frames(bytes: &[u8]) {
    let Some((number, rest)) = bytes.split_first() else { return };
    for file in [rest.to_vec(), edited(pcap(), rest), edited(pcapng(), rest)] {
        match frame(&file, usize::from(*number)) {
            Ok(frame) => assert!(frame.len() <= file.len()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn frame(bytes: &[u8], number: usize) -> Result<Vec<u8>, capture::CaptureError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    capture::frame(file.path(), number)
}

fn edited(mut file: Vec<u8>, edits: &[u8]) -> Vec<u8> {
    let length = file.len();
    for edit in edits.chunks_exact(3).take(EDITS_MAX) {
        file[usize::from(u16::from_le_bytes([edit[0], edit[1]])) % length] = edit[2];
    }
    file
}

/// Two packets in the older format.
fn pcap() -> Vec<u8> {
    let versions = 2 | 4 << 16;
    let mut file = words(&[0xa1b2_c3d4, versions, 0, 0, 65_535, ETHERNET]);
    for _ in 0..2 {
        file.extend(words(&[0, 0, LENGTH, LENGTH]));
        file.extend(FRAME);
    }
    file
}

/// Two packets in the newer format.
fn pcapng() -> Vec<u8> {
    let section = [0x1a2b_3c4d_u32, 1, u32::MAX, u32::MAX];
    let mut file = block(0x0a0d_0d0a, &words(&section));
    file.extend(block(1, &words(&[ETHERNET, 0])));
    for _ in 0..2 {
        let mut packet = words(&[0, 0, 0, LENGTH, LENGTH]);
        packet.extend(FRAME);
        file.extend(block(6, &packet));
    }
    file
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A block; its content ends at a boundary of four bytes.
fn block(kind: u32, content: &[u8]) -> Vec<u8> {
    let length = content.len() as u32 + 12;
    [words(&[kind, length]), content.to_vec(), words(&[length])].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_edited_is_good_before() {
        for file in [pcap(), pcapng()] {
            for number in [1, 2] {
                assert_eq!(frame(&file, number).unwrap(), FRAME);
            }
            assert!(frame(&file, 3).is_err());
        }
    }
}

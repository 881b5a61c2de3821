//! What a stream sent and what came of it, as capture files for anybody's tools (the pcap format of
//! libpcap, times in nanoseconds). Knows that format alone.

use super::stream::CapturedStream;
use crate::error::{LabError, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Nanosecond times, in the writer's byte order.
const MAGIC: u32 = 0xa1b2_3c4d;
const VERSION: (u16, u16) = (2, 4);
const SNAP_BYTES: u32 = 65_535;
const LINK_ETHERNET: u32 = 1;
const NS_PER_SECOND: u64 = 1_000_000_000;

/// Writes a capture.
pub(crate) fn write(captured: &CapturedStream, path: &Path) -> Result<()> {
    let told = |error| LabError::io("write", path.display().to_string(), error);
    let mut file = BufWriter::new(File::create(path).map_err(told)?);
    write_to(captured, &mut file).and_then(|()| file.flush()).map_err(told)
}

fn write_to(captured: &CapturedStream, file: &mut impl Write) -> std::io::Result<()> {
    file.write_all(&MAGIC.to_ne_bytes())?;
    file.write_all(&VERSION.0.to_ne_bytes())?;
    file.write_all(&VERSION.1.to_ne_bytes())?;
    for word in [0, 0, SNAP_BYTES, LINK_ETHERNET] {
        file.write_all(&word.to_ne_bytes())?;
    }
    for (at_ns, frame) in &captured.0 {
        let length = frame.len() as u64;
        for word in [at_ns / NS_PER_SECOND, at_ns % NS_PER_SECOND, length, length] {
            file.write_all(&u32::try_from(word).unwrap_or(u32::MAX).to_ne_bytes())?;
        }
        file.write_all(frame)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_has_a_header_and_each_frame_with_its_time() {
        let captured =
            CapturedStream(vec![(3_000_000_007, vec![1, 2, 3]), (4_000_000_000, vec![])]);
        let mut bytes = Vec::new();
        write_to(&captured, &mut bytes).unwrap();
        assert_eq!(bytes.len(), 24 + 16 + 3 + 16);
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!([word(0), word(20)], [MAGIC, LINK_ETHERNET]);
        assert_eq!([word(24), word(28), word(32), word(36)], [3, 7, 3, 3]);
        assert_eq!(bytes[40..43], [1, 2, 3]);
    }
}

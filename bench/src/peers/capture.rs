//! A capture file with given frames: what a peer's looping source is loaded from.

use super::{SOURCE_FRAMES_MIN, Unavailable};
use pcap_file::pcap::{PcapPacket, PcapWriter};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::Duration;

/// Writes the frames in their order, all of them as often as the shortest source needs. Answers
/// how many were written.
pub(super) fn write(path: &Path, frames: &[Vec<u8>]) -> Result<usize, Unavailable> {
    let fail = |reason: String| Unavailable::new("the capture of the frames", reason);
    if frames.is_empty() {
        return Err(fail("there is no frame".into()));
    }
    let file = File::create(path).map_err(|error| fail(error.to_string()))?;
    let mut writer =
        PcapWriter::new(BufWriter::new(file)).map_err(|error| fail(error.to_string()))?;
    let mut written = 0;
    for _ in 0..SOURCE_FRAMES_MIN.div_ceil(frames.len()) {
        for frame in frames {
            let length = u32::try_from(frame.len()).map_err(|error| fail(error.to_string()))?;
            let packet = PcapPacket::new(Duration::ZERO, length, frame);
            writer.write_packet(&packet).map_err(|error| fail(error.to_string()))?;
            written += 1;
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcap::PcapReader;

    #[test]
    fn a_capture_repeats_short_lists_and_keeps_the_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames.pcap");
        let frames = [vec![1; 60], vec![2; 90], vec![3; 64]];
        let written = write(&path, &frames).unwrap();
        assert_eq!(written, 1_026);
        let mut reader = PcapReader::new(File::open(&path).unwrap()).unwrap();
        for at in 0..written {
            let packet = reader.next_packet().unwrap().unwrap();
            assert_eq!(*packet.data, *frames[at % 3], "frame {at}");
        }
        assert!(reader.next_packet().is_none());
        assert!(write(&path, &[]).is_err());
    }
}

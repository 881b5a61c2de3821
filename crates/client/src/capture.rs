//! One frame of a capture file, pcap or pcapng. Knows how packets are counted and what makes one
//! useless here; the formats are the library's.

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError};
use std::borrow::Cow;
use std::fs::File;
use std::path::Path;

/// Why a packet of a capture cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file is not there, or not for us.
    #[error("{file} cannot be read: {reason}")]
    Unreadable {
        /// The file.
        file: String,
        /// What the system says.
        reason: std::io::Error,
    },
    /// It holds something else.
    #[error("{0} is no capture: it must be pcap or pcapng, as tcpdump -w writes")]
    NoCapture(String),
    /// It begins well.
    #[error("{file} is damaged before its end: {reason}")]
    Damaged {
        /// The file.
        file: String,
        /// What does not hold.
        reason: PcapError,
    },
    /// It ends before.
    #[error("{file} has no packet {number}; --packet counts from 1")]
    NoPacket {
        /// The file.
        file: String,
        /// The packet that was asked for.
        number: usize,
    },
    /// The packet was captured where there are no Ethernet headers.
    #[error(
        "packet {number} of {file} is no Ethernet frame ({link:?}); capture at one interface, not at \
         'any'"
    )]
    NotEthernet {
        /// The file.
        file: String,
        /// The packet that was asked for.
        number: usize,
        /// What it is instead.
        link: DataLink,
    },
    /// The end of the packet was not captured.
    #[error(
        "of packet {number} in {file} only {captured} of {wire} bytes were captured; capture with \
         tcpdump -s 0"
    )]
    Cut {
        /// The file.
        file: String,
        /// The packet that was asked for.
        number: usize,
        /// Bytes in the file.
        captured: usize,
        /// Bytes on the wire.
        wire: u32,
    },
}

/// A packet of the file: its bytes, and how many it had on the wire.
struct Captured {
    bytes: Vec<u8>,
    wire_bytes: u32,
    link: DataLink,
}

/// The frame of the packet with this number, from 1.
///
/// # Errors
/// The file is no capture, or the packet no whole Ethernet frame.
pub fn frame(path: &Path, number: usize) -> Result<Vec<u8>, CaptureError> {
    let file = path.display().to_string();
    let open = || {
        File::open(path).map_err(|reason| CaptureError::Unreadable { file: file.clone(), reason })
    };
    let found = match PcapReader::new(open()?) {
        Ok(reader) => of_pcap(reader, number),
        Err(_) => match PcapNgReader::new(open()?) {
            Ok(reader) => of_pcapng(reader, number),
            Err(_) => return Err(CaptureError::NoCapture(file)),
        },
    };
    let Captured { bytes, wire_bytes: wire, link } = match found {
        Ok(Some(captured)) => captured,
        Ok(None) => return Err(CaptureError::NoPacket { file, number }),
        Err(reason) => return Err(CaptureError::Damaged { file, reason }),
    };
    if link != DataLink::ETHERNET {
        return Err(CaptureError::NotEthernet { file, number, link });
    }
    let captured = bytes.len();
    if captured < wire as usize {
        return Err(CaptureError::Cut { file, number, captured, wire });
    }
    Ok(bytes)
}

fn of_pcap(mut reader: PcapReader<File>, number: usize) -> Result<Option<Captured>, PcapError> {
    let link = reader.header().datalink;
    let mut count = 0;
    while let Some(packet) = reader.next_packet() {
        let packet = packet?;
        count += 1;
        if count == number {
            let bytes = packet.data.into_owned();
            return Ok(Some(Captured { bytes, wire_bytes: packet.orig_len, link }));
        }
    }
    Ok(None)
}

fn of_pcapng(mut reader: PcapNgReader<File>, number: usize) -> Result<Option<Captured>, PcapError> {
    let mut links: Vec<DataLink> = Vec::new();
    let mut count = 0;
    while let Some(block) = reader.next_block() {
        let (interface, data, wire_bytes): (usize, Cow<'_, [u8]>, u32) = match block? {
            // Interfaces are counted anew in each section.
            Block::SectionHeader(_) => {
                links.clear();
                continue;
            }
            Block::InterfaceDescription(interface) => {
                links.push(interface.linktype);
                continue;
            }
            Block::EnhancedPacket(packet) => {
                (packet.interface_id as usize, packet.data, packet.original_len)
            }
            Block::SimplePacket(packet) => (0, packet.data, packet.original_len),
            _ => continue,
        };
        count += 1;
        if count == number {
            let link = links.get(interface).copied().unwrap_or(DataLink::NULL);
            return Ok(Some(Captured { bytes: data.into_owned(), wire_bytes, link }));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
    use pcap_file::pcapng::PcapNgWriter;
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
    use std::time::Duration;

    const FRAMES: [&[u8]; 2] = [&[1; 60], &[2; 61]];

    /// Each packet was longer on the wire by this much.
    fn pcap(file: &Path, link: DataLink, cut_bytes: usize) {
        let header = PcapHeader { datalink: link, ..PcapHeader::default() };
        let mut writer = PcapWriter::with_header(File::create(file).unwrap(), header).unwrap();
        for bytes in FRAMES {
            let wire_bytes = u32::try_from(bytes.len() + cut_bytes).unwrap();
            let packet = PcapPacket::new(Duration::ZERO, wire_bytes, bytes);
            writer.write_packet(&packet).unwrap();
        }
    }

    fn pcapng(file: &Path) {
        let mut writer = PcapNgWriter::new(File::create(file).unwrap()).unwrap();
        for link in [DataLink::NULL, DataLink::ETHERNET] {
            writer.write_pcapng_block(InterfaceDescriptionBlock::new(link, 0)).unwrap();
        }
        for bytes in FRAMES {
            let block = EnhancedPacketBlock {
                interface_id: 1,
                timestamp: Duration::ZERO,
                original_len: u32::try_from(bytes.len()).unwrap(),
                data: Cow::Borrowed(bytes),
                options: Vec::new(),
            };
            writer.write_pcapng_block(block).unwrap();
        }
    }

    #[test]
    fn both_formats_give_the_packet_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let (old, new) = (folder.path().join("old"), folder.path().join("new"));
        pcap(&old, DataLink::ETHERNET, 0);
        pcapng(&new);
        for file in [&old, &new] {
            assert_eq!(frame(file, 1).unwrap(), FRAMES[0]);
            assert_eq!(frame(file, 2).unwrap(), FRAMES[1]);
            assert!(frame(file, 3).unwrap_err().to_string().contains("no packet 3"));
        }
    }

    #[test]
    fn what_is_no_whole_ethernet_frame_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("capture");
        pcap(&file, DataLink::LINUX_SLL, 0);
        assert!(frame(&file, 1).unwrap_err().to_string().contains("no Ethernet frame"));
        pcap(&file, DataLink::ETHERNET, 1);
        assert!(frame(&file, 1).unwrap_err().to_string().contains("only 60 of 61 bytes"));
        std::fs::write(&file, b"no capture").unwrap();
        assert!(frame(&file, 1).unwrap_err().to_string().contains("is no capture"));
        let away = frame(&folder.path().join("away"), 1).unwrap_err();
        assert!(away.to_string().contains("cannot be read"));
    }
}

//! The frames that are measured with, and the source that repeats them from memory.

use super::site::{FIRST_PATH, Seat, VNI};

/// Frames of UDP over IPv4 without options.
const HEADERS: usize = 14 + 20 + 8;
const NSH_BYTES: usize = 24;
const GPE_BYTES: usize = 8;

/// A frame that is repeated with another flow, and another path, each time.
pub(super) struct Template {
    bytes: Vec<u8>,
    /// Where the UDP ports are.
    ports_at: usize,
    /// Where the service path header is, if there is one.
    path_at: Option<usize>,
}

impl Template {
    /// A bare frame of this many bytes from one seat to another.
    pub(super) fn bare(from: Seat, to: Seat, destination: [u8; 6], frame_bytes: usize) -> Self {
        let frame_bytes = frame_bytes.max(HEADERS);
        let mut bytes = Vec::with_capacity(frame_bytes);
        bytes.extend(destination);
        bytes.extend(from.mac().0);
        bytes.extend([0x08, 0x00]);
        let total = low_word(frame_bytes - 14);
        bytes.extend([0x45, 0]);
        bytes.extend(total.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        bytes.extend(from.address().octets());
        bytes.extend(to.address().octets());
        let sum = checksum(&bytes[14..34]);
        bytes[24..26].copy_from_slice(&sum.to_be_bytes());
        bytes.extend([0, 0, 0, 0]);
        bytes.extend((total - 20).to_be_bytes());
        bytes.extend([0, 0]);
        bytes.resize(frame_bytes, 0xa5);
        Self { bytes, ports_at: 34, path_at: None }
    }

    /// The frame behind an NSH of MD type 1 with this index.
    pub(super) fn behind_nsh(self, index: u8) -> Self {
        let mut bytes = vec![0x0f, 0xc6, 0x01, 0x03, 0, 0, 0, index];
        bytes.resize(NSH_BYTES, 0);
        bytes.extend(&self.bytes);
        Self { bytes, ports_at: self.ports_at + NSH_BYTES, path_at: Some(4) }
    }

    /// The same in VXLAN-GPE, as a tunnel brings it.
    pub(super) fn behind_gpe(self) -> Self {
        let vni = (VNI << 8).to_be_bytes();
        let mut bytes = vec![0x0c, 0, 0, 4, vni[0], vni[1], vni[2], 0];
        bytes.extend(&self.bytes);
        self.moved(bytes, GPE_BYTES)
    }

    /// The same behind an Ethernet header, as a function that reads NSH sends it.
    pub(super) fn behind_ethernet(self, from: Seat) -> Self {
        let mut bytes = vec![0x02, 0xca, 0x7e, 0, 0, 1];
        bytes.extend(from.mac().0);
        bytes.extend([0x89, 0x4f]);
        bytes.extend(&self.bytes);
        self.moved(bytes, 14)
    }

    fn moved(self, bytes: Vec<u8>, by: usize) -> Self {
        let path_at = self.path_at.map(|at| at + by);
        Self { bytes, ports_at: self.ports_at + by, path_at }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes flow and path into a copy of the template.
    pub(super) fn patch(&self, frame: &mut [u8], Turn { flow, position }: Turn) {
        // Ports from 1,024 on, so that none is 0.
        let ports = (1_024 + (flow & 0x7fff)) << 16 | (1_024 + (flow >> 15 & 0x7fff));
        put(frame, self.ports_at, ports.to_be_bytes());
        if let Some(at) = self.path_at {
            // Paths are spread over the positions: those of one hop first.
            let path =
                ((FIRST_PATH + position.path) << 8 | u32::from(position.index)).to_be_bytes();
            put(frame, at, path);
        }
    }
}

/// What one frame of the source says.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) flow: u32,
    pub(super) position: Position,
}

/// A place on a path, as a header names it.
#[derive(Clone, Copy)]
pub(super) struct Position {
    /// Counted from the first path.
    pub(super) path: u32,
    /// Service index.
    pub(super) index: u8,
}

fn put(frame: &mut [u8], at: usize, bytes: [u8; 4]) {
    if let Some(room) = frame.get_mut(at..at + 4) {
        room.copy_from_slice(&bytes);
    }
}

fn low_word(bytes: usize) -> u16 {
    u16::try_from(bytes).unwrap_or(u16::MAX)
}

fn checksum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !low_word(((folded & 0xffff) + (folded >> 16)) as usize)
}

//! The frames that are measured with, and the source that repeats them from memory.

use super::kinds::{Kind, VLAN};
use super::site::{FIRST_PATH, Seat, VNI};
use catena_model::resource::Encapsulation;

const NSH_BYTES: usize = 24;
const GPE_BYTES: usize = 8;
/// Bytes of headers of a frame of UDP, the longest.
const HEADERS: usize = 18 + 40 + 8;

/// A frame that is repeated with another flow, and another path, each time.
#[derive(Clone)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    encapsulation: Encapsulation,
    /// Where the UDP ports are.
    ports_at: usize,
    /// Where the service path header is, if it differs.
    path_at: Option<usize>,
}

impl Template {
    /// A bare frame of UDP of this many bytes, or as many as it takes, from one seat to another.
    pub(crate) fn bare(
        kind: Kind,
        (from, to): (Seat, Seat),
        destination: [u8; 6],
        frame_bytes: usize,
    ) -> Self {
        let mut bytes = Vec::with_capacity(frame_bytes.max(HEADERS));
        bytes.extend(destination);
        bytes.extend(from.mac().0);
        if kind.is_tagged {
            bytes.extend([0x81, 0]);
            bytes.extend(VLAN.to_be_bytes());
        }
        let ip_at = bytes.len() + 2;
        if kind.is_v6 {
            let payload = low_word(frame_bytes.saturating_sub(ip_at + 40).max(8));
            bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            bytes.extend(payload.to_be_bytes());
            bytes.extend([17, 64]);
            bytes.extend(from.address_v6().octets());
            bytes.extend(to.address_v6().octets());
        } else {
            let total = low_word(frame_bytes.saturating_sub(ip_at).max(28));
            bytes.extend([0x08, 0x00, 0x45, 0]);
            bytes.extend(total.to_be_bytes());
            bytes.extend([0, 0, 0, 0, 64, 17, 0, 0]);
            bytes.extend(from.address().octets());
            bytes.extend(to.address().octets());
            let sum = checksum(&bytes[ip_at..ip_at + 20]);
            bytes[ip_at + 10..ip_at + 12].copy_from_slice(&sum.to_be_bytes());
        }
        let ports_at = bytes.len();
        bytes.extend([0, 0, 0, 0]);
        let udp_bytes = low_word(frame_bytes.saturating_sub(ports_at).max(8));
        bytes.extend(udp_bytes.to_be_bytes());
        bytes.extend([0, 0]);
        bytes.resize(frame_bytes.max(bytes.len()), 0xa5);
        Self { bytes, encapsulation: kind.encapsulation, ports_at, path_at: None }
    }

    /// The frame at this index of a path: behind an NSH of MD type 1 in which path and index differ, or
    /// behind a label pair of the first path.
    pub(super) fn on_path(self, encapsulation: Encapsulation, index: u8) -> Self {
        let is_nsh = encapsulation == Encapsulation::Nsh;
        let mut bytes = if is_nsh {
            vec![0x0f, 0xc6, 0x01, 0x03, 0, 0, 0, index]
        } else {
            let context = FIRST_PATH << 12 | 1;
            let function = u32::from(index) << 24 | 1 << 8 | 63;
            [context.to_be_bytes(), function.to_be_bytes()].concat()
        };
        if is_nsh {
            bytes.resize(NSH_BYTES, 0);
        }
        let by = bytes.len();
        bytes.extend(&self.bytes);
        let path_at = Some(4).filter(|_| is_nsh);
        Self { bytes, ports_at: self.ports_at + by, path_at, ..self }
    }

    /// The packet of it alone, behind such a header: what is inside is no frame.
    pub(crate) fn under(self, header: &[u8]) -> Self {
        const ETHERNET_BYTES: usize = 14;
        let mut bytes = header.to_vec();
        bytes.extend(self.bytes.get(ETHERNET_BYTES..).unwrap_or_default());
        let ports_at = (self.ports_at + header.len()).saturating_sub(ETHERNET_BYTES);
        Self { bytes, ports_at, path_at: None, ..self }
    }

    /// The same as a tunnel brings it: an NSH in VXLAN-GPE, labels as they are.
    pub(super) fn in_tunnel(self) -> Self {
        if self.encapsulation != Encapsulation::Nsh {
            return self;
        }
        let vni = (VNI << 8).to_be_bytes();
        let mut bytes = vec![0x0c, 0, 0, 4, vni[0], vni[1], vni[2], 0];
        bytes.extend(&self.bytes);
        self.moved(bytes, GPE_BYTES)
    }

    /// The same behind an Ethernet header, as a function that reads headers sends it.
    pub(super) fn behind_ethernet(self, from: Seat) -> Self {
        let mut bytes = vec![0x02, 0xca, 0x7e, 0, 0, 1];
        bytes.extend(from.mac().0);
        let ether_type = self.encapsulation.capabilities().ether_type;
        bytes.extend(ether_type.map_or(0, |one| one.0).to_be_bytes());
        bytes.extend(&self.bytes);
        self.moved(bytes, 14)
    }

    fn moved(self, bytes: Vec<u8>, by: usize) -> Self {
        let path_at = self.path_at.map(|at| at + by);
        Self { bytes, ports_at: self.ports_at + by, path_at, ..self }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Writes flow and path into a copy of the template.
    pub(crate) fn patch(&self, frame: &mut [u8], Turn { flow, position }: Turn) {
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
pub(crate) struct Turn {
    pub(crate) flow: u32,
    pub(crate) position: Position,
}

/// A place on a path, as a header names it.
#[derive(Clone, Copy)]
pub(crate) struct Position {
    /// Counted from the first path.
    pub(crate) path: u32,
    /// Service index.
    pub(crate) index: u8,
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

//! Work on a frame that its sender left to whoever transmits it: the checksum and the cutting into
//! segments. Knows the kernel's `virtio_net_hdr` (10 bytes before each frame of a packet socket,
//! virtio 1.2 section 5.1.6); refuses to know the headers of the frame itself.

/// Size of `virtio_net_hdr` in bytes.
pub(crate) const VIRTIO_HEADER_BYTES: usize = 10;

const FLAG_NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
const GSO_ECN: u8 = 0x80;

/// Work left to the transmitter of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload {
    /// A checksum that holds only the pseudo header's sum so far.
    pub checksum: Option<PartialChecksum>,
    /// The frame is a super-frame that stands for several wire packets.
    pub segmentation: Option<Segmentation>,
}

/// Where an unfinished checksum starts and belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// First summed byte, counted from the start of the frame (`csum_start`), in bytes.
    pub start: u16,
    /// Place of the checksum, counted from `start` (`csum_offset`), in bytes.
    pub offset: u16,
}

/// Which transport a super-frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentationKind {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over IPv4 or IPv6: each segment is a datagram of its own.
    UdpL4,
}

/// How a super-frame is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// The transport.
    pub kind: SegmentationKind,
    /// TCP: the first segment alone keeps the CWR flag (RFC 3168 section 6.1.2).
    pub ecn: bool,
    /// Transport payload of each segment but the last, in bytes; never zero in a received frame.
    pub segment_bytes: u16,
    /// All headers before the transport payload, in bytes. As received it is the kernel's hint
    /// and may be zero or too large; whoever has parsed the frame writes the true value.
    pub header_bytes: u16,
}

impl Segmentation {
    /// Wire packets a super-frame of `frame_bytes` stands for: as exact as `header_bytes` is.
    #[must_use]
    pub fn segments(&self, frame_bytes: usize) -> u32 {
        let payload = frame_bytes.saturating_sub(usize::from(self.header_bytes));
        let segments = payload.div_ceil(usize::from(self.segment_bytes).max(1)).max(1);
        u32::try_from(segments).unwrap_or(u32::MAX)
    }
}

impl Offload {
    /// Wire packets that a frame of `frame_bytes` with this offload stands for.
    #[must_use]
    pub fn wire_packets(&self, frame_bytes: usize) -> u32 {
        self.segmentation.map_or(1, |segmentation| segmentation.segments(frame_bytes))
    }

    /// Moves the offsets by bytes that were inserted near the start of the frame (a VLAN tag).
    pub(crate) fn shift(&mut self, bytes: u16) {
        if let Some(checksum) = &mut self.checksum {
            checksum.start = checksum.start.saturating_add(bytes);
        }
        if let Some(segmentation) = &mut self.segmentation
            && segmentation.header_bytes > 0
        {
            segmentation.header_bytes = segmentation.header_bytes.saturating_add(bytes);
        }
    }

    /// Moves the offsets by bytes that were taken off the start of the frame (a link's header).
    pub(crate) fn shift_back(&mut self, bytes: u16) {
        if let Some(checksum) = &mut self.checksum {
            checksum.start = checksum.start.saturating_sub(bytes);
        }
        if let Some(segmentation) = &mut self.segmentation {
            segmentation.header_bytes = segmentation.header_bytes.saturating_sub(bytes);
        }
    }

    /// Reads `virtio_net_hdr`; `None` when it asks for a segmentation that we do not know.
    /// A checksum that the kernel already found good needs no mention here.
    pub(crate) fn parse(header: [u8; VIRTIO_HEADER_BYTES]) -> Option<Self> {
        let [flags, gso, h0, h1, s0, s1, c0, c1, o0, o1] = header;
        let checksum = (flags & FLAG_NEEDS_CHECKSUM != 0).then(|| PartialChecksum {
            start: u16::from_ne_bytes([c0, c1]),
            offset: u16::from_ne_bytes([o0, o1]),
        });
        let kind = match gso & !GSO_ECN {
            GSO_NONE => return Some(Self { checksum, segmentation: None }),
            GSO_TCP_V4 => SegmentationKind::TcpV4,
            GSO_TCP_V6 => SegmentationKind::TcpV6,
            GSO_UDP_L4 => SegmentationKind::UdpL4,
            _ => return None,
        };
        let segment_bytes = u16::from_ne_bytes([s0, s1]);
        let segmentation = (segment_bytes > 0).then(|| Segmentation {
            kind,
            ecn: gso & GSO_ECN != 0,
            segment_bytes,
            header_bytes: u16::from_ne_bytes([h0, h1]),
        })?;
        Some(Self { checksum, segmentation: Some(segmentation) })
    }

    /// Writes `virtio_net_hdr`.
    pub(crate) fn emit(&self) -> [u8; VIRTIO_HEADER_BYTES] {
        let (flags, start, offset) = self
            .checksum
            .map_or((0, 0, 0), |checksum| (FLAG_NEEDS_CHECKSUM, checksum.start, checksum.offset));
        let (gso, header_bytes, segment_bytes) =
            self.segmentation.map_or((GSO_NONE, 0, 0), |segmentation| {
                let kind = match segmentation.kind {
                    SegmentationKind::TcpV4 => GSO_TCP_V4,
                    SegmentationKind::TcpV6 => GSO_TCP_V6,
                    SegmentationKind::UdpL4 => GSO_UDP_L4,
                };
                let ecn = if segmentation.ecn { GSO_ECN } else { 0 };
                (kind | ecn, segmentation.header_bytes, segmentation.segment_bytes)
            });
        let [h0, h1] = header_bytes.to_ne_bytes();
        let [s0, s1] = segment_bytes.to_ne_bytes();
        let [c0, c1] = start.to_ne_bytes();
        let [o0, o1] = offset.to_ne_bytes();
        [flags, gso, h0, h1, s0, s1, c0, c1, o0, o1]
    }
}

/// Finishes a checksum that its sender left open: the sum over everything from its start, which
/// holds the pseudo header's part already (RFC 1071). False when its place is outside the frame.
#[must_use]
pub(crate) fn finish_checksum(frame: &mut [u8], open: PartialChecksum) -> bool {
    let Some(summed) = frame.get_mut(usize::from(open.start)..) else { return false };
    let at = usize::from(open.offset);
    if at + 1 >= summed.len() {
        return false;
    }
    let mut sum = 0_u64;
    for pair in summed.chunks(2) {
        let low = pair.get(1).copied().unwrap_or_default();
        sum += u64::from(u16::from_be_bytes([pair[0], low]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // Zero would mean that there is no checksum (RFC 768).
    let checksum = match !(sum as u16) {
        0 => 0xffff,
        checksum => checksum,
    };
    summed[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offload_survives_the_kernel_header() {
        for kind in [SegmentationKind::TcpV4, SegmentationKind::TcpV6, SegmentationKind::UdpL4] {
            for ecn in [false, true] {
                let offload = Offload {
                    checksum: Some(PartialChecksum { start: 0x1234, offset: 0x0506 }),
                    segmentation: Some(Segmentation {
                        kind,
                        ecn,
                        segment_bytes: 0x0708,
                        header_bytes: 0x090a,
                    }),
                };
                assert_eq!(Offload::parse(offload.emit()), Some(offload));
            }
        }
        assert_eq!(Offload::parse(Offload::default().emit()), Some(Offload::default()));
    }

    #[test]
    fn all_segmentation_types_but_the_three_known_are_refused() {
        let known = [GSO_NONE, GSO_TCP_V4, GSO_TCP_V6, GSO_UDP_L4];
        for gso in 0..=u8::MAX {
            let mut header = [0xa5; VIRTIO_HEADER_BYTES];
            header[1] = gso;
            assert_eq!(
                Offload::parse(header).is_some(),
                known.contains(&(gso & !GSO_ECN)),
                "type {gso:#x}"
            );
        }
    }

    #[test]
    fn a_super_frame_with_segments_of_no_bytes_is_refused() {
        assert_eq!(Offload::parse([0, GSO_TCP_V4, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }

    #[test]
    fn a_checksum_found_good_by_the_kernel_asks_for_nothing() {
        assert_eq!(Offload::parse([2, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Some(Offload::default()));
    }

    #[test]
    fn a_super_frame_counts_its_segments_and_the_odd_last_one() {
        let segmentation = Segmentation {
            kind: SegmentationKind::UdpL4,
            ecn: false,
            segment_bytes: 1_000,
            header_bytes: 42,
        };
        let offload = Offload { checksum: None, segmentation: Some(segmentation) };
        assert_eq!(offload.wire_packets(42 + 3_000), 3);
        assert_eq!(offload.wire_packets(42 + 3_001), 4);
        assert_eq!(offload.wire_packets(10), 1);
        assert_eq!(Offload::default().wire_packets(60_000), 1);
    }

    #[test]
    fn an_open_checksum_is_finished_over_all_that_follows_its_start() {
        // UDP 1.1.1.1:1 > 2.2.2.2:2 "abc", the pseudo header's sum in its place.
        let pseudo: u32 = 0x0101 * 2 + 0x0202 * 2 + 17 + 11;
        let mut frame = vec![0xee; 34];
        frame.extend([0, 1, 0, 2, 0, 11]);
        frame.extend((pseudo as u16).to_be_bytes());
        frame.extend(*b"abc");
        assert!(finish_checksum(&mut frame, PartialChecksum { start: 34, offset: 6 }));
        let words = frame[34..].chunks(2).map(|pair| {
            u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]))
        });
        let sum: u32 = words.sum::<u32>() + pseudo;
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        assert_eq!(frame[..34], [0xee; 34]);
        for (start, offset) in [(45, 0), (44, 1), (34, 10), (34, 11), (u16::MAX, u16::MAX)] {
            assert!(!finish_checksum(&mut frame, PartialChecksum { start, offset }));
        }
    }
}

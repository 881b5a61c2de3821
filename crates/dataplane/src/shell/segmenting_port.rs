//! A port that takes no super-frames, made to: what the engine gives it whole is cut into wire packets
//! before. Knows how a frame is cut; refuses to know which port is behind it.

use catena_io::{Buffer, BufferPool, Port, Received, RefusedFrame, SegmentationKind, Transmitted};
use catena_wire::segment::{SegmentKind, SuperFrame};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// See the module.
pub(super) struct SegmentingPort<P> {
    port: P,
    /// What goes to the port, and of which frame of the call each is a part.
    parts: Vec<Buffer>,
    wholes: Vec<usize>,
    refused: Vec<RefusedFrame>,
}

impl<P: Port> SegmentingPort<P> {
    pub(super) fn new(port: P) -> Self {
        Self { port, parts: Vec::new(), wholes: Vec::new(), refused: Vec::new() }
    }

    /// Makes the parts of a frame; an `errno` and none of them if one cannot be made.
    fn cut(&mut self, frame: Buffer, whole: usize, pool: &mut BufferPool) {
        let Some(segmentation) = frame.offload.segmentation else {
            self.parts.push(frame);
            self.wholes.push(whole);
            return;
        };
        let kind = match segmentation.kind {
            SegmentationKind::TcpV4 | SegmentationKind::TcpV6 => SegmentKind::Tcp,
            SegmentationKind::UdpL4 => SegmentKind::Udp,
        };
        let first = self.parts.len();
        let made = match SuperFrame::parse(frame.bytes(), kind, segmentation.segment_bytes) {
            Ok(planned) => write_parts(&planned, &frame, pool, &mut self.parts),
            Err(_) => Err(Errno::INVAL),
        };
        pool.put(frame);
        match made {
            Ok(()) => self.wholes.resize(self.parts.len(), whole),
            Err(errno) => {
                self.parts.drain(first..).for_each(|part| pool.put(part));
                self.refused.push(RefusedFrame { index: whole, errno: errno.raw_os_error() });
            }
        }
    }
}

fn write_parts(
    planned: &SuperFrame,
    frame: &Buffer,
    pool: &mut BufferPool,
    parts: &mut Vec<Buffer>,
) -> Result<(), Errno> {
    for number in 0..planned.count() {
        let mut part = pool.take().ok_or(Errno::NOBUFS)?;
        part.clear();
        let written = planned.write_segment(frame.bytes(), number, part.spare_mut());
        let is_made = written > 0 && part.set_len(written);
        parts.push(part);
        if !is_made {
            return Err(Errno::MSGSIZE);
        }
    }
    Ok(())
}

impl<P: Port> Port for SegmentingPort<P> {
    fn receive(&mut self, pool: &mut BufferPool, out: &mut Vec<Buffer>, max: usize) -> Received {
        self.port.receive(pool, out, max)
    }

    /// A frame of which a part was refused counts as refused: what of it was sent is not told.
    fn transmit(&mut self, frames: &mut Vec<Buffer>, pool: &mut BufferPool) -> Transmitted {
        self.wholes.clear();
        self.refused.clear();
        for (whole, frame) in frames.drain(..).enumerate() {
            self.cut(frame, whole, pool);
        }
        let transmitted = self.port.transmit(&mut self.parts, pool);
        for part in self.port.refused() {
            let whole = self.wholes.get(part.index).copied();
            self.refused.extend(whole.map(|index| RefusedFrame { index, errno: part.errno }));
        }
        self.refused.sort_by_key(|frame| frame.index);
        self.refused.dedup_by_key(|frame| frame.index);
        transmitted
    }

    fn refused(&self) -> &[RefusedFrame] {
        &self.refused
    }

    fn lost(&mut self) -> u64 {
        self.port.lost()
    }
}

impl<P: Port> AsFd for SegmentingPort<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_io::{Offload, Segmentation};

    /// Keeps what it is given, and refuses frames of one length.
    struct Keeper {
        waker: std::os::fd::OwnedFd,
        kept: Vec<usize>,
        refuses: usize,
        refused: Vec<RefusedFrame>,
    }

    impl Port for Keeper {
        fn receive(&mut self, _: &mut BufferPool, _: &mut Vec<Buffer>, _: usize) -> Received {
            Received::default()
        }

        fn transmit(&mut self, frames: &mut Vec<Buffer>, pool: &mut BufferPool) -> Transmitted {
            self.refused.clear();
            for (index, frame) in frames.drain(..).enumerate() {
                if frame.len() == self.refuses {
                    let errno = Errno::AGAIN.raw_os_error();
                    self.refused.push(RefusedFrame { index, errno });
                } else {
                    assert_eq!(frame.offload, Offload::default(), "nothing is left to be done");
                    self.kept.push(frame.len());
                }
                pool.put(frame);
            }
            Transmitted::default()
        }

        fn refused(&self) -> &[RefusedFrame] {
            &self.refused
        }

        fn lost(&mut self) -> u64 {
            7
        }
    }

    impl AsFd for Keeper {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.waker.as_fd()
        }
    }

    const HEADERS: usize = 54;

    /// TCP over IPv4 with so many bytes of data; in segments of 100 bytes if there are more.
    fn frame(pool: &mut BufferPool, data: usize) -> Buffer {
        let mut bytes = vec![0; HEADERS + data];
        bytes[12..14].copy_from_slice(&[8, 0]);
        bytes[14] = 0x45;
        let total = u16::try_from(bytes.len() - 14).unwrap();
        bytes[16..18].copy_from_slice(&total.to_be_bytes());
        bytes[22..24].copy_from_slice(&[64, 6]);
        bytes[46] = 0x50;
        let mut buffer = pool.take().unwrap();
        assert!(buffer.fill(&bytes));
        if data > 100 {
            let kind = SegmentationKind::TcpV4;
            buffer.offload.segmentation =
                Some(Segmentation { kind, segment_bytes: 100, header_bytes: 54, ecn: false });
        }
        buffer
    }

    fn port(refuses: usize) -> SegmentingPort<Keeper> {
        let waker = std::fs::File::open("/dev/null").unwrap().into();
        SegmentingPort::new(Keeper { waker, kept: Vec::new(), refuses, refused: Vec::new() })
    }

    #[test]
    fn a_super_frame_goes_as_its_wire_packets_between_its_neighbours() {
        let mut pool = BufferPool::new(16);
        let mut port = port(0);
        let mut frames = vec![frame(&mut pool, 20), frame(&mut pool, 250), frame(&mut pool, 30)];
        port.transmit(&mut frames, &mut pool);
        let lengths = [20, 100, 100, 50, 30].map(|data| HEADERS + data);
        assert_eq!(port.port.kept, lengths);
        assert!(port.refused().is_empty() && port.lost() == 7);
        assert_eq!(pool.free(), 16);
    }

    #[test]
    fn a_frame_counts_as_refused_once_whichever_of_its_parts_was() {
        let mut pool = BufferPool::new(16);
        let mut port = port(HEADERS + 100);
        let mut frames = vec![frame(&mut pool, 20), frame(&mut pool, 250), frame(&mut pool, 30)];
        port.transmit(&mut frames, &mut pool);
        assert_eq!(port.port.kept, [20, 50, 30].map(|data| HEADERS + data));
        let errno = Errno::AGAIN.raw_os_error();
        assert_eq!(port.refused(), [RefusedFrame { index: 1, errno }]);
        assert_eq!(pool.free(), 16);
    }

    #[test]
    fn without_buffers_for_all_parts_none_is_sent() {
        let mut pool = BufferPool::new(3);
        let mut port = port(0);
        let mut frames = vec![frame(&mut pool, 250)];
        port.transmit(&mut frames, &mut pool);
        assert!(port.port.kept.is_empty());
        let errno = Errno::NOBUFS.raw_os_error();
        assert_eq!(port.refused(), [RefusedFrame { index: 0, errno }]);
        assert_eq!(pool.free(), 3);
    }
}

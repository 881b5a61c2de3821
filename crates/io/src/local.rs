//! The port of a function in this process: two rings of buffers to another thread, with a bell for
//! each. Frames are not copied and keep their offload. Refuses to know who is at the other end.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::bell::{Bell, Event};
use crate::buffer::{Buffer, BufferPool};
use crate::error::IoError;
use crate::port::{Outcome, Port, Received, RefusedFrame, Transmitted};
use crate::spsc::{SpscIn, SpscOut, spsc_ring};

/// Most frames that may wait in one direction.
pub const LOCAL_SLOTS_MAX: usize = 16_384;

/// A counter of the kernel that pollers wait for.
struct EventFd(OwnedFd);

impl EventFd {
    fn new() -> Result<Self, IoError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        eventfd(0, flags).map(Self).map_err(IoError::system("making a bell"))
    }
}

impl Event for EventFd {
    fn set(&self) {
        // It can only fail when it is set already.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    fn reset(&self) {
        // It can only fail when it is not set.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

/// One end of two rings.
pub struct LocalPort {
    into: SpscIn<Buffer>,
    out: SpscOut<Buffer>,
    /// Rung by the other end.
    ours: Arc<Bell<EventFd>>,
    theirs: Arc<Bell<EventFd>>,
    outcome: Outcome,
}

impl LocalPort {
    /// Two ports, each the other's far end, with room for so many frames in each direction
    /// (rounded up to a power of two).
    ///
    /// # Errors
    /// A size outside its limits, or the kernel's refusal.
    pub fn pair(slots: usize) -> Result<(Self, Self), IoError> {
        IoError::check_range("slots of a local port", slots, 1, LOCAL_SLOTS_MAX)?;
        let slots = slots.next_power_of_two();
        let mut pool = BufferPool::new(2 * slots);
        let mut buffers = std::iter::from_fn(|| pool.take());
        let (a_into, b_out) = spsc_ring(buffers.by_ref().take(slots));
        let (b_into, a_out) = spsc_ring(buffers);
        let bell = || EventFd::new().map(|event| Arc::new(Bell::new(event)));
        let (a, b) = (bell()?, bell()?);
        let end = |into, out, ours: &Arc<_>, theirs: &Arc<_>| Self {
            into,
            out,
            ours: Arc::clone(ours),
            theirs: Arc::clone(theirs),
            outcome: Outcome::default(),
        };
        Ok((end(a_into, a_out, &a, &b), end(b_into, b_out, &b, &a)))
    }
}

impl Port for LocalPort {
    fn receive(&mut self, pool: &mut BufferPool, out: &mut Vec<Buffer>, max: usize) -> Received {
        // Before looking, so that what comes afterwards rings again.
        self.ours.silence();
        let mut received = Received::default();
        for _ in 0..max {
            if self.out.is_empty() {
                break;
            }
            let Some(mut buffer) = pool.take() else {
                received.pool_empty = true;
                break;
            };
            if !self.out.take(&mut buffer) {
                pool.put(buffer);
                break;
            }
            received.frames += 1;
            out.push(buffer);
        }
        if !self.out.is_empty() {
            self.ours.ring();
        }
        received
    }

    /// A full ring refuses with `EAGAIN`.
    fn transmit(&mut self, frames: &mut Vec<Buffer>, pool: &mut BufferPool) -> Transmitted {
        self.outcome.begin();
        for mut frame in frames.drain(..) {
            let (len, offload) = (frame.len(), frame.offload);
            if self.into.put(&mut frame) {
                self.outcome.note_sent(offload.wire_packets(len));
            } else {
                self.outcome.note(&frame, Err(Errno::AGAIN.raw_os_error()));
            }
            pool.put(frame);
        }
        if self.outcome.transmitted.sent > 0 {
            self.theirs.ring();
        }
        self.outcome.transmitted
    }

    fn refused(&self) -> &[RefusedFrame] {
        self.outcome.refused()
    }

    /// None: who sends is told at once that there is no room.
    fn lost(&mut self) -> u64 {
        0
    }
}

impl AsFd for LocalPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ours.event().0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Poller;
    use crate::offload::PartialChecksum;
    use std::time::Duration;

    fn frames(pool: &mut BufferPool, count: u8) -> Vec<Buffer> {
        let mut fill = |number| {
            let mut frame = pool.take().unwrap();
            assert!(frame.fill(&[number; 60]));
            frame.offload.checksum = Some(PartialChecksum { start: number.into(), offset: 6 });
            frame
        };
        (0..count).map(&mut fill).collect()
    }

    #[test]
    fn frames_pass_both_ways_with_their_offload_and_every_pool_keeps_its_count() {
        let (mut near, mut far) = LocalPort::pair(8).unwrap();
        let (mut pool, mut far_pool) = (BufferPool::new(16), BufferPool::new(16));
        for (from, to) in [(0, 1), (1, 0)] {
            let mut ends = [(&mut near, &mut pool), (&mut far, &mut far_pool)];
            let sent = frames(ends[from].1, 5);
            let outcome = ends[from].0.transmit(&mut { sent }, ends[from].1);
            assert_eq!((outcome.sent, outcome.sent_segments, outcome.failed), (5, 5, 0));
            let mut came = Vec::new();
            let (port, pool) = &mut ends[to];
            assert_eq!(port.receive(pool, &mut came, 3).frames, 3);
            assert_eq!(port.receive(pool, &mut came, 9).frames, 2);
            for (number, frame) in (0_u8..).zip(came.drain(..)) {
                assert_eq!(frame.bytes(), [number; 60]);
                assert_eq!(frame.offload.checksum.unwrap().start, u16::from(number));
                pool.put(frame);
            }
        }
        for pool in [&mut pool, &mut far_pool] {
            assert_eq!(std::iter::from_fn(|| pool.take()).count(), 16);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "it knows no poller that is told of levels")]
    fn the_bell_rings_until_the_ring_is_empty_and_is_silent_then() {
        let (mut near, mut far) = LocalPort::pair(8).unwrap();
        let mut pool = BufferPool::new(16);
        let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
        poller.add(&far, 4).unwrap();
        let mut rings = |wanted: &[u64]| {
            poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
            assert_eq!(ready, wanted);
        };
        rings(&[]);
        let mut sent = frames(&mut pool, 4);
        near.transmit(&mut sent, &mut pool);
        rings(&[4]);
        let mut came = Vec::new();
        far.receive(&mut pool, &mut came, 3);
        rings(&[4]);
        far.receive(&mut pool, &mut came, 3);
        rings(&[]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "it knows no poller that is told of levels")]
    fn whoever_sleeps_is_woken_by_every_ring_also_one_that_meets_the_silencing() {
        const FRAMES: u32 = 200_000;
        const PATIENCE: Duration = Duration::from_secs(20);
        let (mut near, mut far) = LocalPort::pair(64).unwrap();
        let sender = std::thread::spawn(move || {
            let (mut pool, mut sent) = (BufferPool::new(1), 0);
            while sent < FRAMES {
                let mut frame = frames(&mut pool, 1);
                sent += near.transmit(&mut frame, &mut pool).sent;
            }
            // What has been sent may still be on its way when this end goes.
            near
        });
        let mut pool = BufferPool::new(64);
        let (mut poller, mut ready) = (Poller::new().unwrap(), Vec::new());
        poller.add(&far, 4).unwrap();
        let mut came = 0;
        while came < FRAMES {
            poller.wait(Some(PATIENCE), &mut ready).unwrap();
            assert_eq!(ready, [4], "{came} came, and nobody rings for the next");
            let mut taken = Vec::new();
            came += far.receive(&mut pool, &mut taken, 64).frames;
            taken.into_iter().for_each(|buffer| pool.put(buffer));
        }
        sender.join().unwrap();
    }

    #[test]
    fn a_full_ring_refuses_by_place_and_an_empty_pool_leaves_frames_where_they_are() {
        let (mut near, mut far) = LocalPort::pair(2).unwrap();
        let mut pool = BufferPool::new(4);
        let mut sent = frames(&mut pool, 4);
        let outcome = near.transmit(&mut sent, &mut pool);
        assert_eq!((outcome.sent, outcome.failed), (2, 2));
        assert_eq!(outcome.last_errno, Some(Errno::AGAIN.raw_os_error()));
        let places: Vec<usize> = near.refused().iter().map(|frame| frame.index).collect();
        assert_eq!(places, [2, 3]);
        let (mut none, mut came) = (BufferPool::new(0), Vec::new());
        assert!(far.receive(&mut none, &mut came, 4).pool_empty);
        assert_eq!(far.receive(&mut pool, &mut came, 4).frames, 2);
    }
}

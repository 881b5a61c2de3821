//! A port without a kernel: frames come out of memory as fast as they are taken, and what is sent is
//! counted and forgotten. It may keep its worker busy for as long as a kernel would.

use catena_io::{Buffer, BufferPool, Port, Received, RefusedFrame, Transmitted};
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What whoever measures shares with the ports.
#[derive(Default)]
pub(super) struct Gauge {
    /// Frames that were sent.
    pub(super) sent: AtomicU64,
    /// Frames come.
    pub(super) is_flowing: AtomicBool,
}

/// The port.
pub(super) struct MemoryPort {
    /// One after the other, again and again; empty: it only takes.
    frames: Vec<Vec<u8>>,
    next: usize,
    gauge: Arc<Gauge>,
    /// What a frame takes each way.
    cost: Duration,
    /// Its other end has written what nobody reads: it is always ready.
    ready: UnixStream,
    _other_end: UnixStream,
}

impl MemoryPort {
    pub(super) fn new(
        frames: Vec<Vec<u8>>,
        cost: Duration,
        gauge: &Arc<Gauge>,
    ) -> std::io::Result<Self> {
        let (ready, mut other_end) = UnixStream::pair()?;
        if !frames.is_empty() {
            other_end.write_all(&[1])?;
        }
        Ok(Self { frames, next: 0, gauge: Arc::clone(gauge), cost, ready, _other_end: other_end })
    }
}

impl MemoryPort {
    fn take_time(&self, frames: u32) {
        if self.cost > Duration::ZERO {
            let until = Instant::now() + self.cost * frames;
            while Instant::now() < until {
                std::hint::spin_loop();
            }
        }
    }
}

impl AsFd for MemoryPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }
}

impl Port for MemoryPort {
    fn receive(&mut self, pool: &mut BufferPool, out: &mut Vec<Buffer>, max: usize) -> Received {
        let mut received = Received::default();
        if self.frames.is_empty() || !self.gauge.is_flowing.load(Ordering::Relaxed) {
            return received;
        }
        while (received.frames as usize) < max {
            let Some(mut buffer) = pool.take() else {
                received.pool_empty = true;
                break;
            };
            let is_filled = self.frames.get(self.next).is_some_and(|frame| buffer.fill(frame));
            debug_assert!(is_filled, "every frame fits");
            self.next = if self.next + 1 == self.frames.len() { 0 } else { self.next + 1 };
            out.push(buffer);
            received.frames += 1;
        }
        self.take_time(received.frames);
        received
    }

    fn transmit(&mut self, frames: &mut Vec<Buffer>, pool: &mut BufferPool) -> Transmitted {
        let sent = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        self.take_time(sent);
        frames.drain(..).for_each(|buffer| pool.put(buffer));
        self.gauge.sent.fetch_add(sent.into(), Ordering::Relaxed);
        Transmitted { sent, sent_segments: sent, ..Transmitted::default() }
    }

    fn refused(&self) -> &[RefusedFrame] {
        &[]
    }

    fn lost(&mut self) -> u64 {
        0
    }
}

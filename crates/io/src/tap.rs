//! The port of a virtual machine: a TAP interface with the kernel's offload words, so that
//! super-frames pass whole. One system call a frame. Refuses to know who opened it.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, readv, writev};

use crate::buffer::{Buffer, BufferPool};
use crate::offload::{Offload, VIRTIO_HEADER_BYTES};
use crate::port::{Outcome, Port, Received, RefusedFrame, Transmitted};

/// How often a full queue is waited for before a frame is given up.
const TRANSMIT_WAITS_MAX: u32 = 2;
/// How long each wait is.
const TRANSMIT_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Ethernet without a payload: less is no frame.
const FRAME_BYTES_MIN: usize = 14;

/// A TAP that was opened without packet information, with offload words (`IFF_NO_PI`,
/// `IFF_VNET_HDR`), and not blocking.
pub struct TapPort {
    file: OwnedFd,
    outcome: Outcome,
}

impl TapPort {
    /// A port on an opened TAP. Needs no capability.
    #[must_use]
    pub fn new(file: OwnedFd) -> Self {
        Self { file, outcome: Outcome::default() }
    }

    fn send(&self, frame: &Buffer) -> Result<(), Errno> {
        let header = frame.offload.emit();
        let parts = [IoSlice::new(&header), IoSlice::new(frame.bytes())];
        let mut waits = 0;
        loop {
            match writev(&self.file, &parts) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if waits < TRANSMIT_WAITS_MAX => {
                    waits += 1;
                    let mut writable = [PollFd::new(&self.file, PollFlags::OUT)];
                    // Whatever ends the wait, the next attempt tells how it is.
                    let _ = poll(&mut writable, Some(&TRANSMIT_WAIT));
                }
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Port for TapPort {
    fn receive(&mut self, pool: &mut BufferPool, out: &mut Vec<Buffer>, max: usize) -> Received {
        let mut received = Received::default();
        for _ in 0..max {
            let Some(mut buffer) = pool.take() else {
                received.pool_empty = true;
                break;
            };
            buffer.clear();
            let mut header = [0; VIRTIO_HEADER_BYTES];
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(buffer.spare_mut())];
            let came = match readv(&self.file, &mut parts) {
                Ok(came) => came.saturating_sub(VIRTIO_HEADER_BYTES),
                Err(errno) => {
                    pool.put(buffer);
                    if ![Errno::AGAIN, Errno::INTR].contains(&errno) && received.frames == 0 {
                        received.socket_error = Some(errno.raw_os_error());
                    }
                    break;
                }
            };
            match Offload::parse(header) {
                Some(offload) if came >= FRAME_BYTES_MIN && buffer.set_len(came) => {
                    buffer.offload = offload;
                    received.frames += 1;
                    out.push(buffer);
                }
                Some(_) => {
                    received.truncated += 1;
                    pool.put(buffer);
                }
                None => {
                    received.unsupported_offload += 1;
                    pool.put(buffer);
                }
            }
        }
        received
    }

    fn transmit(&mut self, frames: &mut Vec<Buffer>, pool: &mut BufferPool) -> Transmitted {
        self.outcome.begin();
        for frame in frames.drain(..) {
            let sent = self.send(&frame).map_err(Errno::raw_os_error);
            self.outcome.note(&frame, sent);
            pool.put(frame);
        }
        self.outcome.transmitted
    }

    fn refused(&self) -> &[RefusedFrame] {
        self.outcome.refused()
    }

    /// None: the kernel counts them at the interface alone.
    fn lost(&mut self) -> u64 {
        0
    }
}

impl AsFd for TapPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

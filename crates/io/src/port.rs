//! What every port is to the data plane: frames in, frames out, and what was lost. Knows the words
//! for it; refuses to know how any port does it.

use std::os::fd::AsFd;

use crate::buffer::{Buffer, BufferPool};

/// A port. Its descriptor can be read while frames wait ([`crate::Poller`]).
pub trait Port: AsFd + Send {
    /// Takes up to `max` frames, in order of arrival. Stops early when the pool is empty; those
    /// frames stay.
    fn receive(&mut self, pool: &mut BufferPool, out: &mut Vec<Buffer>, max: usize) -> Received;

    /// Transmits all frames in order and gives their buffers to the pool. Which frames were refused
    /// is told by [`Port::refused`] until the next transmission.
    fn transmit(&mut self, frames: &mut Vec<Buffer>, pool: &mut BufferPool) -> Transmitted;

    /// The frames of the last transmission that were not taken, in their order.
    fn refused(&self) -> &[RefusedFrame];

    /// Frames that came and were lost before they could be received, since the port was made.
    fn lost(&mut self) -> u64;
}

/// What one call of [`Port::receive`] took, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Delivered.
    pub frames: u32,
    /// Not delivered: larger than a slot, so not whole.
    pub truncated: u32,
    /// Not delivered: a segmentation that nothing here can undo.
    pub unsupported_offload: u32,
    /// The pool ran out of buffers; the rest waits.
    pub pool_empty: bool,
    /// Error that the kernel noted on the socket (`errno`), such as the interface going down; it
    /// is looked for when nothing was delivered, which also ends the readiness it caused.
    pub socket_error: Option<i32>,
}

/// What became of the frames of one call of [`Port::transmit`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transmitted {
    /// Frames that were taken.
    pub sent: u32,
    /// Wire packets these stand for ([`Offload::wire_packets`]).
    pub sent_segments: u32,
    /// Frames that were refused; they are gone.
    pub failed: u32,
    /// Wire packets these stand for.
    pub failed_segments: u32,
    /// Why the last of them was refused (`errno`); `EAGAIN` means that the send buffer stayed full.
    pub last_errno: Option<i32>,
}

/// A frame that was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedFrame {
    /// Its place among the frames of the call, from 0.
    pub index: usize,
    /// Why (`errno`); `EAGAIN` means that the send buffer stayed full.
    pub errno: i32,
}

/// Counts what becomes of the frames of one transmission, for ports that give them one by one.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) transmitted: Transmitted,
    refused: Vec<RefusedFrame>,
    index: usize,
}

impl Outcome {
    /// A new transmission.
    pub(crate) fn begin(&mut self) {
        self.transmitted = Transmitted::default();
        self.refused.clear();
        self.index = 0;
    }

    /// The next frame was taken, or refused with an `errno`.
    pub(crate) fn note(&mut self, frame: &Buffer, outcome: Result<(), i32>) {
        let segments = frame.offload.wire_packets(frame.len());
        let Err(errno) = outcome else { return self.note_sent(segments) };
        self.transmitted.failed += 1;
        self.transmitted.failed_segments += segments;
        self.transmitted.last_errno = Some(errno);
        self.refused.push(RefusedFrame { index: self.index, errno });
        self.index += 1;
    }

    /// The next frame, which stands for so many wire packets, was taken.
    pub(crate) fn note_sent(&mut self, segments: u32) {
        self.transmitted.sent += 1;
        self.transmitted.sent_segments += segments;
        self.index += 1;
    }

    /// Frames refused since the transmission began.
    pub(crate) fn refused(&self) -> &[RefusedFrame] {
        &self.refused
    }
}

//! The port of a function: an AF_PACKET socket whose frames arrive in a ring (TPACKET_V2) with the
//! kernel's offload words, so that super-frames pass whole. Knows frames and their offload;
//! refuses to know what is in them, and who opened the socket.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_send_buffer_size, set_socket_send_buffer_size_force, socket_error,
};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use crate::buffer::{Buffer, BufferPool};
use crate::error::IoError;
use crate::offload::Offload;
use crate::options;
use crate::port::{Port, Received, RefusedFrame, Transmitted};
use crate::slots::{FilledSlot, Geometry, SlotMemory};

/// Slots of a ring unless asked otherwise; fewer than 128 lose frames at 20 Gbit/s.
pub const RING_SLOTS_DEFAULT: u32 = 256;
/// Slots of a ring without super-frames, which brings as many frames as one with them in more pieces: what comes at
/// 20,000 a second while its owner does not run for fifty milliseconds.
const SMALL_SLOTS_DEFAULT: u32 = 1_024;
/// Most slots of a ring.
pub const RING_SLOTS_MAX: u32 = 16_384;
/// Size of a slot unless asked otherwise, in bytes: a 64 KiB super-frame and the kernel's words.
pub const RING_SLOT_BYTES_DEFAULT: u32 = 69_632;
/// Smallest slot, in bytes: holds an ordinary frame of 1,500 bytes MTU.
pub const RING_SLOT_BYTES_MIN: u32 = 4_096;
/// What the kernel writes in front of a frame in its slot, at most: its words, where the frame came from, and room
/// that aligns what follows.
const SLOT_WORDS_BYTES: u32 = 160;
/// Largest slot, in bytes.
pub const RING_SLOT_BYTES_MAX: u32 = 1 << 20;

/// Frames given to the kernel in one system call.
const TRANSMIT_FRAMES_MAX: usize = 32;
/// How often a full send buffer is waited for before a frame is given up.
const TRANSMIT_WAITS_MAX: u32 = 2;
/// How long each wait is.
const TRANSMIT_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Send buffer asked for, in bytes.
const SEND_BUFFER_BYTES: usize = 4 << 20;

/// Length of a VLAN tag, and where it stands: behind the two MAC addresses (IEEE 802.3).
const VLAN_TAG_BYTES: usize = 4;
const VLAN_TAG_AT: usize = 12;

/// Size of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingConfig {
    /// Frames that may wait; rounded up until the kernel's memory blocks are full.
    pub slots: u32,
    /// Size of a slot in bytes, a multiple of the page size. A larger frame is cut off and counted.
    pub slot_bytes: u32,
}

impl RingConfig {
    /// Of a socket that only sends: as small as a ring can be.
    pub const SENDING: Self = Self { slots: 1, slot_bytes: RING_SLOT_BYTES_MIN };

    /// With slots for frames of at most so many bytes, none of them a super-frame.
    #[must_use]
    pub const fn of_frames(longest: u32) -> Self {
        let bytes = longest.saturating_add(SLOT_WORDS_BYTES);
        let slot_bytes = match bytes > RING_SLOT_BYTES_DEFAULT {
            true => RING_SLOT_BYTES_DEFAULT,
            false => bytes.next_multiple_of(RING_SLOT_BYTES_MIN),
        };
        Self { slots: SMALL_SLOTS_DEFAULT, slot_bytes }
    }
}

impl Default for RingConfig {
    fn default() -> Self {
        Self { slots: RING_SLOTS_DEFAULT, slot_bytes: RING_SLOT_BYTES_DEFAULT }
    }
}

/// A packet socket with a receive ring.
pub struct PacketRing {
    socket: OwnedFd,
    slots: SlotMemory,
    next_slot: usize,
    ring_full: u64,
    arrived: u64,
    bypasses_qdisc: bool,
    /// Its memory is used again by each transmission.
    refused: Vec<RefusedFrame>,
}

impl PacketRing {
    /// Makes a ring on a raw packet socket that is bound to its interface. Needs no capability.
    ///
    /// # Errors
    /// A size outside its limits, or the kernel's refusal.
    pub fn map(socket: OwnedFd, config: RingConfig) -> Result<Self, IoError> {
        let range = |quantity, value: u32, min: u32, max: u32| {
            IoError::check_range(quantity, value as usize, min as usize, max as usize)
        };
        range("ring slots", config.slots, 1, RING_SLOTS_MAX)?;
        range("ring slot bytes", config.slot_bytes, RING_SLOT_BYTES_MIN, RING_SLOT_BYTES_MAX)?;
        let geometry = Geometry::new(config.slots as usize, config.slot_bytes as usize)?;

        let fd = socket.as_fd();
        let set = |name, value, operation| {
            options::set(fd, libc::SOL_PACKET, name, [value]).map_err(IoError::system(operation))
        };
        set(
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V2 as u32,
            "choosing TPACKET_V2",
        )?;
        set(libc::PACKET_VNET_HDR, 1, "asking for offload words")?;
        set(libc::PACKET_IGNORE_OUTGOING, 1, "ignoring own transmissions")?;
        set(libc::PACKET_QDISC_BYPASS, 1, "bypassing the queueing discipline")?;
        // The forced size needs a capability that this process may have given up; either is a wish.
        if set_socket_send_buffer_size_force(fd, SEND_BUFFER_BYTES).is_err() {
            let _ = set_socket_send_buffer_size(fd, SEND_BUFFER_BYTES);
        }
        let slots = SlotMemory::map(fd, geometry)?;
        Ok(Self {
            socket,
            slots,
            next_slot: 0,
            ring_full: 0,
            arrived: 0,
            bypasses_qdisc: true,
            refused: Vec::new(),
        })
    }

    /// Memory the kernel holds for this ring, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.slots.bytes()
    }

    /// Copies up to `max` frames out of the ring, in order of arrival, and returns their slots.
    /// Stops early when the pool is empty; those frames stay.
    pub fn receive(
        &mut self,
        pool: &mut BufferPool,
        out: &mut Vec<Buffer>,
        max: usize,
    ) -> Received {
        let mut received = Received::default();
        for _ in 0..max {
            let Some(slot) = self.slots.filled(self.next_slot) else { break };
            let Some(mut buffer) = pool.take() else {
                received.pool_empty = true;
                break;
            };
            match copy_frame(&slot, &mut buffer) {
                Ok(()) => {
                    received.frames += 1;
                    out.push(buffer);
                }
                Err(refused) => {
                    match refused {
                        Refused::Truncated => received.truncated += 1,
                        Refused::UnsupportedOffload => received.unsupported_offload += 1,
                    }
                    pool.put(buffer);
                }
            }
            self.slots.release(self.next_slot);
            self.next_slot = (self.next_slot + 1) % self.slots.count();
        }
        if received == Received::default() {
            received.socket_error =
                socket_error(&self.socket).ok().and_then(Result::err).map(Errno::raw_os_error);
        }
        received
    }

    /// Transmits all frames in order and gives them back to the pool. A frame larger than the MTU
    /// of the interface that is no super-frame is refused by the kernel (`EMSGSIZE`). Which frames
    /// were refused is told by [`PacketRing::refused`] until the next transmission.
    pub fn transmit(&mut self, frames: &mut Vec<Buffer>, pool: &mut BufferPool) -> Transmitted {
        let mut outcome = Transmitted::default();
        self.refused.clear();
        let mut rest = frames.as_slice();
        let mut waits = 0;
        while let Some(first) = rest.first() {
            let passed = match self.send_some(rest) {
                Ok(count) => {
                    for frame in &rest[..count] {
                        outcome.sent += 1;
                        outcome.sent_segments += frame.offload.wire_packets(frame.len());
                    }
                    waits = 0;
                    count
                }
                Err(Errno::INTR) => 0,
                Err(Errno::AGAIN) if waits < TRANSMIT_WAITS_MAX => {
                    waits += 1;
                    let mut writable = [PollFd::new(&self.socket, PollFlags::OUT)];
                    // Whatever ends the wait, the next attempt tells how it is.
                    let _ = poll(&mut writable, Some(&TRANSMIT_WAIT));
                    0
                }
                Err(Errno::NOBUFS) if self.cannot_bypass(first) => 0,
                Err(errno) => {
                    outcome.failed += 1;
                    outcome.failed_segments += first.offload.wire_packets(first.len());
                    outcome.last_errno = Some(errno.raw_os_error());
                    let index = frames.len() - rest.len();
                    self.refused.push(RefusedFrame { index, errno: errno.raw_os_error() });
                    waits = 0;
                    1
                }
            };
            rest = &rest[passed..];
        }
        for frame in frames.drain(..) {
            pool.put(frame);
        }
        outcome
    }

    /// The frames of the last transmission that the kernel did not take, in their order.
    #[must_use]
    pub fn refused(&self) -> &[RefusedFrame] {
        &self.refused
    }

    /// A refused super-frame may only mean that the interface cannot segment. Past the queueing
    /// discipline nobody does that for it, so from now on this socket goes through it.
    fn cannot_bypass(&mut self, frame: &Buffer) -> bool {
        if !self.bypasses_qdisc || frame.offload.segmentation.is_none() {
            return false;
        }
        self.bypasses_qdisc = false;
        let bypass = libc::PACKET_QDISC_BYPASS;
        options::set(self.socket.as_fd(), libc::SOL_PACKET, bypass, [0]).is_ok()
    }

    /// Sends the first of `frames` in one system call; tells how many the kernel took, or why it
    /// did not take the first.
    fn send_some(&self, frames: &[Buffer]) -> Result<usize, Errno> {
        let count = frames.len().min(TRANSMIT_FRAMES_MAX);
        let headers: [_; TRANSMIT_FRAMES_MAX] = std::array::from_fn(|index| {
            frames.get(index).map_or_else(Offload::default, |frame| frame.offload).emit()
        });
        let parts: [_; TRANSMIT_FRAMES_MAX] = std::array::from_fn(|index| {
            let frame = frames.get(index).map_or(&[][..], Buffer::bytes);
            [IoSlice::new(&headers[index]), IoSlice::new(frame)]
        });
        let mut controls: [SendAncillaryBuffer<'_, '_, '_>; TRANSMIT_FRAMES_MAX] =
            std::array::from_fn(|_| SendAncillaryBuffer::default());
        let mut index = 0;
        let mut messages = controls.each_mut().map(|control| {
            index += 1;
            MMsgHdr::new(&parts[index - 1], control)
        });
        sendmmsg(&self.socket, &mut messages[..count], SendFlags::DONTWAIT)
    }

    /// Frames that may wait in it.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.slots.count()
    }

    /// Frames lost because the ring was full, since it was made.
    pub fn ring_full(&mut self) -> u64 {
        self.read_statistics();
        self.ring_full
    }

    /// Frames that came to it since it was made, those included for which it was full.
    pub fn arrived(&mut self) -> u64 {
        self.read_statistics();
        self.arrived
    }

    fn read_statistics(&mut self) {
        // The kernel starts from zero after each reading.
        let statistics = options::get(self.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS);
        let [packets, drops] = statistics.unwrap_or_default();
        self.arrived += u64::from(packets);
        self.ring_full += u64::from(drops);
    }
}

impl Port for PacketRing {
    fn receive(&mut self, pool: &mut BufferPool, out: &mut Vec<Buffer>, max: usize) -> Received {
        PacketRing::receive(self, pool, out, max)
    }

    fn transmit(&mut self, frames: &mut Vec<Buffer>, pool: &mut BufferPool) -> Transmitted {
        PacketRing::transmit(self, frames, pool)
    }

    fn refused(&self) -> &[RefusedFrame] {
        PacketRing::refused(self)
    }

    fn lost(&mut self) -> u64 {
        self.ring_full()
    }
}

impl AsFd for PacketRing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

enum Refused {
    Truncated,
    UnsupportedOffload,
}

fn copy_frame(slot: &FilledSlot<'_>, buffer: &mut Buffer) -> Result<(), Refused> {
    let (words, frame) = slot.frame().ok_or(Refused::Truncated)?;
    let offload = Offload::parse(words).ok_or(Refused::UnsupportedOffload)?;
    if !buffer.fill(frame) {
        return Err(Refused::Truncated);
    }
    buffer.offload = offload;
    if let Some((protocol, control)) = slot.stripped_vlan() {
        insert_vlan_tag(buffer, protocol, control);
    }
    Ok(())
}

/// The kernel keeps the outer VLAN tag beside a received frame; here it goes back to its place.
fn insert_vlan_tag(buffer: &mut Buffer, protocol: u16, control: u16) {
    if buffer.len() < VLAN_TAG_AT || buffer.prepend(VLAN_TAG_BYTES).is_none() {
        return;
    }
    let bytes = buffer.bytes_mut();
    bytes.copy_within(VLAN_TAG_BYTES..VLAN_TAG_BYTES + VLAN_TAG_AT, 0);
    let [p0, p1] = protocol.to_be_bytes();
    let [c0, c1] = control.to_be_bytes();
    bytes[VLAN_TAG_AT..VLAN_TAG_AT + VLAN_TAG_BYTES].copy_from_slice(&[p0, p1, c0, c1]);
    buffer.offload.shift(VLAN_TAG_BYTES as u16);
}

//! The port of an interface by AF_XDP: frames lie in memory that is shared with the driver, or with
//! the kernel's copy of it where the driver cannot. It knows no offload: an open checksum is finished
//! here, a super-frame is refused. Refuses to know who opened the socket and what program sends
//! frames to it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, socket_error, xdp_mmap_offsets, xdp_options,
    xdp_statistics,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions,
    XdpOptionsFlags,
};
use rustix::net::{
    MMsgHdr, RecvAncillaryBuffer, RecvFlags, SendAncillaryBuffer, SendFlags, bind, recvmsg,
    sendmmsg,
};

use crate::buffer::{Buffer, BufferPool};
use crate::error::IoError;
use crate::offload::finish_checksum;
use crate::port::{Outcome, Port, Received, RefusedFrame, Transmitted};
use crate::xdp_area::{Area, CHUNK_BYTES, Chunk};
use crate::xdp_map;
use crate::xdp_rings::Ring;

/// Frames that may wait in each direction unless asked otherwise.
pub const XDP_SLOTS_DEFAULT: u32 = 1_024;
/// Most of them.
pub const XDP_SLOTS_MAX: u32 = 16_384;
/// Largest frame, in bytes: what the kernel leaves of a chunk after its headroom of 256.
pub const XDP_FRAME_BYTES_MAX: usize = CHUNK_BYTES - 256;

/// How often a full ring is waited for before a frame is given up.
const TRANSMIT_WAITS_MAX: u32 = 2;
/// How long each wait is.
const TRANSMIT_WAIT: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Where a socket is bound, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XdpConfig {
    /// Index of the interface, in the namespace that the socket was opened in.
    pub interface: u32,
    /// The interface's queue.
    pub queue: u32,
    /// Frames that may wait in each direction, a power of two.
    pub slots: u32,
}

/// An AF_XDP socket with its memory and rings.
pub struct XdpPort {
    socket: OwnedFd,
    /// The program's map, and what holds it at the interface.
    _kept: [OwnedFd; 2],
    area: Area,
    fill: Ring<u64>,
    completion: Ring<u64>,
    rx: Ring<XdpDesc>,
    tx: Ring<XdpDesc>,
    /// Chunks to be sent from.
    spare: Vec<Chunk>,
    is_zero_copy: bool,
    outcome: Outcome,
}

impl XdpPort {
    /// Gives an AF_XDP socket its memory and rings and binds it; then puts it into
    /// the program's map, under its queue. The map and what holds the program at the interface live as
    /// long as the port. Needs no capability, but leave to lock the memory.
    ///
    /// # Errors
    /// A size outside its limits, or the kernel's refusal.
    pub fn bind(
        socket: OwnedFd,
        map: OwnedFd,
        link: OwnedFd,
        config: XdpConfig,
    ) -> Result<Self, IoError> {
        let slots = config.slots;
        IoError::check_range("XDP slots", slots as usize, 1, XDP_SLOTS_MAX as usize)?;
        let slots = slots.next_power_of_two();
        let (mut area, mut chunks) = Area::new(slots * 2)?;
        let told = |operation| IoError::system::<Errno>(operation);
        set_xdp_umem_reg(&socket, area.registration()).map_err(told("sharing frames' memory"))?;
        set_xdp_umem_fill_ring_size(&socket, slots).map_err(told("making the fill ring"))?;
        set_xdp_umem_completion_ring_size(&socket, slots)
            .map_err(told("making the completion ring"))?;
        set_xdp_rx_ring_size(&socket, slots).map_err(told("making the receive ring"))?;
        set_xdp_tx_ring_size(&socket, slots).map_err(told("making the transmit ring"))?;
        let at = xdp_mmap_offsets(&socket).map_err(told("asking where rings are"))?;
        let fd = socket.as_fd();
        let mut fill = Ring::map(fd, at.fr, slots, XDP_UMEM_PGOFF_FILL_RING)?;
        let completion = Ring::map(fd, at.cr, slots, XDP_UMEM_PGOFF_COMPLETION_RING)?;
        let rx = Ring::map(fd, at.rx, slots, XDP_PGOFF_RX_RING)?;
        let tx = Ring::map(fd, at.tx, slots, XDP_PGOFF_TX_RING)?;
        for chunk in chunks.split_off(slots as usize) {
            let has_room = fill.put(area.lend(chunk));
            debug_assert!(has_room, "the fill ring holds all chunks of its direction");
        }
        // Without a wish for either the kernel takes zero-copy where the driver can.
        let flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        bind(&socket, &SocketAddrXdp::new(flags, config.interface, config.queue))
            .map_err(told("binding an XDP socket"))?;
        xdp_map::put(map.as_fd(), config.queue, socket.as_fd())
            .map_err(IoError::system("putting an XDP socket into its map"))?;
        let options = xdp_options(&socket).map_err(told("asking how an XDP socket is bound"))?;
        let is_zero_copy = options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY);
        let (spare, outcome) = (chunks, Outcome::default());
        Ok(Self {
            socket,
            _kept: [map, link],
            area,
            fill,
            completion,
            rx,
            tx,
            spare,
            is_zero_copy,
            outcome,
        })
    }

    /// Whether the driver itself reads and writes the shared memory.
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// A chunk to send from. The kernel is asked for those that it has sent from.
    fn spare_chunk(&mut self) -> Result<Chunk, Errno> {
        for wait in 0..=TRANSMIT_WAITS_MAX {
            while let Some(address) = self.completion.take() {
                self.spare.extend(self.area.take_back(address));
            }
            if let Some(chunk) = self.spare.pop() {
                return Ok(chunk);
            }
            self.push_out()?;
            if wait > 0 {
                let mut writable = [PollFd::new(&self.socket, PollFlags::OUT)];
                // Whatever ends the wait, the next attempt tells how it is.
                let _ = poll(&mut writable, Some(&TRANSMIT_WAIT));
            }
        }
        Err(Errno::AGAIN)
    }

    fn queue(&mut self, frame: &mut Buffer) -> Result<(), Errno> {
        if frame.offload.segmentation.is_some() || frame.len() > XDP_FRAME_BYTES_MAX {
            return Err(Errno::MSGSIZE);
        }
        if let Some(open) = frame.offload.checksum
            && !finish_checksum(frame.bytes_mut(), open)
        {
            return Err(Errno::INVAL);
        }
        let mut chunk = self.spare_chunk()?;
        if !self.area.write(&mut chunk, frame.bytes()) {
            self.spare.push(chunk);
            return Err(Errno::MSGSIZE);
        }
        let len = u32::try_from(frame.len()).unwrap_or_default();
        let addr = self.area.lend(chunk);
        if self.tx.put(XdpDesc { addr, len, options: XdpDescOptions::empty() }) {
            return Ok(());
        }
        self.spare.extend(self.area.take_back(addr));
        Err(Errno::AGAIN)
    }

    /// Has the kernel send what is in the ring; it takes some frames a call.
    fn push_out(&mut self) -> Result<(), Errno> {
        let mut waits = 0;
        while !self.tx.is_empty() && self.tx.needs_wakeup() {
            // The calls by which frames travel elsewhere too: a confined worker has few.
            let mut control = SendAncillaryBuffer::default();
            let mut nothing = [MMsgHdr::new(&[], &mut control)];
            match sendmmsg(&self.socket, &mut nothing, SendFlags::DONTWAIT) {
                Ok(_) | Err(Errno::INTR) => {}
                // More is to be done, or the interface's queue is full.
                Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS) if waits < XDP_SLOTS_MAX => {
                    waits += 1;
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

impl Port for XdpPort {
    fn receive(&mut self, pool: &mut BufferPool, out: &mut Vec<Buffer>, max: usize) -> Received {
        let mut received = Received::default();
        for _ in 0..max {
            if self.rx.is_empty() {
                break;
            }
            let Some(mut buffer) = pool.take() else {
                received.pool_empty = true;
                break;
            };
            let came = self.rx.take();
            let chunk = came.and_then(|came| Some((came, self.area.take_back(came.addr)?)));
            let Some((came, chunk)) = chunk else {
                pool.put(buffer);
                break;
            };
            let bytes = self.area.bytes_at(&chunk, came.addr, came.len);
            if bytes.is_some_and(|bytes| buffer.fill(bytes)) {
                received.frames += 1;
                out.push(buffer);
            } else {
                received.truncated += 1;
                pool.put(buffer);
            }
            let has_room = self.fill.put(self.area.lend(chunk));
            debug_assert!(has_room, "the fill ring holds all chunks of its direction");
        }
        if self.fill.needs_wakeup() {
            // Whether it could be woken shows with the next frames.
            let mut control = RecvAncillaryBuffer::default();
            let _ = recvmsg(&self.socket, &mut [], &mut control, RecvFlags::DONTWAIT);
        }
        if received == Received::default() {
            received.socket_error =
                socket_error(&self.socket).ok().and_then(Result::err).map(Errno::raw_os_error);
        }
        received
    }

    /// A super-frame, and a frame over [`XDP_FRAME_BYTES_MAX`], is refused (`EMSGSIZE`). What the
    /// kernel loses after it has taken a frame over is seen at the interface alone.
    fn transmit(&mut self, frames: &mut Vec<Buffer>, pool: &mut BufferPool) -> Transmitted {
        self.outcome.begin();
        for mut frame in frames.drain(..) {
            let queued = self.queue(&mut frame).map_err(Errno::raw_os_error);
            self.outcome.note(&frame, queued);
            pool.put(frame);
        }
        if let Err(errno) = self.push_out() {
            // What is in the ring goes with the next transmission, or never if the interface is gone.
            self.outcome.transmitted.last_errno = Some(errno.raw_os_error());
        }
        self.outcome.transmitted
    }

    fn refused(&self) -> &[RefusedFrame] {
        self.outcome.refused()
    }

    fn lost(&mut self) -> u64 {
        let Ok(lost) = xdp_statistics(&self.socket) else { return 0 };
        lost.rx_dropped + lost.rx_ring_full.unwrap_or_default()
    }
}

impl AsFd for XdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

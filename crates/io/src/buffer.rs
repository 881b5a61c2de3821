//! Packet memory: buffers with room in front, and the pool they come from. A buffer is allocated when it is
//! first needed and never freed; running out of them is the caller's counted drop. Knows bytes and their
//! offload; refuses to know formats.

use crate::offload::Offload;

/// Room in front of a received frame, for encapsulations, in bytes.
pub const BUFFER_HEADROOM_BYTES: usize = 256;

/// Room for the frame itself, in bytes: a 64 KiB super-frame and what stands before it.
pub const BUFFER_DATA_BYTES: usize = 69_632;

/// One frame in memory of fixed size, with room to grow at both ends.
pub struct Buffer {
    memory: Box<[u8]>,
    start: usize,
    end: usize,
    /// Work left to the transmitter. Its offsets count from the start of the frame: who grows or
    /// trims the front also says what they are now.
    pub offload: Offload,
}

impl Buffer {
    fn new() -> Self {
        Self::around(vec![0; BUFFER_HEADROOM_BYTES + BUFFER_DATA_BYTES].into_boxed_slice())
    }

    /// An empty frame in memory of a buffer.
    #[inline]
    fn around(memory: Box<[u8]>) -> Self {
        let start = BUFFER_HEADROOM_BYTES;
        Self { memory, start, end: start, offload: Offload::default() }
    }

    /// The same frame, with no work left to the transmitter. Where that is so already, it spares the
    /// copying of what is not there.
    #[must_use]
    #[inline]
    pub fn without_offload(self) -> Self {
        let Self { memory, start, end, .. } = self;
        Self { memory, start, end, offload: Offload::default() }
    }

    /// The frame.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    /// The frame, for edits in place.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.end]
    }

    /// Length of the frame in bytes.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Room in front of the frame, in bytes.
    #[must_use]
    #[inline]
    pub fn headroom(&self) -> usize {
        self.start
    }

    /// Whether the frame has no bytes.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Grows the frame by `bytes` at the front and returns that new part, which holds whatever
    /// was there before; `None` (and nothing changed) when the room in front is too small.
    #[inline]
    pub fn prepend(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let start = self.start.checked_sub(bytes)?;
        let grown = start..self.start;
        self.start = start;
        Some(&mut self.memory[grown])
    }

    /// Removes `bytes` at the front; false (and nothing changed) when the frame is shorter.
    #[must_use]
    #[inline]
    pub fn trim_front(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.len();
        if fits {
            self.start += bytes;
        }
        fits
    }

    /// Shortens the frame to `len` bytes; does nothing when it is not longer.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.end = self.end.min(self.start.saturating_add(len));
    }

    /// Grows the frame at its end; false (and nothing changed) when the room is too small.
    #[must_use]
    #[inline]
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let Some(room) = self.spare_mut().get_mut(..bytes.len()) else { return false };
        room.copy_from_slice(bytes);
        self.end += bytes.len();
        true
    }

    /// Makes this frame a copy of `bytes`, with the full room in front and no offload; false, and
    /// an empty frame, when there are more bytes than a buffer holds.
    #[must_use]
    pub fn fill(&mut self, bytes: &[u8]) -> bool {
        self.clear();
        self.append(bytes)
    }

    /// Empties the frame: the full room in front, no offload.
    #[inline]
    pub fn clear(&mut self) {
        self.start = BUFFER_HEADROOM_BYTES;
        self.end = BUFFER_HEADROOM_BYTES;
        self.offload = Offload::default();
    }

    /// The room behind the frame, with old content; [`Buffer::set_len`] makes it part of the frame.
    #[inline]
    pub fn spare_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.end..]
    }

    /// Sets the length in bytes, into the spare room or back; false (and nothing changed) when the
    /// buffer ends before.
    #[must_use]
    #[inline]
    pub fn set_len(&mut self, len: usize) -> bool {
        let fits = len <= self.memory.len() - self.start;
        if fits {
            self.end = self.start + len;
        }
        fits
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Buffer")
            .field("len", &self.len())
            .field("headroom", &self.start)
            .field("offload", &self.offload)
            .finish_non_exhaustive()
    }
}

/// A bounded number of buffers. The one returned last is taken first, and none is made while one is free: so the
/// pool has as many as were ever in use together, where 2,048 of 68 KiB would be touched by zeroing them.
#[derive(Debug)]
pub struct BufferPool {
    // The memory alone: what a buffer says of its last frame is not worth moving.
    free: Vec<Box<[u8]>>,
    /// Buffers that were never needed yet.
    unmade: usize,
    capacity: usize,
}

impl BufferPool {
    /// A pool of at most `capacity` buffers.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { free: Vec::with_capacity(capacity), unmade: capacity, capacity }
    }

    /// An empty buffer, or `None` when all are in use.
    #[inline]
    pub fn take(&mut self) -> Option<Buffer> {
        self.free.pop().map(Buffer::around).or_else(|| self.make())
    }

    #[cold]
    fn make(&mut self) -> Option<Buffer> {
        self.unmade = self.unmade.checked_sub(1)?;
        Some(Buffer::new())
    }

    /// Gives a buffer of this pool back.
    #[inline]
    pub fn put(&mut self, buffer: Buffer) {
        debug_assert!(self.free() < self.capacity, "a buffer of another pool was put here");
        self.free.push(buffer.memory);
    }

    /// So many buffers of this pool will not come back: others may be made in their place.
    pub fn write_off(&mut self, buffers: usize) {
        self.unmade = (self.unmade + buffers).min(self.capacity.saturating_sub(self.free.len()));
    }

    /// Buffers that can be taken now.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len() + self.unmade
    }

    /// Buffers of this pool, taken or not.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offload::PartialChecksum;

    fn filled(bytes: &[u8]) -> Buffer {
        let mut buffer = Buffer::new();
        assert!(buffer.fill(bytes));
        buffer
    }

    #[test]
    fn a_frame_grows_at_the_front_until_the_room_is_used_up() {
        let mut buffer = filled(b"payload");
        buffer.prepend(3).unwrap().copy_from_slice(b"ip ");
        assert_eq!(buffer.bytes(), b"ip payload");
        assert_eq!(buffer.prepend(BUFFER_HEADROOM_BYTES - 3).unwrap().len(), 253);
        assert!(buffer.prepend(1).is_none());
        assert_eq!(buffer.len(), BUFFER_HEADROOM_BYTES + 7);
    }

    #[test]
    fn trimming_more_than_there_is_changes_nothing() {
        let mut buffer = filled(b"abcdef");
        assert!(!buffer.trim_front(7));
        assert!(buffer.trim_front(2));
        buffer.truncate(9);
        assert_eq!(buffer.bytes(), b"cdef");
        buffer.truncate(1);
        assert_eq!(buffer.bytes(), b"c");
        assert!(buffer.trim_front(1));
        assert!(buffer.is_empty());
    }

    #[test]
    fn a_frame_never_grows_over_the_end_of_its_memory() {
        let mut buffer = filled(&vec![7; BUFFER_DATA_BYTES]);
        assert!(!buffer.append(&[1]));
        assert!(buffer.append(&[]));
        assert_eq!(buffer.len(), BUFFER_DATA_BYTES);
        assert!(!buffer.set_len(BUFFER_DATA_BYTES + 1));
        assert!(!buffer.fill(&vec![7; BUFFER_DATA_BYTES + 1]));
        assert!(buffer.is_empty());
    }

    #[test]
    fn spare_room_becomes_frame_by_setting_its_length() {
        let mut buffer = filled(b"ab");
        buffer.spare_mut()[..2].copy_from_slice(b"cd");
        assert!(buffer.set_len(4));
        assert_eq!(buffer.bytes(), b"abcd");
        assert!(buffer.set_len(1));
        assert_eq!(buffer.bytes(), b"a");
    }

    #[test]
    fn a_pool_gives_out_exactly_its_buffers_and_always_empty_ones() {
        let mut pool = BufferPool::new(2);
        let mut first = pool.take().unwrap();
        let second = pool.take().unwrap();
        assert!(pool.take().is_none());
        assert_eq!((pool.free(), pool.capacity()), (0, 2));

        assert!(first.append(b"old"));
        assert!(first.prepend(5).is_some());
        first.offload.checksum = Some(PartialChecksum { start: 34, offset: 16 });
        pool.put(first);
        let again = pool.take().unwrap();
        assert!(again.is_empty());
        assert_eq!(again.offload, Offload::default());
        pool.put(again);
        pool.put(second);
        assert_eq!(pool.free(), 2);
    }

    #[test]
    fn a_pool_makes_as_many_buffers_as_were_in_use_together() {
        let mut pool = BufferPool::new(8);
        for in_use in [1, 3, 2] {
            let taken: Vec<Buffer> =
                std::iter::repeat_with(|| pool.take().unwrap()).take(in_use).collect();
            taken.into_iter().for_each(|buffer| pool.put(buffer));
        }
        assert_eq!((pool.unmade, pool.free()), (5, 8));
    }

    #[test]
    #[cfg_attr(miri, ignore = "what an interpreter uses is not what this process uses")]
    fn unused_buffers_cost_no_memory() {
        let resident_bytes = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
            pages * rustix::param::page_size()
        };
        let before = resident_bytes();
        let pool = BufferPool::new(2_048);
        let cost = resident_bytes().saturating_sub(before);
        let size = pool.capacity() * BUFFER_DATA_BYTES;
        assert!(cost < size / 4, "{cost} of {size} bytes are resident");
    }
}

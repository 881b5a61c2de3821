//! Bytes of TCP in their order. Knows sequence numbers and blocks of memory; refuses to know rules.
//!
//! Of bytes that come twice the first stay, as with Linux (RFC 9293 section 3.10.7.4 leaves it open). A
//! stream keeps what came last, so that what is cut into segments is found where it meets.

use super::finds::Finds;
use super::http::Http;

/// Bytes of one block.
pub(super) const BLOCK_BYTES: usize = 16_384;
/// Of these, what stays of bytes that were looked at.
const KEPT_BYTES: usize = 8_192;
/// Pieces that came before their turn.
const PIECES_MAX: usize = 16;

/// A block's number.
pub(super) type Block = u32;

/// Blocks of memory, taken once.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    bytes: Vec<u8>,
    free: Vec<Block>,
}

impl Pool {
    pub(super) fn new(blocks: usize) -> Self {
        let blocks = u32::try_from(blocks).unwrap_or(u32::MAX);
        Self { bytes: vec![0; blocks as usize * BLOCK_BYTES], free: (0..blocks).rev().collect() }
    }

    pub(super) fn free_blocks(&self) -> usize {
        self.free.len()
    }

    pub(super) fn take(&mut self) -> Option<Block> {
        self.free.pop()
    }

    pub(super) fn give_back(&mut self, block: Block) {
        self.free.push(block);
    }

    pub(super) fn get(&self, block: Block) -> &[u8] {
        let start = block as usize * BLOCK_BYTES;
        self.bytes.get(start..start + BLOCK_BYTES).unwrap_or_default()
    }

    pub(super) fn get_mut(&mut self, block: Block) -> &mut [u8] {
        let start = block as usize * BLOCK_BYTES;
        self.bytes.get_mut(start..start + BLOCK_BYTES).unwrap_or_default()
    }
}

/// One way of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pub(super) block: Option<Block>,
    /// The sequence number of the first byte in the block.
    pub(super) start: u32,
    /// Bytes of the stream before it.
    pub(super) base: u64,
    /// Where bytes in their order end.
    pub(super) end: u16,
    /// Where those end that were looked at.
    pub(super) seen: u16,
    /// Pieces behind `end`, in order and apart.
    pub(super) pieces: [(u16, u16); PIECES_MAX],
    pub(super) pieces_len: u8,
    pub(super) http: Http,
    /// Where contents were found in it.
    pub(super) finds: Finds,
}

impl Stream {
    pub(super) fn new(start: u32) -> Self {
        Self {
            block: None,
            start,
            base: 0,
            end: 0,
            seen: 0,
            pieces: [(0, 0); PIECES_MAX],
            pieces_len: 0,
            http: Http::default(),
            finds: Finds::default(),
        }
    }

    pub(super) fn pieces(&self) -> &[(u16, u16)] {
        self.pieces.get(..usize::from(self.pieces_len)).unwrap_or_default()
    }

    /// Where the last byte is.
    pub(super) fn reach(&self) -> usize {
        self.pieces().last().map_or(self.end, |(_, end)| *end).into()
    }

    /// Makes room for a segment of so many bytes that comes in its turn.
    fn slide(&mut self, block: &mut [u8], bytes: usize) {
        let keep = KEPT_BYTES.min(BLOCK_BYTES.saturating_sub(bytes));
        self.forget(block, usize::from(self.seen).saturating_sub(keep));
    }

    /// Forgets so many bytes at the front.
    fn forget(&mut self, block: &mut [u8], bytes: usize) {
        let reach = self.reach();
        let bytes = bytes.min(reach);
        if bytes == 0 {
            return;
        }
        block.copy_within(bytes..reach, 0);
        let by = bytes as u16;
        self.start = self.start.wrapping_add(by.into());
        self.base = self.base.saturating_add(by.into());
        self.http.shift(by);
        self.finds.shift(by);
        (self.end, self.seen) = (self.end.saturating_sub(by), self.seen.saturating_sub(by));
        let mut kept = [(0, 0); PIECES_MAX];
        let mut places = kept.iter_mut();
        let mut number = 0;
        for (from, to) in self.pieces().iter().filter(|(_, to)| *to > by) {
            if let Some(place) = places.next() {
                *place = (from.saturating_sub(by), to - by);
                number += 1;
            }
        }
        (self.pieces, self.pieces_len) = (kept, number);
        self.absorb();
    }

    /// Takes the bytes of a segment in; false: there was no room for some of them.
    pub(super) fn add(&mut self, block: &mut [u8], sequence: u32, data: &[u8]) -> bool {
        self.slide(block, data.len());
        let place = i64::from(sequence.wrapping_sub(self.start) as i32);
        let (from, to) = (place.max(self.end.into()), place + data.len() as i64);
        if to <= from {
            return true;
        }
        let last = to.min(BLOCK_BYTES as i64);
        if from >= last {
            return false;
        }
        let data = data.get((from - place) as usize..(last - place) as usize).unwrap_or_default();
        self.write(block, from as u16, data) && last == to
    }

    /// Writes what is not there yet.
    fn write(&mut self, block: &mut [u8], from: u16, data: &[u8]) -> bool {
        let to = from + data.len() as u16;
        let mut merged = [(0, 0); PIECES_MAX + 1];
        let (mut new, mut number, mut at) = ((from, to), 0, from);
        let put = |block: &mut [u8], start: u16, end: u16| {
            let (part, target) = (
                data.get(usize::from(start - from)..usize::from(end - from)),
                block.get_mut(usize::from(start)..usize::from(end)),
            );
            if let (Some(part), Some(target)) = (part, target) {
                target.copy_from_slice(part);
            }
        };
        let mut is_placed = false;
        for &(first, last) in self.pieces() {
            if last < from {
                merged[number] = (first, last);
                number += 1;
                continue;
            }
            if first > to {
                if !is_placed {
                    merged[number] = new;
                    (number, is_placed) = (number + 1, true);
                }
                merged[number] = (first, last);
                number += 1;
                continue;
            }
            if at < first {
                put(block, at, first.min(to));
            }
            at = at.max(last.min(to));
            new = (new.0.min(first), new.1.max(last));
        }
        if !is_placed {
            merged[number] = new;
            number += 1;
        }
        if number > PIECES_MAX {
            return false;
        }
        if at < to {
            put(block, at, to);
        }
        self.pieces.iter_mut().zip(merged).for_each(|(piece, merged)| *piece = merged);
        self.pieces_len = number as u8;
        self.absorb();
        true
    }

    /// Takes pieces into the order whose turn it is.
    fn absorb(&mut self) {
        while let Some(&(first, last)) = self.pieces().first()
            && first <= self.end
        {
            self.end = self.end.max(last);
            self.pieces.copy_within(1.., 0);
            self.pieces_len -= 1;
        }
    }

    /// The other end has all bytes before this number: what is missing here does not come any more.
    pub(super) fn acknowledged(&mut self, block: Option<&mut [u8]>, number: u32) -> bool {
        let behind = number.wrapping_sub(self.start.wrapping_add(self.end.into())) as i32;
        if behind <= 0 {
            return false;
        }
        let place = usize::from(self.end) + behind as usize;
        if let Some(block) = block {
            self.forget(block, place.min(self.reach()));
        }
        // What is left of it was never seen.
        let rest = number.wrapping_sub(self.start);
        if (rest as i32) > 0 {
            self.start = number;
            self.base = self.base.saturating_add(rest.into());
            (self.end, self.seen, self.pieces_len) = (0, 0, 0);
            self.finds = Finds::default();
        }
        self.http = Http::Off;
        true
    }

    /// A stream as it was before a segment, whose block may have slid since.
    pub(super) fn undone(&self, before: &Self) -> Self {
        let slid = self.base.saturating_sub(before.base).min(BLOCK_BYTES as u64) as u16;
        let mut old = *before;
        (old.start, old.base) = (self.start, self.base);
        (old.end, old.seen) = (before.end.saturating_sub(slid), before.seen.saturating_sub(slid));
        old.http.shift(slid);
        old.finds.shift(slid);
        let length = usize::from(old.pieces_len);
        for piece in old.pieces.iter_mut().take(length) {
            *piece = (piece.0.saturating_sub(slid), piece.1.saturating_sub(slid));
        }
        old
    }
}

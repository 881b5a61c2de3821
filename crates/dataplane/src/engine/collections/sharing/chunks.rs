//! An array in chunks, each of which is shared until it is written. Knows places; refuses to know
//! which are in use.

use std::sync::Arc;

/// Entries of one chunk: small enough that a change of one entry copies little, large enough that
/// the list of a million entries' chunks is copied in microseconds.
const CHUNK: usize = 256;

/// The array.
#[derive(Clone, Debug)]
pub(crate) struct Chunks<T> {
    chunks: Vec<Arc<[T]>>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T: Clone + Default> Chunks<T> {
    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.chunks.get(place / CHUNK)?.get(place % CHUNK)
    }

    /// All entries of the chunks that there are.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// The entry, to be written; the array grows up to it.
    pub(crate) fn entry(&mut self, place: usize) -> &mut T {
        if self.chunks.len() <= place / CHUNK {
            // Chunks in between are one and the same until they are written.
            let chunk: Arc<[T]> = (0..CHUNK).map(|_| T::default()).collect();
            self.chunks.resize(place / CHUNK + 1, chunk);
        }
        &mut Arc::make_mut(&mut self.chunks[place / CHUNK])[place % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_leaves_the_copy_before_it_alone_and_shares_the_rest() {
        let mut before: Chunks<u32> = Chunks::default();
        for place in 0..1_000_u32 {
            *before.entry(place as usize) = place;
        }
        let mut after = before.clone();
        *after.entry(300) = 7;
        assert_eq!((before.get(300), after.get(300)), (Some(&300), Some(&7)));
        assert!(Arc::ptr_eq(&before.chunks[0], &after.chunks[0]));
        assert!(!Arc::ptr_eq(&before.chunks[1], &after.chunks[1]));
        assert_eq!(before.get(1_024), None);
    }
}

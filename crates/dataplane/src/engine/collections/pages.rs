//! Large arrays whose copies share what they have in common: pages behind counted pointers, of
//! which only those that are written to are copied. Knows indexes; refuses to know what is in them.

use std::sync::Arc;

/// Entries of a page: small enough to be copied for a change, large enough that the list of pages
/// stays in the processor's nearest caches.
const PAGE: usize = 4_096;

/// An array of any size. What was never written reads as the default.
#[derive(Clone, Debug)]
pub(crate) struct Pages<T> {
    pages: Vec<Option<Arc<[T]>>>,
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { pages: Vec::new() }
    }
}

impl<T: Copy + Default> Pages<T> {
    /// The entry at an index; none: its page was never written to.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        self.pages.get(index / PAGE)?.as_ref()?.get(index % PAGE)
    }

    /// The entry at an index, to be written; its page is copied first if another array has it too.
    pub(crate) fn entry(&mut self, index: u32) -> &mut T {
        let index = index as usize;
        if index / PAGE >= self.pages.len() {
            self.pages.resize(index / PAGE + 1, None);
        }
        let page = self.pages[index / PAGE]
            .get_or_insert_with(|| std::iter::repeat_n(T::default(), PAGE).collect());
        &mut Arc::make_mut(page)[index % PAGE]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_shares_all_pages_but_those_that_are_written() {
        let mut first = Pages::<u32>::default();
        for index in [0, 5, 4_096, 1 << 20] {
            *first.entry(index) = index + 1;
        }
        let mut second = first.clone();
        *second.entry(5) = 77;
        assert_eq!((first.get(5), second.get(5)), (Some(&6), Some(&77)));
        assert_eq!(second.get(1 << 20), Some(&((1 << 20) + 1)));
        assert_eq!((first.get(6), first.get(9_000), first.get(u32::MAX)), (Some(&0), None, None));
        let is_shared = |page: usize| {
            let (one, other) = (first.pages[page].as_ref(), second.pages[page].as_ref());
            one.zip(other).is_some_and(|(one, other)| Arc::ptr_eq(one, other))
        };
        assert!(!is_shared(0) && is_shared(1) && is_shared(256));
    }
}

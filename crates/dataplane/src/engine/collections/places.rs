//! Places that were made free and of which most stay so. Knows which are as they were made; refuses to know what is
//! at one.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A fixed number of places, told by those that are not as all were made.
pub(crate) struct Places<T> {
    places: Box<[T]>,
    free: T,
}

impl<T: Copy> Places<T> {
    pub(crate) fn new(free: T, count: usize) -> Self {
        Self { places: vec![free; count].into_boxed_slice(), free }
    }
}

impl<T> Deref for Places<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.places
    }
}

impl<T> DerefMut for Places<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.places
    }
}

impl<T: PartialEq + fmt::Debug> fmt::Debug for Places<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.places.iter().enumerate().filter(|(_, place)| **place != self.free);
        f.debug_map().entries(used).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_places_that_are_not_as_they_were_made_are_told() {
        let mut places = Places::new((7_u8, false), 1_000);
        assert_eq!(format!("{places:?}"), "{}");
        places[20].1 = true;
        assert_eq!(format!("{places:?}"), "{20: (7, true)}");
        places[20].1 = false;
        assert_eq!((format!("{places:?}"), places.len()), ("{}".to_owned(), 1_000));
    }
}

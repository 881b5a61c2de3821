//! Few things, each with how many say it. Knows counts; refuses to know who says what.

/// The things in the order in which they were said first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counted<T>(Vec<(T, u32)>);

impl<T> Default for Counted<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: PartialEq> Counted<T> {
    /// One more says it.
    pub(crate) fn add(&mut self, thing: T) {
        match self.0.iter_mut().find(|(known, _)| *known == thing) {
            Some((_, count)) => *count += 1,
            None => self.0.push((thing, 1)),
        }
    }

    /// One less says it; the last takes it away.
    pub(crate) fn remove(&mut self, thing: &T) {
        let Some(place) = self.0.iter().position(|(known, _)| known == thing) else { return };
        self.0[place].1 -= 1;
        if self.0[place].1 == 0 {
            self.0.remove(place);
        }
    }

    pub(crate) fn contains(&self, thing: &T) -> bool {
        self.iter().any(|known| known == thing)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(thing, _)| thing)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_is_there_as_long_as_one_says_it() {
        let mut counted = Counted::default();
        [7, 8, 7].into_iter().for_each(|thing| counted.add(thing));
        assert_eq!((counted.len(), counted.contains(&7)), (2, true));
        counted.remove(&7);
        counted.remove(&8);
        assert_eq!(counted.iter().collect::<Vec<_>>(), [&7]);
        counted.remove(&7);
        counted.remove(&7);
        assert!(counted.is_empty());
    }
}

//! Where contents were found in a stream, so that each of its bytes is searched once. Knows places; refuses to
//! know what rules ask beyond the content that they are found by.

use super::program::{Candidates, Program, Rank};
use catena_wire::scalar::IpProtocol;

/// Rules whose content may be remembered; with more, all bytes are searched again.
const PLACES_MAX: usize = 8;

/// What was found in the bytes of a stream that are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Finds {
    /// Where the bytes end that were searched.
    until: u16,
    /// Rules by their ranks, and where their content ends last.
    places: [(u16, u16); PLACES_MAX],
    places_len: u8,
    is_overfull: bool,
}

impl Finds {
    fn places(&self) -> &[(u16, u16)] {
        self.places.get(..usize::from(self.places_len)).unwrap_or_default()
    }

    /// Bytes at the front have gone, so many.
    pub(super) fn shift(&mut self, by: u16) {
        let mut kept = [(0, 0); PLACES_MAX];
        let mut number = 0;
        let rest = self.places().iter().filter(|(_, end)| *end > by);
        for (place, (rank, end)) in kept.iter_mut().zip(rest) {
            *place = (*rank, end - by);
            number += 1;
        }
        (self.places, self.places_len) = (kept, number);
        self.until = self.until.saturating_sub(by);
    }

    /// Are these the bytes that come next, and no others?
    pub(super) fn is_next(&self, bytes: &[u8], part: &[u8]) -> bool {
        bytes.get(self.until.into()..).is_some_and(|rest| rest.starts_with(part))
    }

    /// Notes the rules whose content is in the bytes of the stream, and searches those that are new.
    pub(super) fn search(
        &mut self,
        (program, protocol): (&Program, IpProtocol),
        bytes: &[u8],
        into: &mut Candidates,
    ) {
        if self.is_overfull {
            *self = Self::default();
        }
        self.places().iter().for_each(|(rank, _)| into.set((*rank).into()));
        let known = usize::from(self.until).min(bytes.len());
        let from = known.saturating_sub(program.overlap(protocol));
        program.find(protocol, bytes.get(from..).unwrap_or_default(), |rank, end| {
            into.set(rank);
            if from + end > known {
                self.note(rank, from + end);
            }
        });
        self.until = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
    }

    fn note(&mut self, rank: Rank, end: usize) {
        let (Ok(rank), Ok(end)) = (u16::try_from(rank), u16::try_from(end)) else {
            self.is_overfull = true;
            return;
        };
        let length = usize::from(self.places_len);
        let known = self.places.iter_mut().take(length).find(|(of, _)| *of == rank);
        if let Some(place) = known {
            place.1 = end;
        } else if let Some(place) = self.places.get_mut(length) {
            *place = (rank, end);
            self.places_len += 1;
        } else {
            self.is_overfull = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use catena_rules::{ReadOptions, snort};

    const RULES: u32 = 12;

    /// Rules whose contents are all words of three and four letters that begin alike.
    fn program() -> Program {
        let line = |number: u32| {
            let letters: String = (0..3 + number % 2)
                .map(|at| if number >> at & 1 == 1 { 'a' } else { 'b' })
                .collect();
            format!("alert tcp any any -> any any (content:\"{letters}\"; sid:{};)\n", number + 1)
        };
        let text: String = (0..RULES).map(line).collect();
        let rules = snort::read(&text, &std::collections::BTreeMap::new(), &ReadOptions::default());
        Program::compile(rules.unwrap()).unwrap()
    }

    fn ranks(candidates: &Candidates) -> Vec<Rank> {
        (0..RULES).filter(|rank| candidates.next(*rank) == Some(*rank)).collect()
    }

    #[test]
    fn what_is_in_the_bytes_that_are_kept_is_found_however_they_come_and_go() {
        let (program, mut random) = (program(), Random::new(7));
        let (mut all, mut few) = (0, 0);
        for letters in ["ab", "abcccccccccccc"].map(str::as_bytes) {
            let (mut finds, mut bytes) = (Finds::default(), Vec::new());
            for _ in 0..2_000 {
                let gone = if random.below(3) == 0 { random.below(bytes.len() + 1) } else { 0 };
                bytes.drain(..gone);
                finds.shift(gone as u16);
                bytes.extend((0..random.below(9)).map(|_| letters[random.below(letters.len())]));
                let (mut found, mut there) =
                    (Candidates::new(RULES as usize), Candidates::new(RULES as usize));
                finds.search((&program, IpProtocol::TCP), &bytes, &mut found);
                program.find(IpProtocol::TCP, &bytes, |rank, _| there.set(rank));
                let (found, there) = (ranks(&found), ranks(&there));
                assert!(there.iter().all(|rank| found.contains(rank)), "{there:?} in {found:?}");
                all += usize::from(finds.is_overfull);
                few += usize::from(!there.is_empty() && !finds.is_overfull);
            }
        }
        assert!(all > 100 && few > 100, "{all} {few}");
    }

    #[test]
    fn only_what_comes_next_is_next() {
        let (program, mut finds) = (program(), Finds::default());
        let mut found = Candidates::new(RULES as usize);
        assert!(finds.is_next(b"abc", b"ab"));
        finds.search((&program, IpProtocol::TCP), b"abc", &mut found);
        assert!(finds.is_next(b"abcde", b"de") && finds.is_next(b"abcde", b"d"));
        assert!(!finds.is_next(b"abcde", b"e") && !finds.is_next(b"abcde", b"def"));
        finds.shift(2);
        assert!(finds.is_next(b"cde", b"de"));
    }
}

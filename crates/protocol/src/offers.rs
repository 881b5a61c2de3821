//! Which change of the program is offered to the data plane next: the newest, one at a time, and one that
//! was refused again after a while. Pure: time is an argument, of whatever kind its caller counts in.

use crate::message::Delta;
use std::ops::Add;
use std::time::Duration;

/// How long a refused program rests; each further refusal doubles it.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(30);

/// The newest program, if the data plane does not run it.
#[derive(Debug)]
struct Waiting<T> {
    offer: Delta,
    due: T,
    /// The last refusal and how long the program rested after it.
    refused: Option<(String, Duration)>,
}

/// The programs on their way to the data plane: at most one whose answer is owed, and the newest.
#[derive(Debug)]
pub struct Offers<T> {
    in_flight: Option<Delta>,
    waiting: Option<Waiting<T>>,
}

impl<T> Default for Offers<T> {
    fn default() -> Self {
        Self { in_flight: None, waiting: None }
    }
}

impl<T: Copy + Ord + Add<Duration, Output = T>> Offers<T> {
    /// Takes the newest program; an older one that was not offered yet never will be.
    pub fn take(&mut self, offer: Delta, now: T) {
        self.waiting = Some(Waiting { offer, due: now, refused: None });
    }

    /// Is anything offered or to be offered?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_flight.is_none() && self.waiting.is_none()
    }

    /// The program to be sent now, if any; its answer is owed from here.
    #[must_use]
    pub fn next(&mut self, now: T) -> Option<Delta> {
        let is_due = self.in_flight.is_none() && self.next_due().is_some_and(|due| due <= now);
        let waiting = self.waiting.as_ref().filter(|_| is_due)?;
        self.in_flight = Some(waiting.offer.clone());
        self.in_flight.clone()
    }

    /// When `next` has something, if ever.
    #[must_use]
    pub fn next_due(&self) -> Option<T> {
        let waiting = self.waiting.as_ref().filter(|_| self.in_flight.is_none());
        waiting.map(|waiting| waiting.due)
    }

    /// The data plane runs this program; answers it if it was owed.
    #[must_use]
    pub fn accepted(&mut self, number: u64) -> Option<Delta> {
        let owed = self.in_flight.take_if(|offer| offer.number == number);
        // Of one number there may be another part, of a newer session.
        let is_it = |offer: &Delta| owed.as_ref().is_none_or(|owed| owed == offer);
        self.waiting.take_if(|Waiting { offer, .. }| {
            offer.number < number || offer.number == number && is_it(offer)
        });
        owed
    }

    /// The data plane refused this program. Is that news for the controller?
    #[must_use]
    pub fn refused(&mut self, number: u64, refusal: &str, now: T) -> bool {
        self.in_flight.take_if(|offer| offer.number == number);
        let waiting = self.waiting.as_mut().filter(|waiting| waiting.offer.number == number);
        let Some(waiting) = waiting else { return true };
        let former = waiting.refused.take();
        let rest = former.as_ref().map_or(RETRY_MIN, |(_, rest)| (*rest * 2).min(RETRY_MAX));
        waiting.due = now + rest;
        waiting.refused = Some((refusal.to_owned(), rest));
        former.is_none_or(|(text, _)| text != refusal)
    }

    /// Nothing of this program can be taken: something else will come for it.
    pub fn give_up(&mut self, number: u64) {
        self.in_flight.take_if(|offer| offer.number == number);
        self.waiting.take_if(|waiting| waiting.offer.number == number);
    }

    /// Another data plane, which owes nothing and may take what the former refused.
    pub fn begin_again(&mut self, now: T) {
        let owed = self.in_flight.take();
        match &mut self.waiting {
            Some(waiting) => waiting.due = now,
            None => self.waiting = owed.map(|offer| Waiting { offer, due: now, refused: None }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn program(number: u64) -> Delta {
        Delta { number, is_last: true, ..Delta::default() }
    }

    fn next(offers: &mut Offers<Instant>, now: Instant) -> Option<u64> {
        offers.next(now).map(|offer| offer.number)
    }

    #[test]
    fn one_program_is_on_its_way_and_of_those_behind_it_only_the_newest_is_kept() {
        let now = Instant::now();
        let mut offers = Offers::default();
        offers.take(program(1), now);
        assert_eq!(next(&mut offers, now), Some(1));
        for number in 2..100 {
            offers.take(program(number), now);
            assert_eq!(next(&mut offers, now), None, "an answer is owed");
        }
        assert_eq!(offers.accepted(1).unwrap().number, 1);
        assert_eq!(next(&mut offers, now), Some(99));
        assert_eq!(offers.accepted(99).unwrap().number, 99);
        assert!(offers.is_empty() && offers.next_due().is_none());
    }

    #[test]
    fn what_a_newer_session_offers_outlives_the_answer_to_what_an_older_one_did() {
        let now = Instant::now();
        let mut offers = Offers::default();
        let part = |changes: u8| Delta { changes: vec![changes], ..program(7) };
        offers.take(part(2), now);
        assert_eq!(offers.next(now), Some(part(2)));
        offers.take(part(1), now);
        assert_eq!(offers.accepted(7), Some(part(2)));
        assert!(!offers.is_empty());
        assert_eq!(offers.next(now), Some(part(1)));
        assert_eq!(offers.accepted(7), Some(part(1)));
        assert!(offers.is_empty());
        offers.take(program(8), now);
        assert_eq!(next(&mut offers, now), Some(8));
        offers.take(program(9), now);
        offers.give_up(8);
        assert_eq!(next(&mut offers, now), Some(9));
        offers.give_up(9);
        assert!(offers.is_empty());
    }

    #[test]
    fn a_refused_program_rests_longer_each_time_and_is_told_once() {
        let mut now = Instant::now();
        let mut offers = Offers::default();
        offers.take(program(7), now);
        for (turn, seconds) in [1, 2, 4, 8, 16, 30, 30].into_iter().enumerate() {
            assert_eq!(next(&mut offers, now), Some(7));
            assert_eq!(offers.refused(7, "the disk is full", now), turn == 0);
            let due = now + Duration::from_secs(seconds);
            assert_eq!(offers.next_due(), Some(due));
            assert_eq!(next(&mut offers, due.checked_sub(Duration::from_millis(1)).unwrap()), None);
            now = due;
        }
        assert_eq!(next(&mut offers, now), Some(7));
        assert!(offers.refused(7, "the disk is broken", now), "another reason is news");
    }

    #[test]
    fn a_newer_program_takes_the_place_of_a_refused_one_at_once() {
        let now = Instant::now();
        let mut offers = Offers::default();
        offers.take(program(7), now);
        assert_eq!(next(&mut offers, now), Some(7));
        offers.take(program(8), now);
        assert!(offers.refused(7, "no", now));
        assert_eq!(next(&mut offers, now), Some(8));
        assert!(offers.accepted(8).is_some());
        assert!(offers.is_empty());
    }

    #[test]
    fn another_data_plane_is_offered_at_once_what_the_former_owed_or_refused() {
        let now = Instant::now();
        let mut offers = Offers::default();
        offers.take(program(7), now);
        assert_eq!(next(&mut offers, now), Some(7));
        offers.begin_again(now);
        assert_eq!(next(&mut offers, now), Some(7));
        assert!(offers.refused(7, "no", now));
        assert_eq!(next(&mut offers, now), None);
        offers.begin_again(now);
        assert_eq!(next(&mut offers, now), Some(7));
    }
}

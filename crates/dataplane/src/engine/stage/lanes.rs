//! What goes between the engine and threads that ask functions: questions about packets that are lent to be read, and
//! answers. Knows how a question is put, and that a function may die of it; refuses to know threads.

use super::handoffs::Errand;
use super::lent::Lent;
use catena_nf::Function;
use catena_nf::exchange::panic_in_words;
use catena_nf::outcome::Outcomes;
use catena_nf::packet::{Direction, Time};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// A function that threads reach, one at a time; none: it has died.
pub(crate) type LentFunction = Arc<Mutex<Option<Box<dyn Function>>>>;

/// A question to a function about packets.
pub struct Call {
    pub(crate) token: u64,
    pub(crate) member: usize,
    pub(crate) function: LentFunction,
    pub(crate) batch: Arc<Lent>,
    pub(crate) now: Time,
    pub(crate) direction: Direction,
    /// Room for the answer.
    pub(crate) outcomes: Outcomes,
    /// What time it is, in nanoseconds; none: nobody wants to know how long it takes.
    pub(crate) meter: Option<fn() -> u64>,
    pub(crate) errand: Errand,
}

/// What a function has said, or that it has died of the question.
pub struct Reply {
    pub(crate) token: u64,
    pub(crate) member: usize,
    pub(crate) batch: Arc<Lent>,
    pub(crate) said: Heard,
    pub(crate) errand: Errand,
}

/// The same, without what it is about.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) outcomes: Outcomes,
    /// None: it has not been timed.
    pub(crate) took_ns: Option<u64>,
    /// Why nothing was said; none: something was.
    pub(crate) silence: Option<Silence>,
}

/// Why a function says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// It has died of the question, of this.
    Died(String),
    /// It was dead before.
    Dead,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("token", &self.token).field("member", &self.member).finish()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply").field("token", &self.token).field("said", &self.said).finish()
    }
}

impl Call {
    /// The same, of a thread that was woken for it.
    #[must_use]
    pub fn of_one_that_slept(mut self) -> Self {
        self.errand.has_woken = true;
        self
    }

    /// Asks. One that panics is dead: later questions find nobody there.
    #[must_use]
    pub fn put(self) -> Reply {
        let Self { token, member, function, batch, now, direction, mut outcomes, meter, errand } =
            self;
        let mut place = function.lock().unwrap_or_else(PoisonError::into_inner);
        let died = match place.as_mut() {
            Some(one) => {
                let packets = batch.packets();
                let began = meter.map(|meter| meter());
                let died = ask_safely(|| one.process(now, direction, &packets, &mut outcomes));
                let ended = meter.map(|meter| meter());
                let took_ns = ended.zip(began).map(|(ended, began)| ended.saturating_sub(began));
                died.map_or(Ok(took_ns), |why| Err(Silence::Died(why)))
            }
            None => Err(Silence::Dead),
        };
        let said = match died {
            Ok(took_ns) => Heard { outcomes, took_ns, silence: None },
            Err(silence) => {
                bury(place.take());
                Heard { outcomes, took_ns: None, silence: Some(silence) }
            }
        };
        drop(place);
        Reply { token, member, batch, said, errand }
    }

    /// The function has died of it, as whoever was to put the question knows.
    #[must_use]
    pub fn died(self, why: String) -> Reply {
        let Self { token, member, function, batch, outcomes, errand, .. } = self;
        let silence = match function.lock().unwrap_or_else(PoisonError::into_inner).take() {
            None => Silence::Dead,
            broken => {
                bury(broken);
                Silence::Died(why)
            }
        };
        let said = Heard { outcomes, took_ns: None, silence: Some(silence) };
        Reply { token, member, batch, said, errand }
    }
}

/// Takes a function apart that has died: what it holds may be as broken as it is.
pub(crate) fn bury(broken: Option<Box<dyn Function>>) {
    if let Some(why) = ask_safely(move || drop(broken)) {
        tracing::error!("a function that has died cannot be taken apart: {why}");
    }
}

/// Calls into a function, and answers what it has died of; none: it lives.
pub(crate) fn ask_safely(ask: impl FnOnce()) -> Option<String> {
    catch_unwind(AssertUnwindSafe(ask)).err().map(|panic| panic_in_words(&*panic))
}

/// Threads that put questions, as the engine sees them.
pub trait Lanes: Send {
    /// How many there are.
    fn count(&self) -> usize;

    /// What it costs to put a question to one that sleeps and to hear the answer, in nanoseconds, as long as nobody has
    /// seen it.
    fn handoff_ns(&self) -> u64;

    /// How many of them can work at one moment: no more than there are cores.
    fn at_once(&self) -> usize {
        self.count()
    }

    /// The lane that is to be asked first, where several workers share them.
    fn first(&self) -> usize {
        0
    }

    /// How many questions a lane has put, whoever asked: one that puts none while it owes answers has stopped.
    fn put(&self, lane: usize) -> u64;

    /// Hands a question to a lane, which puts what it is handed in this order.
    ///
    /// # Errors
    /// There is no such lane any more.
    fn hand(&mut self, lane: usize, call: Box<Call>) -> Result<(), Box<Call>>;

    /// The next answer of any lane; none: there is none yet.
    fn answer(&mut self) -> Option<Reply>;

    /// Waits for an answer, for at most so many nanoseconds.
    fn wait(&mut self, most_ns: u64) -> Option<Reply>;
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::profile::Profile;
    use catena_nf::function::Answer as Asked;
    use catena_nf::packet::Packet;

    /// It dies of what it is asked at this moment, and of being dropped.
    struct Mortal {
        at: Time,
        words: &'static str,
    }

    impl Function for Mortal {
        fn profile(&self) -> &Profile {
            &Profile::IDENTITY
        }

        fn process(&mut self, now: Time, _: Direction, batch: &[Packet<'_>], into: &mut Outcomes) {
            into.begin(batch.len());
            assert!(now != self.at, "{}", self.words);
        }

        fn ask(&self, _: Time, _: Direction, _: &Packet<'_>) -> Asked {
            unreachable!("nobody asks")
        }

        fn rule_in_words(&self, _: u32) -> Option<String> {
            None
        }
    }

    impl Drop for Mortal {
        fn drop(&mut self) {
            assert!(self.at != Time(3), "its end is one, too");
        }
    }

    fn call(function: &LentFunction, at: u64) -> Call {
        let (works, rest, held, now) = (Vec::new(), Vec::new(), Vec::new(), Time(at));
        let batch = Arc::new(Lent { works, rest, now_ns: at, now, held });
        let (function, outcomes) = (Arc::clone(function), Outcomes::default());
        let direction = Direction::Forward;
        let errand = Errand::default();
        Call {
            token: at,
            member: 1,
            function,
            batch,
            now,
            direction,
            outcomes,
            meter: None,
            errand,
        }
    }

    #[test]
    fn who_panics_is_dead_for_all_who_ask_later_and_no_thread_ends_of_it() {
        for at in [2, 3] {
            let mortal: Box<dyn Function> = Box::new(Mortal { at: Time(at), words: "no room" });
            let function = Arc::new(Mutex::new(Some(mortal)));
            let answer = call(&function, 1).put();
            assert_eq!((answer.token, answer.member, answer.said.silence), (1, 1, None));
            let silence = call(&function, at).put().said.silence.unwrap();
            assert!(matches!(silence, Silence::Died(why) if why.contains("no room")));
            assert_eq!(call(&function, 4).put().said.silence, Some(Silence::Dead));
            assert_eq!(call(&function, 5).died("x".into()).said.silence, Some(Silence::Dead));
        }
    }
}

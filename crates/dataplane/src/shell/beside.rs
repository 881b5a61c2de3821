//! A function in a process of its own, as an engine asks it: each question is put by a mailbox, and whoever does not
//! answer, or answers what is none, has died of it. Knows how long an answer is waited for; refuses to know who started
//! the process, and what becomes of packets.

use super::makers::Task;
use catena_io::Mailbox;
use catena_model::bundle::Configuration;
use catena_model::limits::FUNCTION_FLOWS_MAX;
use catena_model::profile::Profile;
use catena_nf::Function;
use catena_nf::exchange::{
    PACKET_BYTES, QUESTION_BYTES, Question, Said, read_said, write_question,
};
use catena_nf::function::{Answer, Portion, RuleCount, StateEntry, Waiting};
use catena_nf::outcome::Outcomes;
use catena_nf::packet::{Direction, Packet, Time};
use catena_nf::registry::Surroundings;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// How long an answer is waited for: a process that has been stopped is noticed by that.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long a process may take to make its function.
const MAKING: Duration = Duration::from_secs(20);
/// Packets that are asked about at one time, and their bytes, so that an answer is never far, and has room.
const ASKED_MAX: usize = 64;
const ASKED_BYTES: usize = 1 << 20;
/// What it may make whoever asks wait for anything but packets: at first, at most, and as a share of the time.
const GRACE: Duration = Duration::from_millis(300);
const GRACE_MAX: Duration = Duration::from_secs(1);
const GRACE_SHARE: f64 = 0.1;
/// Entries and bytes of all portions of an export, at most.
const EXPORTED_MAX: usize = 4 * FUNCTION_FLOWS_MAX;
const EXPORTED_BYTES: usize = 64 << 20;
/// Portions of one, at most: of as many looks as there may be flows.
const PORTIONS_MAX: usize = 65_536;
/// Entries that are told it at one time.
const IMPORTED_AT_ONCE: usize = 4_096;
/// Rules whose words are kept.
const WORDS_MAX: usize = 4_096;
/// What one portion of an export of everything may cost ([`Portion::budget`]).
const EXPORT_BUDGET: usize = 1 << 18;
/// Said where an answer is to another question.
const MISTAKEN: &str = "its process answers what it was not asked";

/// A process with a function.
pub(super) struct Process {
    pub(super) mailbox: Mailbox,
    /// By which whoever has started it knows it.
    pub(super) number: u32,
    /// Whoever that is.
    pub(super) starter: Arc<OwnedFd>,
}

impl Process {
    /// Has it ended, whatever it does.
    fn kill(&self) {
        let number = self.number.to_le_bytes();
        let told = [b'k', number[0], number[1], number[2], number[3]];
        // A starter that is gone has taken it along.
        let _ = rustix::io::write(&self.starter, &told);
    }
}

/// Its function.
pub(super) struct Beside {
    profile: Profile,
    line: RefCell<Line>,
    waiting: Waiting,
    copied_bytes: u64,
    /// Entries, bytes and portions since an export began.
    exported: (usize, usize, usize),
    /// Rules whose words it has told, which never change.
    words: RefCell<BTreeMap<u32, Option<String>>>,
}

/// What is said to the process and heard of it. Whoever lets go of it may be without any right to close what belongs to
/// it, so the process goes to whoever may.
struct Line {
    process: Option<Process>,
    ended: Sender<Task>,
    question: Vec<u8>,
    heard: Vec<u8>,
    /// What is left of its grace, since when.
    grace: Duration,
    since: Instant,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.end();
    }
}

impl Line {
    fn end(&mut self) {
        let Some(process) = self.process.take() else { return };
        process.kill();
        if let Err(unsent) = self.ended.send(Task::Close(process)) {
            // Nobody is left who may close it, until this process ends.
            std::mem::forget(unsent);
        }
    }

    fn put(
        &mut self,
        question: &Question,
        packets: &[Packet<'_>],
        patience: Duration,
    ) -> Result<Said, String> {
        self.question.clear();
        self.heard.clear();
        let Some(Process { mailbox, .. }) = &mut self.process else {
            return Err("it has died before".to_owned());
        };
        write_question(question, packets, &mut self.question);
        if !mailbox.say(&self.question) {
            return Err(format!("a question of {} bytes is too long for it", self.question.len()));
        }
        let heard = mailbox.hear(Some(patience), &mut self.heard);
        heard.map_err(|unheard| unheard.to_string())?;
        match read_said(&self.heard, packets.len()) {
            Some(Said::Refused(why)) => Err(why),
            Some(said) => Ok(said),
            None => Err("its process writes what is no answer".to_owned()),
        }
    }

    /// The same, on account of its grace: whoever is late again and again is as one who does not answer.
    fn put_soon(&mut self, question: &Question, packets: &[Packet<'_>]) -> Result<Said, String> {
        let began = Instant::now();
        let earned = began.saturating_duration_since(self.since).mul_f64(GRACE_SHARE);
        let grace = (self.grace + earned).min(GRACE_MAX);
        let said = self.put(question, packets, PATIENCE)?;
        self.since = Instant::now();
        let took = self.since.saturating_duration_since(began);
        self.grace = grace.checked_sub(took).ok_or("its process answers too slowly")?;
        Ok(said)
    }
}

impl Beside {
    /// That of a process that is told what to make. `profile`: what a function of this configuration says of itself.
    ///
    /// # Errors
    /// It cannot make it; the process ends.
    pub(super) fn make(
        process: Process,
        ended: Sender<Task>,
        profile: Profile,
        (configuration, surroundings): (&Configuration, &Surroundings),
    ) -> Result<Self, String> {
        let process = Some(process);
        let (question, heard) = Default::default();
        let (grace, since) = (GRACE, Instant::now());
        let mut line = Line { process, ended, question, heard, grace, since };
        let question = Question::Make(configuration.clone(), *surroundings);
        match line.put(&question, &[], MAKING)? {
            Said::Made => {}
            _ => return Err(MISTAKEN.to_owned()),
        }
        line.since = Instant::now();
        let (waiting, exported, words) = Default::default();
        let line = RefCell::new(line);
        Ok(Self { profile, line, waiting, copied_bytes: 0, exported, words })
    }

    /// Puts a question; whoever does not answer is dead, and so is whoever asks, as far as its caller lets it.
    fn put(&self, question: &Question, packets: &[Packet<'_>]) -> Said {
        let mut line = self.line.borrow_mut();
        let said = match question {
            Question::Process(..) => line.put(question, packets, PATIENCE),
            _ => line.put_soon(question, packets),
        };
        said.unwrap_or_else(|why| {
            line.end();
            die(why)
        })
    }

    /// It has said what it was not asked.
    fn mistaken(&self) -> ! {
        self.give_up(MISTAKEN)
    }

    fn give_up(&self, why: &str) -> ! {
        self.line.borrow_mut().end();
        die(why.to_owned())
    }

    fn outcomes(&mut self, question: &Question, packets: &[Packet<'_>]) -> Outcomes {
        match self.put(question, packets) {
            Said::Outcomes(outcomes, waiting) => {
                self.waiting = waiting;
                outcomes
            }
            _ => self.mistaken(),
        }
    }

    /// How many of these packets are asked about at one time.
    fn portion(&self, packets: &[Packet<'_>]) -> usize {
        let line = self.line.borrow();
        let mut left = line.process.as_ref().map_or(0, |process| process.mailbox.room());
        left = left.saturating_sub(QUESTION_BYTES).min(ASKED_BYTES);
        let fits = |packet: &&Packet<'_>| {
            let bytes = packet.frame.len() + PACKET_BYTES;
            let has_room = bytes <= left;
            left = left.saturating_sub(bytes);
            has_room
        };
        packets.iter().take(ASKED_MAX).take_while(fits).count().max(1)
    }
}

/// Ends as a function ends that panics: whoever asks functions hears the reason.
fn die(why: String) -> ! {
    resume_unwind(Box::new(why))
}

impl Function for Beside {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn process(
        &mut self,
        now: Time,
        direction: Direction,
        batch: &[Packet<'_>],
        outcomes: &mut Outcomes,
    ) {
        outcomes.begin(0);
        let mut rest = batch;
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(self.portion(rest).min(rest.len()));
            let bytes: usize = part.iter().map(|packet| packet.frame.len()).sum();
            self.copied_bytes += bytes as u64;
            let said = self.outcomes(&Question::Process(now, direction), part);
            match part.len() == batch.len() {
                true => *outcomes = said,
                false => outcomes.append(&said),
            }
            rest = behind;
        }
    }

    fn elapse(&mut self, now: Time, outcomes: &mut Outcomes) {
        *outcomes = self.outcomes(&Question::Elapse(now), &[]);
    }

    fn inquire(&mut self, now: Time, outcomes: &mut Outcomes) {
        *outcomes = self.outcomes(&Question::Inquire(now), &[]);
    }

    fn waiting(&self) -> Waiting {
        self.waiting
    }

    fn ask(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Answer {
        match self.put(&Question::Ask(now, direction), std::slice::from_ref(packet)) {
            Said::Asked(answer) => answer,
            _ => self.mistaken(),
        }
    }

    fn export(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        let mut portion = Portion { all, is_first: true, budget: EXPORT_BUDGET };
        while self.export_portion(portion, into) {
            portion.is_first = false;
        }
    }

    fn export_portion(&mut self, portion: Portion, into: &mut Vec<StateEntry>) -> bool {
        match self.put(&Question::Export(portion), &[]) {
            Said::Exported(entries, has_more) => {
                if portion.is_first {
                    self.exported = Default::default();
                }
                let bytes =
                    |entry: &StateEntry| entry.key.len() + entry.value.as_ref().map_or(0, Vec::len);
                let (count, sum, portions) = &mut self.exported;
                *count += entries.len();
                *sum += entries.iter().map(bytes).sum::<usize>();
                *portions += 1;
                if *count > EXPORTED_MAX || *sum > EXPORTED_BYTES || *portions > PORTIONS_MAX {
                    self.give_up("it remembers more than there may be");
                }
                into.extend(entries);
                has_more
            }
            _ => self.mistaken(),
        }
    }

    fn import(&mut self, entries: &[StateEntry]) -> usize {
        let taken = entries.chunks(IMPORTED_AT_ONCE).map(|entries| {
            match self.put(&Question::Import(entries.to_vec()), &[]) {
                Said::Imported(taken) => usize::try_from(taken).unwrap_or_default(),
                _ => self.mistaken(),
            }
        });
        taken.fold(0, usize::saturating_add)
    }

    fn report(&self, into: &mut Vec<RuleCount>) {
        match self.put(&Question::Report, &[]) {
            Said::Counts(counts) => into.extend(counts),
            _ => self.mistaken(),
        }
    }

    fn rule_in_words(&self, rule: u32) -> Option<String> {
        if let Some(words) = self.words.borrow().get(&rule) {
            return words.clone();
        }
        let Said::Words(words) = self.put(&Question::Rule(rule), &[]) else { self.mistaken() };
        let mut known = self.words.borrow_mut();
        if known.len() < WORDS_MAX {
            known.insert(rule, words.clone());
        }
        words
    }

    fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }
}

//! A function in a process of its own, as an engine asks it: each question is put by a mailbox, and whoever does not
//! answer, or answers what is none, has died of it. Knows how long an answer is waited for; refuses to know who started
//! the process, and what becomes of packets.

use super::makers::Task;
use catena_io::Mailbox;
use catena_model::bundle::Configuration;
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
use std::panic::resume_unwind;
use std::sync::mpsc::Sender;
use std::time::Duration;

/// How long an answer is waited for: a process that has been stopped is noticed by that.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long a process may take to make its function.
const MAKING: Duration = Duration::from_secs(20);
/// Packets that are asked about at one time, so that an answer is never far.
const ASKED_MAX: usize = 64;
/// What one portion of an export of everything may cost ([`Portion::budget`]).
const EXPORT_BUDGET: usize = 1 << 20;
/// Said where an answer is to another question.
const MISTAKEN: &str = "its process answers what it was not asked";

/// A process with a function.
pub(super) struct Process {
    pub(super) mailbox: Mailbox,
    /// By which whoever has started it knows it.
    pub(super) number: u32,
}

/// Its function.
pub(super) struct Beside {
    profile: Profile,
    line: RefCell<Line>,
    waiting: Waiting,
    copied_bytes: u64,
}

/// What is said to the process and heard of it. Whoever lets go of it may be without any right to close what belongs to
/// it, so the process goes to whoever may.
struct Line {
    process: Option<Process>,
    ended: Sender<Task>,
    question: Vec<u8>,
    heard: Vec<u8>,
}

impl Drop for Line {
    fn drop(&mut self) {
        self.end();
    }
}

impl Line {
    fn end(&mut self) {
        let Some(process) = self.process.take() else { return };
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
        let mut line = Line { process, ended, question: Vec::new(), heard: Vec::new() };
        let question = Question::Make(configuration.clone(), *surroundings);
        match line.put(&question, &[], MAKING)? {
            Said::Made => {}
            _ => return Err(MISTAKEN.to_owned()),
        }
        let (line, waiting) = (RefCell::new(line), Waiting::default());
        Ok(Self { profile, line, waiting, copied_bytes: 0 })
    }

    /// Puts a question; whoever does not answer is dead, and so is whoever asks, as far as its caller lets it.
    fn put(&self, question: &Question, packets: &[Packet<'_>]) -> Said {
        let mut line = self.line.borrow_mut();
        line.put(question, packets, PATIENCE).unwrap_or_else(|why| {
            line.end();
            die(why)
        })
    }

    fn outcomes(&mut self, question: &Question, packets: &[Packet<'_>]) -> Outcomes {
        match self.put(question, packets) {
            Said::Outcomes(outcomes, waiting) => {
                self.waiting = waiting;
                outcomes
            }
            _ => die(MISTAKEN.to_owned()),
        }
    }

    /// How many of these packets are asked about at one time.
    fn portion(&self, packets: &[Packet<'_>]) -> usize {
        let line = self.line.borrow();
        let mut left = line.process.as_ref().map_or(0, |process| process.mailbox.room());
        left = left.saturating_sub(QUESTION_BYTES);
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
            _ => die(MISTAKEN.to_owned()),
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
                into.extend(entries);
                has_more
            }
            _ => die(MISTAKEN.to_owned()),
        }
    }

    fn import(&mut self, entries: &[StateEntry]) -> usize {
        match self.put(&Question::Import(entries.to_vec()), &[]) {
            Said::Imported(taken) => usize::try_from(taken).unwrap_or(usize::MAX),
            _ => die(MISTAKEN.to_owned()),
        }
    }

    fn report(&self, into: &mut Vec<RuleCount>) {
        match self.put(&Question::Report, &[]) {
            Said::Counts(counts) => into.extend(counts),
            _ => die(MISTAKEN.to_owned()),
        }
    }

    fn rule_in_words(&self, rule: u32) -> Option<String> {
        match self.put(&Question::Rule(rule), &[]) {
            Said::Words(words) => words,
            _ => die(MISTAKEN.to_owned()),
        }
    }

    fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }
}

//! Threads that ask functions for the workers: each puts the questions that it is handed, in their order, and rings
//! whoever has handed them. Knows channels and bells; refuses to know what is asked, and who may be asked at once.

use super::DataplaneError;
use super::sandbox;
use crate::engine::{Call, Lanes, Reply};
use catena_io::IoError;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

/// Questions without content by which the price of one is measured.
const TRIALS: usize = 33;

/// What a thread is handed.
enum Handed {
    Question(Box<Call>, Asker),
    /// Whoever waits for this wants to know how long it takes.
    Trial(Sender<()>),
    /// There will be nothing more.
    End,
}

/// Who wants an answer.
#[derive(Clone)]
struct Asker {
    answers: Sender<Reply>,
    ring: Arc<dyn Fn() + Send + Sync>,
}

impl Asker {
    fn tell(&self, answer: Reply) {
        // A worker that is gone wants to know nothing.
        if self.answers.send(answer).is_ok() {
            (self.ring)();
        }
    }
}

/// The threads of a data plane.
pub struct FunctionThreads {
    threads: Vec<(FunctionThread, Option<JoinHandle<()>>)>,
    handoff_ns: u64,
    /// Cores that this process may use.
    cores: usize,
    /// Workers that have asked for them.
    workers: AtomicUsize,
}

/// A thread as whoever asks sees it.
#[derive(Clone)]
struct FunctionThread {
    sender: Sender<Handed>,
    /// Questions that it has put.
    put: Arc<AtomicU64>,
}

impl FunctionThreads {
    /// Starts so many, with the privileges of the calling thread.
    ///
    /// # Errors
    /// No thread is left, or one cannot be confined.
    pub fn start(count: usize, are_confined: bool) -> Result<Self, DataplaneError> {
        let cores = available_parallelism().map_or(1, NonZero::get);
        let mut threads = Vec::with_capacity(count);
        for number in 0..count {
            let (sender, receiver) = mpsc::channel();
            let (begin, begun) = mpsc::channel();
            let put = Arc::new(AtomicU64::new(0));
            let counts = Arc::clone(&put);
            let work = move || serve(receiver, &counts, &begin, are_confined);
            let thread = std::thread::Builder::new().name(format!("function{number}")).spawn(work);
            let thread = thread.map_err(DataplaneError::Start)?;
            if let Ok(Err(error)) = begun.recv() {
                return Err(DataplaneError::Sandbox(error));
            }
            let handle = Some(thread).filter(|_| !are_confined);
            threads.push((FunctionThread { sender, put }, handle));
        }
        let handoff_ns = threads.first().map_or(0, |(thread, _)| trial_ns(&thread.sender));
        if count > cores {
            tracing::warn!(
                threads = count,
                cores,
                "there are fewer cores than threads that ask functions: no form needs more than there are cores"
            );
        }
        Ok(Self { threads, handoff_ns, cores, workers: AtomicUsize::new(0) })
    }

    /// They, as a worker sees them that is woken by `ring`; none: there are none.
    pub fn lanes(&self, ring: impl Fn() + Send + Sync + 'static) -> Option<Box<dyn Lanes>> {
        if self.threads.is_empty() {
            return None;
        }
        let (answers, answered) = mpsc::channel();
        let threads = self.threads.iter().map(|(thread, _)| thread.clone()).collect();
        let asker = Asker { answers, ring: Arc::new(ring) };
        let first = self.workers.fetch_add(1, Ordering::Relaxed);
        let (handoff_ns, cores) = (self.handoff_ns, self.cores);
        Some(Box::new(WorkerLanes { threads, asker, answered, handoff_ns, cores, first }))
    }
}

impl Drop for FunctionThreads {
    fn drop(&mut self) {
        // Workers may be there still that could hand something over.
        for (thread, _) in &self.threads {
            thread.sender.send(Handed::End).ok();
        }
        for (_, handle) in self.threads.drain(..) {
            handle.map(JoinHandle::join);
        }
    }
}

/// A thread, until nobody can hand it anything; `begin` hears whether it is confined.
fn serve(
    receiver: Receiver<Handed>,
    put: &AtomicU64,
    begin: &Sender<Result<(), IoError>>,
    is_confined: bool,
) {
    let outcome = if is_confined { sandbox::confine_worker() } else { Ok(()) };
    let has_begun = outcome.is_ok();
    begin.send(outcome).ok();
    if has_begun {
        while let Some((handed, has_woken)) = next(&receiver) {
            match handed {
                Handed::Question(call, asker) => {
                    let call = if has_woken { call.of_one_that_slept() } else { *call };
                    let reply = call.put();
                    put.fetch_add(1, Ordering::Relaxed);
                    asker.tell(reply);
                }
                Handed::Trial(done) => drop(done.send(())),
                Handed::End => break,
            }
        }
    }
    // Whoever still hands something over learns that nobody is here.
    drop(receiver);
    if is_confined {
        // It has no system call by which a thread ends.
        loop {
            std::thread::park();
        }
    }
}

/// What comes next, and whether the thread sleeps until then; none: nobody can hand it anything any more.
fn next(receiver: &Receiver<Handed>) -> Option<(Handed, bool)> {
    match receiver.try_recv() {
        Ok(handed) => Some((handed, false)),
        Err(_) => receiver.recv().ok().map(|handed| (handed, true)),
    }
}

/// What a question costs that takes no time, in nanoseconds: the median of some.
fn trial_ns(thread: &Sender<Handed>) -> u64 {
    let trial = |_| {
        let (done, outcome) = mpsc::channel();
        let began = Instant::now();
        thread.send(Handed::Trial(done)).ok();
        outcome.recv().ok();
        u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    };
    let mut took: Vec<u64> = (0..TRIALS).map(trial).collect();
    took.sort_unstable();
    took.get(TRIALS / 2).copied().unwrap_or_default()
}

/// The threads as one worker sees them.
struct WorkerLanes {
    threads: Vec<FunctionThread>,
    asker: Asker,
    answered: Receiver<Reply>,
    handoff_ns: u64,
    cores: usize,
    first: usize,
}

impl Lanes for WorkerLanes {
    fn count(&self) -> usize {
        self.threads.len()
    }

    fn handoff_ns(&self) -> u64 {
        self.handoff_ns
    }

    fn at_once(&self) -> usize {
        self.cores
    }

    fn first(&self) -> usize {
        self.first
    }

    fn put(&self, lane: usize) -> u64 {
        self.threads.get(lane).map_or(0, |thread| thread.put.load(Ordering::Relaxed))
    }

    fn hand(&mut self, lane: usize, call: Box<Call>) -> Result<(), Box<Call>> {
        let Some(thread) = self.threads.get(lane) else { return Err(call) };
        let handed = Handed::Question(call, self.asker.clone());
        match thread.sender.send(handed) {
            Err(mpsc::SendError(Handed::Question(call, _))) => Err(call),
            _ => Ok(()),
        }
    }

    fn answer(&mut self) -> Option<Reply> {
        self.answered.try_recv().ok()
    }

    fn wait(&mut self, most_ns: u64) -> Option<Reply> {
        self.answered.recv_timeout(Duration::from_nanos(most_ns)).ok()
    }
}

//! The control thread's side of the workers: starts them, gives them orders and waits for the outcome.
//! Knows which port is at which worker; refuses to know what an order is for.

use super::DataplaneError;
use super::barrier::{Barrier, Rendezvous};
use super::function_threads::FunctionThreads;
use super::hand_off::{self, HandOff};
use super::order::{Order, Report, Reports};
use super::sandbox;
use super::waker::Waker;
use super::worker::{FunctionLanes, Worker};
use crate::engine::{Board, EngineConfig, Form, KernelPort, RememberedState, WatchDuty};
use catena_io::{IoError, Port, stay_on_core};
use catena_model::explain::{ExplainAt, FrameBytes};
use catena_model::id::PortId;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender};
use std::thread::JoinHandle;
use std::time::Duration;

/// The worker that is asked what any of them could answer.
const FIRST: usize = 0;

/// How long an outcome is waited for before it is seen to that the worker is there at all.
const LOOK: Duration = Duration::from_secs(1);

/// How a worker has ended, and what it leaves: whoever is confined cannot take it apart.
struct Ending {
    /// None: it panicked.
    outcome: Option<Result<(), IoError>>,
    _worker: Option<Box<Worker>>,
}

/// A running worker.
struct WorkerSlot {
    orders: Option<Sender<Order>>,
    waker: Waker,
    ending: Receiver<Ending>,
    /// None: it stays when it has ended, until the process does.
    thread: Option<JoinHandle<()>>,
}

impl WorkerSlot {
    fn give(&self, order: Order) {
        if let Some(orders) = &self.orders {
            // A closed channel shows when the outcome is waited for.
            orders.send(order).ok();
        }
        self.waker.ring();
    }
}

/// All workers of the node, at least one.
pub(super) struct WorkerPool {
    slots: Vec<WorkerSlot>,
    /// The worker of each attached port.
    homes: BTreeMap<PortId, usize>,
    reports: Receiver<Report>,
    report_bell: Waker,
    /// Who asks functions for them. They end after the workers.
    function_threads: FunctionThreads,
}

/// How workers are to run.
pub(super) struct WorkerPoolParts {
    pub(super) workers: NonZeroUsize,
    /// Cores of their own, for the first of them on.
    pub(super) own_cores: Vec<u32>,
    /// Threads that ask functions for them.
    pub(super) function_threads: usize,
    /// The form in which they ask; none: that which costs least.
    pub(super) function_form: Option<Form>,
    /// What the functions of each remember of before, where somebody keeps that; none: nobody does.
    pub(super) remembered: Option<Vec<RememberedState>>,
    /// Leave them the system calls that they need, and no others.
    pub(super) are_confined: bool,
}

impl WorkerPool {
    /// Starts the workers, with the privileges of the calling thread.
    ///
    /// # Errors
    /// No descriptor or thread is left.
    pub(super) fn start(
        config: &EngineConfig,
        parts: WorkerPoolParts,
    ) -> Result<Self, DataplaneError> {
        let report_bell = Waker::new().map_err(start_error)?;
        let (sender, reports) = mpsc::channel();
        let wakers: Result<Vec<Waker>, _> =
            (0..parts.workers.get()).map(|_| Waker::new()).collect();
        let wakers = wakers.map_err(start_error)?;
        let barrier = Arc::new(Barrier::new(wakers.iter().cloned()));
        let board = Arc::new(Board::default());
        let function_threads = FunctionThreads::start(parts.function_threads, parts.are_confined)?;
        let (slots, homes) = (Vec::new(), BTreeMap::new());
        let mut workers = Self { slots, homes, reports, report_bell, function_threads };
        let hand_off = hand_off::introduce(&barrier);
        let is_alone = wakers.len() == 1;
        let mut remembered = parts.remembered.map(Vec::into_iter);
        for (number, (waker, hand_off)) in wakers.into_iter().zip(hand_off).enumerate() {
            let watch_duty = match number {
                _ if is_alone => WatchDuty::Alone,
                FIRST => WatchDuty::Judges(Arc::clone(&board)),
                _ => WatchDuty::Tells(Arc::clone(&board), number),
            };
            let functions_keep = remembered.as_mut().map(|each| each.next().unwrap_or_default());
            let config = EngineConfig { watch_duty, functions_keep, ..config.clone() };
            let reports = Reports::new(number, sender.clone(), workers.report_bell.clone());
            let own_core = parts.own_cores.get(number).copied();
            let hand_off = Some(hand_off).filter(|_| !is_alone);
            let last_word = Reports::new(number, sender.clone(), workers.report_bell.clone());
            let barrier = Arc::clone(&barrier);
            let bell = waker.clone();
            let lanes = workers.function_threads.lanes(move || bell.ring());
            let lanes = lanes.map(|lanes| (lanes, parts.function_form));
            let is_confined = parts.are_confined;
            let place = Place { number, own_core, is_confined, waker, lanes };
            workers.slots.push(hire(place, (config, reports, hand_off), (barrier, last_word))?);
        }
        Ok(workers)
    }

    /// Tells a worker something that has no outcome; a number that no worker has is nobody's.
    pub(super) fn tell(&self, worker: usize, order: Order) {
        if let Some(slot) = self.slots.get(worker) {
            slot.give(order);
        }
    }

    /// Workers there are.
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }

    /// Gives the first worker an order and waits until it has been carried out.
    ///
    /// # Errors
    /// A worker has ended; the reason is in the error.
    pub(super) fn order<T>(
        &mut self,
        order: impl FnOnce(SyncSender<T>) -> Order,
    ) -> Result<T, DataplaneError> {
        self.ask(FIRST, order)
    }

    /// Gives all workers an order, to be carried out between the same two packets. Answers the
    /// outcomes in the order of workers: the first one's, and the others'.
    ///
    /// # Errors
    /// As [`Self::order`].
    pub(super) fn order_at_once<T>(
        &mut self,
        order: impl FnMut(SyncSender<T>) -> Order,
    ) -> Result<(T, Vec<T>), DataplaneError> {
        self.meet(|workers| workers.order_all(order))
    }

    /// Gives all workers an order, each to be carried out between two vectors of its own: what each
    /// of them tells of its packets is whole by itself. Answers as [`Self::order_at_once`].
    ///
    /// # Errors
    /// As [`Self::order`].
    pub(super) fn order_all<T>(
        &mut self,
        mut order: impl FnMut(SyncSender<T>) -> Order,
    ) -> Result<(T, Vec<T>), DataplaneError> {
        let outcomes: Vec<Receiver<T>> = self
            .slots
            .iter()
            .map(|slot| {
                let (done, outcome) = mpsc::sync_channel(1);
                slot.give(order(done));
                outcome
            })
            .collect();
        let mut outcomes = outcomes.into_iter().enumerate();
        let mut hear = |workers: &mut Self| {
            let (worker, outcome) = outcomes.next()?;
            Some(workers.wait_for(worker, &outcome))
        };
        let first = hear(self).unwrap_or(Err(DataplaneError::WorkerEnded))?;
        let others = std::iter::from_fn(|| hear(self)).collect::<Result<_, _>>()?;
        Ok((first, others))
    }

    /// Gives an order to the worker that would decide this packet.
    ///
    /// # Errors
    /// As [`Self::order`].
    pub(super) fn order_decider<T>(
        &mut self,
        at: &ExplainAt,
        frame: &FrameBytes,
        order: impl FnOnce(SyncSender<T>) -> Order,
    ) -> Result<T, DataplaneError> {
        let packets = vec![(at.clone(), frame.clone())];
        let deciders = self.ask(FIRST, |done| Order::Deciders { packets, done })?;
        self.ask(deciders.first().copied().unwrap_or(FIRST), order)
    }

    /// Gives each worker an order about those of the frames of a port that it decides.
    ///
    /// # Errors
    /// As [`Self::order`].
    pub(super) fn order_shared<T>(
        &mut self,
        port: PortId,
        frames: &[FrameBytes],
        mut order: impl FnMut(Vec<FrameBytes>, SyncSender<T>) -> Order,
    ) -> Result<Vec<T>, DataplaneError> {
        let at = ExplainAt::Port(port);
        let packets = frames.iter().map(|frame| (at.clone(), frame.clone())).collect();
        let deciders = self.ask(FIRST, |done| Order::Deciders { packets, done })?;
        let mut outcomes = Vec::new();
        for worker in 0..self.count() {
            let pairs = deciders.iter().zip(frames);
            let own = pairs.filter(|(decider, _)| **decider == worker);
            let own: Vec<FrameBytes> = own.map(|(_, frame)| frame.clone()).collect();
            if !own.is_empty() {
                outcomes.push(self.ask(worker, |done| order(own, done))?);
            }
        }
        Ok(outcomes)
    }

    /// Gives a port to a worker: the one that has it, or has fewest.
    ///
    /// # Errors
    /// As [`Self::order`]; within: the ring cannot be used.
    pub(super) fn attach(
        &mut self,
        id: PortId,
        ring: Box<dyn Port>,
        kernel: Option<KernelPort>,
    ) -> Result<Result<(), IoError>, DataplaneError> {
        let home = self.homes.get(&id).copied().unwrap_or_else(|| self.emptiest());
        self.meet(|workers| {
            let taken = workers.ask(home, |done| Order::Attach { id, ring, kernel, done })?;
            workers.tell_home(id, Some(home).filter(|_| taken.outcome.is_ok()))?;
            drop(taken.spent);
            Ok(taken.outcome)
        })
    }

    /// Takes a port from its worker; answers its ring. None: it was not attached.
    ///
    /// # Errors
    /// As [`Self::order`].
    pub(super) fn detach(&mut self, id: PortId) -> Result<Option<Box<dyn Port>>, DataplaneError> {
        let home = self.homes.get(&id).copied().unwrap_or(FIRST);
        self.meet(|workers| {
            workers.tell_home(id, None)?;
            workers.ask(home, |done| Order::Detach { id, done })
        })
    }

    /// The worker with the fewest ports, and of those the last, since the first has the tunnels.
    fn emptiest(&self) -> usize {
        let ports = |worker: &usize| self.homes.values().filter(|home| *home == worker).count();
        (0..self.count()).rev().min_by_key(ports).unwrap_or(FIRST)
    }

    /// Tells all workers where a port is; none: at nobody's.
    fn tell_home(&mut self, id: PortId, home: Option<usize>) -> Result<(), DataplaneError> {
        match home {
            Some(home) => self.homes.insert(id, home),
            None => self.homes.remove(&id),
        };
        for worker in 0..self.count() {
            let elsewhere = home.filter(|home| *home != worker);
            self.ask(worker, |done| Order::Elsewhere { id, worker: elsewhere, done })?;
        }
        Ok(())
    }

    /// Does something while no worker moves packets. One alone carries orders out between two
    /// vectors anyway.
    fn meet<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, DataplaneError>,
    ) -> Result<T, DataplaneError> {
        if self.count() == 1 {
            return act(self);
        }
        let rendezvous = Arc::new(Rendezvous::default());
        self.slots.iter().for_each(|slot| slot.give(Order::Meet(Arc::clone(&rendezvous))));
        let outcome = act(self);
        self.slots.iter().for_each(|slot| slot.give(Order::Part));
        outcome
    }

    fn ask<T>(
        &mut self,
        worker: usize,
        order: impl FnOnce(SyncSender<T>) -> Order,
    ) -> Result<T, DataplaneError> {
        let (done, outcome) = mpsc::sync_channel(1);
        if let Some(slot) = self.slots.get(worker) {
            slot.give(order(done));
        }
        self.wait_for(worker, &outcome)
    }

    /// A worker that has ended leaves its orders as they are.
    fn wait_for<T>(&mut self, worker: usize, outcome: &Receiver<T>) -> Result<T, DataplaneError> {
        loop {
            match outcome.recv_timeout(LOOK) {
                Ok(outcome) => return Ok(outcome),
                Err(RecvTimeoutError::Disconnected) => return Err(self.why_ended(worker)),
                Err(RecvTimeoutError::Timeout) => {
                    let slot = self.slots.get(worker);
                    if let Some(Ok(ending)) = slot.map(|slot| slot.ending.try_recv()) {
                        return Err(ending.into());
                    }
                }
            }
        }
    }

    /// Rings when there are reports.
    pub(super) fn waker(&self) -> &Waker {
        &self.report_bell
    }

    /// The next report, until there is none.
    ///
    /// # Errors
    /// A worker has ended; the reason is in the error.
    pub(super) fn next_report(&mut self) -> Result<Option<Report>, DataplaneError> {
        match self.reports.try_recv() {
            Ok(Report::Ended(worker)) => Err(self.why_ended(worker)),
            Ok(report) => Ok(Some(report)),
            Err(_) => Ok(None),
        }
    }

    fn why_ended(&mut self, worker: usize) -> DataplaneError {
        let ending = self.slots.get(worker).and_then(|slot| slot.ending.recv().ok());
        ending.map_or(DataplaneError::WorkerEnded, Into::into)
    }
}

impl From<Ending> for DataplaneError {
    fn from(ending: Ending) -> Self {
        match ending.outcome {
            Some(Err(error)) => Self::Worker(error),
            Some(Ok(())) | None => Self::WorkerEnded,
        }
    }
}

/// Where a worker works.
struct Place {
    number: usize,
    own_core: Option<u32>,
    is_confined: bool,
    waker: Waker,
    /// None: it asks functions itself.
    lanes: Option<FunctionLanes>,
}

/// Starts a worker.
fn hire(
    place: Place,
    (config, reports, hand_off): (EngineConfig, Reports, Option<HandOff>),
    (barrier, last_word): (Arc<Barrier>, Reports),
) -> Result<WorkerSlot, DataplaneError> {
    let (orders, queue) = mpsc::channel();
    let (end, ending) = mpsc::channel();
    let Place { number, own_core, is_confined, waker, lanes } = place;
    let worker_bell = waker.clone();
    let begin = move || {
        if let Some(core) = own_core {
            stay_on_core(core)?;
        }
        let worker = Box::new(Worker::new(config, queue, waker, (reports, lanes), hand_off)?);
        if is_confined {
            sandbox::confine_worker()?;
        }
        Ok(worker)
    };
    let work = move || {
        let ending = match begin() {
            Ok(mut worker) => {
                let run = AssertUnwindSafe(|| worker.run(own_core.is_some()));
                Ending { outcome: catch_unwind(run).ok(), _worker: Some(worker) }
            }
            Err(error) => Ending { outcome: Some(Err(error)), _worker: None },
        };
        barrier.breaks();
        end.send(ending).ok();
        drop(last_word);
        if is_confined {
            // It has no system call by which a thread ends.
            loop {
                std::thread::park();
            }
        }
    };
    // The first keeps the name that people know.
    let name = if number == FIRST { "worker".into() } else { format!("worker{number}") };
    let thread = std::thread::Builder::new().name(name).spawn(work);
    let thread = Some(thread.map_err(DataplaneError::Start)?).filter(|_| !is_confined);
    Ok(WorkerSlot { orders: Some(orders), waker: worker_bell, ending, thread })
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        // Workers that nobody can order end after their vector.
        for slot in &mut self.slots {
            slot.orders = None;
            slot.waker.ring();
        }
        for slot in &mut self.slots {
            if let Ok(Ending { outcome: Some(Err(error)), .. }) = slot.ending.recv() {
                tracing::error!("a worker ended badly: {error}");
            }
            slot.thread.take().map(JoinHandle::join);
        }
    }
}

fn start_error(errno: rustix::io::Errno) -> DataplaneError {
    DataplaneError::Start(errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::NodeName;

    fn start(workers: usize, own_cores: &[u32]) -> WorkerPool {
        let node: NodeName = "host1".parse().unwrap();
        let workers = NonZeroUsize::new(workers).unwrap();
        let own_cores = own_cores.to_vec();
        let parts = WorkerPoolParts {
            workers,
            own_cores,
            function_threads: 2,
            function_form: None,
            remembered: None,
            are_confined: false,
        };
        WorkerPool::start(&EngineConfig::new(node), parts).unwrap()
    }

    fn allowed_cores(thread: &str) -> Vec<String> {
        let threads = std::fs::read_dir("/proc/self/task").unwrap().flatten();
        let states =
            threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
        let named = states.filter(|state| state.contains(&format!("Name:\t{thread}\n")));
        let line = |state: String| {
            let line = state.lines().find(|line| line.starts_with("Cpus_allowed_list:"));
            line.unwrap().split_whitespace().last().unwrap().to_owned()
        };
        named.map(line).collect()
    }

    #[test]
    fn workers_with_cores_of_their_own_stay_there_and_obey() {
        let mut workers = start(2, &[1, 0]);
        let (first, others) = workers.order_all(|done| Order::Counters { of: None, done }).unwrap();
        assert_eq!((first.ports.len(), others.len()), (0, 1));
        assert!(allowed_cores("worker").contains(&"1".to_owned()));
        assert!(allowed_cores("worker1").contains(&"0".to_owned()));
    }

    #[test]
    fn a_core_that_is_not_there_ends_the_data_plane_with_the_reason() {
        for (workers, cores) in [(1, [u32::MAX].as_slice()), (2, &[0, u32::MAX])] {
            let mut workers = start(workers, cores);
            let told = workers.order_all(|done| Order::Counters { of: None, done }).err().unwrap();
            assert!(told.to_string().contains("core"), "{told}");
        }
    }

    #[test]
    fn workers_meet_a_thousand_times_and_part() {
        let mut workers = start(3, &[]);
        for _ in 0..1_000 {
            let (_, others) =
                workers.order_at_once(|done| Order::Counters { of: None, done }).unwrap();
            assert_eq!(others.len(), 2);
        }
    }
}

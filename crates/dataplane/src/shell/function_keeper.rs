//! The thread that writes down what functions remember: neither packets nor agents wait for the disk. Knows how much
//! may wait for it; refuses to know what is written.

use super::DataplaneError;
use super::function_log::FunctionLog;
use super::sandbox;
use crate::engine::StateChange;
use catena_model::id::InstanceId;
use std::collections::BTreeSet;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::JoinHandle;

/// Messages that may wait: a worker tells about once a second.
const WAITING_MAX: usize = 64;

enum Kept {
    /// What the worker with this number tells.
    Changes(u32, Vec<StateChange>),
    /// The instances that there are.
    Instances(BTreeSet<InstanceId>),
}

/// The thread.
pub(super) struct FunctionKeeper {
    sender: Option<SyncSender<Kept>>,
    ended: Receiver<()>,
    /// None: it stays when it has ended, until the process does.
    thread: Option<JoinHandle<()>>,
}

impl FunctionKeeper {
    /// Starts it. Confined: it has the system calls of the control thread, by none of which a thread ends.
    ///
    /// # Errors
    /// No thread is left.
    pub(super) fn start(mut log: FunctionLog, is_confined: bool) -> Result<Self, DataplaneError> {
        let (sender, receiver) = mpsc::sync_channel(WAITING_MAX);
        let (end, ended) = mpsc::channel();
        let work = move || {
            let outcome = if is_confined { sandbox::confine_control() } else { Ok(()) };
            match outcome {
                Ok(()) => receiver.iter().for_each(|kept| match kept {
                    Kept::Changes(worker, changes) => log.add(worker, &changes),
                    Kept::Instances(instances) => log.keep(&instances),
                }),
                Err(error) => {
                    tracing::error!("what functions remember is not written down: {error}");
                }
            }
            end.send(()).ok();
            if is_confined {
                loop {
                    std::thread::park();
                }
            }
        };
        let thread = std::thread::Builder::new().name("functions".into()).spawn(work);
        let thread = Some(thread.map_err(DataplaneError::Start)?).filter(|_| !is_confined);
        Ok(Self { sender: Some(sender), ended, thread })
    }

    /// Has changes written down; false: there is no room, and what is written is not all any more.
    pub(super) fn keep(&self, worker: u32, changes: Vec<StateChange>) -> bool {
        let kept = Kept::Changes(worker, changes);
        self.sender.as_ref().is_some_and(|sender| sender.try_send(kept).is_ok())
    }

    /// The same, with as much time as it takes.
    pub(super) fn keep_last(&self, worker: u32, changes: Vec<StateChange>) {
        // A thread that is gone has said why.
        self.sender.as_ref().map(|sender| sender.send(Kept::Changes(worker, changes)));
    }

    /// Has instances forgotten that are none of these. Where there is no room, with the next change of tables.
    pub(super) fn keep_only(&self, instances: BTreeSet<InstanceId>) {
        self.sender.as_ref().map(|sender| sender.try_send(Kept::Instances(instances)));
    }
}

impl Drop for FunctionKeeper {
    fn drop(&mut self) {
        self.sender = None;
        self.ended.recv().ok();
        self.thread.take().map(JoinHandle::join);
    }
}

//! What the control thread orders and the worker reports. Orders are carried out between two
//! vectors of packets; each carries the way back for its outcome, and what the worker lets go of
//! travels back too, so that tables and rings are taken apart where there is time for it.

use super::barrier::Rendezvous;
use super::kernel_tables::KernelTables;
use super::rings::{LostPort, Taken};
use super::segment_sockets::SegmentSockets;
use super::underlay::Underlay;
use super::waker::Waker;
use super::worker::KernelPathTurn;
use crate::engine::{
    FunctionMessage, KernelPort, RecordLosses, Rehearsal, StateChange, Tables, ToldEnd,
    UnderlayInterface,
};
use catena_fastpath::Queues;
use catena_io::{IoError, PacketRing, Port};
use catena_model::account::{NodeCounters, SliceCounters};
use catena_model::check::{CheckQuestion, Sighting};
use catena_model::dump::DumpedPart;
use catena_model::explain::{CatchRequest, CaughtPacket, ExplainAt, FrameBytes};
use catena_model::id::PortId;
use catena_model::program::SegmentPlace;
use catena_model::setup::{FlowAnswer, FlowAsked};
use catena_model::{CounterScope, SliceId};
use std::collections::HashMap;
use std::hash::RandomState;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, SyncSender};

/// An order.
pub(super) enum Order {
    /// Meet the other workers, and move no packets until [`Order::Part`].
    Meet(Arc<Rendezvous>),
    /// The meeting is over.
    Part,
    /// The port is at this other worker; none: it is not.
    Elsewhere { id: PortId, worker: Option<usize>, done: SyncSender<()> },
    /// By which worker would these packets be decided?
    Deciders { packets: Vec<(ExplainAt, FrameBytes)>, done: SyncSender<Vec<usize>> },
    /// Put these tables in force. Inherited: another process began to count on their paths.
    Tables { tables: Arc<Tables>, is_inherited: bool, done: SyncSender<()> },
    /// Use these tunnel sockets; the former come back.
    Underlay { underlay: Box<Underlay>, done: SyncSender<Option<Box<Underlay>>> },
    /// Take packets of segments below this place's locator; none: by the sockets that there are.
    Segments {
        place: SegmentPlace,
        sockets: Option<Box<SegmentSockets>>,
        done: SyncSender<Result<(), IoError>>,
    },
    /// Take datagrams of other nodes from these interfaces only.
    UnderlayDevices { interfaces: Vec<u32>, done: SyncSender<()> },
    /// The longest IP packet that those take now, in bytes.
    UnderlayMtu { mtu: u16, done: SyncSender<()> },
    /// Use this ring for the port; what is not used comes back.
    Attach {
        id: PortId,
        ring: Box<dyn Port>,
        /// How the kernel knows it; none: it does not.
        kernel: Option<KernelPort>,
        done: SyncSender<Taken>,
    },
    /// Let the kernel repeat what is decided; what it does not comes by this ring.
    KernelPath {
        kernel_tables: Box<KernelTables>,
        ring: Box<PacketRing>,
        /// What of each port is on its way to it.
        queues: Queues,
        /// The ports before which its program stands, whether they are attached or not.
        numbers: HashMap<u16, PortId>,
        /// How the kernel knows those that are.
        attached: Vec<(PortId, KernelPort)>,
        done: SyncSender<Box<KernelPathTurn>>,
    },
    /// The kernel's program stands before this interface of the underlay; none: before none.
    KernelUnderlay { place: Option<UnderlayInterface>, done: SyncSender<()> },
    /// Give the port's ring back.
    Detach { id: PortId, done: SyncSender<Option<Box<dyn Port>>> },
    /// Take this packet through the stages, without a trace in anything that lives.
    Rehearse { rehearsal: Box<Rehearsal>, done: SyncSender<Box<Rehearsal>> },
    /// Look for the next packet at a port.
    Catch { request: CatchRequest, done: SyncSender<Result<Option<CaughtPacket>, String>> },
    /// Do not look for the packet that was asked for by this token any more.
    ForgetCatch { token: u64, done: SyncSender<()> },
    /// About the probes of a check.
    Check { question: CheckQuestion, done: SyncSender<Result<Vec<Sighting>, String>> },
    /// Something was plugged into links, or out.
    LinksTurned,
    /// The controller has answered for flows.
    SetUp(Vec<FlowAnswer>),
    /// The controller can be asked for flows, or not any more.
    Controller { is_there: bool },
    /// Tell what functions remember that was not told yet, for the last time.
    FunctionState { done: SyncSender<Vec<StateChange>> },
    /// What was told of that is lost: tell all of it again.
    FunctionStateAnew,
    /// Tell all counters.
    Counters { of: Option<Arc<CounterScope>>, done: SyncSender<Box<NodeCounters>> },
    /// Tell what you hold: its parts by name, and each of them as a digest by this key.
    Dump { key: RandomState, done: SyncSender<io::Result<Vec<DumpedPart>>> },
    /// Tell the counters of slices, a part of them.
    Slices { after: Option<SliceId>, limit: usize, done: SyncSender<Vec<SliceCounters>> },
}

/// Something that the control thread did not ask for.
pub(super) enum Report {
    /// A port's interface is gone, and the port is detached.
    PortLost(LostPort),
    /// A neighbour at a link has fallen silent, or speaks again.
    LinksTurned,
    /// The worker with this number asks for flows.
    FlowsAsked(usize, Vec<FlowAsked>),
    /// What functions have handed out.
    FunctionMessages(Vec<FunctionMessage>),
    /// Packets that the worker with this number has brought to the end of their path.
    PathEnds(usize, ToldEnds),
    /// What functions of the worker with this number remember.
    FunctionState(usize, Vec<StateChange>),
    /// The worker with this number has ended.
    Ended(usize),
}

/// What a worker tells of packets at the end of their path.
pub(super) struct ToldEnds {
    pub(super) ends: Vec<ToldEnd>,
    /// What its engine has lost of them, since it began.
    pub(super) lost_in_engine: RecordLosses,
    /// By this the worker knows that nobody has taken it yet.
    pub(super) _untaken: Arc<()>,
}

/// A worker's way to the control thread. Its end is told too.
pub(super) struct Reports {
    worker: usize,
    sender: Sender<Report>,
    waker: Waker,
}

impl Reports {
    pub(super) fn new(worker: usize, sender: Sender<Report>, waker: Waker) -> Self {
        Self { worker, sender, waker }
    }

    /// Asks for flows.
    pub(super) fn ask_for(&self, flows: Vec<FlowAsked>) {
        self.send(Report::FlowsAsked(self.worker, flows));
    }

    /// Tells of packets at the end of their path.
    pub(super) fn tell_ends(&self, told: ToldEnds) {
        self.send(Report::PathEnds(self.worker, told));
    }

    /// Tells what functions remember.
    pub(super) fn tell_state(&self, changes: Vec<StateChange>) {
        self.send(Report::FunctionState(self.worker, changes));
    }

    pub(super) fn send(&self, report: Report) {
        // A control thread that is gone needs no report.
        self.sender.send(report).ok();
        self.waker.ring();
    }
}

impl Drop for Reports {
    fn drop(&mut self) {
        self.send(Report::Ended(self.worker));
    }
}

//! A node's data plane. Real: the gate, the checking of programs, the words it says and counts in.
//! Modelled after `dataplane::shell::control`: first everything that may be refused, then the disk,
//! then the tables, then the acknowledgement. What it forwards is in `packet`.

use crate::disk::{DiskFault, Replaced};
use crate::planted::Planted;
use catena_model::id::PortId;
use catena_model::program::PathEntry;
use catena_model::{
    Answer, ChainCounters, CounterScope, NodeCounters, NodeName, NodeProgram, PathId, Question,
    Volume,
};
use catena_protocol::message::{
    self, PortOperation, PortResult, Program, State, from_dataplane, to_dataplane,
};
use catena_protocol::program;
use catena_protocol::session::{ProgramGate, program_result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The program in force.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) program: NodeProgram,
    checksum: u64,
    /// Its paths, each with the serial that tells it from a later one of the same identifier.
    pub(crate) paths: BTreeMap<PathId, (u64, Arc<PathEntry>)>,
}

/// What happened to the packets of one path here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) entered: u64,
    pub(crate) finished: u64,
    pub(crate) dropped: u64,
}

/// The state of one data plane process.
#[derive(Debug)]
pub(crate) struct Dataplane {
    node: NodeName,
    planted: Planted,
    process_id: u32,
    gate: ProgramGate,
    pub(crate) running: Option<Running>,
    pub(crate) attached: BTreeSet<PortId>,
    pub(crate) counted: BTreeMap<PathId, Counted>,
    next_serial: u64,
    /// Paths that were on the disk at the start: another process began to count on them.
    inherited: BTreeSet<PathId>,
}

impl Dataplane {
    /// Starts with the program on the disk, if one is there and can be read.
    pub(crate) fn start(
        node: NodeName,
        process_id: u32,
        disk: &Replaced,
        planted: Planted,
    ) -> Self {
        let mut dataplane = Self {
            node,
            planted,
            process_id,
            gate: ProgramGate::default(),
            running: None,
            attached: BTreeSet::new(),
            counted: BTreeMap::new(),
            next_serial: 0,
            inherited: BTreeSet::new(),
        };
        if let Some(packed) = read_file(disk)
            && let Ok(program) = dataplane.check(&packed)
        {
            dataplane.put_in_force(&packed, program);
            let paths = dataplane.running.as_ref().map(|running| &running.paths);
            dataplane.inherited = paths.into_iter().flat_map(BTreeMap::keys).copied().collect();
        }
        dataplane
    }

    pub(crate) fn number(&self) -> u64 {
        self.running.as_ref().map_or(0, |running| running.program.number.0)
    }

    /// Answers one message; none: the process died in it.
    pub(crate) fn answer(
        &mut self,
        message: to_dataplane::Message,
        disk: &mut Replaced,
        interfaces: &BTreeSet<PortId>,
    ) -> Option<from_dataplane::Message> {
        Some(match message {
            to_dataplane::Message::Program(packed) => {
                from_dataplane::Message::ProgramResult(self.take_program(&packed, disk)?)
            }
            to_dataplane::Message::AttachPort(attach) => {
                let id: Option<PortId> = attach.port_id.parse().ok().map(PortId);
                let is_there = id.is_some_and(|id| interfaces.contains(&id));
                self.attached.extend(id.filter(|_| is_there));
                let refusal = if is_there { "" } else { "no such interface" };
                port_result(attach.port_id, refusal, PortOperation::Attach, attach.sequence)
            }
            to_dataplane::Message::DetachPort(detach) => {
                if let Ok(id) = detach.port_id.parse() {
                    self.attached.remove(&PortId(id));
                }
                port_result(detach.port_id, "", PortOperation::Detach, detach.sequence)
            }
            to_dataplane::Message::Question(question) => {
                let answer = match serde_json::from_slice(&question.body) {
                    Ok(Question::Counters { of, .. }) => {
                        Answer::Counters(Box::new(self.counters(of.as_ref())))
                    }
                    _ => Answer::Refused { reason: "the simulated data plane cannot".into() },
                };
                let body = serde_json::to_vec(&answer).unwrap_or_default();
                let request = question.request;
                from_dataplane::Message::Answer(message::Answer { request, body })
            }
            to_dataplane::Message::StateRequest(_) => from_dataplane::Message::State(State {
                node: self.node.to_string(),
                program_number: self.number(),
                attached_ports: self.attached.iter().map(ToString::to_string).collect(),
                process_id: self.process_id,
                base_number: self.number(),
                ..State::default()
            }),
            to_dataplane::Message::KernelPath(_) => {
                let refusal = "the simulated data plane has no kernel".into();
                from_dataplane::Message::KernelPathResult(message::KernelPathResult { refusal })
            }
            to_dataplane::Message::KernelUnderlay(_) => {
                from_dataplane::Message::KernelUnderlayResult(message::KernelUnderlayResult {})
            }
            to_dataplane::Message::UnderlayDevices(_) => {
                from_dataplane::Message::UnderlayDevicesResult(message::UnderlayDevicesResult {})
            }
            to_dataplane::Message::SliceDelta(delta) => {
                let refusal = "the simulated data plane takes no slices";
                from_dataplane::Message::ProgramResult(program_result(delta.number, refusal))
            }
        })
    }

    /// The interface of a port is gone; told to the agent if the port was attached.
    pub(crate) fn lose(&mut self, port: PortId) -> Option<from_dataplane::Message> {
        let reason = "its interface is gone";
        let was_attached = self.attached.remove(&port);
        was_attached.then(|| port_result(port.to_string(), reason, PortOperation::InterfaceGone, 0))
    }

    fn take_program(
        &mut self,
        packed: &Program,
        disk: &mut Replaced,
    ) -> Option<message::ProgramResult> {
        let number = packed.number;
        let is_running = self.running.as_ref().is_some_and(|running| {
            (running.program.number.0, running.checksum) == (number, packed.checksum)
        });
        if is_running {
            return Some(program_result(number, ""));
        }
        let program = match self.check(packed) {
            Ok(program) => program,
            Err(refusal) => return Some(program_result(number, refusal)),
        };
        match disk.replace(encode(packed)) {
            Ok(()) => {}
            Err(DiskFault::Full) => {
                return Some(program_result(number, "the disk is full"));
            }
            Err(DiskFault::Dead) => return None,
        }
        self.put_in_force(packed, program);
        Some(program_result(number, ""))
    }

    fn check(&mut self, packed: &Program) -> Result<NodeProgram, String> {
        let program = program::unpack(packed).map_err(|error| error.to_string())?;
        if program.node != self.node {
            return Err(format!("program {} is for node '{}'", packed.number, program.node));
        }
        if self.planted != Planted::NodeTakesOlder {
            self.gate.admit(packed.number)?;
        }
        Ok(program)
    }

    fn put_in_force(&mut self, packed: &Program, program: NodeProgram) {
        let former = self.running.take().map(|running| running.paths).unwrap_or_default();
        let mut paths = BTreeMap::new();
        for entry in &program.paths {
            let known = former.get(&entry.id).filter(|(_, known)| **known == *entry);
            let place = known.cloned().unwrap_or_else(|| {
                self.next_serial += 1;
                (self.next_serial, Arc::new(entry.clone()))
            });
            paths.insert(entry.id, place);
        }
        let is_kept = |path: &PathId| former.get(path) == paths.get(path);
        self.counted.retain(|path, _| is_kept(path));
        self.inherited.retain(is_kept);
        self.running = Some(Running { program, checksum: packed.checksum, paths });
    }

    /// Did another process begin to count on the path?
    fn is_partial(&self, path: PathId) -> bool {
        self.planted != Planted::TrustsPartialCounters && self.inherited.contains(&path)
    }

    fn counters(&self, of: Option<&CounterScope>) -> NodeCounters {
        let running = self.running.as_ref();
        let paths = running.map(|running| &running.paths).into_iter().flatten();
        let volume = |packets| Volume { packets, bytes: packets * 100 };
        let is_asked = |chain| of.is_none_or(|of| of.chains.contains(chain));
        let paths = paths.filter(|(_, (_, entry))| is_asked(&entry.chain));
        let chains = paths.map(|(id, (_, entry))| {
            let counted = self.counted.get(id).copied().unwrap_or_default();
            let dropped = (catena_model::DropReason::NoPath, counted.dropped);
            ChainCounters {
                chain: entry.chain,
                path: *id,
                entered: volume(counted.entered),
                finished: volume(counted.finished),
                tapped: Volume::default(),
                pinned_flows: 0,
                tunnelled_out: Volume::default(),
                tunnelled_in: Volume::default(),
                dropped: std::iter::once(dropped).filter(|(_, packets)| *packets > 0).collect(),
                hops: Vec::new(),
                is_partial: self.is_partial(*id),
            }
        });
        NodeCounters {
            chains: chains.collect(),
            ..NodeCounters::none(self.node.clone(), catena_model::BlueprintNumber(self.number()))
        }
    }
}

/// The program on a node's disk; none: there is none, or it cannot be read.
pub(crate) fn read_file(disk: &Replaced) -> Option<Program> {
    let mut frames = catena_protocol::frame::FrameReader::default();
    frames.push(disk.read()?);
    frames.next_message().ok().flatten()
}

fn encode(packed: &Program) -> Vec<u8> {
    catena_protocol::frame::encode(packed)
}

fn port_result(
    port_id: String,
    refusal: &str,
    operation: PortOperation,
    sequence: u64,
) -> from_dataplane::Message {
    let (refusal, operation) = (refusal.to_owned(), operation.into());
    from_dataplane::Message::PortResult(PortResult { port_id, refusal, operation, sequence })
}

//! A node's data plane. Real: the gate, the putting together of programs, the words it says and counts
//! in. Modelled after `dataplane::shell::control` and its log: first everything that may be refused,
//! then the disk, then the tables, then the acknowledgement. What it forwards is in `packet`.

use crate::disk::{DiskFault, Replaced};
use crate::hellos::Hellos;
use crate::journal_store::{head, next_record};
use crate::planted::Planted;
use catena_model::entry::{Entries, Program};
use catena_model::id::PortId;
use catena_model::program::{ExitPlace, InstanceEntry, NodeIdentity, PathEntry};
use catena_model::resource::Encapsulation;
use catena_model::source_route::JoinedWay;
use catena_model::topology::PortNumber;
use catena_model::{
    Answer, ChainCounters, CounterScope, NodeCounters, NodeName, NodeProgram, PathId, Question,
    Volume,
};
use catena_protocol::delta::{Draft, agent_edits, deltas};
use catena_protocol::frame::{self, FrameReader};
use catena_protocol::message::{
    self, Delta, PortOperation, PortResult, ProgramResult, State, from_dataplane, to_dataplane,
};
use catena_protocol::session::{ProgramGate, part_result, program_result, whole_needed};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Changes that are added to a whole program on disk before another takes its place.
const CHANGES_MAX: usize = 8;

/// The program in force.
#[derive(Debug)]
pub(crate) struct Running {
    /// As it was told.
    told: Program,
    /// The same in lists.
    pub(crate) program: NodeProgram,
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
    /// A change whose last part has not come, and its parts.
    unfinished: Option<(Draft, Vec<Delta>)>,
    /// How many changes are on the disk behind the whole program.
    changes: usize,
    pub(crate) attached: BTreeSet<PortId>,
    pub(crate) counted: BTreeMap<PathId, Counted>,
    next_serial: u64,
    /// Paths that were on the disk at the start: another process began to count on them.
    inherited: BTreeSet<PathId>,
    pub(crate) hellos: Hellos,
}

impl Dataplane {
    /// Starts with the program on the disk, if one is there and can be read.
    pub(crate) fn start(
        node: NodeName,
        process_id: u32,
        disk: &mut Replaced,
        planted: Planted,
    ) -> Self {
        let mut dataplane = Self {
            node,
            planted,
            process_id,
            gate: ProgramGate::default(),
            running: None,
            unfinished: None,
            changes: 0,
            attached: BTreeSet::new(),
            counted: BTreeMap::new(),
            next_serial: 0,
            inherited: BTreeSet::new(),
            hellos: Hellos::default(),
        };
        let (program, changes) = read_log(disk, planted);
        if program != Program::default() {
            dataplane.changes = changes;
            dataplane.gate = ProgramGate::at(program.number.0);
            dataplane.put_in_force(program);
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
            to_dataplane::Message::Delta(part) => {
                from_dataplane::Message::ProgramResult(self.take_delta(part, disk)?)
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
            // The agent here sends none of the last two: no chain has a set-up.
            to_dataplane::Message::StateRequest(_)
            | to_dataplane::Message::FlowAnswers(_)
            | to_dataplane::Message::ControllerPresence(_) => {
                let program = self.program();
                from_dataplane::Message::State(State {
                    node: self.node.to_string(),
                    program_number: program.number.0,
                    program_digest: program.digest.0,
                    attached_ports: self.attached.iter().map(ToString::to_string).collect(),
                    process_id: self.process_id,
                    ports: agent_edits(&Entries::default(), &program.entries),
                    ..State::default()
                })
            }
            to_dataplane::Message::LinkCarriers(carriers) => {
                let dark = carriers.dark.iter().filter_map(|number| u8::try_from(*number).ok());
                self.hellos.set_dark(&dark.filter_map(PortNumber::new).collect());
                self.hellos.unheard()
            }
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
        })
    }

    /// The interface of a port is gone; told to the agent if the port was attached.
    pub(crate) fn lose(&mut self, port: PortId) -> Option<from_dataplane::Message> {
        let reason = "its interface is gone";
        let was_attached = self.attached.remove(&port);
        was_attached.then(|| port_result(port.to_string(), reason, PortOperation::InterfaceGone, 0))
    }

    fn program(&self) -> Program {
        self.running.as_ref().map(|running| running.told.clone()).unwrap_or_default()
    }

    /// None: the process died in it.
    fn take_delta(&mut self, part: Delta, disk: &mut Replaced) -> Option<ProgramResult> {
        let (number, is_whole) = (part.number, part.is_whole());
        let (program, parts) = match self.put_together(part) {
            Ok(made) => made,
            Err(answer) => return Some(answer),
        };
        match self.keep(&parts, is_whole, disk) {
            Ok(()) => {}
            Err(DiskFault::Full) => return Some(program_result(number, "the disk is full")),
            Err(DiskFault::Dead) => return None,
        }
        let ports = agent_edits(&self.program().entries, &program.entries);
        self.put_in_force(program);
        self.begin_file_anew(disk).ok()?;
        Some(ProgramResult { ports, ..program_result(number, "") })
    }

    /// The program that this part completes, and all its parts; else what is answered at once.
    fn put_together(&mut self, part: Delta) -> Result<(Program, Vec<Delta>), ProgramResult> {
        let (number, is_whole, is_last) = (part.number, part.is_whole(), part.is_last);
        let unfinished = self.unfinished.take();
        self.admit(&part).map_err(|refusal| program_result(number, refusal))?;
        let running = self.program();
        if part.to_version() == running.version() {
            return Err(if is_last { program_result(number, "") } else { part_result(number) });
        }
        let base = if is_whole { Program::default() } else { running };
        if base.version() != part.from_version() {
            return Err(whole_needed(number, "it is not what runs here"));
        }
        // The first once more begins it anew.
        let begun =
            unfinished.filter(|(draft, parts)| draft.is_of(&part) && parts.first() != Some(&part));
        let (mut draft, mut parts) = begun.unwrap_or_else(|| (Draft::begin(&part, &base), vec![]));
        let added = draft.add(&part);
        parts.push(part);
        if added.is_ok() && !is_last {
            self.unfinished = Some((draft, parts));
            return Err(part_result(number));
        }
        match added.and_then(|()| draft.finish(&base)) {
            Ok(program) => Ok((program, parts)),
            Err(error) if is_whole => Err(program_result(number, error.to_string())),
            Err(error) => Err(whole_needed(number, error.to_string())),
        }
    }

    fn admit(&mut self, part: &Delta) -> Result<(), String> {
        if part.node != self.node.as_str() {
            return Err(format!("program {} is for node '{}'", part.number, part.node));
        }
        match self.planted {
            Planted::NodeTakesOlder => Ok(()),
            _ => self.gate.admit(part.number),
        }
    }

    /// A whole program begins the file anew, a change is added to it.
    fn keep(
        &mut self,
        parts: &[Delta],
        is_whole: bool,
        disk: &mut Replaced,
    ) -> Result<(), DiskFault> {
        let bytes: Vec<u8> = parts.iter().flat_map(encode).collect();
        if is_whole {
            disk.replace(bytes)?;
            self.changes = 0;
            return Ok(());
        }
        disk.append(&bytes)?;
        self.changes += 1;
        if self.planted == Planted::AppendsUnsynced { Ok(()) } else { disk.sync() }
    }

    /// Puts one whole program in the place of many changes. If that cannot be done, they are there.
    fn begin_file_anew(&mut self, disk: &mut Replaced) -> Result<(), DiskFault> {
        if self.changes < CHANGES_MAX {
            return Ok(());
        }
        let whole = deltas(&self.node, &Program::default(), &self.program());
        match self.keep(&whole, true, disk) {
            Err(DiskFault::Full) => Ok(()),
            outcome => outcome,
        }
    }

    fn put_in_force(&mut self, told: Program) {
        let program = told.entries.program(self.node.clone(), told.number);
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
        let links = told.entries.exits.iter();
        self.hellos.align(links.filter_map(|(number, exit)| Some((*number, exit.link()?))));
        self.running = Some(Running { told, program, paths });
    }

    /// What a port number of source routes stands for here.
    pub(crate) fn exit(&self, number: PortNumber) -> Option<&ExitPlace> {
        let running = self.running.as_ref()?;
        running.told.entries.exits.get(&number).map(|exit| &exit.to)
    }

    /// What it writes into a header that leads to these instances, as far as there is room.
    pub(crate) fn way<'i>(
        &self,
        met: impl Iterator<Item = &'i InstanceEntry>,
        encapsulation: Encapsulation,
    ) -> Option<JoinedWay> {
        let Running { told, program, .. } = self.running.as_ref()?;
        let number_of = |port| {
            let mut exits = program.exits.iter();
            Some(exits.find(|exit| exit.to == ExitPlace::Port(port))?.number)
        };
        let here = (&self.node, &told.entries);
        JoinedWay::along(here, met, encapsulation, number_of).map(|(way, _)| way)
    }

    /// What it divides numbers of ways by.
    pub(crate) fn identity(&self) -> Option<NodeIdentity> {
        let identities = &self.running.as_ref()?.told.entries.identities;
        identities.get(&0).map(|entry| entry.identity)
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

/// The program on a node's disk, and how many changes there are behind the whole. What is torn behind
/// them is cut off: what is added there would be lost.
fn read_log(disk: &mut Replaced, planted: Planted) -> (Program, usize) {
    let (mut program, mut end, mut changes) = (Program::default(), 0, 0);
    let bytes = disk.read().unwrap_or_default().to_vec();
    let (mut draft, mut read) = (None, 0);
    while let Some((body, length)) = bytes.get(read..).and_then(next_record) {
        let Some(part) = decode(body) else { break };
        let mut next: Draft = draft.take().unwrap_or_else(|| Draft::begin(&part, &program));
        if part.from_version() != program.version() || next.add(&part).is_err() {
            break;
        }
        read += length;
        if !part.is_last {
            draft = Some(next);
            continue;
        }
        let Ok(made) = next.finish(&program) else { break };
        changes += usize::from(end > 0);
        (program, end) = (made, read);
    }
    if end < bytes.len() && planted != Planted::AppendsBehindTorn {
        disk.cut(end);
    }
    (program, changes)
}

/// As it rests.
fn encode(part: &Delta) -> Vec<u8> {
    let body = frame::encode(part);
    [head(&body), body].concat()
}

fn decode(body: &[u8]) -> Option<Delta> {
    let mut frames = FrameReader::default();
    frames.push(body);
    frames.next_message().ok().flatten()
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

//! The test in the place of a data plane: takes what it is told to take, and notes it.

use catena_agent::DataplanePaths;
use catena_model::entry::Program;
use catena_protocol::PROTOCOL_VERSION;
use catena_protocol::delta::{Draft, agent_edits};
use catena_protocol::frame::{self, FrameReader};
use catena_protocol::message::{
    Delta, FlowAnswer, FromDataplane, InterfacePlace, PortOperation, PortResult, ProgramResult,
    State, ToDataplane, from_dataplane, to_dataplane,
};
use catena_protocol::session::{part_result, program_result, whole_needed};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;

/// What the data plane has and does.
#[derive(Default)]
pub(crate) struct Book {
    /// The default: none.
    pub(crate) running: Program,
    /// What has come of a change whose last part has not.
    pub(crate) unfinished: Option<Draft>,
    pub(crate) ports: Vec<String>,
    /// Port → its interface.
    pub(crate) places: HashMap<String, InterfacePlace>,
    /// Port → number of the order.
    pub(crate) attached_by: BTreeMap<String, u64>,
    pub(crate) offered: Vec<u64>,
    pub(crate) detached: Vec<String>,
    /// By which interfaces tunnels come in, each time it was told.
    pub(crate) underlay_devices: Vec<Vec<u32>>,
    /// What those take, told with them.
    pub(crate) underlay_mtus: Vec<u32>,
    /// What it speaks, if that is not what the agent does.
    pub(crate) version: Option<u32>,
    /// The flows that it was answered for.
    pub(crate) flow_answers: Vec<FlowAnswer>,
    /// Whether the controller is there, each time it was told.
    pub(crate) presences: Vec<bool>,
    /// Not empty: every program is refused with it.
    pub(crate) refusal: String,
    /// What it says of its ports cannot be read.
    pub(crate) is_unreadable: bool,
}

impl Book {
    fn take(&mut self, part: &Delta) -> ProgramResult {
        let number = part.number;
        self.offered.push(number);
        if !self.refusal.is_empty() {
            return program_result(number, &self.refusal);
        }
        let base = if part.is_whole() { Program::default() } else { self.running.clone() };
        if base.version() != part.from_version() {
            return whole_needed(number, "it is not what runs here");
        }
        let mut draft = self.unfinished.take().unwrap_or_else(|| Draft::begin(part, &base));
        draft.add(part).unwrap();
        if !part.is_last {
            self.unfinished = Some(draft);
            return part_result(number);
        }
        let program = draft.finish(&base).unwrap();
        let ports = self.ports_since(&program, &self.running);
        self.running = program;
        ProgramResult { ports, ..program_result(number, "") }
    }

    /// How the ports of a program differ from those of another, as they are told.
    fn ports_since(&self, program: &Program, former: &Program) -> Vec<u8> {
        let told = agent_edits(&former.entries, &program.entries);
        if self.is_unreadable { vec![0xff; 9] } else { told }
    }
}

pub(crate) struct TestDataplane {
    pub(crate) book: Arc<Mutex<Book>>,
    say: mpsc::UnboundedSender<from_dataplane::Message>,
    task: tokio::task::JoinHandle<()>,
}

/// Where it lives; the command would be used if it did not.
pub(crate) fn paths(dir: &Path) -> DataplanePaths {
    DataplanePaths { command: vec!["/bin/false".into()], control_socket: dir.join("control") }
}

impl TestDataplane {
    pub(crate) fn start(dir: &Path, book: Book) -> Self {
        let path = dir.join("control");
        std::fs::remove_file(&path).ok();
        let listener = UnixListener::bind(path).unwrap();
        let book = Arc::new(Mutex::new(book));
        let (say, said) = mpsc::unbounded_channel();
        let task = tokio::spawn(serve(listener, Arc::clone(&book), said));
        Self { book, say, task }
    }

    /// Says something without being asked.
    pub(crate) fn say(&self, message: from_dataplane::Message) {
        self.say.send(message).unwrap();
    }

    pub(crate) fn lose(&self, port: &str) {
        let mut book = self.book.lock().unwrap();
        book.ports.retain(|known| known != port);
        let sequence = book.attached_by[port];
        let (port_id, refusal) = (port.into(), "its interface is gone".into());
        let operation = PortOperation::InterfaceGone.into();
        let gone = PortResult { port_id, refusal, operation, sequence };
        self.say(from_dataplane::Message::PortResult(gone));
    }

    pub(crate) async fn kill(self) {
        self.task.abort();
        self.task.await.ok();
    }
}

async fn serve(
    listener: UnixListener,
    book: Arc<Mutex<Book>>,
    mut said: mpsc::UnboundedReceiver<from_dataplane::Message>,
) {
    loop {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut frames = FrameReader::default();
        let mut bytes = [0; 65_536];
        loop {
            let answers: Vec<from_dataplane::Message> = tokio::select! {
                length = stream.read(&mut bytes) => match length {
                    Ok(0) | Err(_) => break,
                    Ok(length) => {
                        frames.push(&bytes[..length]);
                        std::iter::from_fn(|| frames.next_message().unwrap())
                            .filter_map(|message: ToDataplane| answer(message, &book))
                            .collect()
                    }
                },
                message = said.recv() => message.into_iter().collect(),
            };
            for message in answers {
                write(&mut stream, message).await;
            }
        }
    }
}

async fn write(stream: &mut UnixStream, message: from_dataplane::Message) {
    stream.write_all(&frame::encode(&FromDataplane { message: Some(message) })).await.unwrap();
}

/// None: nothing answers it.
fn answer(message: ToDataplane, book: &Mutex<Book>) -> Option<from_dataplane::Message> {
    let mut book = book.lock().unwrap();
    Some(match message.message.unwrap() {
        to_dataplane::Message::FlowAnswers(answers) => {
            book.flow_answers.extend(answers.flows);
            return None;
        }
        to_dataplane::Message::ControllerPresence(presence) => {
            book.presences.push(presence.is_there);
            return None;
        }
        to_dataplane::Message::StateRequest(_) => from_dataplane::Message::State(State {
            node: "host1".into(),
            program_number: book.running.number.0,
            program_digest: book.running.digest.0,
            ports: book.ports_since(&book.running, &Program::default()),
            attached_ports: book.ports.clone(),
            places: book.places.clone(),
            process_id: 1,
            protocol_version: book.version.unwrap_or(PROTOCOL_VERSION),
            ..State::default()
        }),
        to_dataplane::Message::KernelPath(_) => {
            let refusal = "this data plane has no kernel".into();
            from_dataplane::Message::KernelPathResult(catena_protocol::message::KernelPathResult {
                refusal,
            })
        }
        to_dataplane::Message::KernelUnderlay(_) => from_dataplane::Message::KernelUnderlayResult(
            catena_protocol::message::KernelUnderlayResult {},
        ),
        to_dataplane::Message::UnderlayDevices(told) => {
            book.underlay_devices.push(told.interfaces);
            book.underlay_mtus.push(told.mtu);
            from_dataplane::Message::UnderlayDevicesResult(
                catena_protocol::message::UnderlayDevicesResult {},
            )
        }
        to_dataplane::Message::LinkCarriers(_) => {
            from_dataplane::Message::LinksUnheard(catena_protocol::message::LinksUnheard::default())
        }
        to_dataplane::Message::Delta(part) => {
            from_dataplane::Message::ProgramResult(book.take(&part))
        }
        to_dataplane::Message::AttachPort(attach) => {
            book.ports.push(attach.port_id.clone());
            book.places.insert(attach.port_id.clone(), attach.place.unwrap());
            book.attached_by.insert(attach.port_id.clone(), attach.sequence);
            port_result(attach.port_id, PortOperation::Attach, attach.sequence)
        }
        to_dataplane::Message::DetachPort(detach) => {
            book.ports.retain(|known| *known != detach.port_id);
            book.detached.push(detach.port_id.clone());
            port_result(detach.port_id, PortOperation::Detach, detach.sequence)
        }
        to_dataplane::Message::Question(request) => {
            from_dataplane::Message::Answer(catena_protocol::message::Answer {
                request: request.request,
                body: serde_json::to_vec(&catena_model::Answer::Counters(Box::new(
                    crate::programs::no_counters(),
                )))
                .unwrap(),
            })
        }
    })
}

fn port_result(
    port_id: String,
    operation: PortOperation,
    sequence: u64,
) -> from_dataplane::Message {
    let (operation, refusal) = (operation.into(), String::new());
    from_dataplane::Message::PortResult(PortResult { port_id, refusal, operation, sequence })
}

//! The test in the place of an agent: speaks the control protocol, passes packet sockets.

use catena_io::send_with_fds;
use catena_model::NodeCounters;
use catena_model::id::{PortId, SliceId};
use catena_protocol::frame::{self, FrameReader};
use catena_protocol::message::{
    AttachPort, Delta, DetachPort, FromDataplane, InterfacePlace, PortOperation, ProgramResult,
    Question, State, StateRequest, ToDataplane, UnderlayDevices, from_dataplane, to_dataplane,
};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Long enough for a loaded machine; only a failing test ever waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Numbers of all orders of these agents: each waits for the result of one before the next.
pub(crate) const ATTACH_SEQUENCE: u64 = 11;
const DETACH_SEQUENCE: u64 = 12;

pub(crate) struct TestAgent {
    stream: UnixStream,
    frames: FrameReader,
}

/// Where this agent says that a port is.
pub(crate) fn place_of(port: PortId) -> InterfacePlace {
    let [.., last] = *port.0.as_bytes();
    InterfacePlace { namespace_device: 4, namespace_inode: 1 << 40, interface: last.into() }
}

impl TestAgent {
    /// Connects as soon as the data plane listens.
    pub(crate) fn connect(socket: &Path) -> Self {
        let begun = Instant::now();
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(error) if begun.elapsed() > PATIENCE => panic!("nobody listens: {error}"),
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, frames: FrameReader::default() }
    }

    pub(crate) fn send(&mut self, message: to_dataplane::Message) {
        self.stream.write_all(&frame::encode(&ToDataplane { message: Some(message) })).unwrap();
    }

    /// The next message; none: the data plane closed the connection.
    pub(crate) fn hear(&mut self) -> Option<from_dataplane::Message> {
        loop {
            if let Some(FromDataplane { message }) = self.frames.next_message().unwrap() {
                return Some(message.unwrap());
            }
            let mut bytes = [0; 65_536];
            match self.stream.read(&mut bytes).unwrap() {
                0 => return None,
                length => self.frames.push(&bytes[..length]),
            }
        }
    }

    pub(crate) fn state(&mut self) -> State {
        self.send(to_dataplane::Message::StateRequest(StateRequest {}));
        match self.hear() {
            Some(from_dataplane::Message::State(state)) => state,
            other => panic!("no state but {other:?}"),
        }
    }

    /// Offers the parts of a program; answers the refusal, empty when it runs.
    pub(crate) fn offer(&mut self, parts: impl IntoIterator<Item = Delta>) -> String {
        for part in parts {
            let is_last = part.is_last;
            let result = self.tell(part);
            if is_last || !result.refusal.is_empty() {
                assert!(!result.is_part);
                return result.refusal;
            }
            assert!(result.is_part, "{result:?}");
        }
        panic!("the last part is missing");
    }

    /// Offers one part.
    pub(crate) fn tell(&mut self, part: Delta) -> ProgramResult {
        let sent = part.number;
        self.send(to_dataplane::Message::Delta(part));
        match self.hear() {
            Some(from_dataplane::Message::ProgramResult(result)) => {
                assert_eq!(result.number, sent);
                result
            }
            other => panic!("no result but {other:?}"),
        }
    }

    /// Says by which interfaces tunnels of other nodes come in.
    pub(crate) fn tell_underlay_devices(&mut self, interfaces: Vec<u32>) {
        self.send(to_dataplane::Message::UnderlayDevices(UnderlayDevices { interfaces, mtu: 0 }));
        match self.hear() {
            Some(from_dataplane::Message::UnderlayDevicesResult(_)) => {}
            other => panic!("no result but {other:?}"),
        }
    }

    /// Answers the refusal, empty when the port is attached.
    pub(crate) fn attach(&mut self, port: PortId, socket: &OwnedFd) -> String {
        self.attach_for(0, port, socket)
    }

    /// The same of a link with frames of at most so many bytes.
    pub(crate) fn attach_for(
        &mut self,
        frame_bytes_max: u32,
        port: PortId,
        socket: &OwnedFd,
    ) -> String {
        let message = to_dataplane::Message::AttachPort(AttachPort {
            port_id: port.to_string(),
            sequence: ATTACH_SEQUENCE,
            place: Some(place_of(port)),
            frame_bytes_max,
            ..AttachPort::default()
        });
        let bytes = frame::encode(&ToDataplane { message: Some(message) });
        let begun = send_with_fds(self.stream.as_fd(), &bytes, &[socket.as_fd()]).unwrap();
        self.stream.write_all(&bytes[begun..]).unwrap();
        self.port_result(port, PortOperation::Attach, ATTACH_SEQUENCE)
    }

    pub(crate) fn detach(&mut self, port: PortId) -> String {
        let detach = DetachPort { port_id: port.to_string(), sequence: DETACH_SEQUENCE };
        self.send(to_dataplane::Message::DetachPort(detach));
        self.port_result(port, PortOperation::Detach, DETACH_SEQUENCE)
    }

    /// The refusal in the result of this operation, which must come next.
    pub(crate) fn port_result(
        &mut self,
        port: PortId,
        expected: PortOperation,
        number: u64,
    ) -> String {
        match self.hear() {
            Some(from_dataplane::Message::PortResult(result)) => {
                let is_of = (result.operation(), result.sequence);
                assert_eq!((result.port_id, is_of), (port.to_string(), (expected, number)));
                result.refusal
            }
            other => panic!("no port result but {other:?}"),
        }
    }

    /// An attach message without the socket that belongs beside it.
    pub(crate) fn attach_nothing(&mut self, port: PortId) -> String {
        let attach = AttachPort {
            port_id: port.to_string(),
            sequence: ATTACH_SEQUENCE,
            ..AttachPort::default()
        };
        self.send(to_dataplane::Message::AttachPort(attach));
        self.port_result(port, PortOperation::Attach, ATTACH_SEQUENCE)
    }

    pub(crate) fn counters(&mut self) -> NodeCounters {
        let asked = catena_model::Question::Counters { with_interfaces: false, of: None };
        let answer = self.ask(&asked);
        let catena_model::Answer::Counters(counters) = answer else { panic!("{answer:?}") };
        *counters
    }

    /// The slices that run.
    pub(crate) fn slices(&mut self) -> Vec<SliceId> {
        let answer = self.ask(&catena_model::Question::Slices { after: None, limit: 100 });
        let catena_model::Answer::Slices(slices) = answer else { panic!("{answer:?}") };
        slices.iter().map(|slice| slice.slice).collect()
    }

    fn ask(&mut self, asked: &catena_model::Question) -> catena_model::Answer {
        let body = serde_json::to_vec(asked).unwrap();
        self.send(to_dataplane::Message::Question(Question { request: 7, body }));
        match self.hear() {
            Some(from_dataplane::Message::Answer(answer)) => {
                assert_eq!(answer.request, 7);
                serde_json::from_slice(&answer.body).unwrap()
            }
            other => panic!("no answer but {other:?}"),
        }
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }
}

//! Ports as agents attach them: what came beside the message becomes a ring of its kind, and the
//! worker gets it. Refuses to look for interfaces.

use super::super::DataplaneError;
use super::super::agent_connection::AgentConnection;
use super::super::rings::LostPort;
use super::super::segmenting_port::SegmentingPort;
use super::{Attached, Control};
use crate::engine::KernelPort;
use catena_io::{PacketRing, Port, RingConfig, TapPort, XDP_SLOTS_DEFAULT, XdpConfig, XdpPort};
use catena_model::id::PortId;
use catena_protocol::message::{self, PortKind, PortOperation, PortResult, from_dataplane};
use rustix::process::{Resource, getrlimit};
use std::os::fd::OwnedFd;

/// Socket, map and link.
const XDP_DESCRIPTORS: usize = 3;
/// Frames that may wait in each direction where memory must not be locked freely: a quarter MB for
/// a port, so that the usual 8 MB of a user are enough for thirty.
const XDP_SLOTS_BOUNDED: u32 = 32;
/// The queue whose frames are taken: the agent refuses interfaces that have others.
const XDP_QUEUE: u32 = 0;

impl Control {
    /// Answers why not.
    pub(super) fn attach(
        &mut self,
        attach: &message::AttachPort,
        agent: &mut AgentConnection,
    ) -> Result<Option<String>, DataplaneError> {
        // What came beside the message is taken even where the message is refused.
        let given = match attach.kind() {
            PortKind::PacketRing | PortKind::Tap => 1,
            PortKind::Xdp => XDP_DESCRIPTORS,
        };
        let given: Vec<OwnedFd> = (0..given).filter_map(|_| agent.take_socket()).collect();
        let Some(id) = parse_port(&attach.port_id) else {
            return Ok(Some("the port's identity cannot be read".into()));
        };
        let kernel = (attach.kernel_number > 0).then_some(KernelPort {
            number: attach.kernel_number,
            interface: attach.interface,
            has_peer: attach.has_peer,
        });
        let ring = match make(attach, given, kernel.is_some()) {
            Ok(ring) => ring,
            Err(reason) => return Ok(Some(reason)),
        };
        match self.workers.attach(id, ring, kernel)? {
            Ok(()) => {
                let message::AttachPort { sequence, place, .. } = *attach;
                self.attached.insert(id, Attached { sequence, kernel, place });
                self.darken_links();
                self.open_if_ready()?;
                Ok(None)
            }
            Err(error) => {
                self.attached.remove(&id);
                self.darken_links();
                Ok(Some(format!("its ring cannot be used: {error}")))
            }
        }
    }

    /// Answers why not.
    pub(super) fn detach(&mut self, port: &str) -> Result<Option<String>, DataplaneError> {
        let Some(id) = parse_port(port) else {
            return Ok(Some("the port's identity cannot be read".into()));
        };
        self.attached.remove(&id);
        self.darken_links();
        let ring = self.workers.detach(id)?;
        Ok(ring.is_none().then(|| "the port is not attached".into()))
    }

    pub(super) fn port_lost(&mut self, lost: LostPort) -> Result<(), DataplaneError> {
        let LostPort { id, errno, ring } = lost;
        drop(ring);
        // Another may have been attached in its place meanwhile: the agent is told that it has none.
        drop(self.workers.detach(id)?);
        let sequence = self.attached.remove(&id).map_or(0, |port| port.sequence);
        self.darken_links();
        let error = std::io::Error::from_raw_os_error(errno);
        let reason = format!("its interface is gone ({error})");
        tracing::info!(port = %id, "port detached: {reason}");
        let operation = PortOperation::InterfaceGone;
        let message = port_result(id.to_string(), Some(reason), operation, sequence);
        if let Some(agent) = &mut self.agent
            && let Err(end) = agent.send(message)
        {
            tracing::info!("{end}; the data plane goes on");
            self.agent = None;
        }
        Ok(())
    }
}

/// A port of the kind that was asked for; why not, for people.
fn make(
    attach: &message::AttachPort,
    given: Vec<OwnedFd>,
    only_sends: bool,
) -> Result<Box<dyn Port>, String> {
    let refused = |error| format!("its ring cannot be made: {error}");
    let mut given = given.into_iter();
    match (attach.kind(), given.next(), given.next(), given.next()) {
        (PortKind::PacketRing, Some(socket), ..) => {
            let size = match (only_sends, attach.frame_bytes_max) {
                (true, _) => RingConfig::SENDING,
                (false, 0) => RingConfig::default(),
                (false, longest) => RingConfig::of_frames(longest),
            };
            Ok(Box::new(PacketRing::map(socket, size).map_err(refused)?))
        }
        (PortKind::Tap, Some(file), ..) => Ok(Box::new(TapPort::new(file))),
        (PortKind::Xdp, Some(socket), Some(map), Some(link)) => {
            let (interface, slots) = (attach.interface, xdp_slots());
            let config = XdpConfig { interface, queue: XDP_QUEUE, slots };
            let port = XdpPort::bind(socket, map, link, config).map_err(refused)?;
            let how = if port.is_zero_copy() { "zero-copy" } else { "copy" };
            tracing::info!(port = attach.port_id, slots, "frames by AF_XDP, {how}");
            Ok(Box::new(SegmentingPort::new(port)))
        }
        _ => Err("its descriptors did not come beside the message".into()),
    }
}

fn xdp_slots() -> u32 {
    match getrlimit(Resource::Memlock).current {
        None => XDP_SLOTS_DEFAULT,
        Some(_) => XDP_SLOTS_BOUNDED,
    }
}

pub(super) fn port_result(
    port_id: String,
    refusal: Option<String>,
    operation: PortOperation,
    sequence: u64,
) -> from_dataplane::Message {
    let (refusal, operation) = (refusal.unwrap_or_default(), operation.into());
    from_dataplane::Message::PortResult(PortResult { port_id, refusal, operation, sequence })
}

pub(super) fn parse_port(text: &str) -> Option<PortId> {
    serde_json::from_value(serde_json::Value::String(text.into())).ok()
}

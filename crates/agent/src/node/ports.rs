//! Ports between the running program, the data plane and the interfaces: who is attached, who is given
//! back and when. Refuses to know how an interface is found.

use super::Node;
use crate::holdings::Place;
use crate::interfaces::{Found, Opened, Seen};
use crate::links::Links;
use crate::port_io::Given;
use crate::ports::PortEdit;
use catena_model::entry::Change;
use catena_model::id::PortId;
use catena_model::limits::{NODE_LINKS_MAX, NODE_PORTS_MAX};
use catena_model::program::PortEntry;
use catena_protocol::message::{
    AttachPort, DetachPort, PortOperation, PortResult, State, to_dataplane,
};
use std::collections::BTreeMap;
use std::time::Instant;

/// All ports of a node may go, and as many others come; so may its links, and the node itself may be another.
const EDITS_MAX: usize = 2 * (NODE_PORTS_MAX + NODE_LINKS_MAX) + 1;

/// The ports that a data plane has, and their interfaces as far as it knows them.
type AttachedPorts = BTreeMap<PortId, Option<Place>>;

/// A port that the data plane gives back.
pub(super) enum Leaving {
    /// One of a program.
    Port(PortEntry),
    /// One that the data plane had already, with an interface that is not the port's.
    Found(PortId),
}

impl Leaving {
    fn id(&self) -> PortId {
        match self {
            Self::Port(entry) => entry.id,
            Self::Found(id) => *id,
        }
    }
}

/// What a data plane of this state has.
fn attached(state: &State) -> AttachedPorts {
    let port = |text: &String| {
        let place = state.places.get(text).map(|place| Place::from(*place));
        Some((parse_port(text)?, place))
    };
    state.attached_ports.iter().filter_map(port).collect()
}

/// Edits of the program, as far as a data plane tells them.
pub(super) fn read(bytes: &[u8]) -> Vec<Change> {
    Change::read_all(bytes, EDITS_MAX).unwrap_or_else(|error| {
        tracing::warn!("what the data plane says of its ports is not known: {error}");
        Vec::new()
    })
}

/// Those of ports, and of links, which a data plane is given in the same way.
pub(super) fn edits(changes: Vec<Change>) -> Vec<PortEdit> {
    let links = Links::port_edits(&changes);
    let port = |change| match change {
        Change::Port(id, edit) => Some((id, edit.entry().cloned())),
        _ => None,
    };
    changes.into_iter().filter_map(port).chain(links).collect()
}

pub(crate) fn parse_port(text: &str) -> Option<PortId> {
    text.parse().ok().map(PortId)
}

impl Node {
    /// Brings the ports to those of a data plane that just answered.
    pub(super) fn take_over_ports(&mut self, state: &State) {
        let attached = attached(state);
        let mut leaving: Vec<_> = std::mem::take(&mut self.leaving).into_values().collect();
        let changes = read(&state.ports);
        let mut links = Links::default();
        links.edit(&changes);
        self.programmed.send_replace(links);
        for entry in self.ports.replace(edits(changes), Instant::now()) {
            self.interfaces.leave(entry.id);
            leaving.push(Leaving::Port(entry));
        }
        let is_stray = |id| attached.contains_key(&id) && self.ports.entry(id).is_none();
        let (again, over): (Vec<_>, Vec<_>) =
            leaving.into_iter().partition(|leaving| is_stray(leaving.id()));
        let is_left = |id: &PortId| again.iter().any(|leaving| leaving.id() == *id);
        self.adopt(attached.into_iter().filter(|(id, _)| !is_left(id)).collect());
        again.into_iter().for_each(|leaving| self.detach(leaving));
        over.into_iter().for_each(|leaving| self.release(leaving));
    }

    /// Keeps those of these ports that are of the program and have their own interfaces, as far as
    /// that is known at once; the others are given back.
    fn adopt(&mut self, attached: AttachedPorts) {
        let now = Instant::now();
        self.ports.adopt(|id| attached.contains_key(&id), now);
        let found = |(id, place)| Found { id, place, entry: self.ports.entry(id).cloned() };
        let found: Vec<Found> = attached.into_iter().map(found).collect();
        let strays = found.iter().filter(|found| found.entry.is_none());
        let strays: Vec<PortId> = strays.map(|found| found.id).collect();
        if !self.interfaces.adopt(found) {
            // They are attached anew.
            self.ports.adopt(|_| false, now);
        }
        strays.into_iter().for_each(|id| self.detach(Leaving::Found(id)));
    }

    pub(super) fn take_seen(&mut self, seen: Seen) {
        match seen {
            Seen::Opened(opened) => self.take_opened(opened),
            Seen::Found { entry, is_its_own } => self.take_found(&entry, is_its_own),
        }
    }

    /// What became of it meanwhile decides about an order that is no longer the last.
    fn take_found(&mut self, entry: &PortEntry, is_its_own: bool) {
        if !self.ports.is_wanted(entry) || !self.ports.is_current(entry.id, 0) {
            return;
        }
        if is_its_own {
            return self.ports.attached(entry.id);
        }
        tracing::warn!(port = entry.name, "the data plane has another interface for it");
        self.ports.begin_again(entry.id, Instant::now());
        self.detach(Leaving::Found(entry.id));
    }

    fn take_opened(&mut self, opened: Opened) {
        let Opened { entry, given } = opened;
        if !self.ports.is_wanted(&entry) {
            return self.release(Leaving::Port(entry));
        }
        match given {
            Ok((place, given)) => {
                let Given { kind, descriptors, interface, frame_bytes_max, known, .. } = given;
                self.sequence += 1;
                self.ports.sent(entry.id, self.sequence);
                let (port_id, sequence) = (entry.id.to_string(), self.sequence);
                let attach = AttachPort {
                    port_id,
                    sequence,
                    kernel_number: known.map_or(0, |known| u32::from(known.number)),
                    interface,
                    has_peer: known.is_some_and(|known| known.has_peer),
                    kind: kind.into(),
                    place: Some(place.into()),
                    frame_bytes_max,
                };
                self.send(to_dataplane::Message::AttachPort(attach), descriptors);
            }
            Err(reason) => self.ports.missing(entry.id, &reason, Instant::now()),
        }
    }

    pub(super) fn take_port_result(&mut self, result: &PortResult) {
        let Some(id) = parse_port(&result.port_id) else { return };
        match result.operation() {
            PortOperation::Attach | PortOperation::InterfaceGone => {
                // Of a port that left and came back meanwhile, only the last order counts.
                if !self.ports.is_current(id, result.sequence) {
                    return;
                }
                if result.refusal.is_empty() {
                    self.ports.attached(id);
                } else {
                    self.ports.missing(id, &result.refusal, Instant::now());
                }
            }
            PortOperation::Detach => {
                if let Some(leaving) = self.leaving.remove(&result.sequence) {
                    self.release(leaving);
                }
            }
            // A kind that this version does not know.
            PortOperation::Unknown => {}
        }
    }

    /// Lets the data plane give a port back, and the host its interface after that.
    pub(super) fn detach(&mut self, leaving: Leaving) {
        self.sequence += 1;
        let (id, sequence) = (leaving.id(), self.sequence);
        self.interfaces.leave(id);
        self.leaving.insert(sequence, leaving);
        let detach = DetachPort { port_id: id.to_string(), sequence };
        self.send(to_dataplane::Message::DetachPort(detach), Vec::new());
    }

    /// Gives an interface back to the host, unless the program wants the port again.
    pub(super) fn release(&self, leaving: Leaving) {
        match leaving {
            Leaving::Port(entry) if self.ports.is_wanted(&entry) => {}
            Leaving::Port(entry) => self.interfaces.release(entry),
            Leaving::Found(id) => self.interfaces.give_back(id),
        }
    }
}

//! What travels between processes, and what becomes of it. Knows framing and connections; what a
//! message means is decided by the process that gets it.

use crate::controller::ConnectionId;
use crate::network::{End, Envelope, Line, SILENCE_MIN};
use crate::world::{Event, World};
use catena_protocol::frame::{FrameReader, encode};
use catena_protocol::message::{
    FromAgent, FromDataplane, ToAgent, ToDataplane, from_dataplane, to_agent, to_dataplane,
};
use std::time::Duration;

impl World {
    pub(crate) fn send(&mut self, id: ConnectionId, to: End, envelope: Envelope) {
        let Some(connection) = self.network.get(id) else { return };
        let (line, node) = (connection.line, connection.node);
        let wait = match line {
            Line::Link => self.wait_us(10, 200),
            // Now and then a segment is sent again.
            Line::Session if self.random.chance(30) => self.wait_us(5_000, 400_000),
            Line::Session => self.wait_us(50, 3_000),
        };
        let at = self.now + wait;
        let Some(arrival) = self.network.arrival(id, to, at) else { return };
        if line == Line::Session && self.network.is_cut(node, to) {
            self.hold(id, to, envelope);
        } else {
            self.at(arrival, Event::Deliver { connection: id, to, envelope });
        }
    }

    fn hold(&mut self, id: ConnectionId, to: End, envelope: Envelope) {
        if let Some(connection) = self.network.get_mut(id) {
            connection.held.entry(to).or_default().push_back(envelope);
        }
    }

    pub(crate) fn deliver(&mut self, id: ConnectionId, to: End, envelope: Envelope) {
        let Some(connection) = self.network.get(id) else { return };
        let (line, node) = (connection.line, connection.node);
        if connection.is_broken {
            return;
        }
        let is_held = connection.held.get(&to).is_some_and(|held| !held.is_empty());
        if line == Line::Session && (is_held || self.network.is_cut(node, to)) {
            return self.hold(id, to, envelope);
        }
        if !connection.open.contains(&to) {
            // Nobody is there any more: the sender hears of it.
            if matches!(envelope, Envelope::Bytes(_)) {
                self.send(id, to.opposite(), Envelope::Close);
            }
            return;
        }
        if line == Line::Session && to == End::Other && self.now < self.busy_until {
            // The controller waits for its disk.
            let event = Event::Deliver { connection: id, to, envelope };
            return self.at(self.busy_until, event);
        }
        match envelope {
            Envelope::Close => self.close(id, to),
            Envelope::Bytes(bytes) => self.hear(id, line, node, to, &bytes),
        }
    }

    fn hear(&mut self, id: ConnectionId, line: Line, node: usize, to: End, bytes: &[u8]) {
        let mut frames = FrameReader::default();
        frames.push(bytes);
        match (line, to) {
            (Line::Session, End::Other) => {
                if let Ok(Some(message)) = frames.next_message::<FromAgent>() {
                    self.controller_hears(id, message);
                }
            }
            (Line::Session, End::Agent) => {
                if let Ok(Some(ToAgent { message: Some(message) })) = frames.next_message() {
                    self.agent_hears(id, node, message);
                }
            }
            (Line::Link, End::Other) => {
                if let Ok(Some(ToDataplane { message: Some(message) })) = frames.next_message() {
                    self.dataplane_hears(id, node, message);
                }
            }
            (Line::Link, End::Agent) => {
                if let Ok(Some(FromDataplane { message: Some(message) })) = frames.next_message() {
                    self.agent_hears_dataplane(id, node, message);
                }
            }
        }
    }

    /// One end closes; its process learns of it, the peer hears of it if the network lets it.
    pub(crate) fn close(&mut self, id: ConnectionId, end: End) {
        let Some(connection) = self.network.get(id) else { return };
        let (line, node) = (connection.line, connection.node);
        if !connection.open.contains(&end) {
            return;
        }
        self.send(id, end.opposite(), Envelope::Close);
        self.network.close(id, end);
        match (line, end) {
            (Line::Session, End::Agent) => self.session_lost(id, node),
            (Line::Session, End::Other) => self.controller_loses(id),
            (Line::Link, End::Agent) => self.link_lost(id, node),
            (Line::Link, End::Other) => {}
        }
    }

    /// Both ends find out, each in its time, that nothing gets through.
    pub(crate) fn expect_silence(&mut self, id: ConnectionId) {
        for end in [End::Agent, End::Other] {
            let wait = SILENCE_MIN + self.wait_us(0, 700_000);
            self.after(wait, Event::Silence { connection: id, end });
        }
    }

    pub(crate) fn silence(&mut self, id: ConnectionId, end: End) {
        let Some(connection) = self.network.get(id) else { return };
        let node = connection.node;
        let is_silent = connection.is_broken
            || self.network.is_any_way_cut(node)
            || !connection.open.contains(&end.opposite());
        if connection.open.contains(&end) && is_silent {
            self.trace.note(format_args!("session {id} of {}: {end:?} gives up", self.name(node)));
            self.close(id, end);
        }
    }

    /// What a partition held back goes on its way.
    pub(crate) fn release(&mut self, node: usize) {
        for id in self.network.of(Line::Session, Some(node)) {
            for to in [End::Agent, End::Other] {
                let Some(connection) = self.network.get_mut(id) else { continue };
                let held = connection.held.remove(&to).unwrap_or_default();
                for envelope in held {
                    self.send(id, to, envelope);
                }
            }
        }
    }

    pub(crate) fn tell_agent(&mut self, id: ConnectionId, message: &ToAgent) {
        self.send(id, End::Agent, Envelope::Bytes(encode(message)));
    }

    pub(crate) fn tell_controller(&mut self, id: ConnectionId, message: &FromAgent) {
        self.send(id, End::Other, Envelope::Bytes(encode(message)));
    }

    pub(crate) fn order_dataplane(&mut self, id: ConnectionId, message: to_dataplane::Message) {
        let message = ToDataplane { message: Some(message) };
        self.send(id, End::Other, Envelope::Bytes(encode(&message)));
    }

    pub(crate) fn answer_agent(&mut self, id: ConnectionId, message: from_dataplane::Message) {
        let message = FromDataplane { message: Some(message) };
        self.send(id, End::Agent, Envelope::Bytes(encode(&message)));
    }

    /// The name of a node, for the trace.
    pub(crate) fn name(&self, node: usize) -> String {
        self.nodes.get(node).map_or_else(String::new, |node| node.name.to_string())
    }
}

/// What a message to an agent is, for the trace.
pub(crate) fn words(message: &ToAgent) -> String {
    match &message.message {
        Some(to_agent::Message::Welcome(_)) => "welcome".into(),
        Some(to_agent::Message::Delta(delta)) => format!("program {}", delta.number),
        Some(to_agent::Message::Question(question)) => format!("question {}", question.request),
        Some(to_agent::Message::FlowAnswers(answers)) => {
            format!("answers for {} flows", answers.flows.len())
        }
        Some(to_agent::Message::Instances(told)) => {
            format!("{} instances", told.instances.len())
        }
        None => "nothing".into(),
    }
}

/// A wait between two attempts.
pub(crate) const AGAIN: (u64, u64) = (Duration::from_millis(100).as_micros() as u64, 400_000);

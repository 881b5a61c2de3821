//! Agents and data planes as processes: starting, finding each other, dialling, dying. What they
//! say is theirs.

use crate::agent::{Agent, AgentEffect};
use crate::controller::ConnectionId;
use crate::dataplane::Dataplane;
use crate::delivery::AGAIN;
use crate::disk::Death;
use crate::network::{End, Envelope, Line};
use crate::topology;
use crate::world::{Event, World};
use catena_model::capacity::Capacity;
use catena_protocol::message::{StateRequest, from_dataplane, to_agent, to_dataplane};
use catena_protocol::session;

impl World {
    pub(crate) fn start_agent(&mut self, index: usize) {
        let planted = self.config.planted;
        let Some(node) = self.nodes.get_mut(index) else { return };
        if node.agent.is_some() {
            return;
        }
        node.agent_number += 1;
        node.agent = Some(Agent::new(node.name.clone(), !node.plugs.is_empty(), planted));
        node.wake = None;
        let (name, agent) = (node.name.clone(), node.agent_number);
        self.trace.note(format_args!("{name}: agent starts"));
        self.after_ms(1, Event::Link { node: index, agent });
        self.after_ms(5, Event::Dial { node: index, agent });
    }

    fn has_agent(&self, index: usize, number: u32) -> bool {
        self.nodes
            .get(index)
            .is_some_and(|node| node.agent.is_some() && node.agent_number == number)
    }

    // ----- the data plane -----

    pub(crate) fn link(&mut self, index: usize, agent: u32) {
        if !self.has_agent(index, agent) {
            return;
        }
        let planted = self.config.planted;
        let Some(node) = self.nodes.get_mut(index) else { return };
        if node.link.is_some() {
            return;
        }
        if node.dataplane.is_none() {
            node.dataplane_number += 1;
            let number = node.dataplane_number;
            node.disk.is_lying = planted == crate::Planted::AcknowledgesBeforePersisting;
            if planted != crate::Planted::ResumesUnsynced {
                node.disk.settle();
            }
            let dataplane = Dataplane::start(node.name.clone(), number, &mut node.disk, planted);
            let running = dataplane.number();
            node.dataplane = Some(dataplane);
            let name = node.name.clone();
            self.trace.note(format_args!("{name}: data plane starts with program {running}"));
            self.check_program(index);
        }
        let id = self.network.open(index, Line::Link);
        if let Some(node) = self.nodes.get_mut(index) {
            node.link = Some(id);
        }
        self.order_dataplane(id, to_dataplane::Message::StateRequest(StateRequest {}));
    }

    pub(crate) fn dataplane_hears(
        &mut self,
        id: ConnectionId,
        index: usize,
        message: to_dataplane::Message,
    ) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        let Some(dataplane) = &mut node.dataplane else { return };
        let before = dataplane.number();
        let answer = dataplane.answer(message, &mut node.disk, &node.interfaces);
        let (name, number) = (node.name.clone(), dataplane.number());
        if number != before {
            self.trace.note(format_args!("{name}: runs program {number}"));
            self.check_program(index);
        }
        let Some(answer) = answer else {
            self.trace.note(format_args!("{name}: data plane dies at its disk"));
            let death = if self.random.chance(500) { Death::PowerCut } else { Death::Killed };
            return match death {
                Death::Killed => self.kill_dataplane(index, death),
                Death::PowerCut => self.cut_power(index),
            };
        };
        if let from_dataplane::Message::ProgramResult(result) = &answer {
            if result.refusal.is_empty() {
                self.checks.acknowledged(index, result.number);
            } else {
                self.trace
                    .note(format_args!("{name}: refuses {}: {}", result.number, result.refusal));
            }
        }
        self.answer_agent(id, answer);
    }

    pub(crate) fn agent_hears_dataplane(
        &mut self,
        id: ConnectionId,
        index: usize,
        message: from_dataplane::Message,
    ) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(index) else { return };
        if node.link != Some(id) {
            return;
        }
        let Some(agent) = &mut node.agent else { return };
        match message {
            from_dataplane::Message::State(state) if !agent.is_linked() => {
                agent.link_up(&state, now);
            }
            message if agent.is_linked() => agent.hear_dataplane(message, now),
            _ => {}
        }
        self.advance_agent(index);
    }

    pub(crate) fn link_lost(&mut self, id: ConnectionId, index: usize) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        if node.link != Some(id) {
            return;
        }
        node.link = None;
        let number = node.agent_number;
        if let Some(agent) = &mut node.agent {
            agent.link_down();
            let wait = self.wait_us(AGAIN.0, AGAIN.1);
            self.after(wait, Event::Link { node: index, agent: number });
            self.advance_agent(index);
        }
    }

    // ----- the controller -----

    pub(crate) fn dial(&mut self, index: usize, number: u32) {
        if !self.has_agent(index, number) {
            return;
        }
        let again = self.wait_us(AGAIN.0, AGAIN.1);
        let Some(node) = self.nodes.get(index) else { return };
        let Some(agent) = &node.agent else { return };
        if node.session.is_some() {
            return;
        }
        let is_reachable = self.controller.is_some() && !self.network.is_any_way_cut(index);
        let Some((running, links)) = agent.announced().filter(|_| is_reachable) else {
            return self.after(again, Event::Dial { node: index, agent: number });
        };
        let (name, role) = (node.name.clone(), node.role);
        let underlay = topology::underlay(index);
        let place = (underlay.address.to_string(), underlay.mtu.into());
        let hello =
            session::hello(name.as_str(), "", place, role, (links, &Capacity::default()), running);
        let id = self.network.open(index, Line::Session);
        if let Some(node) = self.nodes.get_mut(index) {
            node.session = Some(id);
            node.is_welcome = false;
        }
        let number = running.number;
        self.trace.note(format_args!("{name}: dials, session {id}, running {number}"));
        if let Some(controller) = &mut self.controller {
            controller.connect(id, name);
        }
        self.tell_controller(id, &hello);
        // Who is not welcomed gives up.
        self.after_ms(5_000, Event::Silence { connection: id, end: End::Agent });
    }

    pub(crate) fn agent_hears(
        &mut self,
        id: ConnectionId,
        index: usize,
        message: to_agent::Message,
    ) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(index) else { return };
        if node.session != Some(id) {
            return;
        }
        let Some(agent) = &mut node.agent else { return };
        if matches!(message, to_agent::Message::Welcome(_)) {
            node.is_welcome = true;
            agent.session_up();
        } else {
            agent.hear(message, now);
        }
        self.advance_agent(index);
    }

    pub(crate) fn session_lost(&mut self, id: ConnectionId, index: usize) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        if node.session != Some(id) {
            return;
        }
        node.session = None;
        let number = node.agent_number;
        if let Some(agent) = &mut node.agent {
            agent.session_down();
            let wait = self.wait_us(AGAIN.0, AGAIN.1);
            self.after(wait, Event::Dial { node: index, agent: number });
        }
    }

    // ----- the agent goes on -----

    pub(crate) fn wake_agent(&mut self, index: usize, number: u32) {
        if self.has_agent(index, number) {
            if let Some(node) = self.nodes.get_mut(index) {
                node.wake = None;
            }
            self.advance_agent(index);
        }
    }

    pub(crate) fn advance_agent(&mut self, index: usize) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(index) else { return };
        let Some(agent) = &mut node.agent else { return };
        let effects = agent.advance(now, &node.interfaces);
        let (session, link) = (node.session, node.link);
        let due = agent.next_due(now).filter(|due| node.wake.is_none_or(|wake| *due < wake));
        if let Some(due) = due {
            node.wake = Some(due);
            let event = Event::Advance { node: index, agent: node.agent_number };
            self.at(due.max(now), event);
        }
        for effect in effects {
            match (effect, session, link) {
                (AgentEffect::Tell(message), Some(id), _) => self.tell_controller(id, &message),
                (AgentEffect::Order(message), _, Some(id)) => self.order_dataplane(id, message),
                (AgentEffect::IntroduceAnew, Some(id), _) => self.close(id, End::Agent),
                _ => {}
            }
        }
    }

    // ----- deaths -----

    pub(crate) fn kill_agent(&mut self, index: usize) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        if node.agent.take().is_none() {
            return;
        }
        let (session, link) = (node.session.take(), node.link.take());
        for id in session.into_iter().chain(link) {
            self.send(id, End::Other, Envelope::Close);
            self.network.close(id, End::Agent);
        }
        let wait = self.wait_us(20_000, 1_500_000);
        self.after(wait, Event::StartAgent(index));
    }

    pub(crate) fn kill_dataplane(&mut self, index: usize, death: Death) {
        let Some(node) = self.nodes.get_mut(index) else { return };
        if node.dataplane.take().is_none() {
            return;
        }
        node.disk.crash(death, &mut self.random);
        // What it held, and what came back to proxies that it had, is gone with it.
        self.packets.retain(|_, packet| !packet.place.is_function() || packet.node != index);
        for id in self.network.of(Line::Link, Some(index)) {
            self.send(id, End::Agent, Envelope::Close);
            self.network.close(id, End::Other);
        }
    }

    /// The whole host: nobody says farewell.
    pub(crate) fn cut_power(&mut self, index: usize) {
        for id in self.network.of(Line::Session, Some(index)) {
            if let Some(connection) = self.network.get_mut(id) {
                connection.is_broken = true;
            }
            self.expect_silence(id);
        }
        self.kill_agent(index);
        self.kill_dataplane(index, Death::PowerCut);
        for id in self.network.of(Line::Link, Some(index)) {
            self.network.close(id, End::Other);
            self.network.close(id, End::Agent);
        }
    }
}

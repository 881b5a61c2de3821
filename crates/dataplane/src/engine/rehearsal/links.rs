//! A rehearsed packet on links: what brings one there, and what goes into the next cable. Knows numbers of ports;
//! refuses to know where cables lead.

use super::{Left, Rehearsal, Way};
use crate::engine::Engine;
use crate::engine::action::output::Output;
use crate::engine::observe::render::Event;
use crate::engine::packet::{Arrived, Packet, PortSlot};
use catena_model::DropReason;
use catena_model::explain::{Departure, DepartureBy, ExplainAt, FrameBytes};
use catena_model::topology::PortNumber;

impl Rehearsal {
    /// Takes what a link brought on its way; answers what comes out here, and what no link brought.
    pub(super) fn pass_on(
        &mut self,
        packet: Packet,
        live: &Engine,
        refuses: &dyn Fn(Way) -> Option<DropReason>,
    ) -> Option<Packet> {
        if !matches!(self.request.at, ExplainAt::Link(_)) {
            return Some(packet);
        }
        let (mut input, mut out) = (vec![packet], Output::default());
        let Engine { transit, slots, counters, .. } = &mut self.engine;
        let next = input.first().and_then(|packet| transit.next_header(packet.buffer.bytes()));
        let written_to = next.map(|next| next.end.clone());
        let ended = transit.pass_on(&mut input, (slots, counters), &mut self.pool, &mut out);
        if let Some(packet) = input.pop() {
            if let Arrived::AtExit(port) = packet.arrived {
                let frame = packet.buffer.bytes().to_vec();
                self.story.push(Event::CameOut { port, frame });
            }
            return Some(packet);
        }
        let left = Left::of(out, &mut self.engine, &mut self.pool);
        for (slot, frame) in left.frames {
            if let Some(by) = self.link_at(slot) {
                let frame_told = frame.clone();
                self.story.push(Event::PassedOn { by, frame: frame_told, written_to });
                self.depart_by(by, (0, frame), live, refuses);
                return None;
            }
        }
        if let Some(reason) = ended {
            self.end(0, reason);
        }
        None
    }

    fn link_at(&self, slot: PortSlot) -> Option<PortNumber> {
        let mut links = self.tables().exits.links().map(|(number, _)| number);
        links.find(|number| self.engine.slots.of_port(number.link_id()) == Some(slot))
    }

    /// A frame leaves by a link, if the live engine's shell would send it.
    pub(super) fn depart_by(
        &mut self,
        link: PortNumber,
        (copy, frame): (u16, Vec<u8>),
        live: &Engine,
        refuses: &dyn Fn(Way) -> Option<DropReason>,
    ) {
        let way = live.slots.of_port(link.link_id()).map(Way::Port);
        match way.and_then(refuses) {
            Some(reason) => self.end(copy, reason),
            None => {
                let (by, payload) = (DepartureBy::Link(link), FrameBytes(frame));
                self.departures.push(Departure { copy, by, payload });
            }
        }
    }
}

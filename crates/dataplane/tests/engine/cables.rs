//! Cables between the nodes of a rig. Knows which link is at the other end; refuses to look into frames.

use crate::rig::{Happening, Rig, Seen};
use crate::town::{link_name, node_name};
use catena_dataplane::engine::PortSlot;
use catena_io::Offload;
use catena_model::topology::PortNumber;

/// A frame on a slow cable.
pub(crate) struct UnderWay {
    at_ns: u64,
    node: usize,
    slot: PortSlot,
    seen: Seen,
}

impl Rig {
    /// Brings a frame to the other end of the cable in this slot of a node; false: there is none.
    pub(crate) fn crosses_cable(&mut self, from: usize, slot: PortSlot, seen: &Seen) -> bool {
        let links = self.town.links(from);
        let found = links.iter().find(|(number, _)| self.link_slot(from, *number) == Some(slot));
        let Some((number, (node, port))) = found.copied() else { return false };
        let (sender, bytes) = (node_name(from).to_string(), seen.bytes.clone());
        self.log.push(Happening::Frame { port: sender, bytes });
        self.seen.entry(link_name(from, number)).or_default().push(seen.clone());
        if node < self.nodes.len()
            && !self.town.cut.contains(&(from, number))
            && let Some(slot) = self.link_slot(node, port)
        {
            match self.town.slow.get(&(from, number)) {
                None => self.nodes[node].queue(slot, &seen.bytes, seen.offload),
                Some(milliseconds) => {
                    let at_ns = self.now_ns + milliseconds * 1_000_000;
                    self.under_way.push(UnderWay { at_ns, node, slot, seen: seen.clone() });
                }
            }
        }
        true
    }

    /// Brings what was on slow cables for long enough.
    pub(crate) fn arrive(&mut self) {
        let now_ns = self.now_ns;
        for arrived in self.under_way.extract_if(.., |one| one.at_ns <= now_ns) {
            let UnderWay { node, slot, seen, .. } = arrived;
            self.nodes[node].queue(slot, &seen.bytes, seen.offload);
        }
    }

    pub(crate) fn link_slot(&self, node: usize, number: u8) -> Option<PortSlot> {
        self.nodes[node].slot_of(PortNumber::new(number).unwrap().link_id())
    }

    /// Brings frames to a link of a node, and lets everything happen.
    pub(crate) fn bring(&mut self, node: usize, number: u8, frames: &[Vec<u8>]) {
        let slot = self.link_slot(node, number).expect("the node has the link");
        for frame in frames {
            self.nodes[node].queue(slot, frame, Offload::default());
        }
        self.run();
    }

    /// Puts a frame into the inbox of a slot that may have no port.
    pub(crate) fn queue_at_slot(&mut self, node: usize, slot: PortSlot, bytes: &[u8]) {
        self.nodes[node].queue(slot, bytes, Offload::default());
    }
}

//! Tells apart what comes back from a function that two versions of a path share: each wire packet
//! gets the visit that its bytes, or its order, say. Knows when a super-frame must be cut, because
//! the function has joined packets of both versions; refuses to know how visits are remembered.

use super::proxy;
use crate::engine::action::context::Context;
use crate::engine::encap;
use crate::engine::packet::digests::Digests;
use crate::engine::packet::index::PortIndex;
use crate::engine::packet::parse;
use crate::engine::packet::segments::Segments;
use crate::engine::state::proxy_flows::{ProxyFlows, Recalled, Whose};
use crate::engine::state::{network_mac, rewrite};
use crate::engine::vector::{Step, Work};
use catena_io::Offload;
use catena_model::DropReason;
use catena_model::account::Volume;

/// Working memory.
#[derive(Default)]
pub(crate) struct SharedFunctions {
    digests: Digests,
    recalled: Vec<Recalled>,
    pieces: Vec<Work>,
}

impl SharedFunctions {
    /// Puts the packets that are known one by one back on their paths; leaves all others alone.
    pub(crate) fn tell(
        &mut self,
        vector: &mut Vec<Work>,
        memory: &mut ProxyFlows,
        context: &mut Context<'_>,
    ) {
        let mut index = 0;
        while index < vector.len() {
            index += self.tell_one(vector, index, memory, context);
        }
    }

    /// How many packets of the vector it has become.
    fn tell_one(
        &mut self,
        vector: &mut Vec<Work>,
        index: usize,
        memory: &mut ProxyFlows,
        context: &mut Context<'_>,
    ) -> usize {
        let work = &mut vector[index];
        let Step::FromFunction(port) = work.step else { return 1 };
        let flow = work.view.flow.filter(|_| encap::by_ether_type(work.view.ethertype).is_none());
        let network = network_mac::told_by(context.tables.port(port), work.view.source);
        let Some(told) = network.zip(flow) else { return 1 };
        let egress = context.slots.serial(port);
        let user = work.user.identity();
        let mut keys = rewrite::keys(context.tables.port(port), egress, told, user);
        let known = keys.find_map(|key| match memory.whose(context.now_ns, key) {
            Whose::Known(key) if memory.knows_each(&key) => Some(key),
            _ => None,
        });
        let Some(key) = known else { return 1 };
        self.recalled.clear();
        for digest in self.digests.of(&work.buffer, &work.view) {
            let is_alive = |visit: &_| proxy::renewed(visit, context).is_some();
            // A flow that is not known any more is for the others to judge.
            let Some(recalled) = memory.recall_one(context.now_ns, key, *digest, is_alive) else {
                return 1;
            };
            self.recalled.push(recalled);
        }
        let Some(first) = self.recalled.first() else { return 1 };
        if self.recalled.iter().all(|other| other.visit.is_same(&first.visit)) {
            proxy::resume(work, port, &self.recalled, context);
            return 1;
        }
        self.cut(vector, index, port, context)
    }

    /// Puts the segments of a super-frame in its place, each on its own path.
    fn cut(
        &mut self,
        vector: &mut Vec<Work>,
        index: usize,
        port: PortIndex,
        context: &mut Context<'_>,
    ) -> usize {
        let whole = &mut vector[index];
        let segments = match Segments::of(&mut whole.buffer, &whole.view) {
            Ok(segments) => segments,
            Err(reason) => {
                whole.drop(reason);
                return 1;
            }
        };
        for (number, recalled) in (0..segments.count()).zip(&self.recalled) {
            match piece(whole, &segments, number, context) {
                Ok(mut piece) => {
                    proxy::resume(&mut piece, port, std::slice::from_ref(recalled), context);
                    self.pieces.push(piece);
                }
                Err(reason) => context.counters.dropped(whole.owner, None, reason, 1),
            }
        }
        let count = self.pieces.len();
        let replaced = vector.splice(index..=index, self.pieces.drain(..));
        for whole in replaced {
            context.pool.put(whole.buffer);
        }
        count
    }
}

fn piece(
    whole: &Work,
    segments: &Segments,
    number: u32,
    context: &mut Context<'_>,
) -> Result<Work, DropReason> {
    let mut buffer = context.take_buffer(whole.owner).ok_or(DropReason::BuffersExhausted)?;
    if !segments.append_to(whole.buffer.bytes(), number, &mut buffer) {
        context.pool.put(buffer);
        return Err(DropReason::BuffersExhausted);
    }
    buffer.offload = Offload::default();
    match parse::parse_frame(buffer.bytes()) {
        Ok(view) => {
            let volume = Volume { packets: 1, bytes: segments.len(number) as u64 };
            Ok(Work { buffer, view, volume, ..*whole })
        }
        Err(reason) => {
            context.pool.put(buffer);
            Err(reason)
        }
    }
}

//! Tells apart what comes back from a function that two versions of a path share: each wire packet
//! gets the visit that its bytes, or its order, say. Knows when a super-frame must be cut, because
//! the function has joined packets of both versions; refuses to know how visits are remembered.

use super::{proxy, segmentation};
use crate::engine::action::context::Context;
use crate::engine::encap;
use crate::engine::packet::digests::Digests;
use crate::engine::state::proxy_flows::{ProxyFlows, Recalled, Whose};
use crate::engine::state::{network_mac, rewrite};
use crate::engine::vector::{Step, Work};

/// Working memory.
#[derive(Debug, Default)]
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
        if self.recalled.iter().all(|other| other.visit.is_one(&first.visit)) {
            if let Some(local) = proxy::resume(work, port, &self.recalled, context) {
                proxy::time(work, (&key, &first.visit), local, memory, context);
            }
            return 1;
        }
        let Self { recalled, pieces, .. } = self;
        segmentation::segment(vector, index, pieces, context, |piece, number, context| {
            if let Some(one) = recalled.get(number) {
                proxy::resume(piece, port, std::slice::from_ref(one), context);
            }
        })
    }
}

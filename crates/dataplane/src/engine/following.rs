//! A packet that somebody follows passes the stages alone, with somebody listening. Refuses to stop, change
//! or count it.

use crate::engine::action::effects::Trace;
use crate::engine::action::output::Output;
use crate::engine::observe::follows::Sought;
use crate::engine::observe::render;
use crate::engine::packet::{Arrived, Origin, Packet};
use crate::engine::{Engine, Passing};
use catena_io::BufferPool;

impl Engine {
    /// Takes a packet through the stages as ever, and writes down what became of it.
    pub(crate) fn forward_followed(
        &mut self,
        now_ns: u64,
        sought: &Sought,
        packet: Packet,
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        let origin = packet.origin;
        let bytes = packet.buffer.bytes();
        let headers = bytes.get(..sought.inner_offset).unwrap_or_default().to_vec();
        let mut actions = Vec::new();
        if let Origin::Tunnel { kind, source } = origin {
            actions.push(render::received(&self.tables, kind, source, bytes));
        }
        if let Arrived::AtExit(port) = packet.arrived {
            actions.push(render::came_out(&self.tables, port, bytes));
        }
        let mut notes = Vec::new();
        let passing = Passing { trace: Trace::listening(&mut notes), ..Passing::default() };
        self.forward_vector(now_ns, std::iter::once(packet), pool, out, passing);
        // What becomes of copies is not told.
        notes.retain(|noted| noted.copy == 0);
        actions.extend(render::actions(&self.tables, &notes));
        self.follows.saw(sought, origin, &headers, &actions);
    }
}

//! Probes of chains pass the stages alone, with somebody listening. Knows what a check asks of this node;
//! refuses to judge what a probe met.

use crate::engine::action::effects::Trace;
use crate::engine::action::output::Output;
use crate::engine::observe::render;
use crate::engine::packet::Packet;
use crate::engine::{Engine, Passing};
use catena_io::BufferPool;
use catena_model::check::{CheckQuestion, ClockTime, Sighting};
use catena_wire::probe::ProbeMark;

impl Engine {
    /// Takes a probe through the stages, and tells what became of it.
    pub(crate) fn forward_probe(
        &mut self,
        now_ns: u64,
        probe: ProbeMark,
        packet: Packet,
        is_injected: bool,
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        self.settle_lent(now_ns, pool, out);
        let mut notes = Vec::new();
        let passing = Passing {
            trace: Trace::listening(&mut notes),
            is_probe: true,
            is_injected,
            ..Passing::default()
        };
        self.forward_vector(now_ns, std::iter::once(packet), pool, out, passing);
        // Copies are for taps, which say nothing of the path.
        notes.retain(|noted| noted.copy == 0);
        let began = self.config.began;
        let at = began.map(|began| ClockTime { ns: began.ns.saturating_add(now_ns), ..began });
        self.checks.saw(probe, at, render::actions(&self.tables, &notes).into_iter());
    }

    /// Arms a check of a chain, sends its probes into a port, follows real packets, or answers what
    /// was seen of one or the other.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn check(
        &mut self,
        question: &CheckQuestion,
        now_ns: u64,
        pool: &mut BufferPool,
        out: &mut Output,
    ) -> Result<Vec<Sighting>, String> {
        match question {
            CheckQuestion::Arm { seal } => {
                self.checks.arm(*seal, now_ns)?;
                self.listen_to_kernel_path();
                Ok(Vec::new())
            }
            CheckQuestion::Sightings { seal } => self.checks.sightings(*seal, now_ns),
            CheckQuestion::Follow { seal, filter, digest } => {
                self.listen_to_kernel_path();
                self.follows.ask(*seal, filter, *digest, now_ns)
            }
            CheckQuestion::Inject { seal, port, frames } => {
                self.checks.sightings(*seal, now_ns)?;
                let slot = self.slots.of_port(*port);
                let slot = slot.ok_or("the port is not in the program of this node")?;
                for frame in frames {
                    let mut buffer = pool.take().ok_or("no packet buffer is free")?;
                    if !buffer.fill(&frame.0) {
                        pool.put(buffer);
                        return Err("a probe fits no buffer".into());
                    }
                    let packet = Packet::from_port(slot, buffer);
                    let probe = self.checks.probe(&packet).filter(|mark| mark.seal == *seal);
                    let Some(probe) = probe else {
                        pool.put(packet.buffer);
                        return Err("only probes of the check can be sent".into());
                    };
                    self.forward_probe(now_ns, probe, packet, true, pool, out);
                }
                Ok(Vec::new())
            }
        }
    }
}

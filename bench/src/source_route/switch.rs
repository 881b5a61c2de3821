//! A switch in memory: a source in front, a sink behind, and whoever forwards between.

use super::source::{LINKS, Source};
use crate::engine::{cpu_ns, wrong};
use crate::error::BenchError;
use catena_dataplane::engine::{
    Engine, EngineConfig, Output, Packet, PortSlot, Tables, VECTOR_PACKETS_MAX,
};
use catena_io::BufferPool;
use catena_model::program::{ExitEntry, ExitPlace, Underlay};
use catena_model::topology::PortNumber;
use catena_model::{BlueprintNumber, NodeName, NodeProgram};
use std::sync::Arc;

/// Time that passes between vectors, in nanoseconds.
const VECTOR_NS: u64 = 10_000;

/// Whoever takes a vector of frames to its exits.
pub(super) trait Forward {
    /// Where frames come in.
    fn ingress(&self) -> PortSlot;
    /// All of the input, into the output or back to the pool.
    fn forward(
        &mut self,
        now_ns: u64,
        input: &mut Vec<Packet>,
        pool: &mut BufferPool,
        output: &mut Output,
    );
    /// All of the output has been sent.
    fn settle(&mut self, output: &mut Output);
}

/// The engine of a node with links and nothing else.
pub(super) struct Switch {
    engine: Engine,
    ingress: PortSlot,
}

impl Switch {
    pub(super) fn new() -> Result<Self, BenchError> {
        let (engine, links) = engine()?;
        let ingress = links.first().copied();
        let ingress = ingress.ok_or_else(|| wrong("the program", &"it has no link"))?;
        Ok(Self { engine, ingress })
    }
}

/// The engine, and the slots of its links.
pub(super) fn engine() -> Result<(Engine, Vec<PortSlot>), BenchError> {
    let node = NodeName::new("s1").map_err(|error| wrong("the node", &error))?;
    let numbers: Vec<PortNumber> = (1..=LINKS).filter_map(PortNumber::new).collect();
    let exit = |number: &PortNumber| ExitEntry {
        number: *number,
        to: ExitPlace::Link(format!("eth{number}")),
    };
    let program = NodeProgram {
        exits: numbers.iter().map(exit).collect(),
        ..NodeProgram::empty(node.clone(), BlueprintNumber(1), Underlay::default())
    };
    let tables = Tables::compile(&program).map_err(|error| wrong("the program", &error))?;
    let mut engine = Engine::new(EngineConfig::new(node));
    engine.replace_tables(Arc::new(tables));
    let slot = |number: &PortNumber| engine.slot_of(number.link_id());
    let slots = numbers.iter().filter_map(slot).collect();
    Ok((engine, slots))
}

impl Forward for Switch {
    fn ingress(&self) -> PortSlot {
        self.ingress
    }

    fn forward(
        &mut self,
        now_ns: u64,
        input: &mut Vec<Packet>,
        pool: &mut BufferPool,
        output: &mut Output,
    ) {
        self.engine.forward(now_ns, input, pool, output);
    }

    fn settle(&mut self, output: &mut Output) {
        self.engine.settle(&mut output.batches);
    }
}

/// The source, the sink and what is between them.
struct Loop<'l> {
    switch: &'l mut dyn Forward,
    source: &'l mut Source,
    pool: BufferPool,
    input: Vec<Packet>,
    output: Output,
    now_ns: u64,
}

impl<'l> Loop<'l> {
    fn new(switch: &'l mut dyn Forward, source: &'l mut Source) -> Self {
        let pool = BufferPool::new(2 * VECTOR_PACKETS_MAX);
        let input = Vec::with_capacity(VECTOR_PACKETS_MAX);
        Self { switch, source, pool, input, output: Output::default(), now_ns: 1_000_000_000 }
    }

    /// So many vectors.
    fn pass(&mut self, vectors: usize) -> Result<(), BenchError> {
        let (ingress, mut came) = (self.switch.ingress(), 0);
        for _ in 0..vectors {
            for _ in 0..VECTOR_PACKETS_MAX {
                let Some(mut buffer) = self.pool.take() else {
                    return Err(wrong("the switch", &"it keeps buffers"));
                };
                let (head, padding) = self.source.next();
                if !buffer.append(head) || !buffer.append(padding) {
                    return Err(wrong("the source", &"a frame fits no buffer"));
                }
                self.input.push(Packet::from_port(ingress, buffer));
            }
            self.now_ns += VECTOR_NS;
            self.switch.forward(self.now_ns, &mut self.input, &mut self.pool, &mut self.output);
            came += self.output.frames.len();
            self.output.frames.drain(..).for_each(|frame| self.pool.put(frame.buffer));
            self.switch.settle(&mut self.output);
        }
        let sent = vectors * VECTOR_PACKETS_MAX;
        match came == sent {
            true => Ok(()),
            false => Err(wrong("the switch", &format!("of {sent} frames, {came} came out"))),
        }
    }
}

/// Nanoseconds of one frame through the loop.
///
/// # Errors
/// A frame did not come out.
#[allow(clippy::cast_precision_loss)]
pub(super) fn ns(
    switch: &mut dyn Forward,
    source: &mut Source,
    packets: usize,
) -> Result<f64, BenchError> {
    let vectors = packets.div_ceil(VECTOR_PACKETS_MAX);
    let mut turns = Loop::new(switch, source);
    // The first tenth warms up.
    turns.pass(vectors / 10)?;
    let begun = cpu_ns();
    turns.pass(vectors)?;
    Ok((cpu_ns() - begun) / (vectors * VECTOR_PACKETS_MAX) as f64)
}

/// So many frames through the loop, for whoever counts instructions.
///
/// # Errors
/// A frame did not come out.
pub(super) fn pass(
    switch: &mut dyn Forward,
    source: &mut Source,
    packets: usize,
) -> Result<(), BenchError> {
    Loop::new(switch, source).pass(packets.div_ceil(VECTOR_PACKETS_MAX))
}

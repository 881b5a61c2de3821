//! Drives one engine from memory: a looping source in front, a sink that books behind.

use super::frames::{Position, Template, Turn};
use super::kinds::Kind;
use super::site::{FAR, FAR_SEGMENTS, Seat, place};
use crate::error::BenchError;
use catena_dataplane::engine::{
    Engine, EngineConfig, Output, Packet, PortSlot, Tables, TunnelKind, VECTOR_PACKETS_MAX,
};
use catena_io::BufferPool;
use catena_model::NodeProgram;
use catena_model::check::ClockTime;
use rustix::time::{ClockId, clock_gettime};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Buffers: a vector and as many again.
const BUFFERS: usize = 2 * VECTOR_PACKETS_MAX;
/// What an engine's clock has passed when it is made.
const BEGINS_NS: u64 = 1_000_000_000;
/// Time that passes between vectors, in nanoseconds.
const VECTOR_NS: u64 = 10_000;

/// Where the source pretends that its packets come from.
#[derive(Clone, Copy)]
pub(super) enum From {
    Port(Seat),
    Tunnel,
}

/// Which of its entries the source repeats, and in which order.
pub(super) struct Order {
    turns: Vec<Turn>,
    at: usize,
}

impl Order {
    /// Flows in turn, all at one position.
    pub(super) fn flows(flows: u32, index: u8) -> Self {
        let position = Position { path: 0, index };
        Self { turns: (0..flows).map(|flow| Turn { flow, position }).collect(), at: 0 }
    }

    /// All positions of so many paths, each as often as it takes for `least` entries, in random
    /// order. A path has as many positions as there are indexes.
    pub(super) fn positions(paths: u32, indexes: &[u8], least: usize, flows: u32) -> Self {
        let mut turns = Vec::with_capacity(least);
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        while turns.len() < least {
            let first = turns.len();
            for path in 0..paths {
                let all = indexes.iter().map(|index| Position { path, index: *index });
                turns.extend(all.map(|position| Turn { flow: 0, position }));
            }
            for last in (first + 1..turns.len()).rev() {
                turns.swap(last, first + random.below(last - first + 1));
            }
        }
        for turn in &mut turns {
            turn.flow = random.below(flows as usize) as u32;
        }
        Self { turns, at: 0 }
    }

    fn next(&mut self) -> Turn {
        let turn = self.turns[self.at];
        self.at = if self.at + 1 == self.turns.len() { 0 } else { self.at + 1 };
        turn
    }
}

/// A generator of numbers without pattern (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let word = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((word * bound as u64) >> 32) as usize
    }
}

/// What came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Came {
    pub(super) frames: u64,
    pub(super) datagrams: u64,
}

/// The engine and what is around it.
pub(super) struct Drive {
    engine: Engine,
    pool: BufferPool,
    input: Vec<Packet>,
    output: Output,
    /// Which one brings packets, and from where.
    tunnel: (TunnelKind, IpAddr),
    now_ns: u64,
    came: Came,
}

impl Drive {
    pub(super) fn new(program: &NodeProgram, kind: Kind) -> Result<Self, BenchError> {
        let mut config = EngineConfig::new(program.node.clone());
        config.has_fast_path = kind.has_fast_path;
        let is_metered = kind.is_metered && !IS_COUNTED.load(Ordering::Relaxed);
        config.meter = is_metered.then_some(monotonic_ns);
        let began = |now_ns: u64| ClockTime { clock: 0, ns: now_ns.saturating_sub(BEGINS_NS) };
        config.began = is_metered.then(|| began(monotonic_ns()));
        // The same places in every run.
        config.flow_seed = 7;
        let mut engine = Engine::new(config);
        let tables = Tables::compile(program).map_err(|error| wrong("the program", &error))?;
        engine.replace_tables(Arc::new(tables));
        Ok(Self {
            engine,
            pool: BufferPool::new(BUFFERS),
            input: Vec::with_capacity(VECTOR_PACKETS_MAX),
            output: Output::default(),
            tunnel: match kind.encapsulation.is_segmented() {
                true => (TunnelKind::SEGMENTS, place(FAR_SEGMENTS)?.address.into()),
                false => (TunnelKind::Path(kind.encapsulation), FAR),
            },
            now_ns: BEGINS_NS,
            came: Came::default(),
        })
    }

    fn slot(&self, seat: Seat) -> Result<PortSlot, BenchError> {
        self.engine.slot_of(seat.port()).ok_or_else(|| wrong("the program", &"a port is missing"))
    }

    /// Takes packets of the source through the engine, in vectors of `batch`.
    pub(super) fn run(
        &mut self,
        from: From,
        template: &Template,
        order: &mut Order,
        (batch, packets): (usize, usize),
    ) -> Result<(), BenchError> {
        let slot = match from {
            From::Port(seat) => Some(self.slot(seat)?),
            From::Tunnel => None,
        };
        for _ in 0..packets.div_ceil(batch) {
            for _ in 0..batch {
                let Some(mut buffer) = self.pool.take() else {
                    return Err(wrong("the engine", &"it keeps buffers"));
                };
                let is_filled = buffer.append(template.bytes());
                debug_assert!(is_filled, "a template fits every buffer");
                template.patch(buffer.bytes_mut(), order.next());
                self.input.push(match slot {
                    Some(slot) => Packet::from_port(slot, buffer),
                    None => Packet::from_tunnel(self.tunnel.0, self.tunnel.1, buffer),
                });
            }
            self.now_ns += VECTOR_NS;
            let Self { engine, pool, input, output, now_ns, came, .. } = self;
            engine.forward(*now_ns, input, pool, output);
            for frame in output.frames.drain(..) {
                came.frames += frame.share.volume().packets;
                pool.put(frame.buffer);
            }
            for datagram in output.datagrams.drain(..) {
                came.datagrams += datagram.share.volume().packets;
                pool.put(datagram.buffer);
            }
            engine.settle(&mut output.batches);
            // As a worker does, which sends them on.
            drop(engine.take_path_ends());
        }
        Ok(())
    }

    /// What came out since the last call.
    pub(super) fn came(&mut self) -> Came {
        std::mem::take(&mut self.came)
    }

    /// Packets that took the fast path.
    pub(super) fn by_fast_path(&self) -> u64 {
        self.engine.by_fast_path()
    }

    /// Packets whose records were lost.
    pub(super) fn records_lost(&self) -> u64 {
        let losses = self.engine.record_losses();
        losses.unplaced + losses.strayed
    }

    /// What the engine dropped, for people; none: nothing.
    pub(super) fn dropped(&self) -> Option<String> {
        let counters = self.engine.counters();
        let accounts = counters.ports.iter().map(|port| &port.account).chain([&counters.tunnels]);
        let mut reasons = accounts.flat_map(|account| &account.dropped);
        reasons.next().map(|(reason, packets)| format!("{packets} packets as {reason:?}"))
    }
}

/// What a benchmark found to be otherwise than it must be.
pub(crate) fn wrong(what: &'static str, reason: &impl ToString) -> BenchError {
    BenchError::Wrong { what, reason: reason.to_string() }
}

/// Is it valgrind that counts? It cannot call clocks.
pub(crate) static IS_COUNTED: AtomicBool = AtomicBool::new(false);

/// The clock that data planes time functions by, in nanoseconds.
#[allow(clippy::cast_sign_loss, reason = "it begins with the machine")]
pub(crate) fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Processor time of this thread, in nanoseconds: what others do on the core does not count.
#[allow(clippy::cast_precision_loss)]
pub(crate) fn cpu_ns() -> f64 {
    if IS_COUNTED.load(Ordering::Relaxed) {
        return 0.0;
    }
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

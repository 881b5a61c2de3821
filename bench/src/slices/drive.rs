//! One engine with slices, fed from memory: as fast as it goes, or at a rate of the outside world.

use super::site;
use crate::engine::drive::{cpu_ns, wrong};
use crate::engine::site::Seat;
use crate::error::BenchError;
use catena_dataplane::engine::{
    Engine, EngineConfig, Output, Packet, PortSlot, Tables, VECTOR_PACKETS_MAX,
};
use catena_io::BufferPool;
use catena_wire::scalar::{Teid, Vni};
use catena_wire::vxlan::VxlanHeader;
use catena_wire::{ethernet, ipv4, udp};
use std::sync::Arc;
use std::time::Instant;

/// What may have arrived and is not served yet: beyond it packets are lost, as in a ring.
const BACKLOG_MAX: u64 = 4_096;
const BUFFERS: usize = 2 * VECTOR_PACKETS_MAX;
/// Time that passes between vectors when nobody looks at the clock, in nanoseconds.
const VECTOR_NS: u64 = 10_000;
const OUTER_BYTES: usize = ethernet::HEADER_BYTES + ipv4::HEADER_BYTES + udp::HEADER_BYTES;
/// Where the network is in a frame: behind the flags of VXLAN.
const VNI_AT: usize = OUTER_BYTES + 4;
/// Where the user is: behind the first word of GTP-U.
const TEID_AT: usize = 2 * OUTER_BYTES + VxlanHeader::LEN + 4;

/// An engine at work on users' frames.
pub(super) struct Drive {
    engine: Engine,
    pool: BufferPool,
    input: Vec<Packet>,
    output: Output,
    now_ns: u64,
    slot: PortSlot,
    template: Vec<u8>,
    users: Vec<(Vni, Teid)>,
    at: usize,
    came: u64,
}

/// Delays at a rate.
pub(super) struct Paced {
    /// Of each packet, in nanoseconds, sorted.
    pub(super) delays_ns: Vec<u64>,
    /// Packets that found the ring full.
    pub(super) lost: u64,
    /// How long the stream was, in nanoseconds.
    lasted_ns: u64,
}

impl Drive {
    /// `hops`: two for each slice; `frame`: of any user.
    pub(super) fn new(hops: u32, frame: Vec<u8>) -> Result<Self, BenchError> {
        let slices = hops.div_ceil(2).max(1);
        let program = site::program(slices)?;
        let mut config = EngineConfig::new(program.node.clone());
        // The same places in every run.
        config.flow_seed = 7;
        let mut engine = Engine::new(config);
        let tables = Tables::compile(&program).map_err(|error| wrong("the program", &error))?;
        engine.replace_tables(Arc::new(tables));
        let slot = engine.slot_of(Seat::Source.port());
        let slot = slot.ok_or_else(|| wrong("the program", &"a port is missing"))?;
        let mut drive = Self {
            engine,
            pool: BufferPool::new(BUFFERS),
            input: Vec::with_capacity(VECTOR_PACKETS_MAX),
            output: Output::default(),
            now_ns: 1_000_000_000,
            slot,
            template: frame,
            users: site::shuffled(slices)?,
            at: 0,
            came: 0,
        };
        drive.count(drive.users.len().clamp(1 << 14, 1 << 18))?;
        Ok(drive)
    }

    /// Other frames from now on.
    pub(super) fn send(&mut self, frame: Vec<u8>) {
        self.template = frame;
    }

    fn vector(&mut self, packets: usize) -> Result<(), BenchError> {
        for _ in 0..packets {
            let Some(mut buffer) = self.pool.take() else {
                return Err(wrong("the engine", &"it keeps buffers"));
            };
            let (vni, teid) = self.users[self.at];
            self.at = if self.at + 1 == self.users.len() { 0 } else { self.at + 1 };
            let is_filled = buffer.append(&self.template);
            debug_assert!(is_filled, "a frame fits every buffer");
            let [_, high, middle, low] = vni.get().to_be_bytes();
            let frame = buffer.bytes_mut();
            frame[VNI_AT..VNI_AT + 3].copy_from_slice(&[high, middle, low]);
            frame[TEID_AT..TEID_AT + 4].copy_from_slice(&teid.0.to_be_bytes());
            self.input.push(Packet::from_port(self.slot, buffer));
        }
        self.now_ns += VECTOR_NS;
        let Self { engine, pool, input, output, now_ns, came, .. } = self;
        engine.forward(*now_ns, input, pool, output);
        for frame in output.frames.drain(..) {
            *came += frame.share.volume().packets;
            pool.put(frame.buffer);
        }
        output.datagrams.drain(..).for_each(|datagram| pool.put(datagram.buffer));
        engine.settle(&mut output.batches);
        Ok(())
    }

    /// Takes packets through, and makes sure that each went to its function.
    fn count(&mut self, packets: usize) -> Result<(), BenchError> {
        self.came = 0;
        for _ in 0..packets.div_ceil(VECTOR_PACKETS_MAX) {
            self.vector(VECTOR_PACKETS_MAX)?;
        }
        let wanted = (packets.div_ceil(VECTOR_PACKETS_MAX) * VECTOR_PACKETS_MAX) as u64;
        if self.came == wanted {
            return Ok(());
        }
        let counters = self.engine.counters();
        let dropped = counters.ports.iter().flat_map(|port| &port.account.dropped).next();
        Err(wrong("the engine", &format!("{} of {wanted} came out; {dropped:?}", self.came)))
    }

    /// Nanoseconds of processor time per packet, as fast as it goes.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn ns(&mut self, packets: usize) -> Result<f64, BenchError> {
        let began = cpu_ns();
        self.count(packets)?;
        let packets = packets.div_ceil(VECTOR_PACKETS_MAX) * VECTOR_PACKETS_MAX;
        Ok((cpu_ns() - began) / packets as f64)
    }

    /// Packets that arrive one each `gap_ns` of the outside world's time, served as they come: what
    /// has arrived goes through in one vector, and whoever comes meanwhile waits for the next.
    pub(super) fn paced(&mut self, gap_ns: f64, packets: u64) -> Result<Paced, BenchError> {
        let mut delays_ns = Vec::with_capacity(usize::try_from(packets).unwrap_or(0));
        let mut lost = 0;
        let mut next = 0_u64;
        let start = Instant::now();
        let elapsed = || start.elapsed().as_nanos() as f64;
        while next < packets {
            let arrived = ((elapsed() / gap_ns) as u64 + 1).min(packets);
            let overflow = (arrived - next).saturating_sub(BACKLOG_MAX);
            lost += overflow;
            next += overflow;
            let count = (arrived - next).min(VECTOR_PACKETS_MAX as u64);
            if count == 0 {
                std::hint::spin_loop();
                continue;
            }
            self.vector(count as usize)?;
            let done_ns = elapsed();
            let delays =
                (next..next + count).map(|number| (done_ns - number as f64 * gap_ns) as u64);
            delays_ns.extend(delays);
            next += count;
        }
        delays_ns.sort_unstable();
        Ok(Paced { delays_ns, lost, lasted_ns: elapsed() as u64 })
    }
}

impl Paced {
    /// The delay that so many hundredths of all packets do not exceed, in microseconds. One that was
    /// lost has not come as long as the stream went on.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn us(&self, hundredths: usize) -> f64 {
        let lost = usize::try_from(self.lost).unwrap_or(usize::MAX);
        let all = self.delays_ns.len().saturating_add(lost);
        let place = all.saturating_mul(hundredths).div_ceil(100).saturating_sub(1);
        self.delays_ns.get(place).copied().unwrap_or(self.lasted_ns) as f64 / 1e3
    }

    /// The mean of all packets, in microseconds; one that was lost counts as in [`Self::us`].
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn mean_us(&self) -> f64 {
        let came_ns = self.delays_ns.iter().sum::<u64>() as f64;
        let late_ns = self.lost as f64 * self.lasted_ns as f64;
        (came_ns + late_ns) / (self.delays_ns.len() as f64 + self.lost as f64).max(1.0) / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_is_late() {
        let paced = |lost| Paced { delays_ns: (1..=98).collect(), lost, lasted_ns: 5_000 };
        assert_eq!([paced(0).us(50), paced(0).us(99)], [0.049, 0.098]);
        assert_eq!([paced(2).us(50), paced(2).us(99), paced(2).us(100)], [0.05, 5.0, 5.0]);
        assert_eq!(paced(100).us(50), 5.0);
        assert_eq!([paced(0).mean_us(), paced(98).mean_us()], [0.0495, 2.52475]);
    }
}

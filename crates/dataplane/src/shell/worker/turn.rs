//! One vector of packets, and how many it may have. Packets of a vector leave together, so that where each takes long
//! they would wait for those behind them: such come in smaller vectors, and wait in their rings instead.

use super::Worker;
use crate::engine::VECTOR_PACKETS_MAX;

/// What a vector may take, in nanoseconds: against this, what each one costs beside its packets is little.
const TURN_NS: f64 = 200_000.0;
/// How much of what a packet of the last vector took goes into the mean.
const NEWER: f64 = 0.125;

/// What a packet takes of the worker, in the mean of the last vectors.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TurnRoom {
    packet_ns: f64,
}

impl TurnRoom {
    /// A vector of so many packets took so long.
    fn note(&mut self, packets: usize, took_ns: u64) {
        let packet_ns = took_ns as f64 / packets.max(1) as f64;
        self.packet_ns += NEWER * (packet_ns - self.packet_ns);
    }

    /// Packets of the next vector, at most. `elsewhere_ns`: what a packet takes where it takes most that the worker asks
    /// others for: what is handed over together comes back together.
    pub(super) fn packets(self, elsewhere_ns: f64) -> usize {
        let dearest_ns = self.packet_ns.max(elsewhere_ns);
        let fit = (TURN_NS / dearest_ns.max(1.0)) as usize;
        fit.clamp(1, VECTOR_PACKETS_MAX)
    }
}

impl Worker {
    /// Takes the vector through the engine and sends what comes of it.
    pub(super) fn decide(&mut self) {
        let (now_ns, packets) = (self.now_ns(), self.input.len());
        self.engine.forward(now_ns, &mut self.input, &mut self.pool, &mut self.output);
        self.transmit();
        self.engine.transmitted();
        self.turn_room.note(packets, self.now_ns().saturating_sub(now_ns));
        let release_ns = self.engine.next_release_ns(now_ns);
        self.tick_ns = [self.tick_ns, release_ns].into_iter().flatten().min();
        if let Some(hand_off) = &mut self.hand_off {
            hand_off.end_vector();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_take_long_come_in_smaller_vectors_and_cheap_ones_in_whole_ones() {
        let mut room = TurnRoom::default();
        assert_eq!(room.packets(0.0), VECTOR_PACKETS_MAX);
        (0..100).for_each(|_| room.note(256, 256 * 700));
        assert_eq!(room.packets(0.0), VECTOR_PACKETS_MAX);
        assert_eq!(room.packets(20_000.0), 10);
        (0..100).for_each(|_| room.note(1, 1_000_000));
        assert_eq!(room.packets(0.0), 1);
        assert_eq!(room.packets(f64::INFINITY), 1);
        (0..100).for_each(|_| room.note(1, 700));
        assert_eq!(room.packets(0.0), VECTOR_PACKETS_MAX);
    }

    /// Who missed a moment, because others had its core, is careful for a few vectors.
    #[test]
    fn one_late_vector_does_not_last() {
        let mut room = TurnRoom::default();
        (0..100).for_each(|_| room.note(256, 256 * 700));
        room.note(64, 20_000_000);
        assert!(room.packets(0.0) < 16, "{room:?}");
        (0..30).for_each(|_| room.note(8, 8 * 900));
        assert!(room.packets(0.0) > 100, "{room:?}");
    }
}

//! What has come, and how much of it is decided together. Packets that are decided together leave together, so that
//! where each takes long the first would wait for the last: of such there are fewer at a time.

use super::Worker;
use crate::engine::VECTOR_PACKETS_MAX;

/// What packets that are decided together may take, in nanoseconds: against this, what each turn costs beside them is
/// little.
const TURN_NS: f64 = 500_000.0;
/// How much of what a packet of the last turn took goes into the mean.
const NEWER: f64 = 0.125;

/// What a packet takes of the worker, in the mean of the last turns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TurnRoom {
    packet_ns: f64,
}

impl TurnRoom {
    /// So many packets took so long.
    fn note(&mut self, packets: usize, took_ns: u64) {
        let packet_ns = took_ns as f64 / packets.max(1) as f64;
        self.packet_ns += NEWER * (packet_ns - self.packet_ns);
    }

    /// Packets that are decided together, at most.
    fn packets(self) -> usize {
        let fit = (TURN_NS / self.packet_ns.max(1.0)) as usize;
        fit.clamp(1, VECTOR_PACKETS_MAX)
    }
}

impl Worker {
    /// Takes what has come through the engine, in its order, and sends what comes of it.
    pub(super) fn decide(&mut self) {
        while !self.input.is_empty() {
            let packets = self.turn_room.packets().min(self.input.len());
            self.part.extend(self.input.drain(..packets));
            let now_ns = self.now_ns();
            self.engine.forward(now_ns, &mut self.part, &mut self.pool, &mut self.output);
            self.transmit();
            self.turn_room.note(packets, self.now_ns().saturating_sub(now_ns));
            let release_ns = self.engine.next_release_ns(now_ns);
            self.tick_ns = [self.tick_ns, release_ns].into_iter().flatten().min();
        }
        self.engine.transmitted();
        if let Some(hand_off) = &mut self.hand_off {
            hand_off.end_vector();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_packets_that_take_long_few_are_decided_together_and_of_cheap_ones_many() {
        let mut room = TurnRoom::default();
        assert_eq!(room.packets(), VECTOR_PACKETS_MAX);
        (0..100).for_each(|_| room.note(256, 256 * 700));
        assert_eq!(room.packets(), VECTOR_PACKETS_MAX);
        (0..100).for_each(|_| room.note(10, 500_000));
        assert!((10..=11).contains(&room.packets()), "{room:?}");
        (0..100).for_each(|_| room.note(1, 1_000_000));
        assert_eq!(room.packets(), 1);
        (0..100).for_each(|_| room.note(1, 700));
        assert_eq!(room.packets(), VECTOR_PACKETS_MAX);
    }

    /// Who missed a moment, because others had its core, is careful for a few turns.
    #[test]
    fn one_late_turn_does_not_last() {
        let mut room = TurnRoom::default();
        (0..100).for_each(|_| room.note(256, 256 * 700));
        room.note(64, 20_000_000);
        assert!(room.packets() < 16, "{room:?}");
        (0..30).for_each(|_| room.note(8, 8 * 900));
        assert!(room.packets() > 100, "{room:?}");
    }
}

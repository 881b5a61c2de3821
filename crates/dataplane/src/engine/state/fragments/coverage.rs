//! How much of a packet its fragments have brought, so that it is known when all of it has passed.
//! Knows a few pieces at a time; a packet whose fragments leave more gaps counts as incomplete.

/// Pieces with gaps between them that are told apart.
const PIECES_MAX: usize = 4;

/// What has been seen of one packet, in bytes of what was cut.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Coverage {
    /// Pieces that were seen, apart from one another; an empty one is free.
    pieces: [(u32, u32); PIECES_MAX],
    /// Where the last fragment says that the packet ends.
    end: Option<u32>,
    /// Two fragments say otherwise, or there were too many gaps.
    is_lost: bool,
}

impl Coverage {
    /// Notes a fragment.
    pub(super) fn add(&mut self, start: u32, end: u32, is_last: bool) {
        if is_last {
            self.is_lost |= self.end.is_some_and(|before| before != end);
            self.end = Some(end);
        }
        if start >= end {
            return;
        }
        let mut grown = (start, end);
        for piece in &mut self.pieces {
            let touches = piece.0 < piece.1 && piece.0 <= grown.1 && grown.0 <= piece.1;
            if touches {
                grown = (grown.0.min(piece.0), grown.1.max(piece.1));
                *piece = (0, 0);
            }
        }
        match self.pieces.iter_mut().find(|piece| piece.0 == piece.1) {
            Some(free) => *free = grown,
            None => self.is_lost = true,
        }
    }

    /// Has all of the packet been seen?
    pub(super) fn is_complete(&self) -> bool {
        let is_all = |end| self.pieces.iter().any(|piece| *piece == (0, end) && end > 0);
        !self.is_lost && self.end.is_some_and(is_all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(parts: &[(u32, u32, bool)]) -> bool {
        let mut coverage = Coverage::default();
        parts.iter().for_each(|(start, end, is_last)| coverage.add(*start, *end, *is_last));
        coverage.is_complete()
    }

    #[test]
    fn a_packet_is_complete_in_whatever_order_its_parts_come_and_not_before() {
        let parts = [(0, 16, false), (16, 32, false), (32, 40, false), (40, 45, true)];
        for turn in 0..4 {
            let mut order = parts;
            order.rotate_left(turn);
            assert!(complete(&order), "{order:?}");
            order.reverse();
            assert!(complete(&order), "{order:?}");
            assert!(!complete(&order[1..]), "{order:?}");
        }
    }

    #[test]
    fn what_comes_twice_or_contradicts_itself_completes_nothing() {
        assert!(!complete(&[(0, 16, false), (0, 16, false), (32, 40, true)]));
        assert!(!complete(&[(0, 16, false), (16, 20, true), (16, 40, true)]));
        assert!(complete(&[(0, 16, false), (8, 24, false), (24, 30, true)]), "overlapping");
        let gaps = [(0, 8), (16, 24), (32, 40), (48, 56), (64, 72), (80, 88)];
        let mut parts: Vec<_> = gaps.map(|(start, end)| (start, end, false)).into();
        parts.extend(gaps.map(|(start, _)| (start + 8, start + 16, start == 80)));
        assert!(!complete(&parts), "with too many gaps nothing is known for sure");
    }
}

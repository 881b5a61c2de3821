//! Packets that wait in a function until a moment that is known when they come. Knows frames and moments; refuses
//! to know why they wait.

use crate::function::Waiting;
use crate::outcome::{GeneratedKind, Outcomes};
use crate::packet::{Direction, Packet, Time};
use catena_model::limits::{FUNCTION_HELD_BYTES_MAX, FUNCTION_HELD_PACKETS_MAX};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Packets that are given back at once, at most: whoever runs the function has room for so many.
const RELEASED_AT_ONCE: usize = 64;

/// When a packet goes on, which one of those it is, and its place.
type Due = Reverse<(Time, u64, usize)>;

/// Packets that wait. Those that go on at one moment do so in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    due: BinaryHeap<Due>,
    frames: Vec<(Direction, Vec<u8>)>,
    free: Vec<usize>,
    bytes: usize,
    came: u64,
}

impl Held {
    /// Is there room for a packet?
    pub(crate) fn has_room(&self, packet: &Packet<'_>) -> bool {
        self.due.len() < FUNCTION_HELD_PACKETS_MAX
            && self.bytes + packet.view.end as usize <= FUNCTION_HELD_BYTES_MAX
    }

    /// Keeps a packet until then.
    pub(crate) fn keep(&mut self, until: Time, direction: Direction, packet: &Packet<'_>) {
        let frame = packet.frame.get(..packet.view.end as usize).unwrap_or(packet.frame);
        let place = self.free.pop().unwrap_or(self.frames.len());
        if place == self.frames.len() {
            self.frames.push((direction, Vec::new()));
        }
        if let Some((way, room)) = self.frames.get_mut(place) {
            *way = direction;
            room.clear();
            room.extend_from_slice(frame);
        }
        self.bytes += frame.len();
        self.due.push(Reverse((until, self.came, place)));
        self.came += 1;
    }

    /// Gives back what is due, the oldest first.
    pub(crate) fn release(&mut self, now: Time, outcomes: &mut Outcomes) {
        for _ in 0..RELEASED_AT_ONCE {
            let Some(Reverse((_, _, place))) = self.due.peek().filter(|due| due.0.0 <= now) else {
                break;
            };
            let place = *place;
            self.due.pop();
            self.free.push(place);
            let Some((direction, frame)) = self.frames.get(place) else { continue };
            self.bytes = self.bytes.saturating_sub(frame.len());
            let made = (0, GeneratedKind::Released, *direction);
            outcomes.generate(made, frame.len(), |into| {
                into.copy_from_slice(frame);
                Some(into.len())
            });
        }
    }

    /// How many wait, and when the first of them goes on.
    pub(crate) fn waiting(&self) -> Waiting {
        Waiting {
            packets: self.due.len() as u64,
            next: self.due.peek().map(|Reverse((until, ..))| *until),
        }
    }
}

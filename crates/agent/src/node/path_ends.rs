//! Packets that came to the end of their path, as far as the session with the controller has room for them: everything
//! else goes before them.

use super::Node;
use super::setups::LEFT_FREE;
use catena_protocol::message::{FromAgent, from_agent};
use std::time::{Duration, Instant};

/// When they are tried again that had no room.
const REST: Duration = Duration::from_millis(100);

impl Node {
    /// Sends what waits, as far as there is room. Answers when to try again, if there was not.
    pub(super) fn pass_path_ends(&mut self, now: Instant) -> Option<Instant> {
        while let Some(session) = self.session.as_ref().filter(|_| self.path_ends.is_waiting()) {
            if session.capacity() <= LEFT_FREE {
                return Some(now + REST);
            }
            let Ok(room) = session.try_reserve() else {
                self.path_ends.end();
                break;
            };
            if let Some(ends) = self.path_ends.next() {
                room.send(FromAgent { message: Some(from_agent::Message::PathEnds(ends)) });
            }
        }
        None
    }
}

//! When a worker hears threads that ask functions for it, and when it waits until they have nothing. Refuses to know
//! what they say.

use super::Worker;

impl Worker {
    /// Goes on with packets that threads have asked functions about.
    pub(super) fn hear_functions(&mut self) {
        if self.engine.is_lending() {
            let now_ns = self.now_ns();
            self.engine.take_answers(now_ns, &mut self.pool, &mut self.output);
            self.transmit();
        }
    }

    /// Waits until no thread has a packet.
    pub(super) fn settle_functions(&mut self) {
        if self.engine.is_lending() {
            let now_ns = self.now_ns();
            self.engine.settle_lent(now_ns, &mut self.pool, &mut self.output);
            self.transmit();
        }
    }
}

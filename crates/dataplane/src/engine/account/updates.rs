//! What packets move in the counters, a line at a time: the one way in which the stages, the fast path and the
//! kernel count what came, passed and left. Knows lines; refuses to know what has happened. Drops have names,
//! and what is handed out is held until it has been sent: both are counted by the counters' own verbs.

use super::counters::Counters;
use super::tx_batches::{Ends, TxCredit};
use crate::engine::vector::owner::{Owner, PathRef};
use catena_model::account::{Created, Volume};

/// One line of the counters that a packet moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum CounterUpdate {
    Received(Owner),
    Created(Owner, Created),
    Consumed(Owner),
    Entered(PathRef),
    TunnelledIn(PathRef),
    Finished(PathRef),
    Tapped(PathRef),
    /// Given to the local instance with this number, which is inside.
    Delivered(PathRef, u32),
    /// Come back from the local instance with this number.
    Returned(PathRef, u32),
    /// Ended at the local instance with this number, by a rule of it.
    Denied(PathRef, u32),
    /// Made by the local instance with this number.
    Generated(PathRef, u32),
    /// Gone past the local instance with this number, which is dead.
    Bypassed(PathRef, u32),
    /// Sent between these ends. What the engine hands out is held until somebody says so
    /// ([`Counters::settle`]).
    Sent(Ends),
}

impl Counters {
    /// So many packets and bytes more in a line.
    #[inline(always)]
    pub(crate) fn apply(&mut self, update: CounterUpdate, volume: Volume) {
        match update {
            CounterUpdate::Received(owner) => self.received(owner, volume),
            CounterUpdate::Created(owner, kind) => self.created(owner, kind, volume.packets),
            CounterUpdate::Consumed(owner) => self.consumed(owner, volume.packets),
            CounterUpdate::Entered(path) => self.paths.entered(path, volume),
            CounterUpdate::TunnelledIn(path) => self.paths.tunnelled_in(path, volume),
            CounterUpdate::Finished(path) => self.paths.finished(path, volume),
            CounterUpdate::Tapped(path) => self.paths.tapped(path, volume),
            CounterUpdate::Delivered(path, local) => {
                if let Some(hop) = self.paths.hop(path, local) {
                    hop.delivered.merge(volume);
                }
            }
            CounterUpdate::Returned(path, local) => {
                if let Some(hop) = self.paths.hop(path, local) {
                    hop.returned.merge(volume);
                }
            }
            CounterUpdate::Denied(path, local) => {
                if let Some(hop) = self.paths.hop(path, local) {
                    hop.denied += volume.packets;
                }
            }
            CounterUpdate::Generated(path, local) => {
                if let Some(hop) = self.paths.hop(path, local) {
                    hop.generated += volume.packets;
                }
            }
            CounterUpdate::Bypassed(path, local) => {
                if let Some(hop) = self.paths.hop(path, local) {
                    hop.bypassed.merge(volume);
                }
            }
            CounterUpdate::Sent(ends) => {
                self.held(ends.owner, volume.packets);
                self.sent(TxCredit { ends, volume });
            }
        }
    }
}

//! Flows whose packets are timed while they are with functions: which packet is, and whether it is back. Knows the
//! entry of a flow and its marks; refuses to know how packets are drawn and found again.

use super::{Found, Key, ProxyFlows, Visit};
use crate::engine::account::times::Sojourn;

impl ProxyFlows {
    /// Is one of these packets, which are on their way to where they will come out of the port with this serial, to
    /// be timed?
    #[inline(always)]
    pub(crate) fn is_due(&mut self, egress: u32, packets: u64) -> bool {
        self.sojourns.is_due(egress, u32::try_from(packets).unwrap_or(u32::MAX))
    }

    /// Times the last of the packets that were remembered of a flow, which are so many; `telling`: what it is known
    /// by. False: the flow has as many as it may.
    #[cold]
    pub(crate) fn mark(&mut self, now_ns: u64, key: &Key, telling: u64, packets: u64) -> bool {
        if let Some(place) = self.sojourns.who_gives_way(now_ns)
            && let Some(other) = self.places.get_mut(place).and_then(Option::as_mut)
        {
            self.sojourns.forget(&mut other.marks);
        }
        let Some(Found(place)) = self.look_up(now_ns, key) else { return false };
        let inside = self.inside.count(key.record(self.seed));
        let Some(entry) = self.places[place].as_mut() else { return false };
        let packets = u32::try_from(packets).unwrap_or(u32::MAX);
        let ahead = entry.untold.saturating_add(inside).saturating_sub(packets);
        let who = (key.egress, place, entry.visit);
        let marks = self.sojourns.mark(now_ns, who, (telling, ahead), entry.marks);
        entry.marks = marks.unwrap_or(entry.marks);
        marks.is_some()
    }

    /// A frame of a flow is back from a visit, with so many packets. Tells of each that was timed and is found now
    /// how long it was there. `telling`: what the frame is known by, asked for where any is timed.
    pub(crate) fn time(
        &mut self,
        now_ns: u64,
        key: &Key,
        visit: &Visit,
        came: (impl FnOnce() -> u64, u64),
        tell: impl FnMut(Sojourn),
    ) {
        if let Some(found) = self.look_up(now_ns, key) {
            self.time_at(now_ns, found, visit, came, tell);
        }
    }

    /// The same for a flow that was just found.
    pub(crate) fn time_at(
        &mut self,
        now_ns: u64,
        Found(place): Found,
        visit: &Visit,
        (telling, packets): (impl FnOnce() -> u64, u64),
        tell: impl FnMut(Sojourn),
    ) {
        let entry = self.places.get_mut(place).and_then(Option::as_mut);
        if let Some(entry) = entry.filter(|entry| entry.marks.is_some()) {
            let came = (telling(), packets);
            self.sojourns.come_back(now_ns, &mut entry.marks, visit, came, tell);
        }
    }
}

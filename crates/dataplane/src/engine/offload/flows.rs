//! The flows that the kernel repeats, as the engine knows them: what each depends on, where it
//! leaves, and how many packets it has taken past the proxies' memory. Knows keys and counts;
//! refuses to know why a flow is here.

use super::arrival::Arrival;
use super::holdings::{Holder, Holdings};
use super::offload_tables::{HandOver, OffloadTables};
use super::translate::Into;
use crate::engine::packet::PortSlot;
use crate::engine::state::proxy_flows::{Key, ProxyFlows};
use crate::engine::tables::descent::Dependency;
use catena_fastpath::FlowKey;
use catena_model::PathId;
use catena_model::program::Locator;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// A flow in the kernel.
pub(super) struct Flow {
    pub(super) holder: Holder,
    /// None: a tunnel.
    pub(super) origin: Option<PortSlot>,
    pub(super) exits: Vec<PortSlot>,
    /// Does it leave by a tunnel?
    pub(super) leaves_node: bool,
    /// Below which locator the segment is that it leaves for, if it does so by segments.
    pub(super) segments_to: Option<Locator>,
    pub(super) dependencies: Vec<Dependency>,
    pub(super) account: u32,
    pub(super) into: Option<Into>,
    pub(super) back: Option<Key>,
    /// What has brought its packets from another node; none: they began here, and nothing of ours has marked them.
    pub(super) came: Option<Arrival>,
    /// Where the classifier's memory knows it, and its path there.
    pub(super) classified: Option<(u64, PathId)>,
    /// Counted packets that the engine has forwarded while the transform waited; none: handed over.
    pub(super) forwarded: Option<u32>,
    /// Wire packets read so far.
    pub(super) passed: u64,
    pub(super) seen_ns: u64,
    pub(super) installed_ns: u64,
}

/// Packets that were sent up before a transform was put in arrive within this time, in nanoseconds.
pub(super) const UNDER_WAY_NS: u64 = 100_000_000;
/// A flow whose counted packets have not all arrived by then has lost some on their way up, in
/// nanoseconds.
pub(super) const LOST_NS: u64 = 1_000_000_000;

/// What the memory of a key still has to be told.
#[derive(Default)]
struct Ledger {
    flows: Vec<FlowKey>,
    /// Packets that went in by the kernel less those that came back.
    pending: i64,
}

/// All of them.
#[derive(Default)]
pub(super) struct Flows {
    flows: HashMap<FlowKey, Flow>,
    /// Those that each dependency decides.
    decided: HashMap<Dependency, HashSet<FlowKey>>,
    ledgers: HashMap<Key, Ledger>,
    holdings: Holdings,
    waiting: Vec<FlowKey>,
    /// Whose turn it is to be looked after, and when it was put in: a later flow of the same key has
    /// a turn of its own.
    round: VecDeque<(FlowKey, u64)>,
}

impl Flows {
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    pub(super) fn get(&self, key: &FlowKey) -> Option<&Flow> {
        self.flows.get(key)
    }

    pub(super) fn add(&mut self, key: FlowKey, flow: Flow) {
        for known in memory_keys(&flow) {
            self.ledgers.entry(known).or_default().flows.push(key);
        }
        self.waiting.push(key);
        self.round.push_back((key, flow.installed_ns));
        let (holder, installed_ns) = (flow.holder, flow.installed_ns);
        let dependencies = flow.dependencies.clone();
        if let Some(former) = self.flows.insert(key, flow) {
            self.holdings.remove(former.holder);
            self.undecide(&key, &former);
        }
        for dependency in dependencies {
            self.decided.entry(dependency).or_default().insert(key);
        }
        let is_there = |flow: &(FlowKey, u64)| seen(&self.flows, flow).is_some();
        self.holdings.add(holder, (key, installed_ns), is_there);
    }

    /// The flow that makes room for one of this holder, and whose it is; none: its own are most.
    pub(super) fn who_gives_way(&mut self, to: Holder) -> Option<(Holder, FlowKey)> {
        self.holdings.who_gives_way(to, |flow| seen(&self.flows, flow))
    }

    fn undecide(&mut self, key: &FlowKey, flow: &Flow) {
        for dependency in &flow.dependencies {
            if let Some(keys) = self.decided.get_mut(dependency) {
                keys.remove(key);
                if keys.is_empty() {
                    self.decided.remove(dependency);
                }
            }
        }
    }

    /// The flows that these decide.
    pub(super) fn decided_by(&self, dependencies: &BTreeSet<Dependency>) -> Vec<FlowKey> {
        let decided = dependencies.iter().filter_map(|dependency| self.decided.get(dependency));
        let keys: BTreeSet<FlowKey> = decided.flatten().copied().collect();
        keys.into_iter().collect()
    }

    /// The flows for which this holds.
    pub(super) fn which(&self, is_it: impl Fn(&Flow) -> bool) -> Vec<FlowKey> {
        let found = self.flows.iter().filter(|(_, flow)| is_it(flow));
        found.map(|(key, _)| *key).collect()
    }

    /// The next flows of the round, at most so many.
    pub(super) fn next_round(&mut self, count: usize) -> Vec<FlowKey> {
        let mut next = Vec::with_capacity(count);
        while next.len() < count
            && let Some((key, installed_ns)) = self.round.pop_front()
        {
            if self.flows.get(&key).is_some_and(|flow| flow.installed_ns == installed_ns) {
                next.push((key, installed_ns));
            }
        }
        self.round.extend(&next);
        next.into_iter().map(|(key, _)| key).collect()
    }

    /// A counted packet of a flow that waits has been forwarded.
    pub(super) fn note_forwarded(&mut self, key: &FlowKey) {
        if let Some(forwarded) = self.flows.get_mut(key).and_then(|flow| flow.forwarded.as_mut()) {
            *forwarded = forwarded.saturating_add(1);
        }
    }

    /// Is any flow on its way to the kernel?
    pub(super) fn any_waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Tries to hand over all flows that wait; answers those whose hand-over has failed.
    ///
    /// The first counted packet that has been forwarded shows that all before it have; where none
    /// comes, time does.
    pub(super) fn hand_over(
        &mut self,
        now_ns: u64,
        kernel_tables: &mut dyn OffloadTables,
    ) -> Vec<FlowKey> {
        let mut failed = Vec::new();
        let flows = &mut self.flows;
        self.waiting.retain(|key| {
            let Some(flow) = flows.get_mut(key) else { return false };
            let Some(forwarded) = flow.forwarded else { return false };
            let age_ns = now_ns.saturating_sub(flow.installed_ns);
            if forwarded == 0 && age_ns < UNDER_WAY_NS {
                return true;
            }
            match kernel_tables.hand_over(key, forwarded) {
                HandOver::Done => flow.forwarded = None,
                HandOver::Waits if age_ns < LOST_NS => return true,
                HandOver::Waits | HandOver::Gone => failed.push(*key),
            }
            false
        });
        failed
    }

    /// Reads what has passed by a flow since the last time; false: the kernel has lost it.
    pub(super) fn read(
        &mut self,
        key: &FlowKey,
        now_ns: u64,
        kernel_tables: &mut dyn OffloadTables,
    ) -> bool {
        let Some(flow) = self.flows.get_mut(key) else { return false };
        let Some(passed) = kernel_tables.passed(key) else { return false };
        let since = passed.packets.saturating_sub(flow.passed);
        if since > 0 {
            flow.passed = passed.packets;
            flow.seen_ns = now_ns.saturating_sub(passed.idle_ns);
            let since = i64::try_from(since).unwrap_or(i64::MAX);
            let into = flow.into.iter().flat_map(|into| &into.keys);
            for (known, sign) in into.map(|key| (*key, 1)).chain(flow.back.map(|key| (key, -1))) {
                if let Some(ledger) = self.ledgers.get_mut(&known) {
                    ledger.pending = ledger.pending.saturating_add(sign * since);
                }
            }
        }
        true
    }

    /// Brings the memory of a key up to date with the kernel; packets that came in count first.
    pub(super) fn tell(
        &mut self,
        known: &Key,
        now_ns: u64,
        proxy_flows: &mut ProxyFlows,
        kernel_tables: &mut dyn OffloadTables,
    ) {
        let Some(ledger) = self.ledgers.get(known) else { return };
        let keys = ledger.flows.clone();
        let goes_in = |key: &&FlowKey| self.flows.get(*key).is_some_and(|flow| flow.into.is_some());
        let (first, then): (Vec<&FlowKey>, Vec<&FlowKey>) = keys.iter().partition(goes_in);
        for key in first.into_iter().chain(then) {
            self.read(key, now_ns, kernel_tables);
        }
        let goes_in =
            |flow: &&Flow| flow.into.as_ref().is_some_and(|into| into.keys.contains(known));
        let Some(ledger) = self.ledgers.get_mut(known) else { return };
        let into = keys.iter().filter_map(|key| self.flows.get(key)).filter(goes_in);
        let latest = into.max_by_key(|flow| flow.seen_ns);
        let Some((visit, seen_ns)) =
            latest.and_then(|flow| Some((flow.into.as_ref()?.visit, flow.seen_ns)))
        else {
            return;
        };
        ledger.pending = proxy_flows.settle(now_ns, *known, visit, ledger.pending, seen_ns);
    }

    /// The flows that go into a function, or come back from it, by this key.
    pub(super) fn of(&self, known: &Key) -> &[FlowKey] {
        self.ledgers.get(known).map_or(&[], |ledger| &ledger.flows)
    }

    /// What has brought packets that go into a function with this key; outer none: nobody put them into the kernel.
    pub(super) fn came(&self, known: &Key) -> Option<Option<Arrival>> {
        let goes_in =
            |flow: &&Flow| flow.into.as_ref().is_some_and(|into| into.keys.contains(known));
        let mut ways_in =
            self.of(known).iter().filter_map(|key| self.flows.get(key)).filter(goes_in);
        let first = ways_in.next()?.came;
        Some(first.or_else(|| ways_in.find_map(|flow| flow.came)))
    }

    /// Those that come back from a function by one of these keys, of packets that were brought by something else than
    /// this.
    pub(super) fn back_from(&self, keys: &[Key], by: Option<Arrival>) -> Vec<FlowKey> {
        let all = keys.iter().flat_map(|known| self.of(known).iter().map(move |key| (known, key)));
        let is_otherwise = |known: &Key, key: &FlowKey| {
            self.flows.get(key).is_some_and(|flow| flow.back == Some(*known) && flow.came != by)
        };
        all.filter(|(known, key)| is_otherwise(known, key)).map(|(_, key)| *key).collect()
    }

    /// Is anything of this key in the kernel?
    pub(super) fn knows(&self, known: &Key) -> bool {
        self.ledgers.contains_key(known)
    }

    /// Takes flows out of the kernel, once the memory has been told.
    pub(super) fn remove(
        &mut self,
        keys: &[FlowKey],
        now_ns: u64,
        proxy_flows: &mut ProxyFlows,
        kernel_tables: &mut dyn OffloadTables,
        mut left: impl FnMut(&Flow),
    ) {
        let known = |key: &FlowKey| self.flows.get(key).map(memory_keys).unwrap_or_default();
        let known: Vec<Key> = keys.iter().flat_map(known).collect();
        for key in &known {
            self.tell(key, now_ns, proxy_flows, kernel_tables);
        }
        for key in keys {
            kernel_tables.remove(key);
            let Some(flow) = self.flows.remove(key) else { continue };
            for known in memory_keys(&flow) {
                if let Some(ledger) = self.ledgers.get_mut(&known) {
                    ledger.flows.retain(|other| other != key);
                    if ledger.flows.is_empty() {
                        self.ledgers.remove(&known);
                    }
                }
            }
            self.holdings.remove(flow.holder);
            self.undecide(key, &flow);
            left(&flow);
        }
    }
}

/// When something passed last by the flow that was put in at this time; none: it is gone.
fn seen(flows: &HashMap<FlowKey, Flow>, (key, installed_ns): &(FlowKey, u64)) -> Option<u64> {
    flows.get(key).filter(|flow| flow.installed_ns == *installed_ns).map(|flow| flow.seen_ns)
}

fn memory_keys(flow: &Flow) -> Vec<Key> {
    let into = flow.into.iter().flat_map(|into| into.keys.iter().copied());
    into.chain(flow.back).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::scalar::IpProtocol;
    use std::net::IpAddr;

    fn known(user: u64) -> Key {
        let any = IpAddr::from([10, 0, 0, 1]);
        let flow = catena_wire::flow::FlowKey {
            source: any,
            destination: any,
            protocol: IpProtocol::TCP,
            source_port: 1,
            destination_port: 2,
        };
        Key { egress: 1, network: 100, flow, user }
    }

    fn flow(back: Option<Key>, came: Option<Arrival>) -> Flow {
        Flow {
            holder: Holder::Path(PathId(1)),
            origin: None,
            exits: Vec::new(),
            leaves_node: true,
            segments_to: None,
            dependencies: Vec::new(),
            account: 0,
            into: None,
            back,
            came,
            classified: None,
            forwarded: None,
            passed: 0,
            seen_ns: 0,
            installed_ns: 0,
        }
    }

    #[test]
    fn what_came_back_by_another_mark_than_goes_in_now_is_found() {
        let mut flows = Flows::default();
        let key = |door| FlowKey { door, ..FlowKey::default() };
        let tunnel = Some(Arrival::Tunnel);
        for (door, back, came) in [
            (1, Some(known(1)), tunnel),
            (2, Some(known(2)), tunnel),
            (3, Some(known(1)), None),
            (4, None, tunnel),
        ] {
            flows.add(key(door), flow(back, came));
        }
        let of = |by| flows.back_from(&[known(1)], by);
        assert_eq!(of(Some(Arrival::Segments)), [key(1), key(3)]);
        assert_eq!(of(tunnel), [key(3)]);
        assert_eq!(of(None), [key(1)]);
    }
}

//! What several workers of one data plane counted, as one.

use crate::account::{
    Account, ChainCounters, CrowdedCounters, FunctionCounters, HopCounters, MessageCounters,
    NodeCounters, PortCounters, RuleHits, SliceCounters,
};
use crate::drop_reason::DropReason;
use std::collections::BTreeMap;

impl NodeCounters {
    /// Adds what another worker counted under the same program: what is received, sent and lost is
    /// summed, all else stays as it is here.
    pub fn merge(&mut self, other: &Self) {
        let is_same = |one: &PortCounters, other: &PortCounters| one.port == other.port;
        merge_lines(&mut self.ports, &other.ports, is_same, PortCounters::merge);
        merge_lines(&mut self.links, &other.links, is_same, PortCounters::merge);
        // All workers know the same.
        if self.link_lives.is_empty() {
            self.link_lives.clone_from(&other.link_lives);
        }
        self.tunnels.merge(&other.tunnels);
        self.tunnels_transmitted.merge(other.tunnels_transmitted);
        add(&mut self.tunnels_ring_full, other.tunnels_ring_full);
        let is_same = |one: &ChainCounters, other: &ChainCounters| one.path == other.path;
        merge_lines(&mut self.chains, &other.chains, is_same, ChainCounters::merge);
        let is_same = |one: &FunctionCounters, other: &FunctionCounters| {
            (one.instance, one.configuration) == (other.instance, other.configuration)
        };
        merge_lines(&mut self.functions, &other.functions, is_same, FunctionCounters::merge);
        for (instance, count) in &other.deaths {
            add(self.deaths.entry(*instance).or_default(), *count);
        }
        self.crowded.merge(&other.crowded);
        self.setups.merge(&other.setups);
    }
}

impl FunctionCounters {
    fn merge(&mut self, other: &Self) {
        let is_same = |one: &RuleHits, other: &RuleHits| one.rule == other.rule;
        merge_lines(&mut self.rules, &other.rules, is_same, |one, other| {
            add(&mut one.packets, other.packets);
            add(&mut one.bytes, other.bytes);
        });
        add(&mut self.rules_untold, other.rules_untold);
        add(&mut self.events, other.events);
        self.messages.merge(&other.messages);
        add(&mut self.errors_withheld, other.errors_withheld);
        add(&mut self.deaths, other.deaths);
        add(&mut self.copied_bytes, other.copied_bytes);
        self.choice = self.choice.or(other.choice);
    }
}

impl MessageCounters {
    /// What two data planes, or a data plane and its agent, know together.
    pub fn merge(&mut self, other: &Self) {
        add(&mut self.handed_out, other.handed_out);
        add(&mut self.unwanted, other.unwanted);
        add(&mut self.lost, other.lost);
        add(&mut self.kept, other.kept);
        add(&mut self.sent, other.sent);
        add(&mut self.unsent, other.unsent);
        if self.trouble.is_empty() {
            self.trouble.clone_from(&other.trouble);
        }
    }
}

impl CrowdedCounters {
    fn merge(&mut self, other: &Self) {
        for (port, count) in &other.ports {
            add(self.ports.entry(*port).or_default(), *count);
        }
        for (path, count) in &other.paths {
            add(self.paths.entry(*path).or_default(), *count);
        }
    }
}

impl SliceCounters {
    /// Adds what another worker counted for the same slice.
    pub fn merge(&mut self, other: &Self) {
        self.entered.merge(other.entered);
        self.finished.merge(other.finished);
        self.tunnelled_out.merge(other.tunnelled_out);
        self.tunnelled_in.merge(other.tunnelled_in);
        merge_drops(&mut self.dropped, &other.dropped);
        self.wait = self.wait.or(other.wait);
    }
}

impl PortCounters {
    fn merge(&mut self, other: &Self) {
        self.account.merge(&other.account);
        self.transmitted.merge(other.transmitted);
        add(&mut self.created_by_function, other.created_by_function);
        add(&mut self.lost_in_function, other.lost_in_function);
        add(&mut self.ring_full, other.ring_full);
        self.interface = self.interface.or(other.interface);
    }
}

impl ChainCounters {
    fn merge(&mut self, other: &Self) {
        self.entered.merge(other.entered);
        self.finished.merge(other.finished);
        self.tapped.merge(other.tapped);
        self.tunnelled_out.merge(other.tunnelled_out);
        self.tunnelled_in.merge(other.tunnelled_in);
        add(&mut self.pinned_flows, other.pinned_flows);
        merge_drops(&mut self.dropped, &other.dropped);
        let is_same = |one: &HopCounters, other: &HopCounters| {
            (one.hop, one.member, one.instance) == (other.hop, other.member, other.instance)
        };
        merge_lines(&mut self.hops, &other.hops, is_same, HopCounters::merge);
        self.is_partial |= other.is_partial;
    }
}

impl HopCounters {
    fn merge(&mut self, other: &Self) {
        self.delivered.merge(other.delivered);
        self.returned.merge(other.returned);
        self.bypassed.merge(other.bypassed);
        add(&mut self.rewritten, other.rewritten);
        add(&mut self.ambiguous, other.ambiguous);
        add(&mut self.denied, other.denied);
        add(&mut self.generated, other.generated);
        self.service_time.merge(&other.service_time);
        self.sojourn_time.merge(&other.sojourn_time);
    }
}

impl Account {
    /// Adds another account, so that a node's is the sum of its ports'.
    pub fn merge(&mut self, other: &Account) {
        self.received.merge(other.received);
        self.forwarded.merge(other.forwarded);
        add(&mut self.consumed, other.consumed);
        add(&mut self.held, other.held);
        for (kind, packets) in &other.created {
            add(self.created.entry(*kind).or_default(), *packets);
        }
        merge_drops(&mut self.dropped, &other.dropped);
    }
}

/// Lines have the order of the program, so each is nearly always where it is looked for first.
fn merge_lines<T: Clone>(
    own: &mut Vec<T>,
    other: &[T],
    is_same: impl Fn(&T, &T) -> bool,
    merge: impl Fn(&mut T, &T),
) {
    for (place, line) in other.iter().enumerate() {
        let is_there = own.get(place).is_some_and(|own| is_same(own, line));
        let found = match is_there {
            true => Some(place),
            false => own.iter().position(|own| is_same(own, line)),
        };
        match found.and_then(|place| own.get_mut(place)) {
            Some(own) => merge(own, line),
            None => own.push(line.clone()),
        }
    }
}

/// The numbers may be foreign: whatever they are, nobody stops over their sum.
fn add(sum: &mut u64, number: u64) {
    *sum = sum.wrapping_add(number);
}

fn merge_drops(sums: &mut BTreeMap<DropReason, u64>, other: &BTreeMap<DropReason, u64>) {
    for (reason, packets) in other {
        add(sums.entry(*reason).or_default(), *packets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Volume;
    use crate::id::{BlueprintNumber, ChainId, InstanceId, NodeName, PathId, PortId};
    use crate::service_time::ServiceTime;
    use crate::sojourn_time::SojournTime;
    use uuid::Uuid;

    fn port(number: u128, packets: u64) -> PortCounters {
        let mut account = Account::default();
        account.received.add(packets, 60 * packets);
        account.dropped.insert(DropReason::NoPath, packets);
        PortCounters {
            port: PortId(Uuid::from_u128(number)),
            name: format!("port{number}"),
            account,
            transmitted: Volume { packets, bytes: packets },
            created_by_function: packets,
            lost_in_function: packets,
            ring_full: packets,
            interface: None,
        }
    }

    fn chain(path: u32, packets: u64) -> ChainCounters {
        let volume = Volume { packets, bytes: packets };
        let hop = HopCounters {
            hop: 0,
            member: 0,
            instance: InstanceId(Uuid::nil()),
            name: "f".into(),
            delivered: volume,
            returned: volume,
            rewritten: packets,
            ambiguous: packets,
            bypassed: volume,
            denied: packets,
            generated: packets,
            service_time: ServiceTime { packets, ns: packets, counts: [(1, packets)].into() },
            sojourn_time: SojournTime {
                sampled: packets,
                timed: packets,
                packets,
                ns: packets,
                recent_timed: packets,
                recent: [(1, packets)].into(),
            },
        };
        ChainCounters {
            chain: ChainId(Uuid::nil()),
            path: PathId(path),
            entered: volume,
            finished: volume,
            tapped: volume,
            pinned_flows: packets,
            tunnelled_out: volume,
            tunnelled_in: volume,
            dropped: BTreeMap::from([(DropReason::TtlExpired, packets)]),
            hops: vec![hop],
            is_partial: packets == 3,
        }
    }

    #[test]
    fn every_number_of_two_workers_is_summed_under_its_own_name() {
        let counters = |ports: &[PortCounters], chains: &[ChainCounters], packets| NodeCounters {
            ports: ports.to_vec(),
            chains: chains.to_vec(),
            tunnels: port(0, packets).account,
            tunnels_transmitted: Volume { packets, bytes: packets },
            tunnels_ring_full: packets,
            deaths: BTreeMap::from([(InstanceId(Uuid::nil()), packets)]),
            crowded: CrowdedCounters {
                ports: BTreeMap::from([(PortId(Uuid::nil()), packets)]),
                paths: BTreeMap::from([(PathId(1), packets)]),
            },
            ..NodeCounters::none(NodeName::new("host1").unwrap(), BlueprintNumber(1))
        };
        let mut sum = counters(&[port(1, 5), port(2, 5)], &[chain(1, 5), chain(2, 5)], 5);
        // Another order, and a port that left before the first worker saw any packet of it.
        let other = counters(&[port(2, 3), port(1, 3), port(9, 3)], &[chain(2, 3), chain(1, 3)], 3);
        sum.merge(&other);
        let mut chains = [chain(1, 8), chain(2, 8)];
        chains.iter_mut().for_each(|chain| chain.is_partial = true);
        assert_eq!(sum, counters(&[port(1, 8), port(2, 8), port(9, 3)], &chains, 8));
        assert_eq!(sum.total().unaccounted(), 0);
    }
}

//! The flows that are translated, and the mappings that they share. Knows what is found by what, how long it is
//! kept, and how many there may be; refuses to know packets.
//!
//! A mapping lives as long as one of its flows does. What is due is forgotten before a packet is looked at: that
//! may be much behind a silence, but each flow is forgotten once.

use super::due::Due;
use super::end::{End, Flow, Host};
use super::ports::Ports;
use super::rules::Rules;
use super::session::{Seen, Wait};
use crate::function::{ENTRY_COST, Portion};
use crate::monitor::table::Table;
use crate::packet::Time;
use catena_rules::nat::FilteringBehaviour;
use catena_wire::scalar::IpProtocol;
use std::net::Ipv4Addr;

/// An inside endpoint's place outside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mapping {
    pub(super) outside: End,
    flows: u32,
}

/// A flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Session {
    /// Its mapping's slot.
    mapping: u32,
    pub(super) last: Time,
    pub(super) seen: Seen,
    is_dirty: bool,
}

/// What an exporter tells.
pub(super) enum Told {
    /// Forget all flows before.
    Nothing,
    /// It is forgotten.
    Gone(Flow),
    /// It has this outside endpoint.
    Flow(Flow, End, Session),
}

/// All of them.
#[derive(Clone, Debug)]
pub(super) struct Flows {
    flows_max: usize,
    sessions: Table<Flow, Session>,
    mappings: Table<End, Mapping>,
    /// The inside endpoints, by the outside ones.
    outsides: Table<End, End>,
    /// Flows of each host, where they are limited.
    hosts: Table<Host, u32>,
    /// Connections of TCP to each address, where filtering asks for them.
    contacts: Table<Flow, u32>,
    due: Due,
    ports: Ports,
    waits: [Time; Wait::COUNT],
    /// Flows that were forgotten since the last export, as many as there is room for.
    gone: Vec<Flow>,
    /// Must the next export tell all?
    is_whole_due: bool,
    /// Where the next portion of an export begins.
    portioned: usize,
}

/// One more or less in a table that counts; what counts nothing is not in it.
fn count<K: crate::monitor::table::Keyed>(table: &mut Table<K, u32>, key: K, more: bool) {
    match (table.find(&key), more) {
        (None, true) => {
            table.insert(key, 1);
        }
        (None, false) => {}
        (Some(slot), _) => {
            let Some(number) = table.get_mut(slot) else { return };
            *number = if more { number.saturating_add(1) } else { number.saturating_sub(1) };
            if *number == 0 {
                table.remove(slot);
            }
        }
    }
}

impl Flows {
    /// None yet, with room for so many.
    pub(super) fn new(rules: &Rules, flows_max: usize, seed: u64) -> Self {
        let some = |is_used: bool| if is_used { flows_max } else { 1 };
        let has_contacts = rules.filtering == FilteringBehaviour::AddressDependent;
        let mut ports = Ports::new(rules.shared.len());
        for (protocol, address, port) in rules.forwarded() {
            if let Some(place) = rules.place(address) {
                ports.set(place, protocol, port, true);
            }
        }
        Self {
            flows_max,
            sessions: Table::new(flows_max, seed),
            mappings: Table::new(flows_max, seed),
            outsides: Table::new(flows_max, seed),
            hosts: Table::new(some(rules.flows_per_host.is_some()), seed),
            contacts: Table::new(some(has_contacts), seed),
            due: Due::new(flows_max),
            ports,
            waits: Wait::ALL.map(|wait| wait.time(&rules.timeouts)),
            gone: Vec::with_capacity(flows_max),
            is_whole_due: true,
            portioned: 0,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.sessions.len() >= self.flows_max
    }

    pub(super) const fn ports(&self) -> &Ports {
        &self.ports
    }

    pub(super) fn mapping(&self, inside: &End) -> Option<End> {
        let (_, mapping) = self.mappings.get(self.mappings.find(inside)?)?;
        Some(mapping.outside)
    }

    pub(super) fn inside(&self, outside: &End) -> Option<End> {
        self.outsides.get(self.outsides.find(outside)?).map(|(_, inside)| *inside)
    }

    pub(super) fn session(&self, flow: &Flow) -> Option<Seen> {
        self.sessions.get(self.sessions.find(flow)?).map(|(_, session)| session.seen)
    }

    pub(super) fn of_host(&self, host: Ipv4Addr) -> u32 {
        let slot = self.hosts.find(&Host(host));
        slot.and_then(|slot| self.hosts.get(slot)).map_or(0, |(_, number)| *number)
    }

    /// Has this endpoint a connection of TCP to this address?
    pub(super) fn has_contact(&self, inside: End, address: Ipv4Addr) -> bool {
        self.contacts.find(&Flow { inside, remote: (address, 0) }).is_some()
    }

    /// The first flow that is due.
    fn due(&self, now: Time) -> Option<u32> {
        Wait::ALL.into_iter().zip(self.waits).find_map(|(wait, time)| {
            let slot = self.due.first(wait)?;
            let (_, session) = self.sessions.get(slot)?;
            (now.since(session.last) >= time.0).then_some(slot)
        })
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.due(now).is_some()
    }

    /// Forgets what is due.
    pub(super) fn forget(&mut self, now: Time, rules: &Rules) {
        while let Some(slot) = self.due(now) {
            self.remove(slot, rules);
        }
    }

    fn remove(&mut self, slot: u32, rules: &Rules) {
        self.due.remove(slot);
        let Some((flow, session)) = self.sessions.remove(slot) else { return };
        self.tally(&flow, rules, false);
        if self.gone.len() < self.gone.capacity() {
            self.gone.push(flow);
        } else {
            self.is_whole_due = true;
        }
        let Some(mapping) = self.mappings.get_mut(session.mapping) else { return };
        mapping.flows = mapping.flows.saturating_sub(1);
        if mapping.flows > 0 {
            return;
        }
        let Some((_, Mapping { outside, .. })) = self.mappings.remove(session.mapping) else {
            return;
        };
        if let Some(slot) = self.outsides.find(&outside) {
            self.outsides.remove(slot);
        }
        if let Some(place) = rules.place(outside.address) {
            self.ports.set(place, outside.protocol, outside.port, false);
        }
    }

    /// Counts a flow that comes or goes with its host and whom it talks to.
    fn tally(&mut self, flow: &Flow, rules: &Rules, comes: bool) {
        if rules.flows_per_host.is_some() {
            count(&mut self.hosts, Host(flow.inside.address), comes);
        }
        let is_tcp = flow.inside.protocol == IpProtocol::TCP;
        if is_tcp && rules.filtering == FilteringBehaviour::AddressDependent {
            count(&mut self.contacts, Flow { remote: (flow.remote.0, 0), ..*flow }, comes);
        }
    }

    /// A flow goes on, and this was seen of it now.
    pub(super) fn touch(&mut self, now: Time, flow: &Flow, seen: Seen) {
        let Some(slot) = self.sessions.find(flow) else { return };
        let Some(session) = self.sessions.get_mut(slot) else { return };
        (session.last, session.seen, session.is_dirty) = (now, seen, true);
        self.due.remove(slot);
        self.due.add(slot, seen.wait(flow.inside.protocol));
    }

    /// A flow begins, and its mapping, if it has none; none: there is no room.
    pub(super) fn begin(
        &mut self,
        now: Time,
        (flow, outside): (&Flow, End),
        seen: Seen,
        rules: &Rules,
    ) -> Option<()> {
        if self.is_full() {
            return None;
        }
        let mapping = match self.mappings.find(&flow.inside) {
            Some(slot) => slot,
            None => {
                let place = rules.place(outside.address)?;
                let slot = self.mappings.insert(flow.inside, Mapping { outside, flows: 0 })?;
                self.outsides.insert(outside, flow.inside)?;
                self.ports.set(place, outside.protocol, outside.port, true);
                slot
            }
        };
        self.mappings.get_mut(mapping)?.flows += 1;
        let session = Session { mapping, last: now, seen, is_dirty: true };
        let slot = self.sessions.insert(*flow, session)?;
        self.due.add(slot, seen.wait(flow.inside.protocol));
        self.tally(flow, rules, true);
        Some(())
    }

    /// Tells what has changed since the last time, or with `all` everything.
    pub(super) fn export(&mut self, all: bool, mut tell: impl FnMut(Told)) {
        let is_whole = all || self.is_whole_due;
        if is_whole && !all {
            tell(Told::Nothing);
        }
        for flow in self.gone.drain(..).filter(|_| !is_whole) {
            tell(Told::Gone(flow));
        }
        self.is_whole_due = false;
        for (flow, session) in self.sessions.iter_mut() {
            let is_dirty = std::mem::take(&mut session.is_dirty);
            let mapping = self.mappings.get(session.mapping);
            if let Some((_, mapping)) = mapping.filter(|_| is_dirty || is_whole) {
                tell(Told::Flow(*flow, mapping.outside, *session));
            }
        }
    }

    /// A portion of that; true: there is more. Where everything is to be told, it says that alone.
    pub(super) fn portion(
        &mut self,
        Portion { all, is_first, mut budget }: Portion,
        mut tell: impl FnMut(Told),
    ) -> bool {
        if is_first {
            self.portioned = 0;
        }
        if all && is_first {
            self.gone.clear();
            self.is_whole_due = false;
        }
        if std::mem::take(&mut self.is_whole_due) {
            self.gone.clear();
            tell(Told::Nothing);
            return false;
        }
        while let Some(flow) = self.gone.pop() {
            tell(Told::Gone(flow));
            budget = budget.saturating_sub(ENTRY_COST);
            if budget == 0 {
                return true;
            }
        }
        let mappings = &self.mappings;
        self.sessions.portion(&mut self.portioned, budget, |flow, session| {
            let is_dirty = std::mem::take(&mut session.is_dirty);
            let mapping = mappings.get(session.mapping).filter(|_| is_dirty || all);
            mapping.map(|(_, one)| tell(Told::Flow(*flow, one.outside, *session))).is_some()
        });
        self.portioned > 0
    }

    /// Forgets one flow, as its exporter has.
    pub(super) fn forget_one(&mut self, flow: &Flow, rules: &Rules) -> Option<()> {
        self.remove(self.sessions.find(flow)?, rules);
        Some(())
    }

    /// Forgets all flows.
    pub(super) fn clear(&mut self, rules: &Rules) {
        while let Some(slot) = self.sessions.oldest() {
            self.remove(slot, rules);
        }
        self.due.clear();
    }

    /// Puts the flows in the order in which they were seen last, wherever they came from.
    pub(super) fn sort(&mut self) {
        self.sessions.sort_by_key(|session| session.last);
        self.due.clear();
        let order: Vec<Flow> = self.sessions.iter().map(|(flow, _)| *flow).collect();
        for flow in order {
            let Some(slot) = self.sessions.find(&flow) else { continue };
            let Some((_, session)) = self.sessions.get(slot) else { continue };
            self.due.add(slot, session.seen.wait(flow.inside.protocol));
        }
    }
}

//! The firewall: rules of iptables and nftables, with the verdicts and the counters that the kernel gives.
//!
//! Knows chains and how one leads into another. Refuses to know the languages they were written in.

mod index;
mod lookup;
mod profile;
mod program;
mod reject;
pub mod sources;
#[cfg(test)]
mod tests;
mod walk;

use crate::bucket::Bucket;
use crate::function::{Answer, Function, Portion, RuleCount, StateEntry};
use crate::outcome::{DropCause, Event, EventKind, Outcomes, Verdict};
use crate::packet::{Direction, Packet, Time};
use crate::tracking::{self, Look, Tracking};
use catena_model::profile::Profile;
use catena_rules::rule_set::{RuleSet, Verdict as Said};
use catena_wire::frame::Network;
use program::{Final, Program, RuleNumber};
use walk::Effects;

pub use program::FirewallError;

/// Rules that end a chain from which on a search costs less than a look at each.
const INDEXED_FROM: usize = 12;

/// A firewall.
#[derive(Clone, Debug)]
pub struct Firewall {
    program: Program,
    profile: Profile,
    state: State,
    /// The connections, where rules ask for their states.
    tracking: Option<Tracking>,
}

/// What changes with packets.
#[derive(Clone, Debug)]
struct State {
    counts: Vec<RuleCount>,
    buckets: Vec<Bucket>,
    /// Rules whose counts or buckets have changed since they were exported.
    is_dirty: Vec<bool>,
}

impl Firewall {
    /// A firewall of rule sets, which packets meet one after the other.
    ///
    /// # Errors
    /// When there are too many rules in all.
    pub fn new(sets: &[RuleSet]) -> Result<Self, FirewallError> {
        Self::with_tracking(sets, &tracking::TrackingConfig::default())
    }

    /// The same, with connections tracked so where rules ask for their states.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_tracking(
        sets: &[RuleSet],
        tracking: &tracking::TrackingConfig,
    ) -> Result<Self, FirewallError> {
        Self::indexed(sets, tracking, INDEXED_FROM)
    }

    fn indexed(
        sets: &[RuleSet],
        tracking: &tracking::TrackingConfig,
        from: usize,
    ) -> Result<Self, FirewallError> {
        let program = Program::compile(sets, from)?;
        let rules = program.rules.len();
        let state = State {
            counts: vec![RuleCount::default(); rules],
            buckets: program.limits.iter().map(|(_, limit)| Bucket::new(limit)).collect(),
            is_dirty: vec![false; rules],
        };
        let is_tracking = program.tracked.v4 || program.tracked.v6;
        let tracking = is_tracking.then(|| Tracking::new(tracking));
        Ok(Self { profile: profile::of(&program), program, state, tracking })
    }

    /// What is known of a packet's connection, where rules ask for it.
    fn look(&self, now: Time, packet: &Packet<'_>) -> Option<Look> {
        let tracking = self.tracking.as_ref()?;
        let is_v6 = packet.view.network == Network::Ipv6;
        tracking.look(now, packet).filter(|_| self.program.tracked.has(is_v6))
    }
}

/// Effects that happen.
struct Live<'s, 'o> {
    state: &'s mut State,
    outcomes: &'o mut Outcomes,
    at: usize,
    now: Time,
    packet: (u64, u64),
    look: Option<&'s Look>,
    limits: &'s [(RuleNumber, catena_rules::rule_set::Limit)],
}

impl Effects for Live<'_, '_> {
    fn count(&mut self, rule: RuleNumber) {
        let (packets, bytes) = self.packet;
        if let Some(count) = self.state.counts.get_mut(rule as usize) {
            count.packets += packets;
            count.bytes += bytes;
        }
        if let Some(is_dirty) = self.state.is_dirty.get_mut(rule as usize) {
            *is_dirty = true;
        }
    }

    fn take(&mut self, limit: usize) -> bool {
        let bucket = self.state.buckets.get_mut(limit).zip(self.limits.get(limit));
        bucket.is_none_or(|(bucket, (_, limit))| bucket.take(limit, self.now))
    }

    fn tell(&mut self, rule: RuleNumber) {
        let event = Event { at: self.now, kind: EventKind::Logged, rule };
        self.outcomes.tell(self.at, event);
    }

    fn state(&self) -> Option<u128> {
        self.look.map(|look| look.state as u128)
    }
}

/// Effects that would happen.
struct Asked<'s> {
    state: &'s State,
    now: Time,
    look: Option<&'s Look>,
    limits: &'s [(RuleNumber, catena_rules::rule_set::Limit)],
    rules: Vec<RuleNumber>,
}

impl Effects for Asked<'_> {
    fn count(&mut self, rule: RuleNumber) {
        self.rules.push(rule);
    }

    fn take(&mut self, limit: usize) -> bool {
        let bucket = self.state.buckets.get(limit).zip(self.limits.get(limit));
        bucket.is_none_or(|(bucket, (_, limit))| bucket.clone().take(limit, self.now))
    }

    fn tell(&mut self, _rule: RuleNumber) {}

    fn state(&self) -> Option<u128> {
        self.look.map(|look| look.state as u128)
    }
}

impl Function for Firewall {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn process(
        &mut self,
        now: Time,
        direction: Direction,
        batch: &[Packet<'_>],
        outcomes: &mut Outcomes,
    ) {
        outcomes.begin(batch.len());
        for (at, packet) in batch.iter().enumerate() {
            let look = self.look(now, packet);
            if look.as_ref().is_some_and(Look::is_full) {
                outcomes.drop_packet(at, DropCause::Full);
                continue;
            }
            let mut effects = Live {
                state: &mut self.state,
                outcomes,
                at,
                now,
                packet: (packet.wire_packets.into(), packet.wire_bytes),
                look: look.as_ref(),
                limits: &self.program.limits,
            };
            let Final { rule, said } = self.program.decide(direction, packet, &mut effects);
            let is_reset = match said {
                Said::Reject(how) => reject::tell(how, packet, (at, direction), outcomes),
                _ => false,
            };
            if said != Said::Accept {
                outcomes.drop_packet(at, DropCause::Rule(rule));
            }
            match self.tracking.as_mut().zip(look) {
                Some((tracking, look)) if is_reset => tracking.settle_reset(now, &look),
                Some((tracking, look)) => tracking.settle(&look, said == Said::Accept),
                None => {}
            }
        }
    }

    fn elapse(&mut self, now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
        if let Some(tracking) = &mut self.tracking {
            tracking.elapse(now);
        }
    }

    fn ask(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Answer {
        let limits = &*self.program.limits;
        let look = self.look(now, packet);
        if look.as_ref().is_some_and(Look::is_full) {
            let verdict = Verdict::Drop(DropCause::Full);
            return Answer { verdict, patches: Vec::new(), rules: Vec::new() };
        }
        let look = look.as_ref();
        let mut effects = Asked { state: &self.state, now, look, limits, rules: Vec::new() };
        let Final { rule, said } = self.program.decide(direction, packet, &mut effects);
        let is_accepted = said == Said::Accept;
        let verdict =
            if is_accepted { Verdict::Pass } else { Verdict::Drop(DropCause::Rule(rule)) };
        let mut rules = effects.rules;
        if rules.last() != Some(&rule) {
            rules.push(rule);
        }
        Answer { verdict, patches: Vec::new(), rules }
    }

    fn export(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        self.export_rules(all, into);
        if let Some(tracking) = &mut self.tracking {
            tracking.export(all, into);
        }
    }

    fn export_portion(&mut self, portion: Portion, into: &mut Vec<StateEntry>) -> bool {
        if let Some(tracking) = &mut self.tracking
            && tracking.export_portion(portion, into)
        {
            return true;
        }
        self.export_rules(portion.all, into);
        false
    }

    fn import(&mut self, entries: &[StateEntry]) -> usize {
        let mut taken = 0;
        for entry in entries {
            let connection = self.tracking.as_mut().and_then(|tracking| tracking.take_over(entry));
            taken += usize::from(connection.or_else(|| self.take_over(entry)).is_some());
        }
        taken
    }

    fn report(&self, into: &mut Vec<RuleCount>) {
        into.extend_from_slice(&self.state.counts);
    }

    fn rule_in_words(&self, rule: u32) -> Option<String> {
        self.program.rules.get(rule as usize).cloned()
    }
}

impl Firewall {
    /// What rules have counted, and their buckets, where that has changed, or with `all` everywhere.
    fn export_rules(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        for (rule, is_dirty) in self.state.is_dirty.iter_mut().enumerate() {
            if !std::mem::take(is_dirty) && !all {
                continue;
            }
            let Some(content) = self.program.contents.get(rule) else { continue };
            let count = self.state.counts.get(rule).copied().unwrap_or_default();
            let limits = self.program.limits.iter().zip(&self.state.buckets);
            let buckets = limits.filter(|((of, _), _)| *of as usize == rule);
            let mut value = Vec::with_capacity(32);
            value.extend(count.packets.to_be_bytes());
            value.extend(count.bytes.to_be_bytes());
            buckets.for_each(|(_, bucket)| bucket.write(&mut value));
            into.push(StateEntry { key: content.to_be_bytes().into(), value: Some(value) });
        }
    }

    /// Takes one entry over that another firewall has exported; none: no rule here has its content, or it
    /// is none.
    fn take_over(&mut self, entry: &StateEntry) -> Option<()> {
        let content =
            u128::from_be_bytes(*entry.key.first_chunk().filter(|_| entry.key.len() == 16)?);
        let rule = *self.program.by_content.get(&content)?;
        let (packets, rest) = entry.value.as_deref()?.split_first_chunk()?;
        let (bytes, mut rest) = rest.split_first_chunk()?;
        let limits = self.program.limits.iter().zip(&mut self.state.buckets);
        let buckets = limits.filter(|((of, _), _)| *of as usize == rule);
        let mut read = Vec::new();
        for ((_, limit), bucket) in buckets {
            let known;
            (known, rest) = Bucket::read(rest, limit)?;
            read.push((bucket, known));
        }
        if !rest.is_empty() {
            return None;
        }
        read.into_iter().for_each(|(bucket, known)| *bucket = known);
        let count = self.state.counts.get_mut(rule)?;
        count.packets = u64::from_be_bytes(*packets);
        count.bytes = u64::from_be_bytes(*bytes);
        *self.state.is_dirty.get_mut(rule)? = true;
        Some(())
    }
}

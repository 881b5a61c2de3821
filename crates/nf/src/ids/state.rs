//! What an ids remembers of packets, and excerpts of it. Knows which of it a packet may touch.

use super::config::IdsConfig;
use super::datagrams::{Added, DATAGRAM_BYTES, Datagrams};
use super::flow::{Counter, CounterKey, Flow, Pair};
use super::program::Program;
use super::stream::{BLOCK_BYTES, Pool};
use crate::monitor::table::Table;
use crate::packet::{Packet, Time};
use catena_model::limits::FUNCTION_THRESHOLDS_MAX;
use catena_rules::snort::Track;

/// Matches that are counted.
pub(super) type Counters = Table<CounterKey, Counter>;

/// What is remembered.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) flows: Table<Pair, Flow>,
    pub(super) pool: Pool,
    pub(super) datagrams: Datagrams,
    pub(super) counters: Counters,
    flows_max: usize,
    counters_max: usize,
    /// Where the next look for what is over begins.
    flow_at: u32,
    counter_at: u32,
}

impl State {
    pub(super) fn new(config: &IdsConfig, program: &Program) -> Self {
        let counters = if program.counted.is_empty() { 0 } else { FUNCTION_THRESHOLDS_MAX };
        let fragments = config.reassembly_bytes / 4 / DATAGRAM_BYTES;
        let blocks = (config.reassembly_bytes - fragments * DATAGRAM_BYTES) / BLOCK_BYTES;
        Self::with_room((config.flows_max, blocks, fragments, counters), config.seed)
    }

    fn with_room(
        (flows, blocks, datagrams, counters): (usize, usize, usize, usize),
        seed: u64,
    ) -> Self {
        Self {
            flows: Table::new(flows, seed),
            pool: Pool::new(blocks),
            datagrams: Datagrams::new(datagrams),
            counters: Table::new(counters, seed),
            flows_max: flows,
            counters_max: counters,
            flow_at: 0,
            counter_at: 0,
        }
    }

    /// Gives back what a flow holds.
    pub(super) fn release(&mut self, flow: &Flow) {
        let blocks = flow.streams.iter().flatten().filter_map(|stream| stream.block);
        blocks.for_each(|block| self.pool.give_back(block));
    }

    /// Forgets what is over, of so many of each kind.
    pub(super) fn sweep(&mut self, program: &Program, now: Time, number: usize) {
        for _ in 0..number.min(self.flows_max) {
            let at = self.flow_at;
            self.flow_at = if at as usize + 1 >= self.flows_max { 0 } else { at + 1 };
            let over = self.flows.get(at).filter(|(key, flow)| flow.is_over(key, now)).is_some();
            if over && let Some((_, flow)) = self.flows.remove(at) {
                self.release(&flow);
            }
        }
        for _ in 0..number.min(self.counters_max) {
            let at = self.counter_at;
            self.counter_at = if at as usize + 1 >= self.counters_max { 0 } else { at + 1 };
            let is_over = self.counters.get(at).is_some_and(|(key, counter)| {
                let rule = program.rules.rules.get(key.rule as usize);
                let threshold = rule.and_then(|rule| rule.thresholds.get(usize::from(key.nth)));
                threshold.is_none_or(|one| {
                    now.since(counter.since) >= Time::seconds(one.seconds.into()).0
                })
            });
            if is_over {
                self.counters.remove(at);
            }
        }
    }

    /// What a packet may touch, and as much room beside it as it may take.
    pub(super) fn excerpt(
        &self,
        (program, config, now): (&Program, &IdsConfig, Time),
        packet: &Packet<'_>,
    ) -> Self {
        let key = Datagrams::key(packet).map(|(key, _)| key);
        let slot = key.as_ref().and_then(|key| self.datagrams.find(key));
        let has_fragments = key.is_some() && (slot.is_some() || self.datagrams.free().is_some());
        // Which flow a packet in fragments is of, only all of it tells.
        let mut datagrams = Datagrams::new(usize::from(has_fragments));
        let mut flow = packet.view.flow;
        if let Some(slot) = slot {
            if let (Some(to), Some(from)) =
                (datagrams.slots.first_mut(), self.datagrams.slots.get(slot))
            {
                *to = *from;
            }
            datagrams.bytes_mut(0).copy_from_slice(self.datagrams.bytes(slot));
        }
        if key.is_some() {
            let mut probe = datagrams.clone();
            let mut frame = Vec::new();
            if let Added::Whole(slot, _) = probe.add(now, packet) {
                let written = probe.write(slot, &mut frame);
                flow = written
                    .and_then(|()| Packet::read(&frame).ok())
                    .and_then(|whole| whole.view.flow);
            }
        }
        let pair = flow.map(|flow| Pair::of(&flow).0);
        let own = pair.and_then(|pair| self.flows.get(self.flows.find(&pair)?)).copied();
        let held = own
            .iter()
            .flat_map(|(_, flow)| flow.streams.iter().flatten())
            .filter(|one| one.block.is_some());
        let blocks = held.count() + self.pool.free_blocks().min(1);
        let has_room = self.flows.len() < self.flows_max;
        let counters = self.counters_of(program, flow);
        let counters_left = self.counters_max - self.counters.len();
        let room = counters.len() + counters_left.min(2 * program.counted.len());
        let flows = usize::from(own.is_some() || has_room);
        let mut excerpt = Self::with_room((flows, blocks, 0, room), config.seed);
        excerpt.datagrams = datagrams;
        if let Some((pair, mut flow)) = own {
            for stream in flow.streams.iter_mut().flatten() {
                if let Some(block) = stream.block {
                    stream.block = excerpt.pool.take();
                    let to = stream.block.map(|block| excerpt.pool.get_mut(block));
                    to.into_iter().for_each(|to| to.copy_from_slice(self.pool.get(block)));
                }
            }
            excerpt.flows.insert(pair, flow);
        }
        for (key, counter) in counters {
            excerpt.counters.insert(key, counter);
        }
        excerpt
    }

    fn counters_of(
        &self,
        program: &Program,
        flow: Option<catena_wire::flow::FlowKey>,
    ) -> Vec<(CounterKey, Counter)> {
        let mut found = Vec::new();
        let Some(flow) = flow else { return found };
        for number in &program.counted {
            let Some(rule) = program.rules.rules.get(*number as usize) else { continue };
            for (nth, threshold) in (0..).zip(&rule.thresholds) {
                let host = match threshold.track {
                    Track::Source => Some(flow.source),
                    Track::Destination => Some(flow.destination),
                    Track::Rule => None,
                };
                let key = CounterKey { rule: *number, nth, host };
                let slot = self.counters.find(&key);
                found.extend(slot.and_then(|slot| self.counters.get(slot)).copied());
            }
        }
        found
    }
}

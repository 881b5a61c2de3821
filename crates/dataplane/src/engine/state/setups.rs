//! Flows that the controller is asked for, and their packets until it has answered. Knows how many of whom may wait,
//! when to ask again and for how long; refuses to know why a flow is asked for, and whether an answer fits.
//!
//! A flow is known by its port too, so that nobody fills the room of another's flow by sending what looks like it.
//! A port that brings many new flows has its own share of the room and its own bucket, and no more flows on their
//! way to the controller than its bound: so those of another port wait for few of them.

use super::port_rates::PortRates;
use crate::engine::collections::shares::{Shares, leaves_room};
use crate::engine::packet::PortSlot;
use crate::engine::vector::Work;
use catena_model::id::{ChainId, PortId};
use catena_model::limits::{
    SETUP_ASK_AGAIN_MS, SETUP_FLOW_PACKETS_MAX, SETUP_NODE_PACKETS_MAX, SETUP_PORT_FLOWS_BURST,
    SETUP_PORT_FLOWS_MAX, SETUP_PORT_FLOWS_PER_SECOND, SETUP_WAIT_MS,
};
use catena_model::setup::{FlowAnswer, FlowAsked, SetupCounters};
use catena_model::{DropReason, PathId};
use catena_wire::flow::FlowKey;
use std::collections::{BTreeMap, HashMap, VecDeque};

const WAIT_NS: u64 = SETUP_WAIT_MS * 1_000_000;
const ASK_AGAIN_NS: u64 = SETUP_ASK_AGAIN_MS * 1_000_000;
/// Questions that nobody has taken yet; what is beyond is asked the next time.
const QUESTIONS_MAX: usize = 2 * SETUP_NODE_PACKETS_MAX;
/// Bits of a sequence that count; those above tell one start of the engine from another.
const COUNTING_BITS: u32 = 40;

/// What the controller has said of all flows of a vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing yet: it is asked for those that are not set up.
    #[default]
    Nothing,
    /// They may go.
    Yes,
    /// It did not answer for those that are not set up.
    NoAnswer,
}

/// A flow that is not set up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFlow {
    /// By what the classifier's memory knows it.
    pub(crate) key: u64,
    pub(crate) flow: FlowKey,
    pub(crate) chain: ChainId,
    pub(crate) path: PathId,
    pub(crate) port: PortId,
    /// The slot of the port, and its serial.
    pub(crate) place: (PortSlot, u32),
}

/// One that the controller is asked for.
#[derive(Debug)]
struct Waiting {
    new: NewFlow,
    works: VecDeque<Work>,
    since_ns: u64,
    asked_ns: u64,
}

/// A flow that was answered for.
pub(crate) struct Answered {
    pub(crate) key: u64,
    pub(crate) path: PathId,
    /// Its packets, in the order in which they came.
    pub(crate) works: VecDeque<Work>,
}

/// All that wait.
#[derive(Debug)]
pub(crate) struct Setups {
    /// By sequence, the order in which they came.
    flows: BTreeMap<u64, Waiting>,
    sequences: HashMap<(u32, u64), u64>,
    packets: usize,
    /// Packets and flows of each port, by serial.
    packets_of: Shares<u32>,
    flows_of: Shares<u32>,
    rates: PortRates,
    last_sequence: u64,
    is_controller_there: bool,
    questions: Vec<FlowAsked>,
    counters: SetupCounters,
}

impl Setups {
    /// None wait, and nobody is there to be asked. `seed`: another at each start.
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            flows: BTreeMap::new(),
            sequences: HashMap::new(),
            packets: 0,
            packets_of: Shares::new(),
            flows_of: Shares::new(),
            rates: PortRates::new(SETUP_PORT_FLOWS_PER_SECOND, SETUP_PORT_FLOWS_BURST),
            last_sequence: seed << COUNTING_BITS,
            is_controller_there: false,
            questions: Vec::new(),
            counters: SetupCounters::default(),
        }
    }

    /// Does no packet wait?
    pub(crate) fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Packets that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.packets
    }

    /// Is there anybody to be asked?
    pub(crate) fn is_controller_there(&self) -> bool {
        self.is_controller_there
    }

    /// Somebody can be asked from now on, or nobody.
    pub(crate) fn note_controller(&mut self, is_there: bool) {
        self.is_controller_there = is_there;
    }

    /// Lets a packet wait, and asks for its flow if it is the first; answers it with the name that it ends by if
    /// there is no room.
    pub(crate) fn hold(
        &mut self,
        now_ns: u64,
        new: NewFlow,
        work: Work,
    ) -> Option<(Work, DropReason)> {
        let serial = new.place.1;
        let free = SETUP_NODE_PACKETS_MAX.saturating_sub(self.packets);
        let known = self.sequences.get(&(serial, new.key)).copied();
        let is_full = |setups: &Self| {
            let flow = known.and_then(|sequence| setups.flows.get(&sequence));
            flow.is_some_and(|flow| flow.works.len() >= SETUP_FLOW_PACKETS_MAX)
        };
        if is_full(self) {
            return Some((work, DropReason::SetupFlowFull));
        }
        if !leaves_room(self.packets_of.held_by(&serial), free) {
            return Some((work, DropReason::SetupNodeFull));
        }
        let sequence = match known {
            Some(sequence) => sequence,
            None => match self.open(now_ns, new) {
                Ok(sequence) => sequence,
                Err(reason) => return Some((work, reason)),
            },
        };
        if let Some(flow) = self.flows.get_mut(&sequence) {
            flow.works.push_back(work);
            self.packets += 1;
            self.packets_of.take(serial);
            self.counters.chains.entry(new.chain).or_default().held += 1;
        }
        None
    }

    fn open(&mut self, now_ns: u64, new: NewFlow) -> Result<u64, DropReason> {
        let serial = new.place.1;
        if self.flows_of.held_by(&serial) as usize >= SETUP_PORT_FLOWS_MAX {
            return Err(DropReason::SetupNodeFull);
        }
        if !self.rates.take(now_ns, new.place, 1) {
            return Err(DropReason::SetupRateExceeded);
        }
        self.last_sequence = self.last_sequence.wrapping_add(1);
        let sequence = self.last_sequence;
        let waiting = Waiting { new, works: VecDeque::new(), since_ns: now_ns, asked_ns: now_ns };
        self.flows.insert(sequence, waiting);
        self.sequences.insert((serial, new.key), sequence);
        self.flows_of.take(serial);
        self.counters.chains.entry(new.chain).or_default().asked += 1;
        self.ask(sequence, &new);
        Ok(sequence)
    }

    fn ask(&mut self, sequence: u64, new: &NewFlow) {
        if self.questions.len() < QUESTIONS_MAX {
            let NewFlow { port, path, flow, .. } = *new;
            self.questions.push(FlowAsked { sequence, port, path, flow });
        }
    }

    /// What the controller is to be asked now.
    pub(crate) fn take_questions(&mut self) -> Vec<FlowAsked> {
        std::mem::take(&mut self.questions)
    }

    /// An answer; none: the flow does not wait any more, or the answer does not fit what it waits for.
    pub(crate) fn answer(
        &mut self,
        now_ns: u64,
        answer: &FlowAnswer,
        fits: impl FnOnce(PathId) -> bool,
    ) -> Option<Answered> {
        let waiting = self.flows.get(&answer.sequence)?;
        let chain = waiting.new.chain;
        if waiting.new.path != answer.path || !fits(answer.path) {
            self.counters.chains.entry(chain).or_default().unfit += 1;
            return None;
        }
        let Waiting { new, works, since_ns, .. } = self.end(answer.sequence)?;
        let whole = now_ns.saturating_sub(since_ns);
        let times = answer.times;
        let elsewhere = [times.header, times.controller, times.channel];
        let counters = &mut self.counters;
        counters.chains.entry(chain).or_default().answered += 1;
        counters.whole.add(whole);
        counters.header.add(times.header);
        counters.controller.add(times.controller);
        counters.channel.add(times.channel);
        counters.edge.add(elsewhere.into_iter().fold(whole, u64::saturating_sub));
        Some(Answered { key: new.key, path: new.path, works })
    }

    /// Packets of the next flow that has waited for too long, or that nobody can be asked for.
    pub(crate) fn next_unanswered(&mut self, now_ns: u64) -> Option<VecDeque<Work>> {
        let (sequence, waiting) = self.flows.first_key_value()?;
        let is_over = waiting.since_ns.saturating_add(WAIT_NS) <= now_ns;
        if self.is_controller_there && !is_over {
            return None;
        }
        let waiting = self.end(*sequence)?;
        self.counters.chains.entry(waiting.new.chain).or_default().unanswered += 1;
        Some(waiting.works)
    }

    /// Packets of the next flow whose path is not asked for any more.
    pub(crate) fn next_turned(
        &mut self,
        is_asked_for: impl Fn(PathId) -> bool,
    ) -> Option<VecDeque<Work>> {
        let mut flows = self.flows.iter();
        let (sequence, _) = flows.find(|(_, waiting)| !is_asked_for(waiting.new.path))?;
        let sequence = *sequence;
        self.end(sequence).map(|waiting| waiting.works)
    }

    /// Asks again for those whose answer is late.
    pub(crate) fn ask_again(&mut self, now_ns: u64) {
        let mut late = Vec::new();
        for (sequence, waiting) in &mut self.flows {
            if waiting.asked_ns.saturating_add(ASK_AGAIN_NS) <= now_ns {
                waiting.asked_ns = now_ns;
                late.push((*sequence, waiting.new));
            }
        }
        for (sequence, new) in late {
            self.counters.chains.entry(new.chain).or_default().asked_again += 1;
            self.ask(sequence, &new);
        }
    }

    /// When somebody is to be asked again, or given up; none: nobody waits.
    pub(crate) fn next_look_ns(&self) -> Option<u64> {
        let (_, first) = self.flows.first_key_value()?;
        let late = self.flows.values().map(|waiting| waiting.asked_ns).min();
        let late = late.map(|asked_ns| asked_ns.saturating_add(ASK_AGAIN_NS));
        [late, Some(first.since_ns.saturating_add(WAIT_NS))].into_iter().flatten().min()
    }

    fn end(&mut self, sequence: u64) -> Option<Waiting> {
        let waiting = self.flows.remove(&sequence)?;
        let serial = waiting.new.place.1;
        self.sequences.remove(&(serial, waiting.new.key));
        self.flows_of.give_back_by(&serial);
        for _ in &waiting.works {
            self.packets_of.give_back_by(&serial);
        }
        self.packets -= waiting.works.len();
        Some(waiting)
    }

    /// Forgets the counts of chains that are not there any more.
    pub(crate) fn align(&mut self, is_there: impl Fn(ChainId) -> bool) {
        self.counters.chains.retain(|chain, _| is_there(*chain));
    }

    /// How set-ups went.
    pub(crate) fn counters(&self) -> &SetupCounters {
        &self.counters
    }
}

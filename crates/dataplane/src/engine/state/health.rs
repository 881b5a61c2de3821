//! Which watched instances of this node are alive: what was asked of each, what came back, and
//! when silence is death.
//!
//! Knows times, counts and kinds of evidence. Refuses to know how a probe looks, how it is sent
//! and what becomes of packets for the dead.
//!
//! There are two kinds of probe. A link probe asks the instance's interface whether it is there; a
//! transit probe is a packet that the instance should let through, made like one of a flow that it
//! did let through. A function may answer neither and work all the same, and one whose kernel
//! answers for its interface may have stopped forwarding: an instance is dead only if it is silent
//! to the strongest kind of probe that it has ever answered. Packets that come back from it are
//! evidence of their own, always.

mod board;

pub use board::{Board, WatchDuty};

use crate::engine::account::slots::Slots;
use crate::engine::packet::index::PortIndex;
use crate::engine::tables::Tables;
use crate::engine::tables::path::InstancePlace;
use board::News;
use catena_model::PathId;
use catena_model::id::{InstanceId, PortId};
use catena_model::limits::{
    PROBE_ANSWER_WAIT_MS, PROBE_GAP_MS, PROBE_PERIOD_MS, PROBES_UNANSWERED_MAX,
};
use catena_model::status::{Health as HealthState, InstanceHealth};
use catena_wire::flow::{FlowKey, mix};
use catena_wire::probe::ProbeMark;
use catena_wire::scalar::MacAddr;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

const MS: u64 = 1_000_000;
const PERIOD_NS: u64 = PROBE_PERIOD_MS * MS;
const ANSWER_WAIT_NS: u64 = PROBE_ANSWER_WAIT_MS * MS;
const GAP_NS: u64 = PROBE_GAP_MS * MS;
/// How often whoever drives the engine shall look while anything is watched; well below the gap
/// after which missing answers do not count.
const HEARTBEAT_NS: u64 = 10 * MS;
/// Watches begin in so many groups, lest all probes leave together.
const GROUPS: u64 = 8;

/// How a packet came through an instance: what a transit probe repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProbeWay {
    pub(crate) flow: FlowKey,
    pub(crate) ingress: PortId,
    pub(crate) ingress_mac: MacAddr,
    /// It reads the chain header of this hop of this path; none: it gets bare packets.
    pub(crate) headed: Option<(PathId, u16)>,
}

#[derive(Clone, Debug)]
struct Watch {
    id: InstanceId,
    /// Among the watched instances of the tables in force.
    index: u32,
    name: String,
    ports: (PortId, PortId),
    /// Tells it from every other watch, also from a later one of the same instance.
    serial: u64,
    is_dead: bool,
    /// Anything was ever seen of it.
    is_known: bool,
    answers_link: bool,
    way: Option<ProbeWay>,
    /// A probe came back by this way.
    is_way_proven: bool,
    /// Probes since the last evidence that counts.
    unanswered: u32,
    sent_ns: u64,
    /// When the next probe is due; 0: not placed yet.
    next_ns: u64,
    /// What who judges has not been told yet.
    news: News,
}

impl Watch {
    fn new(id: InstanceId, ports: (PortId, PortId), serial: u64) -> Self {
        Self {
            id,
            index: 0,
            name: String::new(),
            ports,
            serial,
            is_dead: false,
            is_known: false,
            answers_link: false,
            way: None,
            is_way_proven: false,
            unanswered: 0,
            sent_ns: 0,
            next_ns: 0,
            news: News::default(),
        }
    }

    fn saw(&mut self) {
        self.is_known = true;
        self.is_dead = false;
        self.unanswered = 0;
    }

    /// When it will be dead if nothing is seen of it until then.
    fn judgement_ns(&self) -> Option<u64> {
        let is_judged = !self.is_dead && (self.is_way_proven || self.answers_link);
        let is_silent = self.unanswered >= PROBES_UNANSWERED_MAX;
        (is_judged && is_silent).then(|| self.sent_ns.saturating_add(ANSWER_WAIT_NS))
    }

    fn forget_way(&mut self) {
        self.way = None;
        self.news.way = None;
        self.is_way_proven = false;
    }

    fn state(&self) -> HealthState {
        match (self.is_known, self.is_dead) {
            (_, true) => HealthState::Dead,
            (true, false) => HealthState::Alive,
            (false, false) => HealthState::Unknown,
        }
    }
}

/// The probes that one instance shall get now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    /// Index among the watched instances of the tables.
    pub(crate) watch: u32,
    pub(crate) mark: ProbeMark,
    pub(crate) asks_link: bool,
    pub(crate) way: Option<ProbeWay>,
}

/// All watches.
#[derive(Clone, Debug)]
pub(crate) struct Health {
    watches: Vec<Watch>,
    /// By index of the watched instances: the place of its watch.
    places: Vec<Option<usize>>,
    secret: u64,
    last_serial: u64,
    ticked_ns: Option<u64>,
    duty: WatchDuty,
    /// When the board is looked at next.
    beat_ns: Option<u64>,
    /// The last beat of each who tells, and when it was heard.
    tellers: BTreeMap<usize, (u64, u64)>,
}

impl Health {
    /// Nothing is watched; `secret` seals the probes.
    pub(crate) fn new(secret: u64, duty: WatchDuty) -> Self {
        Self {
            watches: Vec::new(),
            places: Vec::new(),
            secret,
            last_serial: 0,
            ticked_ns: None,
            duty,
            beat_ns: None,
            tellers: BTreeMap::new(),
        }
    }

    /// Lines the watches up with new tables; what is known of instances that stay is kept.
    pub(crate) fn align(&mut self, tables: &Tables) {
        self.places.clear();
        let old = self.watches.drain(..);
        let mut old: HashMap<InstanceId, Watch> = old.map(|watch| (watch.id, watch)).collect();
        for (index, instance) in tables.watched.iter() {
            let id = |port: PortIndex| tables.port(port).entry.id;
            let ports = (id(instance.ingress), id(instance.egress));
            let known = old.remove(&instance.id).filter(|watch| watch.ports == ports);
            let mut watch = known.unwrap_or_else(|| {
                self.last_serial += 1;
                Watch::new(instance.id, ports, self.last_serial)
            });
            watch.index = index;
            watch.name.clone_from(&instance.name);
            let is_gone = |way: &ProbeWay| {
                let lost_path = way.headed.is_some_and(|at| !is_at(tables, at, way.ingress));
                lost_path || tables.names.port(way.ingress).is_none()
            };
            if watch.way.as_ref().is_some_and(is_gone) {
                watch.forget_way();
            }
            let place = self.watches.len();
            self.places.resize(self.places.len().max(index as usize + 1), None);
            self.places[index as usize] = Some(place);
            self.watches.push(watch);
        }
        if self.watches.is_empty() {
            self.ticked_ns = None;
            self.tellers.clear();
        }
        self.align_board();
    }

    /// What is known of the watched instance with this index.
    fn watch(&mut self, index: u32) -> Option<&mut Watch> {
        let place = self.places.get(index as usize).copied().flatten()?;
        self.watches.get_mut(place)
    }

    /// Was anything watched since the start? Probes may still be under way then.
    pub(crate) fn has_probed(&self) -> bool {
        self.last_serial > 0
    }

    /// Is the watched instance known to be dead?
    pub(crate) fn is_dead(&self, watch: Option<u32>) -> bool {
        watch.is_some_and(|watch| {
            let place = self.places.get(watch as usize).copied().flatten();
            place.is_some_and(|place| self.watches[place].is_dead)
        })
    }

    /// Judges who has been silent for too long and tells whom to probe now. Answers when it wants
    /// to be asked again; none: nothing is watched.
    pub(crate) fn tick(&mut self, now_ns: u64, due: &mut Vec<Due>) -> Option<u64> {
        if self.watches.is_empty() {
            return None;
        }
        let is_beat = self.beat_ns.is_none_or(|beat_ns| beat_ns <= now_ns);
        if is_beat {
            self.beat_ns = Some(now_ns.saturating_add(HEARTBEAT_NS));
        }
        match self.duty.clone() {
            WatchDuty::Tells(board, teller) => {
                if is_beat {
                    self.tell(&board, teller);
                }
                self.beat_ns
            }
            WatchDuty::Judges(board) if is_beat => Some(self.judge_by(&board, now_ns, due)),
            WatchDuty::Judges(_) | WatchDuty::Alone => Some(self.judge(now_ns, due)),
        }
    }

    fn judge(&mut self, now_ns: u64, due: &mut Vec<Due>) -> u64 {
        let ticked_ns = self.ticked_ns.replace(now_ns).unwrap_or(now_ns);
        let has_slept = now_ns.saturating_sub(ticked_ns) > GAP_NS || self.is_deaf(now_ns);
        let mut wake_ns = now_ns.saturating_add(HEARTBEAT_NS);
        for (number, watch) in (0u32..).zip(&mut self.watches) {
            if has_slept && !watch.is_dead {
                watch.unanswered = 0;
            }
            if watch.judgement_ns().is_some_and(|at| at <= now_ns) {
                watch.is_dead = true;
            }
            if watch.next_ns == 0 {
                watch.next_ns = now_ns + u64::from(number) % GROUPS * (PERIOD_NS / GROUPS);
            }
            if watch.next_ns <= now_ns {
                let seal = mix(self.secret ^ mix(watch.serial));
                due.push(Due {
                    watch: watch.index,
                    mark: ProbeMark { number: watch.serial, seal },
                    asks_link: !watch.is_way_proven,
                    way: watch.way,
                });
            } else {
                wake_ns = wake_ns.min(watch.next_ns);
            }
            wake_ns = watch.judgement_ns().map_or(wake_ns, |at| wake_ns.min(at));
        }
        wake_ns
    }

    /// A probe that was due has left.
    pub(crate) fn sent(&mut self, watch: u32, now_ns: u64) {
        let Some(watch) = self.watch(watch) else { return };
        watch.unanswered = watch.unanswered.saturating_add(1);
        watch.sent_ns = now_ns;
        watch.next_ns += PERIOD_NS;
        if watch.next_ns <= now_ns {
            watch.next_ns = now_ns + PERIOD_NS;
        }
    }

    /// Packets have come back from it. `way` is asked for while it has none that is proven.
    pub(crate) fn saw_return(&mut self, watch: u32, way: impl FnOnce() -> Option<ProbeWay>) {
        let Some(watch) = self.watch(watch) else { return };
        watch.saw();
        watch.news.has_returned = true;
        if !watch.is_way_proven {
            watch.way = way();
            watch.news.way = watch.way;
        }
    }

    /// A port of it has the address that was asked for, or gave the question itself back.
    pub(crate) fn saw_link(&mut self, tables: &Tables, port: PortIndex, address: Option<IpAddr>) {
        for watch in &mut self.watches {
            let instance = tables.watched.get(watch.index);
            let is_its_port = port == instance.ingress || port == instance.egress;
            if is_its_port && address.is_none_or(|address| instance.addresses.contains(&address)) {
                watch.answers_link = true;
                watch.news.answers_link = true;
                if !watch.is_way_proven {
                    watch.saw();
                }
            }
        }
    }

    /// Is it a mark that this engine made? If it came out of a port of the instance, the instance
    /// has let it through.
    pub(crate) fn saw_mark(&mut self, mark: ProbeMark, tables: &Tables, port: PortIndex) -> bool {
        if mark.seal != mix(self.secret ^ mix(mark.number)) {
            return false;
        }
        let found = self.watches.iter_mut().find(|watch| watch.serial == mark.number);
        if let Some(watch) = found
            && let instance = tables.watched.get(watch.index)
            && (port == instance.ingress || port == instance.egress)
        {
            watch.is_way_proven = watch.way.is_some();
            watch.news.returns_marks = true;
            watch.saw();
        }
        true
    }

    /// The instances that are dead; none: nothing is watched, or ever was.
    pub(crate) fn dead(&self) -> Option<BTreeSet<InstanceId>> {
        let dead = self.watches.iter().filter(|watch| watch.is_dead);
        self.has_probed().then(|| dead.map(|watch| watch.id).collect())
    }

    /// How every watched instance is, in the order of their identities.
    pub(crate) fn report(&self) -> Vec<InstanceHealth> {
        let state = |watch: &Watch| InstanceHealth {
            instance: watch.id,
            name: watch.name.clone(),
            health: watch.state(),
        };
        let mut states: Vec<InstanceHealth> = self.watches.iter().map(state).collect();
        states.sort_by_key(|state| state.instance);
        states
    }
}

impl ProbeWay {
    /// The port that its probes enter by, in the tables in force.
    pub(crate) fn ingress(&self, slots: &Slots) -> Option<PortIndex> {
        slots.owner(slots.of_port(self.ingress)?).1
    }
}

/// Is an instance that reads headers still reached by this port at a hop?
fn is_at(tables: &Tables, (path, hop): (PathId, u16), port: PortId) -> bool {
    let start = tables.positions.start(path);
    let position = start.and_then(|start| tables.positions.renew(start, path, hop));
    let Some(place) = position.map(|position| tables.positions.place(position)) else {
        return false;
    };
    let hop = tables.path(place.path).hops.get(usize::from(place.hop));
    hop.into_iter().flat_map(|hop| &hop.instances).any(|one| match one.place {
        InstancePlace::Here { ingress, speaks: Some(_), .. } => {
            tables.port(ingress).entry.id == port
        }
        _ => false,
    })
}

//! The hosts that cost least: first what best fit finds, then, of few instances, branch and bound. A choice is left out
//! if what is left to place costs no less from there on than the best that was found, even if it could be cut at will.
//! Hosts that nothing tells apart are tried once, and instances that nothing tells apart in the order of their hosts.

use super::state::{Cost, Seat, State};
use super::{End, Host, Item, Problem, SEARCHED_INSTANCES_MAX};
use catena_model::capacity::Room;
use std::cmp::Reverse;

/// What it costs to see whether a host has room for an instance without neighbours.
const TRY_STEPS: usize = 8;

/// Where instances go, and what that costs.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) seats: Vec<Option<Seat>>,
    cost: Cost,
}

pub(super) struct Search<'p> {
    problem: &'p Problem,
    state: State<'p>,
    /// Those that are to be placed, in the order in which they are.
    pub(super) order: Vec<usize>,
    /// By place in the order: does nothing tell it from the one before?
    is_twin: Vec<bool>,
    /// By place in the order: what it and all behind it need of hosts that can be looked at.
    rest: Vec<Room>,
    /// The first host that nothing tells this one from.
    kinds: Vec<usize>,
    /// Hosts that take something new, those with most first: of processors, and of memory.
    largest: [Vec<usize>; 2],
    best: Option<Found>,
    is_any_enough: bool,
    /// Of each item: what it costs to see whether a host has room for it.
    tries: Vec<usize>,
    /// What may be done yet.
    pub(super) steps: usize,
    /// Has every choice been looked at?
    pub(super) is_whole: bool,
}

/// A host for the next instance, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Choice {
    /// What all cost then, at least.
    least: Cost,
    /// What is left on a host that has something, or is not of one that has nothing.
    waste: u64,
    host: usize,
}

impl<'p> Search<'p> {
    pub(super) fn new(problem: &'p Problem, items: &[usize], steps: usize) -> Self {
        let state = State::new(problem);
        let legs = problem.legs_by_item();
        let hosts = problem.hosts.len();
        let mut search = Self {
            problem,
            order: Vec::new(),
            is_twin: Vec::new(),
            rest: Vec::new(),
            kinds: kinds(problem, &state),
            largest: [0, 1].map(|dimension| largest(problem, &state, dimension)),
            state,
            best: None,
            is_any_enough: false,
            tries: legs.iter().map(|legs| TRY_STEPS + legs.len()).collect(),
            // Hosts are held against one another.
            steps: steps.saturating_sub(hosts * hosts),
            is_whole: false,
        };
        search.arrange(items, |needs, most| {
            share(needs.cpu_milli, most.cpu_milli).max(share(needs.memory_mib, most.memory_mib))
        });
        search
    }

    /// Puts them into an order: what runs first, then what is largest.
    fn arrange(&mut self, items: &[usize], size: impl Fn(Room, Room) -> u64) {
        let rooms = self.problem.hosts.iter().map(|host| host.capacity.total());
        let most = rooms.fold(Room::default(), |most, room| Room {
            cpu_milli: most.cpu_milli.max(room.cpu_milli),
            memory_mib: most.memory_mib.max(room.memory_mib),
        });
        let mut order = items.to_vec();
        order.sort_by_key(|item| {
            let Item { needs, now, .. } = &self.problem.items[*item];
            (now.is_none(), Reverse(size(*needs, most)), Reverse(*needs), *item)
        });
        let legs = self.problem.legs_by_item();
        let is_free = |item: usize| self.problem.items[item].now.is_none() && legs[item].is_empty();
        let twins = order.windows(2).map(|pair| {
            let needs = [pair[0], pair[1]].map(|item| self.problem.items[item].needs);
            is_free(pair[0]) && is_free(pair[1]) && needs[0] == needs[1]
        });
        self.is_twin = std::iter::once(false).chain(twins).collect();
        let mut rest = Room::default();
        self.rest = vec![rest];
        for item in order.iter().rev() {
            let Item { needs, now, .. } = self.problem.items[*item];
            if now.is_none_or(|now| !self.state.stays_unseen(*item, now)) {
                rest = rest.plus(needs);
            }
            self.rest.push(rest);
        }
        self.rest.reverse();
        self.order = order;
    }

    /// Hosts for all, whichever; none: there are none, or none were found.
    pub(super) fn any(&mut self) -> Option<Found> {
        self.is_any_enough = true;
        self.run()
    }

    /// The hosts that cost least, as far as all choices could be looked at.
    pub(super) fn best(&mut self) -> Option<Found> {
        self.run()
    }

    fn run(&mut self) -> Option<Found> {
        self.fit();
        let is_done = self.is_any_enough && self.best.is_some();
        if !is_done && self.order.len() <= SEARCHED_INSTANCES_MAX {
            self.is_whole = true;
            self.visit(0, 0);
        }
        self.best.clone()
    }

    /// What best fit finds, the largest first by one measure or another.
    fn fit(&mut self) {
        let order = self.order.clone();
        let (twins, rest) = (self.is_twin.clone(), self.rest.clone());
        self.descend();
        self.arrange(&order, |needs, _| needs.cpu_milli);
        self.descend();
        self.arrange(&order, |needs, _| needs.memory_mib);
        self.descend();
        (self.order, self.is_twin, self.rest) = (order, twins, rest);
    }

    fn descend(&mut self) {
        let mut taken = Vec::with_capacity(self.order.len());
        for (place, item) in self.order.clone().into_iter().enumerate() {
            let choice = self.choices(place, 0, false).into_iter().min();
            let Some(put) = choice.and_then(|choice| self.state.put(item, choice.host).ok()) else {
                break;
            };
            taken.push((item, put));
        }
        if taken.len() == self.order.len() {
            self.keep();
        }
        for (item, put) in taken.into_iter().rev() {
            self.state.take_back(item, put);
        }
    }

    /// All are placed.
    fn keep(&mut self) {
        let cost = self.state.cost;
        if self.best.as_ref().is_none_or(|best| cost < best.cost) {
            self.best = Some(Found { seats: self.state.seats.clone(), cost });
        }
    }

    /// Looks at every choice from here on that may be better than the best.
    fn visit(&mut self, place: usize, twin_from: usize) {
        let Some(item) = self.order.get(place).copied() else { return self.keep() };
        let from = if self.is_twin[place] { twin_from } else { 0 };
        let mut choices = self.choices(place, from, true);
        choices.sort_unstable();
        for Choice { least, host, .. } in choices {
            if self.is_worse(least) {
                continue;
            }
            if self.steps == 0 {
                self.is_whole = false;
                return;
            }
            if let Ok(taken) = self.state.put(item, host) {
                self.visit(place + 1, host);
                self.state.take_back(item, taken);
            }
        }
    }

    fn is_worse(&self, least: Cost) -> bool {
        self.best.as_ref().is_some_and(|best| self.is_any_enough || least >= best.cost)
    }

    /// The hosts that have room for the instance at a place, from this one on; with a look at what is behind it, only
    /// those that leave enough for that.
    fn choices(&mut self, place: usize, from: usize, is_bounded: bool) -> Vec<Choice> {
        let item = self.order[place];
        let mut choices = Vec::new();
        // What is behind it is held against each host by both measures.
        let behind = if is_bounded { 2 * self.kinds.len() } else { 0 };
        let look = self.tries[item] + behind;
        for host in from..self.kinds.len() {
            if is_bounded && self.steps == 0 {
                self.is_whole = false;
                break;
            }
            self.steps = self.steps.saturating_sub(1);
            let is_new = self.kinds[host] == host
                || self.state.is_touched(host)
                || (self.kinds[host]..host).all(|like| {
                    self.kinds[like] != self.kinds[host] || self.state.is_touched(like)
                });
            if !is_new {
                continue;
            }
            self.steps = self.steps.saturating_sub(look);
            let is_open = self.state.is_open(host);
            let Ok(taken) = self.state.put(item, host) else { continue };
            let further =
                if is_bounded { self.further_hosts(self.rest[place + 1]) } else { Some(0) };
            if let Some(hosts) = further {
                let cost = self.state.cost;
                let least = Cost { hosts: cost.hosts + hosts, ..cost };
                let waste = self.waste(host);
                let waste = if is_open { waste } else { u64::MAX - waste };
                choices.push(Choice { least, waste, host });
            }
            self.state.take_back(item, taken);
        }
        choices
    }

    /// What is left on a host, in thousandths of what it has.
    fn waste(&self, host: usize) -> u64 {
        let (left, total) = (self.state.left(host), self.problem.hosts[host].capacity.total());
        share(left.cpu_milli, total.cpu_milli)
            .saturating_add(share(left.memory_mib, total.memory_mib))
    }

    /// Hosts beside those that have something that this much needs, at least; none: all together have not as much.
    fn further_hosts(&self, rest: Room) -> Option<usize> {
        let measures = [|room: Room| room.cpu_milli, |room: Room| room.memory_mib];
        let mut further = 0;
        for (largest, measure) in self.largest.iter().zip(measures) {
            let (open, closed): (Vec<usize>, Vec<usize>) =
                largest.iter().partition(|host| self.state.is_open(**host));
            let room = |host: usize| measure(self.state.left(host));
            let open: u64 = open.into_iter().map(room).fold(0, u64::saturating_add);
            let mut left = measure(rest).saturating_sub(open);
            let mut hosts = 0;
            for host in closed {
                if left == 0 {
                    break;
                }
                left = left.saturating_sub(room(host));
                hosts += 1;
            }
            if left > 0 {
                return None;
            }
            further = further.max(hosts);
        }
        Some(further)
    }

    /// Hosts that something is on then, at least: with what runs where it is, or wherever it may be.
    pub(super) fn hosts_least(&mut self, are_none_moved: bool) -> usize {
        let mut taken = Vec::new();
        let mut settled = 0;
        for item in self.order.clone() {
            let now = self.problem.items[item].now.filter(|_| are_none_moved);
            let Some(put) = now.and_then(|now| self.state.put(item, now).ok()) else { break };
            taken.push((item, put));
            settled += 1;
        }
        let open = self.state.hosts();
        let least = open + self.further_hosts(self.rest[settled]).unwrap_or(0);
        for (item, put) in taken.into_iter().rev() {
            self.state.take_back(item, put);
        }
        // Those that need nothing need a host as well.
        least.max(usize::from(!self.order.is_empty()))
    }
}

/// So much of so much, in thousandths.
fn share(part: u64, whole: u64) -> u64 {
    part.saturating_mul(1_000) / whole.max(1)
}

fn largest(problem: &Problem, state: &State<'_>, dimension: usize) -> Vec<usize> {
    let is_there = |host: &usize| {
        let Host { capacity, is_away, .. } = &problem.hosts[*host];
        capacity.is_told() && !is_away
    };
    let mut hosts: Vec<usize> = (0..problem.hosts.len()).filter(is_there).collect();
    hosts.sort_by_key(|host| {
        let left = state.left(*host);
        Reverse([left.cpu_milli, left.memory_mib][dimension])
    });
    hosts
}

/// The first host that nothing tells each from.
fn kinds(problem: &Problem, state: &State<'_>) -> Vec<usize> {
    let is_named = |host: usize| {
        let is_end = problem.legs.iter().any(|leg| leg.ends.contains(&End::Host(host)));
        is_end || problem.items.iter().any(|item| item.now == Some(host))
    };
    let named: Vec<bool> = (0..problem.hosts.len()).map(is_named).collect();
    let are_alike = |one: usize, other: usize| {
        let [first, second] = [one, other].map(|host| &problem.hosts[host]);
        problem.delays_us.is_empty()
            && !named[one]
            && !named[other]
            && first.is_away == second.is_away
            && first.capacity.is_told() == second.capacity.is_told()
            && state.is_open(one) == state.is_open(other)
            && state.left_in_full(one) == state.left_in_full(other)
    };
    let mut kinds: Vec<usize> = (0..problem.hosts.len()).collect();
    for host in 0..kinds.len() {
        let like = (0..host).find(|before| kinds[*before] == *before && are_alike(*before, host));
        kinds[host] = like.unwrap_or(host);
    }
    kinds
}

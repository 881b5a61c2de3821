//! Hosts with the instances that are on them so far, and what is left there.

use super::{End, Item, Leg, Obstacle, Problem};
use catena_model::capacity::Room;

/// Where an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) host: usize,
    /// No NUMA node there had room for it alone.
    pub(super) spans: bool,
}

/// Less is better, what is first before what follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    /// Instances that run elsewhere.
    pub(super) moves: usize,
    /// Hosts that nothing was on.
    pub(super) hosts: usize,
    /// Instances that span NUMA nodes.
    pub(super) spans: usize,
}

/// What must be given back when an instance goes.
pub(super) struct Taken {
    /// What the NUMA nodes of its host had.
    free: Vec<Room>,
    /// What links had.
    links: Vec<(usize, Option<u64>)>,
    cost: Cost,
}

pub(super) struct State<'p> {
    problem: &'p Problem,
    legs: Vec<Vec<Leg>>,
    /// By host and NUMA node.
    free: Vec<Vec<Room>>,
    links: Vec<Option<u64>>,
    /// Instances of the problem at each host.
    counts: Vec<usize>,
    pub(super) seats: Vec<Option<Seat>>,
    pub(super) cost: Cost,
}

impl<'p> State<'p> {
    /// Nothing is placed.
    pub(super) fn new(problem: &'p Problem) -> Self {
        let mut free: Vec<Vec<Room>> = Vec::with_capacity(problem.hosts.len());
        for host in &problem.hosts {
            let mut nodes: Vec<Room> = host.capacity.numa.iter().map(|node| node.room()).collect();
            for need in &host.taken {
                take(&mut nodes, *need);
            }
            free.push(nodes);
        }
        Self {
            problem,
            legs: problem.legs_by_item(),
            links: problem.hosts.iter().map(|host| host.link_mbit).collect(),
            counts: vec![0; free.len()],
            free,
            seats: vec![None; problem.items.len()],
            cost: Cost::default(),
        }
    }

    /// These are placed, in their order, where they have been before.
    pub(super) fn seated(problem: &'p Problem, items: &[usize], seats: &[Option<Seat>]) -> Self {
        let mut state = Self::new(problem);
        for item in items {
            if let Some(seat) = seats[*item] {
                // What fitted together fits in any order: only which NUMA node is near may be another.
                state.put(*item, seat.host).ok();
            }
        }
        state
    }

    /// What a host has left, all of its NUMA nodes together.
    pub(super) fn left(&self, host: usize) -> Room {
        self.free[host].iter().fold(Room::default(), |all, node| all.plus(*node))
    }

    /// The same as the nodes have it, and what the link has.
    pub(super) fn left_in_full(&self, host: usize) -> (&[Room], Option<u64>) {
        (&self.free[host], self.links[host])
    }

    /// Is anything on it?
    pub(super) fn is_open(&self, host: usize) -> bool {
        self.counts[host] > 0 || !self.problem.hosts[host].taken.is_empty()
    }

    /// Has an instance of the problem been put on it?
    pub(super) fn is_touched(&self, host: usize) -> bool {
        self.counts[host] > 0
    }

    /// Hosts that something is on.
    pub(super) fn hosts(&self) -> usize {
        (0..self.counts.len()).filter(|host| self.is_open(*host)).count()
    }

    /// Does an instance stay on its host without anybody looking whether it fits, because nobody can?
    pub(super) fn stays_unseen(&self, item: usize, host: usize) -> bool {
        let there = &self.problem.hosts[host];
        self.problem.items[item].now == Some(host) && (there.is_away || !there.capacity.is_told())
    }

    /// Puts an instance on a host.
    ///
    /// # Errors
    /// What is in the way; nothing is changed.
    pub(super) fn put(&mut self, item: usize, host: usize) -> Result<Taken, Obstacle> {
        let Item { needs, now, .. } = &self.problem.items[item];
        let there = &self.problem.hosts[host];
        let is_unseen = self.stays_unseen(item, host);
        if there.is_away && !is_unseen {
            return Err(Obstacle::Away);
        }
        if !there.capacity.is_told() && !needs.is_none() && !is_unseen {
            return Err(Obstacle::Untold);
        }
        let free = self.left(host);
        if !free.holds(*needs) && !is_unseen {
            let total = there.capacity.total();
            return Err(Obstacle::Short { free, total, missing: needs.minus(free) });
        }
        let links = self.links_with(item, host)?;
        let cost = self.cost;
        self.cost.hosts += usize::from(!self.is_open(host));
        self.cost.moves += usize::from(now.is_some_and(|now| now != host));
        let former = self.free[host].clone();
        let spans = take(&mut self.free[host], *needs) && !is_unseen;
        self.cost.spans += usize::from(spans);
        self.counts[host] += 1;
        self.seats[item] = Some(Seat { host, spans });
        let links = links.into_iter().map(|(at, left)| (at, self.links[at].replace(left)));
        Ok(Taken { free: former, links: links.collect(), cost })
    }

    /// Takes back what was put last.
    pub(super) fn take_back(&mut self, item: usize, taken: Taken) {
        let Taken { free, links, cost } = taken;
        if let Some(Seat { host, .. }) = self.seats[item].take() {
            self.free[host] = free;
            self.counts[host] -= 1;
        }
        for (host, left) in links {
            self.links[host] = left;
        }
        self.cost = cost;
    }

    /// What bounded links have left with an instance on a host, as far as that changes them.
    fn links_with(&self, item: usize, host: usize) -> Result<Vec<(usize, u64)>, Obstacle> {
        let mut left: Vec<(usize, u64)> = Vec::new();
        for leg in &self.legs[item] {
            let Some(other) = self.other_end(leg, item).filter(|other| *other != host) else {
                continue;
            };
            if let Some(delay_us_max) = leg.delay_us_max {
                let ends = [host.min(other), host.max(other)];
                let delay_us = self.problem.delays_us.get(&ends).copied();
                let delay_us = delay_us.ok_or(Obstacle::UnknownDelay { to: other })?;
                if delay_us > delay_us_max {
                    return Err(Obstacle::Delay { to: other, delay_us, delay_us_max });
                }
            }
            for at in [host, other] {
                let Some(whole) = self.links[at] else { continue };
                let place = left.iter().position(|(known, _)| *known == at).unwrap_or_else(|| {
                    left.push((at, whole));
                    left.len() - 1
                });
                let free = left[place].1;
                let rest = free.checked_sub(leg.mbit);
                left[place].1 =
                    rest.ok_or_else(|| Obstacle::Link { at, free, missing: leg.mbit - free })?;
            }
        }
        Ok(left)
    }

    fn other_end(&self, leg: &Leg, item: usize) -> Option<usize> {
        let other = leg.ends.into_iter().find(|end| *end != End::Item(item))?;
        match other {
            End::Host(host) => Some(host),
            End::Item(other) => self.seats[other].map(|seat| seat.host),
        }
    }

    /// Puts an instance where it is now, or else on the first host that has room, those with something on them first.
    pub(super) fn seat(&mut self, item: usize) -> bool {
        let now = self.problem.items[item].now;
        let (open, closed): (Vec<usize>, Vec<usize>) =
            (0..self.counts.len()).partition(|host| self.is_open(*host));
        let mut hosts = now.into_iter().chain(open).chain(closed);
        hosts.any(|host| self.put(item, host).is_ok())
    }

    /// What is in the way of an instance at each host.
    pub(super) fn obstacles(&mut self, item: usize) -> Vec<(usize, Obstacle)> {
        let mut obstacles = Vec::new();
        for host in 0..self.counts.len() {
            match self.put(item, host) {
                Ok(taken) => self.take_back(item, taken),
                Err(obstacle) => obstacles.push((host, obstacle)),
            }
        }
        obstacles
    }
}

/// Takes room of the NUMA node that has least left then, or, where none has room alone, of one after the other; does
/// it span them?
fn take(nodes: &mut [Room], need: Room) -> bool {
    let holding = nodes.iter_mut().filter(|node| node.holds(need));
    if let Some(near) = holding.min_by_key(|node| (node.cpu_milli, node.memory_mib)) {
        *near = near.minus(need);
        return false;
    }
    let mut rest = need;
    for node in nodes.iter_mut() {
        let left = node.minus(rest);
        rest = rest.minus(*node);
        *node = left;
    }
    nodes.len() > 1
}

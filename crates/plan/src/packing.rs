//! Which hosts instances go to that nobody has named hosts for: vector bin packing onto the fewest hosts, within what
//! these have of processors, memory and links, and within delays. Knows numbers and names; refuses to know who starts
//! an instance there.
//!
//! What runs stays where it is while it fits there: first the fewest are moved, then the fewest hosts are used, then
//! the fewest instances span NUMA nodes. Few instances are searched whole, by branch and bound; of more, or where a
//! search takes too long, the best that first and best fit find is taken, and a lower bound tells how far it may be
//! from the best. Where there is no room for all, those of higher priority are kept first.

mod declared;
mod obstacle;
mod search;
mod state;
#[cfg(test)]
mod tests;

use catena_model::NodeName;
use catena_model::capacity::{Capacity, Room};
pub use declared::{Assignment, Packed, packing, taken};
use obstacle::Obstacle;
pub use obstacle::Unplaced;
use search::Search;
use state::{Seat, State};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Instances of which every choice of hosts is looked at, if that does not take too long.
pub const SEARCHED_INSTANCES_MAX: usize = 64;
/// Steps of one search: what a look at a host costs, with many hosts and neighbours more than with few.
const STEPS_MAX: usize = 4_000_000;
/// And of all searches of one question.
const STEPS_OF_ALL_MAX: usize = 40_000_000;

/// A host, with what it has.
#[derive(Clone, Debug)]
struct Host {
    name: NodeName,
    /// What it has; not told: only what needs nothing goes there.
    capacity: Capacity,
    /// What each instance takes that is not to be placed.
    taken: Vec<Room>,
    /// It takes nothing new.
    is_away: bool,
    /// What its link has left, in Mbit/s; none: nobody knows of a bound.
    link_mbit: Option<u64>,
}

/// An instance.
#[derive(Clone, Debug)]
struct Item {
    name: String,
    needs: Room,
    /// The host where it is.
    now: Option<usize>,
    /// None: it is placed, or nothing is.
    priority: Option<u32>,
}

/// Where a leg ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Item(usize),
    Host(usize),
}

/// The way between neighbours of a chain. Nothing of it leaves a host that has both.
#[derive(Clone, Copy, Debug)]
struct Leg {
    ends: [End; 2],
    mbit: u64,
    /// How long it may take; 0: both stay on one host.
    delay_us_max: Option<u64>,
}

/// Instances and hosts.
#[derive(Clone, Debug, Default)]
struct Problem {
    hosts: Vec<Host>,
    items: Vec<Item>,
    legs: Vec<Leg>,
    /// How long the way between two hosts takes, the lower number first, as far as anybody knows.
    delays_us: BTreeMap<[usize; 2], u64>,
}

impl Problem {
    /// The legs of each item.
    fn legs_by_item(&self) -> Vec<Vec<Leg>> {
        let mut legs = vec![Vec::new(); self.items.len()];
        for leg in &self.legs {
            for end in leg.ends {
                if let End::Item(item) = end {
                    legs[item].push(*leg);
                }
            }
        }
        legs
    }

    /// Those that come first get room first.
    fn by_rank(&self) -> Vec<usize> {
        let mut ranked: Vec<usize> = (0..self.items.len()).collect();
        ranked.sort_by_key(|item| {
            let Item { priority, now, .. } = &self.items[*item];
            (priority.is_some(), Reverse(*priority), now.is_none())
        });
        ranked
    }
}

/// An instance without a host.
#[derive(Clone, Debug)]
struct Misfit {
    item: usize,
    /// What is in the way at each host.
    obstacles: Vec<(usize, Obstacle)>,
}

/// Where all go.
#[derive(Clone, Debug)]
struct Answer {
    seats: Vec<Option<Seat>>,
    hosts_used: usize,
    hosts_least: usize,
    is_proved: bool,
    misfits: Vec<Misfit>,
    /// Where some do not fit: has every choice been looked at?
    is_sure: bool,
}

/// Places all, or as many as there is room for, those of higher priority first.
fn solve(problem: &Problem) -> Answer {
    let ranked = problem.by_rank();
    let mut searches = Searches { problem, steps: STEPS_OF_ALL_MAX, is_sure: true };
    let (kept, known, mut misfits) = match searches.any(&ranked) {
        Some(seats) => (ranked, seats, Vec::new()),
        None => searches.keep(&ranked),
    };
    let mut search = Search::new(problem, &kept, searches.budget());
    // Of many, best fit may not find again how those that are kept fit together.
    let seats = search.best().map_or(known, |found| found.seats);
    let mut state = State::seated(problem, &search.order, &seats);
    let bound = search.hosts_least(state.cost.moves == 0);
    misfits.retain_mut(|misfit| {
        // Of many, one may fit after all where they have come to be.
        let is_placed = state.seat(misfit.item);
        if problem.items[misfit.item].priority.is_some() && !is_placed {
            misfit.obstacles = state.obstacles(misfit.item);
        }
        !is_placed
    });
    let hosts_used = state.hosts();
    let hosts_least = if search.is_whole { hosts_used } else { bound.min(hosts_used) };
    Answer {
        seats: state.seats,
        hosts_used,
        hosts_least,
        is_proved: hosts_least == hosts_used,
        misfits,
        is_sure: searches.is_sure,
    }
}

/// Searches that share their steps.
struct Searches<'p> {
    problem: &'p Problem,
    steps: usize,
    is_sure: bool,
}

impl<'p> Searches<'p> {
    fn budget(&self) -> usize {
        self.steps.min(STEPS_MAX)
    }

    /// Hosts for all of these, whichever.
    fn any(&mut self, items: &[usize]) -> Option<Vec<Option<Seat>>> {
        let budget = self.budget();
        let mut search = Search::new(self.problem, items, budget);
        let found = search.any();
        self.steps -= budget - search.steps;
        self.is_sure &= found.is_some() || search.is_whole;
        found.map(|found| found.seats)
    }

    /// Those that fit together with all that come before them, hosts for them, and what is in the way of the others.
    fn keep(&mut self, ranked: &[usize]) -> (Vec<usize>, Vec<Option<Seat>>, Vec<Misfit>) {
        let (mut kept, mut misfits) = (Vec::new(), Vec::new());
        let mut state = State::new(self.problem);
        for &item in ranked {
            if !state.seat(item) {
                let more: Vec<usize> = kept.iter().copied().chain([item]).collect();
                // Of many, what is kept is not placed anew for each that does not fit beside it.
                let is_searched = more.len() <= SEARCHED_INSTANCES_MAX && self.steps > 0;
                self.is_sure &= is_searched;
                let found = is_searched.then(|| self.any(&more));
                let Some(seats) = found.flatten() else {
                    misfits.push(Misfit { item, obstacles: state.obstacles(item) });
                    continue;
                };
                state = State::seated(self.problem, &more, &seats);
            }
            kept.push(item);
        }
        (kept, state.seats, misfits)
    }
}

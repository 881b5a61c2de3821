//! Which hosts cost a chain the fewest racks, and of these the fewest ports in its headers. Knows numbers of hosts;
//! refuses to know what a chain and a cable are.
//!
//! Branch and bound in the order of the chain: a choice is left out if even the cheapest ways from there on, over hosts
//! that may be taken already, cost no less than the best that was found. Hosts of one rack that nothing tells apart are
//! tried once.

use std::collections::BTreeSet;

/// Hosts that are looked at, one for one function, before a search ends without proof: about a second.
const LOOKS_MAX: usize = 50_000_000;
/// Beginnings that are kept from each function to the next where not all are looked at.
const BEGINNINGS: usize = 64;

/// Hosts, by number.
#[derive(Clone, Debug)]
pub(super) struct Ground {
    /// The rack of each.
    pub(super) racks: Vec<usize>,
    /// Is each there, to take a function?
    pub(super) takes: Vec<bool>,
    /// Port numbers in a header from one to a function on another; none: no header leads there.
    pub(super) ports: Vec<Vec<Option<u32>>>,
}

/// Where a chain stops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Station {
    /// At any of these hosts, which are given; none: nobody knows where.
    At(Vec<usize>),
    /// At one that is to be found.
    Free,
}

/// What a way costs: less is better, racks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cost {
    pub(super) racks: usize,
    pub(super) ports: u32,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The host of each free station, in their order.
    pub(super) hosts: Vec<usize>,
    pub(super) cost: Cost,
    /// No choice has fewer racks, and none fewer ports.
    pub(super) bound: Cost,
}

/// Where a chain begins, and its functions.
#[derive(Clone, Debug)]
pub(super) struct Puzzle<'g> {
    pub(super) ground: &'g Ground,
    /// The first is where it begins, and no function.
    pub(super) stations: Vec<Station>,
    /// Functions of the chain on one host, if they are free.
    pub(super) per_host: usize,
}

impl Puzzle<'_> {
    /// The worst of the ways between two stations: packets take any of them.
    fn leg(&self, from: &[usize], to: &[usize]) -> Option<u32> {
        let pairs = from.iter().flat_map(|from| to.iter().map(move |to| (*from, *to)));
        let ports = |(from, to): (usize, usize)| match from == to {
            true => Some(0),
            false => self.ground.ports[from][to],
        };
        pairs.map(ports).try_fold(0, |most, ports| Some(most.max(ports?)))
    }

    /// The hosts of each station, these at the free ones; none: they are too few.
    fn hosts(&self, chosen: &[usize]) -> Option<Vec<Vec<usize>>> {
        let mut chosen = chosen.iter();
        let of = |station: &Station| match station {
            Station::At(hosts) => Some(hosts.clone()),
            Station::Free => chosen.next().map(|host| vec![*host]),
        };
        self.stations.iter().map(of).collect()
    }

    /// Ports to each function; none: no way leads over these hosts.
    pub(super) fn legs(&self, chosen: &[usize]) -> Option<Vec<u32>> {
        let hosts = self.hosts(chosen)?;
        hosts.iter().zip(hosts.iter().skip(1)).map(|(from, to)| self.leg(from, to)).collect()
    }

    /// What it costs to stand at these hosts, whoever else does; none: no way leads over them.
    pub(super) fn cost(&self, chosen: &[usize]) -> Option<Cost> {
        let hosts = self.hosts(chosen)?;
        let racks: BTreeSet<usize> =
            hosts.iter().flatten().map(|at| self.ground.racks[*at]).collect();
        Some(Cost { racks: racks.len(), ports: self.legs(chosen)?.iter().sum() })
    }

    /// The best choice, proved if `is_whole`; none: there is none, or not among those that were looked at.
    pub(super) fn solve(&self, is_whole: bool) -> Option<Found> {
        let search = Search::new(self);
        let bound = search.bound()?;
        let mut best = search.of_beginnings();
        let mut left = LOOKS_MAX;
        if is_whole {
            search.visit(&search.start(), &mut best, &mut left);
        }
        let (cost, hosts) = best?;
        let bound = if is_whole && left > 0 { cost } else { bound };
        Some(Found { hosts, cost, bound })
    }
}

/// A beginning of a chain whose hosts are chosen.
#[derive(Clone, Debug)]
struct Beginning {
    /// Stations with a host.
    stations: usize,
    /// The hosts of the last of them.
    at: Vec<usize>,
    /// Those of the free ones.
    hosts: Vec<usize>,
    /// Functions at each host, those that are given among them.
    used: Vec<usize>,
    is_rack_used: Vec<bool>,
    /// Free places at hosts of used racks.
    room: usize,
    cost: Cost,
}

/// A host for the next station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Choice {
    /// What the whole chain costs then, at least.
    least: Cost,
    leg: u32,
    /// None: those that are given.
    host: Option<usize>,
}

struct Search<'p> {
    puzzle: &'p Puzzle<'p>,
    /// By station and host: the ports from there to the end, whoever else stands where; one for a station that is
    /// given.
    below: Vec<Vec<Option<u32>>>,
    /// Functions at each host that are given.
    given: Vec<usize>,
    is_rack_given: Vec<bool>,
    /// Hosts of one kind cost the same wherever they are put in for one another.
    kinds: Vec<usize>,
    /// Hosts by rack.
    racks: Vec<Vec<usize>>,
    /// Free places of each rack before any is taken, and the same with the most first.
    rooms: [Vec<usize>; 2],
    /// The fewest ports between two hosts, and between two of other racks.
    nearest: Option<[u32; 2]>,
}

impl<'p> Search<'p> {
    fn new(puzzle: &'p Puzzle<'p>) -> Self {
        let Ground { racks, .. } = puzzle.ground;
        let count = racks.iter().max().map_or(0, |most| most + 1);
        let (mut given, mut is_rack_given) = (vec![0; racks.len()], vec![false; count]);
        for (place, station) in puzzle.stations.iter().enumerate() {
            let Station::At(hosts) = station else { continue };
            for host in hosts {
                given[*host] += usize::from(place > 0);
                is_rack_given[racks[*host]] = true;
            }
        }
        let of_rack = |rack| (0..racks.len()).filter(|host| racks[*host] == rack).collect();
        let mut search = Self {
            puzzle,
            below: Vec::new(),
            given,
            is_rack_given,
            kinds: Vec::new(),
            racks: (0..count).map(of_rack).collect(),
            rooms: [Vec::new(), Vec::new()],
            nearest: None,
        };
        search.kinds = search.kinds();
        let room = |hosts: &Vec<usize>| -> usize {
            hosts.iter().map(|host| search.room(&search.given, *host)).sum()
        };
        let rooms: Vec<usize> = search.racks.iter().map(room).collect();
        let mut sorted = rooms.clone();
        sorted.sort_unstable_by_key(|room| std::cmp::Reverse(*room));
        search.rooms = [rooms, sorted];
        search.below = search.below();
        search.nearest = search.nearest();
        search
    }

    fn room(&self, used: &[usize], host: usize) -> usize {
        let takes = self.puzzle.ground.takes[host];
        if takes { self.puzzle.per_host.saturating_sub(used[host]) } else { 0 }
    }

    /// The hosts that a station may have: each alone, or those that are given together.
    fn candidates(&self, station: &'p Station) -> Vec<Vec<usize>> {
        match station {
            Station::At(hosts) => vec![hosts.clone()],
            Station::Free => (0..self.given.len()).map(|host| vec![host]).collect(),
        }
    }

    fn kinds(&self) -> Vec<usize> {
        let Puzzle { ground: Ground { racks, ports, takes }, stations, .. } = self.puzzle;
        let named = |host: &usize| {
            stations
                .iter()
                .any(|station| matches!(station, Station::At(hosts) if hosts.contains(host)))
        };
        let are_alike = |one: usize, other: usize| {
            let others = (0..racks.len()).filter(|host| ![one, other].contains(host));
            let is_same = |host: usize| {
                ports[one][host] == ports[other][host] && ports[host][one] == ports[host][other]
            };
            takes[one] == takes[other]
                && ports[one][other] == ports[other][one]
                && others.into_iter().all(is_same)
        };
        let mut kinds: Vec<usize> = (0..racks.len()).collect();
        for hosts in &self.racks {
            for (place, host) in hosts.iter().enumerate().filter(|(_, host)| !named(host)) {
                let mut before =
                    hosts[..place].iter().filter(|one| kinds[**one] == **one && !named(one));
                if let Some(like) = before.find(|one| are_alike(**one, *host)) {
                    kinds[*host] = *like;
                }
            }
        }
        kinds
    }

    /// May a free function stand at a host, behind a station at these hosts whose own may be free, too?
    fn may_follow(&self, from: (&[usize], bool), host: usize) -> bool {
        let (from, is_free) = from;
        let own = usize::from(is_free && from == [host]);
        self.room(&self.given, host) > own
    }

    fn below(&self) -> Vec<Vec<Option<u32>>> {
        let stations = &self.puzzle.stations;
        let mut below: Vec<Vec<Option<u32>>> = Vec::new();
        for (place, station) in stations.iter().enumerate().rev() {
            let is_free = *station == Station::Free;
            let next =
                stations.get(place + 1).map(|next| (self.candidates(next), *next == Station::Free));
            let of = |from: Vec<usize>| match (&next, below.last()) {
                (Some((candidates, is_next_free)), Some(behind)) => {
                    let costs = candidates.iter().zip(behind).filter_map(|(to, behind)| {
                        let may = !is_next_free || self.may_follow((&from, is_free), to[0]);
                        may.then(|| Some(self.puzzle.leg(&from, to)? + (*behind)?))?
                    });
                    costs.min()
                }
                _ => Some(0),
            };
            let of_all = self.candidates(station).into_iter().map(of).collect();
            below.push(of_all);
        }
        below.reverse();
        below
    }

    fn nearest(&self) -> Option<[u32; 2]> {
        let Ground { racks, ports, .. } = self.puzzle.ground;
        let pairs = (0..racks.len()).flat_map(|from| (0..racks.len()).map(move |to| (from, to)));
        let legs = pairs
            .filter(|(from, to)| from != to)
            .filter_map(|(from, to)| Some((ports[from][to]?, racks[from] != racks[to])));
        let legs: Vec<(u32, bool)> = legs.collect();
        let far = legs.iter().filter(|(_, is_far)| *is_far).map(|(ports, _)| *ports).min();
        // Two on one host send each other no header.
        let near = legs.iter().map(|(ports, _)| *ports).min();
        let near = if self.puzzle.per_host > 1 { Some(0) } else { near };
        let near = near.or(far)?;
        Some([near, far.unwrap_or(near)])
    }

    fn start(&self) -> Beginning {
        let at = match self.puzzle.stations.first() {
            Some(Station::At(hosts)) => hosts.clone(),
            _ => Vec::new(),
        };
        let racks = self.is_rack_given.iter().filter(|is_given| **is_given).count();
        let rooms = self.rooms[0].iter().zip(&self.is_rack_given);
        Beginning {
            stations: 1,
            at,
            hosts: Vec::new(),
            used: self.given.clone(),
            is_rack_used: self.is_rack_given.clone(),
            room: rooms.filter(|(_, is_given)| **is_given).map(|(room, _)| room).sum(),
            cost: Cost { racks, ports: 0 },
        }
    }

    /// What any choice costs, at least; none: there is none.
    fn bound(&self) -> Option<Cost> {
        let ports = self.below.first()?.first().copied()??;
        let start = self.start();
        let racks = start.cost.racks + self.further_racks(start.room, self.free_from(1));
        Some(Cost { racks, ports })
    }

    fn free_from(&self, station: usize) -> usize {
        self.puzzle.stations[station..].iter().filter(|one| **one == Station::Free).count()
    }

    /// Racks that so many functions need beside those that are used and have this room, at least.
    fn further_racks(&self, room: usize, functions: usize) -> usize {
        let mut left = functions.saturating_sub(room);
        let mut racks = 0;
        for room in &self.rooms[1] {
            if left == 0 {
                break;
            }
            (left, racks) = (left.saturating_sub(*room), racks + 1);
        }
        racks
    }

    /// The hosts for the next station that cost less than the best; those that promise most first.
    fn choices(&self, beginning: &Beginning, best: Option<Cost>) -> Vec<Choice> {
        let place = beginning.stations;
        let free = self.free_from(place + 1);
        let one = |host: Option<usize>, to: &[usize], below: Option<u32>| {
            let leg = self.puzzle.leg(&beginning.at, to)?;
            let (racks, room) = self.racks_with(beginning, host);
            let further = self.further_racks(room, free);
            let behind = below?.max(self.legs_least(place + 1, further));
            let least = Cost { racks: racks + further, ports: beginning.cost.ports + leg + behind };
            best.is_none_or(|best| least < best).then_some(Choice { least, leg, host })
        };
        let below = &self.below[place];
        match &self.puzzle.stations[place] {
            Station::At(hosts) => one(None, hosts, below[0]).into_iter().collect(),
            Station::Free => {
                let mut tried = BTreeSet::new();
                let hosts = (0..self.given.len()).filter(|host| {
                    let used = beginning.used[*host];
                    // Where a function of the chain is already is not like where none is.
                    let is_new = used > self.given[*host] || tried.insert(self.kinds[*host]);
                    is_new && self.room(&beginning.used, *host) > 0
                });
                let mut choices: Vec<Choice> =
                    hosts.filter_map(|host| one(Some(host), &[host], below[host])).collect();
                choices.sort_unstable();
                choices
            }
        }
    }

    /// Ports that the legs from a station on have at least, where so many of them lead into another rack.
    fn legs_least(&self, station: usize, racks: usize) -> u32 {
        let legs = self.puzzle.stations.len() - station;
        let are_free = self.free_from(station) == legs;
        let Some([near, far]) = self.nearest.filter(|_| are_free) else { return 0 };
        let [legs, racks] = [legs, racks].map(|count| u32::try_from(count).unwrap_or(u32::MAX));
        legs.saturating_mul(near).saturating_add(racks.saturating_mul(far - near))
    }

    /// Racks that are used with one host more, and the free places in them.
    fn racks_with(&self, beginning: &Beginning, host: Option<usize>) -> (usize, usize) {
        let (racks, room) = (beginning.cost.racks, beginning.room);
        match host.map(|host| self.puzzle.ground.racks[host]) {
            None => (racks, room),
            Some(rack) if beginning.is_rack_used[rack] => (racks, room - 1),
            Some(rack) => (racks + 1, room + self.rooms[0][rack] - 1),
        }
    }

    fn next(&self, beginning: &Beginning, choice: Choice) -> Beginning {
        let mut after = beginning.clone();
        (after.cost.racks, after.room) = self.racks_with(beginning, choice.host);
        after.cost.ports += choice.leg;
        after.stations += 1;
        if let Some(host) = choice.host {
            after.at = vec![host];
            after.hosts.push(host);
            after.used[host] += 1;
            after.is_rack_used[self.puzzle.ground.racks[host]] = true;
        } else if let Station::At(hosts) = &self.puzzle.stations[beginning.stations] {
            after.at.clone_from(hosts);
        }
        after
    }

    /// Looks at every choice from a beginning on that may be better than the best.
    fn visit(
        &self,
        beginning: &Beginning,
        best: &mut Option<(Cost, Vec<usize>)>,
        left: &mut usize,
    ) {
        if beginning.stations == self.puzzle.stations.len() {
            if best.as_ref().is_none_or(|(cost, _)| beginning.cost < *cost) {
                *best = Some((beginning.cost, beginning.hosts.clone()));
            }
            return;
        }
        for choice in self.choices(beginning, best.as_ref().map(|(cost, _)| *cost)) {
            // What was found meanwhile may be better than what this one promised.
            if best.as_ref().is_some_and(|(cost, _)| choice.least >= *cost) {
                continue;
            }
            *left = left.saturating_sub(self.given.len());
            if *left == 0 {
                return;
            }
            self.visit(&self.next(beginning, choice), best, left);
        }
    }

    /// The best of those that begin with what promised most at each station.
    fn of_beginnings(&self) -> Option<(Cost, Vec<usize>)> {
        let mut beginnings = vec![self.start()];
        for _ in 1..self.puzzle.stations.len() {
            let of = |(parent, beginning): (usize, &Beginning)| {
                let choices = self.choices(beginning, None).into_iter();
                choices.map(move |choice| (choice, parent)).collect::<Vec<_>>()
            };
            let mut choices: Vec<(Choice, usize)> =
                beginnings.iter().enumerate().flat_map(of).collect();
            choices.sort_unstable();
            choices.truncate(BEGINNINGS);
            beginnings = choices
                .into_iter()
                .map(|(choice, parent)| self.next(&beginnings[parent], choice))
                .collect();
        }
        let best = beginnings.into_iter().min_by_key(|one| (one.cost, one.hosts.clone()))?;
        Some((best.cost, best.hosts))
    }
}

#[cfg(test)]
mod tests;

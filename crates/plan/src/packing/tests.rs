//! Hosts that are chosen, beside every other choice that there is.
#![allow(clippy::unwrap_used)]

use super::*;
use catena_model::capacity::NumaNode;
use proptest::prelude::*;

fn room(cpu_milli: u64, memory_mib: u64) -> Room {
    Room { cpu_milli, memory_mib }
}

fn host(number: usize, numa: &[(u64, u64)]) -> Host {
    let numa = (0..).zip(numa).map(|(number, (cpu_milli, memory_mib))| NumaNode {
        number,
        cpu_milli: *cpu_milli,
        memory_mib: *memory_mib,
    });
    Host {
        name: NodeName::new(format!("h{number}")).unwrap(),
        capacity: Capacity { numa: numa.collect(), link_mbit: None },
        taken: Vec::new(),
        is_away: false,
        link_mbit: None,
    }
}

fn item(number: usize, needs: Room) -> Item {
    Item { name: format!("i{number}"), needs, now: None, priority: None }
}

fn problem(hosts: &[&[(u64, u64)]], needs: &[(u64, u64)]) -> Problem {
    Problem {
        hosts: (1..).zip(hosts).map(|(number, numa)| host(number, numa)).collect(),
        items: (1..)
            .zip(needs)
            .map(|(number, (cpu, mib))| item(number, room(*cpu, *mib)))
            .collect(),
        ..Problem::default()
    }
}

fn chosen(answer: &Answer) -> Vec<Option<usize>> {
    answer.seats.iter().map(|seat| seat.map(|seat| seat.host)).collect()
}

fn what_is_missing(problem: &Problem, answer: &Answer) -> Vec<String> {
    answer.misfits.iter().map(|misfit| obstacle::why(problem, misfit)).collect()
}

/// The rules, said anew: does every host hold what is on it?
fn fits(problem: &Problem, hosts: &[Option<usize>]) -> bool {
    let at = |end: End| match end {
        End::Item(item) => hosts[item],
        End::Host(host) => Some(host),
    };
    let crossing = || {
        problem.legs.iter().filter_map(|leg| {
            let [Some(from), Some(to)] = leg.ends.map(at) else { return None };
            (from != to).then_some((leg, [from.min(to), from.max(to)]))
        })
    };
    let near_enough = crossing().all(|(leg, ends)| {
        let delay = problem.delays_us.get(&ends);
        leg.delay_us_max.is_none_or(|max| delay.is_some_and(|delay| *delay <= max))
    });
    near_enough
        && problem.hosts.iter().enumerate().all(|(number, host)| {
            let on_it = problem.items.iter().zip(hosts).filter(|(_, at)| **at == Some(number));
            let is_unseen = |item: &Item| {
                item.now == Some(number) && (host.is_away || !host.capacity.is_told())
            };
            let new: Vec<&Item> =
                on_it.map(|(item, _)| item).filter(|item| !is_unseen(item)).collect();
            let sum = |rooms: &mut dyn Iterator<Item = Room>| rooms.fold(room(0, 0), Room::plus);
            let taken = sum(&mut host.taken.iter().copied());
            let needs = sum(&mut new.iter().map(|item| item.needs));
            let mbit: u64 = crossing()
                .filter(|(_, ends)| ends.contains(&number))
                .map(|(leg, _)| leg.mbit)
                .sum();
            (new.is_empty() || !host.is_away)
                && (needs.is_none() || host.capacity.total().minus(taken).holds(needs))
                && host.link_mbit.is_none_or(|link| mbit <= link)
        })
}

/// How many move, and hosts that something is on.
fn cost(problem: &Problem, hosts: &[Option<usize>]) -> (usize, usize) {
    let moves = problem
        .items
        .iter()
        .zip(hosts)
        .filter(|(item, host)| item.now.is_some() && host.is_some() && item.now != **host);
    let used = (0..problem.hosts.len())
        .filter(|host| hosts.contains(&Some(*host)) || !problem.hosts[*host].taken.is_empty());
    (moves.count(), used.count())
}

/// Every choice of hosts that fits.
fn every_choice(problem: &Problem) -> Vec<Vec<Option<usize>>> {
    let mut all = vec![Vec::new()];
    for _ in &problem.items {
        let longer = |choice: &Vec<Option<usize>>| {
            let hosts = (0..problem.hosts.len()).map(Some).chain([None]);
            let choice = choice.clone();
            hosts.map(move |host| [choice.clone(), vec![host]].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.retain(|choice| fits(problem, choice));
    all
}

/// Who is placed, those that come first first.
fn kept(problem: &Problem, hosts: &[Option<usize>]) -> Vec<bool> {
    problem.by_rank().into_iter().map(|item| hosts[item].is_some()).collect()
}

/// Small questions: up to three hosts of one or two NUMA nodes and five instances, with neighbours.
fn questions() -> impl Strategy<Value = Problem> {
    let numa = prop::collection::vec((1..5u64, 1..5u64), 0..3);
    let hosts = prop::collection::vec(
        (
            numa,
            prop::option::of((0..3u64, 0..3u64)),
            prop::bool::weighted(0.1),
            prop::option::of(0..9u64),
        ),
        1..4,
    );
    let items = prop::collection::vec(
        ((0..5u64, 0..5u64), prop::option::weighted(0.3, 0..3usize), prop::option::of(0..3u32)),
        1..6,
    );
    let legs = prop::collection::vec(
        ((0..5usize, 0..8usize), 0..5u64, prop::option::weighted(0.3, 0..9u64)),
        0..4,
    );
    let delays = prop::collection::btree_map((0..3usize, 0..3usize), 0..12u64, 0..3);
    (hosts, items, legs, delays).prop_map(|(hosts, items, legs, delays)| {
        let mut problem = Problem::default();
        for (number, (numa, taken, is_away, link_mbit)) in hosts.into_iter().enumerate() {
            let taken = taken.map(|(cpu, mib)| room(cpu, mib)).into_iter().collect();
            problem.hosts.push(Host { taken, is_away, link_mbit, ..host(number, &numa) });
        }
        let count = problem.hosts.len();
        for (number, ((cpu, mib), now, priority)) in items.into_iter().enumerate() {
            let now = now.filter(|now| *now < count);
            problem.items.push(Item { now, priority, ..item(number, room(cpu, mib)) });
        }
        let items = problem.items.len();
        for ((from, to), mbit, delay_us_max) in legs {
            let to = if to < 5 { End::Item(to % items) } else { End::Host((to - 5) % count) };
            let ends = [End::Item(from % items), to];
            if ends[0] != ends[1] {
                problem.legs.push(Leg { ends, mbit, delay_us_max });
            }
        }
        let known = delays.into_iter().filter(|((from, to), _)| from < to && *to < count);
        problem.delays_us = known.map(|((from, to), delay)| ([from, to], delay)).collect();
        problem
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn no_other_choice_keeps_more_of_those_that_come_first_moves_fewer_or_has_fewer_hosts(
        problem in questions()
    ) {
        let answer = solve(&problem);
        let hosts = chosen(&answer);
        prop_assert!(fits(&problem, &hosts), "{hosts:?}");
        let all = every_choice(&problem);
        let most = all.iter().map(|choice| kept(&problem, choice)).max().unwrap();
        prop_assert_eq!(kept(&problem, &hosts), most.clone());
        let least = all.iter().filter(|choice| kept(&problem, choice) == most);
        let least = least.map(|choice| cost(&problem, choice)).min().unwrap();
        prop_assert_eq!(cost(&problem, &hosts), least);
        prop_assert_eq!((answer.hosts_used, answer.hosts_least), (least.1, least.1));
        prop_assert!(answer.is_proved && answer.is_sure);
        let unplaced = hosts.iter().filter(|host| host.is_none()).count();
        prop_assert_eq!(answer.misfits.len(), unplaced);
        for misfit in &answer.misfits {
            prop_assert_eq!(misfit.obstacles.len(), problem.hosts.len(), "each host says why");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn of_many_no_limit_is_broken_the_bound_is_below_and_the_same_is_the_same(
        needs in prop::collection::vec((50..2_000u64, 16..4_000u64), 80..160),
        sizes in prop::collection::vec((2_000..16_000u64, 4_000..32_000u64), 4..40),
    ) {
        let hosts: Vec<[(u64, u64); 2]> =
            sizes.iter().map(|(cpu, mib)| [(cpu / 2, mib / 2); 2]).collect();
        let hosts: Vec<&[(u64, u64)]> = hosts.iter().map(|numa| &numa[..]).collect();
        let problem = problem(&hosts, &needs);
        let answer = solve(&problem);
        let hosts = chosen(&answer);
        prop_assert!(fits(&problem, &hosts));
        let placed = hosts.iter().flatten().count();
        prop_assert_eq!(placed + answer.misfits.len(), problem.items.len());
        prop_assert!(answer.hosts_least <= answer.hosts_used);
        prop_assert_eq!(answer.is_proved, answer.hosts_least == answer.hosts_used);
        prop_assert_eq!(answer.hosts_used, cost(&problem, &hosts).1);
        let again = solve(&problem);
        prop_assert_eq!((hosts, answer.hosts_least), (chosen(&again), again.hosts_least));
    }
}

#[test]
fn instances_go_to_the_fewest_hosts_and_where_memory_and_processors_are_near_each_other() {
    // First fit in the order of declaration would need three hosts.
    let hosts: [&[(u64, u64)]; 3] = [&[(1_000, 100)]; 3];
    let answer = solve(&problem(&hosts, &[(300, 1), (300, 1), (700, 1), (700, 1)]));
    assert_eq!((answer.hosts_used, answer.hosts_least, answer.is_proved), (2, 2, true));
    // Each fits beside a NUMA node's other; a third spans both, and is told.
    let two: [&[(u64, u64)]; 1] = [&[(1_000, 100), (1_000, 100)]];
    let answer = solve(&problem(&two, &[(600, 60), (600, 60), (600, 60)]));
    let spans: Vec<bool> = answer.seats.iter().map(|seat| seat.unwrap().spans).collect();
    assert_eq!(spans, [false, false, true]);
}

/// So many hosts that are all different, and instances of which none has memory for four.
fn crowd(hosts: u64, instances: u64) -> Problem {
    let sizes: Vec<[(u64, u64); 1]> =
        (0..hosts).map(|number| [(2_000 + 50 * number, 5_000 - number)]).collect();
    let hosts: Vec<&[(u64, u64)]> = sizes.iter().map(|numa| &numa[..]).collect();
    let needs: Vec<(u64, u64)> =
        (0..instances).map(|number| (450 + 13 * number, 1_300 + 29 * (number % 17))).collect();
    problem(&hosts, &needs)
}

#[test]
fn a_search_ends_after_so_many_steps_and_takes_more_of_them_where_there_are_more_hosts() {
    let steps_per_look = |hosts: u64| {
        let problem = crowd(hosts, 1);
        let mut search = Search::new(&problem, &[0], STEPS_MAX);
        let before = search.steps;
        search.best().unwrap();
        (before - search.steps) as u64 / hosts
    };
    let [few, many] = [4, 400].map(steps_per_look);
    assert!(many > 10 * few, "{few} and {many}");
    for hosts in [30, 600] {
        let problem = crowd(hosts, 60);
        let items: Vec<usize> = (0..60).collect();
        let mut search = Search::new(&problem, &items, STEPS_MAX);
        assert!(search.best().is_some());
        assert_eq!((search.steps, search.is_whole), (0, false), "{hosts} hosts");
        let again = Search::new(&problem, &items, STEPS_MAX).best().unwrap();
        assert_eq!(again.seats, search.best().unwrap().seats);
    }
}

#[test]
fn what_runs_stays_and_moves_only_where_it_has_no_room_any_more() {
    let hosts: [&[(u64, u64)]; 2] = [&[(1_000, 100)]; 2];
    let mut problem = problem(&hosts, &[(400, 10), (400, 10)]);
    (problem.items[0].now, problem.items[1].now) = (Some(1), Some(0));
    // One host would do.
    let answer = solve(&problem);
    assert_eq!((chosen(&answer), answer.hosts_used), (vec![Some(1), Some(0)], 2));
    problem.items[1].needs = room(1_000, 10);
    problem.hosts[0].taken.push(room(100, 0));
    let answer = solve(&problem);
    assert_eq!(chosen(&answer), [Some(0), Some(1)], "both move: else one has no host");
    // Who is away says nothing; what runs there is left there.
    problem.hosts[0].is_away = true;
    let answer = solve(&problem);
    assert_eq!(chosen(&answer), [Some(1), Some(0)]);
}

#[test]
fn what_does_not_fit_is_told_what_is_missing_where_least_is() {
    let hosts: [&[(u64, u64)]; 5] = [&[(4_000, 64)], &[(4_000, 512)], &[], &[(100, 16)], &[]];
    let mut problem = problem(&hosts, &[(1_700, 128)]);
    problem.hosts[1].taken.push(room(2_800, 100));
    problem.hosts[3].link_mbit = Some(1);
    problem.hosts[4].is_away = true;
    let answer = solve(&problem);
    let told = what_is_missing(&problem, &answer);
    assert_eq!(
        told,
        ["host 'h1' has 64 of 64 MiB free, 64 more are needed; \
          host 'h2' has 1200 of 4000 thousandths of a core free, 500 more are needed; \
          host 'h4' has 100 of 100 thousandths of a core free, 1600 more are needed, and 16 of 16 MiB free, \
          112 more are needed; host 'h3' does not say what it has; and 1 hosts more have no room either"]
    );
    // What asks for nothing goes to hosts that say nothing.
    problem.hosts.truncate(3);
    problem.hosts.drain(..2);
    problem.items[0].needs = room(0, 0);
    assert_eq!(chosen(&solve(&problem)), [Some(0)]);
}

#[test]
fn neighbours_that_must_be_near_stay_together_and_links_take_what_they_have() {
    let hosts: [&[(u64, u64)]; 3] = [&[(1_000, 100)]; 3];
    let mut problem = problem(&hosts, &[(600, 1), (300, 1), (600, 1)]);
    let leg = |from, to, mbit, delay_us_max| Leg { ends: [from, to], mbit, delay_us_max };
    problem.legs.push(leg(End::Item(1), End::Item(2), 0, Some(0)));
    let hosts = chosen(&solve(&problem));
    assert_eq!(hosts[1], hosts[2]);
    // Nobody knows how far hosts are from one another: then two with a bound are on one.
    problem.items[1].needs = room(600, 1);
    problem.legs[0].delay_us_max = Some(50);
    let answer = solve(&problem);
    let told = what_is_missing(&problem, &answer);
    assert!(told[0].contains("nobody knows how long it is from host 'h"), "{told:?}");
    problem.delays_us.insert([0, 2], 50);
    problem.delays_us.insert([0, 1], 51);
    let hosts = chosen(&solve(&problem));
    assert_eq!((hosts[0], hosts[1].max(hosts[2])), (Some(1), Some(2)));
    problem.hosts[1].is_away = true;
    let told = what_is_missing(&problem, &solve(&problem));
    assert!(told[0].contains("1 more") || told[0].contains("host 'h2' is away"), "{told:?}");

    let hosts: [&[(u64, u64)]; 2] = [&[(1_000, 100)]; 2];
    let mut problem = super::tests::problem(&hosts, &[(600, 1), (600, 1)]);
    problem.legs.push(leg(End::Item(0), End::Item(1), 800, None));
    problem.hosts[0].link_mbit = Some(1_000);
    assert!(solve(&problem).misfits.is_empty());
    problem.legs.push(leg(End::Item(1), End::Item(0), 300, None));
    let told = what_is_missing(&problem, &solve(&problem));
    assert_eq!(told.len(), 1);
    assert!(
        told[0].contains("the link of host 'h1' has 200 Mbit/s free, 100 more are needed"),
        "{told:?}"
    );
}

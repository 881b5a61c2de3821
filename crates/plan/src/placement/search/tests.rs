//! Choices of hosts beside those of somebody who looks at all of them.

use super::*;
use proptest::prelude::*;

/// A fat tree of switches with k ports each: as many hosts at each edge switch as it has ports upwards; a header in a
/// rack has 3 ports, in a pod 5, elsewhere 7, the function's among them.
fn fat_tree(k: usize) -> Ground {
    let half = k / 2;
    let hosts = k * half * half;
    let racks: Vec<usize> = (0..hosts).map(|host| host / half).collect();
    let ports = |from: usize, to: usize| match (
        racks[from] == racks[to],
        racks[from] / half == racks[to] / half,
    ) {
        (true, _) => 3,
        (_, true) => 5,
        _ => 7,
    };
    let row = |from| (0..hosts).map(|to| (from != to).then(|| ports(from, to))).collect();
    Ground { ports: (0..hosts).map(row).collect(), takes: vec![true; hosts], racks }
}

fn puzzle(
    ground: &Ground,
    begins: Option<usize>,
    functions: Vec<Station>,
    per_host: usize,
) -> Puzzle<'_> {
    let mut stations = vec![Station::At(begins.into_iter().collect())];
    stations.extend(functions);
    Puzzle { ground, stations, per_host }
}

/// The least cost of all choices.
fn exhaustive(puzzle: &Puzzle<'_>) -> Option<Cost> {
    let hosts = puzzle.ground.racks.len();
    let free = puzzle.stations.iter().filter(|one| **one == Station::Free).count();
    let given = |host: usize| {
        let functions = puzzle.stations[1..].iter();
        functions.filter(|one| matches!(one, Station::At(at) if at.contains(&host))).count()
    };
    let all = 0..hosts.pow(u32::try_from(free).unwrap());
    let chosen = all.map(|number| {
        let digit = |place: usize| number / hosts.pow(u32::try_from(place).unwrap()) % hosts;
        (0..free).map(digit).collect::<Vec<usize>>()
    });
    let fits = |chosen: &Vec<usize>| {
        let used = |host: usize| chosen.iter().filter(|one| **one == host).count();
        let has_room = |host: &usize| given(*host) + used(*host) <= puzzle.per_host;
        chosen.iter().all(|host| puzzle.ground.takes[*host] && has_room(host))
    };
    chosen.filter(fits).filter_map(|chosen| puzzle.cost(&chosen)).min()
}

fn assert_fits(puzzle: &Puzzle<'_>, found: &Found) {
    assert_eq!(puzzle.cost(&found.hosts), Some(found.cost));
    let functions = puzzle.stations[1..].iter();
    let given = functions.filter_map(|one| match one {
        Station::At(hosts) => Some(hosts.clone()),
        Station::Free => None,
    });
    let given: Vec<usize> = given.flatten().collect();
    for host in &found.hosts {
        let all = given.iter().chain(&found.hosts).filter(|one| *one == host).count();
        assert!(all <= puzzle.per_host, "{found:?}");
    }
}

/// Hosts at random racks and distances, some out of reach; a few functions, some given.
fn puzzles() -> impl Strategy<Value = (Ground, Option<usize>, Vec<Station>, usize)> {
    (2..6_usize).prop_flat_map(|hosts| {
        let racks = proptest::collection::vec(0..3_usize, hosts);
        let leg = prop_oneof![8 => (2..5_u32).prop_map(Some), 1 => Just(None)];
        let ports = proptest::collection::vec(proptest::collection::vec(leg, hosts), hosts);
        let given = proptest::collection::btree_set(0..hosts, 1..3);
        let given = given.prop_map(|hosts| Station::At(hosts.into_iter().collect()));
        let station = prop_oneof![3 => Just(Station::Free), 1 => given];
        let functions = proptest::collection::vec(station, 1..5);
        let begins = proptest::option::of(0..hosts);
        let per_host = 1..3_usize;
        let takes =
            proptest::collection::vec(prop_oneof![5 => Just(true), 1 => Just(false)], hosts);
        let ground =
            (racks, takes, ports).prop_map(|(racks, takes, ports)| Ground { racks, takes, ports });
        (ground, begins, functions, per_host)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_choice_of_hosts_is_better_than_the_one_that_is_proposed(
        (ground, begins, functions, per_host) in puzzles()
    ) {
        let puzzle = puzzle(&ground, begins, functions, per_host);
        let (found, least) = (puzzle.solve(true), exhaustive(&puzzle));
        prop_assert_eq!(found.as_ref().map(|found| found.cost), least);
        if let Some(found) = &found {
            assert_fits(&puzzle, found);
            prop_assert_eq!(found.bound, found.cost);
            prop_assert_eq!(puzzle.solve(true), Some(found.clone()), "another time another choice");
        }
        // Whoever does not look at all says how far the best may be, and never too little.
        if let (Some(quick), Some(least)) = (puzzle.solve(false), least) {
            assert_fits(&puzzle, &quick);
            prop_assert!(quick.cost >= least);
            prop_assert!(quick.bound.racks <= least.racks && quick.bound.ports <= least.ports);
        }
    }

    #[test]
    fn hosts_that_nothing_tells_apart_are_tried_once_and_nothing_is_missed(
        k in prop_oneof![Just(2_usize), Just(4)],
        begins in proptest::option::of(0..2_usize),
        functions in 1..4_usize,
        per_host in 1..3_usize,
        at in 0..2_usize,
    ) {
        let ground = fat_tree(k);
        let mut stations = vec![Station::Free; functions];
        stations.push(Station::At(vec![at]));
        let puzzle = puzzle(&ground, begins, stations, per_host);
        prop_assert_eq!(puzzle.solve(true).map(|found| found.cost), exhaustive(&puzzle));
    }
}

#[test]
fn eight_functions_in_a_fat_tree_are_placed_with_proof() {
    for k in [4, 6, 8] {
        let ground = fat_tree(k);
        for begins in [None, Some(0)] {
            let puzzle = puzzle(&ground, begins, vec![Station::Free; 8], 1);
            let found = puzzle.solve(true).unwrap();
            assert_fits(&puzzle, &found);
            assert_eq!(found.bound, found.cost, "k = {k}: {found:?}");
        }
    }
    // Two hosts in each rack, two racks in each pod; the first stands beside the sender.
    let ground = fat_tree(4);
    let found = puzzle(&ground, Some(0), vec![Station::Free; 4], 1).solve(true).unwrap();
    assert_eq!((found.hosts, found.cost), (vec![0, 1, 2, 3], Cost { racks: 2, ports: 3 + 5 + 3 }));
}

#[test]
fn longer_chains_are_placed_without_proof_and_say_what_is_open() {
    let ground = fat_tree(8);
    let puzzle = puzzle(&ground, Some(0), vec![Station::Free; 15], 1);
    let found = puzzle.solve(false).unwrap();
    assert_fits(&puzzle, &found);
    // Fifteen at four in a rack.
    assert_eq!((found.cost.racks, found.bound.racks), (4, 4));
    assert!(found.bound.ports <= found.cost.ports);
}

#[test]
fn what_fits_nowhere_has_no_proposal() {
    let ground = fat_tree(2);
    let none = puzzle(&ground, None, vec![Station::Free; 3], 1).solve(true);
    assert_eq!(none, None, "three functions, two hosts");
    let apart = Ground { racks: vec![0, 1], takes: vec![true; 2], ports: vec![vec![None; 2]; 2] };
    let functions = vec![Station::At(vec![0]), Station::Free];
    assert_eq!(puzzle(&apart, None, functions, 1).solve(true), None, "no cable joins them");
}

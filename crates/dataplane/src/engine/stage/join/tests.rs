//! Each function meets tokens in the order in which they entered, and they leave in that order, whatever is answered
//! when.

use super::*;
use proptest::prelude::*;

/// Who has met which token, in order.
type Met = BTreeMap<u32, Vec<u64>>;

fn route(members: &[u32], widths: &[usize]) -> Arc<Route> {
    let (mut stages, mut from) = (Vec::new(), 0);
    for width in widths {
        let end = (from + width).min(members.len());
        if end > from {
            stages.push(from..end);
        }
        from = end;
    }
    if from < members.len() {
        stages.push(from..members.len());
    }
    Arc::new(Route { members: members.to_vec(), stages })
}

fn routes() -> impl Strategy<Value = Vec<Arc<Route>>> {
    let members = Just((0..6).collect::<Vec<u32>>()).prop_shuffle();
    let one = (members, 1..6_usize, proptest::collection::vec(1..4_usize, 0..4));
    let one = one.prop_map(|(members, count, widths)| route(&members[..count], &widths));
    proptest::collection::vec(one, 1..5)
}

/// Something that happens, as far as it can.
#[derive(Clone, Copy, Debug)]
enum Happening {
    Enters(usize),
    Answers(usize),
    AnswersAgain(usize),
    Lost(usize),
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let one = prop_oneof![
        4 => (0..9_usize).prop_map(Happening::Enters),
        8 => (0..99_usize).prop_map(Happening::Answers),
        1 => (0..99_usize).prop_map(Happening::AnswersAgain),
        1 => (0..99_usize).prop_map(Happening::Lost),
    ];
    proptest::collection::vec(one, 1..120)
}

/// A join with those whom it asks: of each function, questions wait in the order in which they were put.
#[derive(Default)]
struct World {
    join: Join<u64, u64>,
    asked: BTreeMap<u32, VecDeque<Question<u64>>>,
    met: Met,
    merged: Met,
    left: Vec<u64>,
    lost: BTreeSet<u64>,
    answered: Vec<(u64, usize)>,
}

impl World {
    fn ask(&mut self) {
        while let Some(question) = self.join.ask(7) {
            self.asked.entry(question.function).or_default().push_back(question);
        }
    }

    /// The n-th of the functions that are asked something answers.
    fn answer(&mut self, which: usize) {
        let busy: Vec<u32> =
            self.asked.iter().filter(|(_, asked)| !asked.is_empty()).map(|(one, _)| *one).collect();
        let Some(function) = busy.get(which % busy.len().max(1)) else { return };
        let question = self.asked.get_mut(function).and_then(VecDeque::pop_front).unwrap();
        let Question { token, member, batch, .. } = question;
        drop(batch);
        self.met.entry(*function).or_default().push(token);
        let taken = self.join.answer(token, member, token * 100 + member as u64);
        assert_eq!(taken.is_err(), self.lost.contains(&token));
        self.answered.push((token, member));
        self.go_on();
    }

    fn go_on(&mut self) {
        while let Some(merging) = self.join.merge() {
            let Merging { token, route, members, batch, answers } = merging;
            let wanted: Vec<u64> = members.clone().map(|at| token * 100 + at as u64).collect();
            assert_eq!(answers, wanted, "those of the stage, in its order");
            for function in &route.members[members] {
                self.merged.entry(*function).or_default().push(token);
            }
            // Every seventh ends on its way.
            self.join.go_on(token, batch, token % 7 != 3);
            self.ask();
        }
        while let Some((token, batch)) = self.join.leave() {
            assert_eq!(token, batch);
            self.left.push(token);
        }
    }
}

proptest! {
    #[test]
    fn order_is_that_of_entering_whoever_answers_first(
        routes in routes(),
        happenings in happenings(),
    ) {
        let mut world = World::default();
        let mut entered = 0;
        for happening in happenings {
            match happening {
                Happening::Enters(which) => {
                    let route = Arc::clone(&routes[which % routes.len()]);
                    prop_assert_eq!(world.join.enter(route, entered), entered);
                    entered += 1;
                    world.ask();
                }
                Happening::Answers(which) => world.answer(which),
                Happening::AnswersAgain(which) => {
                    if let Some((token, member)) = world.answered.get(which).copied() {
                        prop_assert!(world.join.answer(token, member, 5).is_err());
                    }
                }
                Happening::Lost(which) => {
                    let token = which as u64;
                    if world.join.lose(token).is_some() {
                        world.lost.insert(token);
                        world.ask();
                        world.go_on();
                    }
                }
            }
        }
        while world.asked.values().any(|asked| !asked.is_empty()) {
            world.answer(0);
        }
        prop_assert!(world.join.is_empty(), "everything is through");
        let wanted: Vec<u64> = (0..entered).filter(|token| !world.lost.contains(token)).collect();
        prop_assert_eq!(&world.left, &wanted);
        for (function, met) in world.met.iter().chain(&world.merged) {
            prop_assert!(met.is_sorted(), "{function} meets {met:?}");
        }
    }
}

#[test]
fn what_is_asked_before_is_overdue_and_answers_of_nobody_are_given_back() {
    let mut join: Join<&str, u8> = Join::default();
    let token = join.enter(route(&[4, 5], &[2]), "packets");
    let [one, other] = [join.ask(100).unwrap(), join.ask(200).unwrap()];
    assert_eq!((one.function, other.function), (4, 5));
    assert_eq!(join.overdue(100, |_| true), None);
    assert_eq!(join.overdue(101, |_| true), Some((token, 4)));
    assert_eq!(join.overdue(201, |function| function == 5), Some((token, 5)));
    assert_eq!(join.answer(token, 0, 1), Ok(()));
    assert_eq!(join.answer(token, 0, 2), Err(2), "twice");
    assert_eq!(join.answer(token, 2, 3), Err(3), "of nobody");
    assert_eq!(join.answer(token + 1, 0, 4), Err(4), "about nothing");
    drop((one, other));
    assert_eq!(join.lose(token).as_deref(), Some(&"packets"));
    assert_eq!(join.answer(token, 1, 5), Err(5), "late");
    assert!(join.leave().is_none() && join.is_empty());
}

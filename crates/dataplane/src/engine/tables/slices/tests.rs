//! The tables of slices beside a walk over all of them.

use super::*;
use catena_model::program::{DelayClass, SlicePolicy};
use catena_model::slice::SlicePlace;
use catena_wire::scalar::{TeidRange, Vni};
use proptest::prelude::*;
use uuid::Uuid;

const PLACES: [Scope; 3] = [Scope::new(0, 3), Scope::new(1, 3), Scope::new(2, 3)];

fn slice(number: u32, place: usize, matches: SliceMatch) -> SliceTable {
    let class = [DelayClass::Unscheduled, DelayClass::Urgent][(number % 2) as usize];
    SliceTable {
        path: PathId(100 + number),
        // Identifiers without the order in which slices come.
        id: SliceId(Uuid::from_u128(u128::from(number.reverse_bits()))),
        policy: SlicePolicy { class, ..SlicePolicy::default() },
        matches,
        place: Some(PLACES[place]),
        name: "".into(),
        is_injected: false,
    }
}

/// Numbers that are alike in kinds that are not.
fn network_of(number: u32) -> TunnelId {
    match number {
        0 => vni(1),
        1 => TunnelId::GreKey(1),
        2 => TunnelId::SttContext(1),
        _ => TunnelId::SttContext(1 << 63 | 1),
    }
}

fn vni(number: u32) -> TunnelId {
    TunnelId::Vni(Vni::new(number).unwrap())
}

fn matches() -> impl Strategy<Value = SliceMatch> {
    let network = proptest::option::of(0u32..4);
    let qfi = proptest::option::of(0u32..3);
    let teids = proptest::option::of((0u32..40, prop_oneof![Just(0u32), 0u32..30]));
    (network, teids, qfi).prop_map(|(network, teids, qfi)| SliceMatch {
        place: SlicePlace::Endpoints,
        tunnel_id: network.map(network_of),
        teids: teids
            .map(|(first, width)| TeidRange::new(Teid(first), Teid(first + width)).unwrap()),
        qfi: qfi.map(|qfi| Qfi::new(qfi).unwrap()),
    })
}

fn does_match(matches: &SliceMatch, shown: UserContext) -> bool {
    (matches.tunnel_id.is_none() || matches.tunnel_id == shown.tunnel_id)
        && (matches.qfi.is_none() || matches.qfi == shown.qfi)
        && matches.teids.is_none_or(|range| shown.teid.is_some_and(|teid| range.contains(teid)))
}

/// The slice that the docstring of `SliceEntry` says.
fn reference(slices: &[SliceTable], places: &[Scope], shown: UserContext) -> Option<SliceId> {
    let here = slices.iter().filter(|slice| slice.place.is_some_and(|at| places.contains(&at)));
    let matching = here.filter(|slice| does_match(&slice.matches, shown));
    let best = matching.min_by_key(|slice| {
        let SliceMatch { tunnel_id, teids, qfi, .. } = slice.matches;
        let given = [tunnel_id.is_some(), teids.is_some(), qfi.is_some()];
        let fields = given.into_iter().filter(|given| *given).count();
        (std::cmp::Reverse(fields), slice.width(), slice.id)
    });
    best.map(|slice| slice.id)
}

fn assert_alike(slices: &Slices, model: &[SliceTable]) {
    for slice in model {
        let index = *slices.of_id.get(&slice.id).unwrap();
        let is_direct = slice.policy.is_none();
        assert_eq!(slices.direct(index), is_direct.then_some(slice.path));
    }
    for (one, other) in [(0, 1), (1, 1), (2, 2)] {
        let places = [PLACES[one], PLACES[other]];
        let spots = places.map(|place| slices.spot(place));
        for (network, teid, qfi) in (0..5 * 72 * 4).map(|n| (n % 5, n / 5 % 72, n / 360)) {
            // The last number of each kind: the packet shows none.
            let shown = UserContext {
                tunnel_id: (network < 4).then(|| network_of(network)),
                teid: (teid < 71).then_some(Teid(teid)),
                qfi: (qfi < 3).then(|| Qfi::new(qfi).unwrap()),
            };
            let found = slices.find(&spots, shown).map(|index| slices.get(index).unwrap().id);
            assert_eq!(found, reference(model, &places, shown), "{shown:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn slices_are_found_as_by_a_walk_over_all_of_them(
        steps in proptest::collection::vec((0usize..3, matches(), 0u8..4, any::<u16>()), 1..60),
    ) {
        let (mut slices, mut model) = (Slices::default(), Vec::<SliceTable>::new());
        for (number, (place, matches, kind, pick)) in (0..).zip(steps) {
            if kind == 0 && !model.is_empty() {
                let gone = model.swap_remove(usize::from(pick) % model.len());
                prop_assert_eq!(slices.remove(gone.id).map(|slice| slice.id), Some(gone.id));
            } else {
                slices.insert(slice(number, place, matches));
                model.push(slice(number, place, matches));
            }
        }
        assert_alike(&slices, &model);
        let before = slices.clone();
        for gone in &model {
            slices.remove(gone.id);
        }
        prop_assert!(slices.is_empty());
        prop_assert!(!slices.take_from(&PLACES), "nothing is left of them");
        assert_alike(&before, &model);
    }
}

#[test]
fn a_hundred_thousand_users_are_told_apart() {
    let mut slices = Slices::default();
    for number in 0..100_000 {
        let matches = SliceMatch {
            place: SlicePlace::Endpoints,
            tunnel_id: Some(vni(number % 8)),
            teids: Some(TeidRange::one(Teid(number))),
            qfi: None,
        };
        slices.insert(slice(number, 0, matches));
    }
    let spots = [slices.spot(PLACES[0])];
    for number in 0..100_000 {
        let shown =
            UserContext { tunnel_id: Some(vni(number % 8)), teid: Some(Teid(number)), qfi: None };
        let found = slices.find(&spots, shown).unwrap();
        assert_eq!(slices.get(found).unwrap().matches.teids, Some(TeidRange::one(Teid(number))));
        let other = UserContext { tunnel_id: Some(vni((number + 1) % 8)), ..shown };
        assert_eq!(slices.find(&spots, other), None);
    }
}

impl Slices {
    /// All of them in words; `places`: what each place is called.
    pub(crate) fn described(&self, places: &[(Scope, String)]) -> String {
        let name = |at: Scope| places.iter().find(|(place, _)| *place == at).map(|(_, name)| name);
        let sorted = |mut all: Vec<String>| {
            all.sort();
            all
        };
        let slice = |slice: &SliceTable| {
            let place = slice.place.map(|place| name(place).expect("a place that is there"));
            format!("{} {} {place:?} {:?}", slice.id, slice.path, slice.matches)
        };
        let slices = sorted(self.all().map(slice).collect());
        let used = |(place, name): &(Scope, String)| {
            let counts = self.places.get(place).map(|counts| (counts.used, counts.counts));
            format!("{name} {counts:?}")
        };
        let used = sorted(places.iter().map(used).collect());
        let counted = |all: &SharedMap<PathId, u32>| {
            let keys = all.keys();
            sorted(keys.map(|path| format!("{path} {:?}", all.get(path))).collect())
        };
        let (uses, likes) = (counted(&self.uses), counted(&self.likes));
        let claims = (self.users.len(), self.ranges.len(), self.groups.len());
        let (at, lens) = (&self.at, (self.len(), self.places.len(), self.paths.len()));
        format!("{slices:?} {used:?} {uses:?} {likes:?} {at:?} {claims:?} {lens:?}")
    }
}

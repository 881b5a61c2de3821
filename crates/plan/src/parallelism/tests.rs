//! Verdicts against those of others, and stages against functions one after the other.

mod flow_actions;
mod toys;

use super::document::short_name;
use super::*;
use catena_model::profile::{FieldSet, Profile, StateScope};
use catena_wire::field::Field;
use proptest::prelude::*;
use serde::Deserialize;
use std::collections::BTreeMap;
use toys::{FIELDS, Packet, Plan, Toy, in_series, in_stages};

#[derive(Deserialize)]
struct Vectors {
    pairs: Vec<Pair>,
    verdict_counts: BTreeMap<String, usize>,
}

#[derive(Deserialize)]
struct Pair {
    first: String,
    second: String,
    verdict: String,
    reason: String,
}

const VECTORS: &str = include_str!("../../../../conformance/plan/nfp.json");

fn members() -> BTreeMap<String, Profile> {
    let profiles: Profiles = serde_json::from_str(VECTORS).expect("profiles");
    let members = profiles.members().expect("they are right");
    members.into_iter().map(|member| (member.name, member.profile)).collect()
}

/// A reason in the names of the vectors.
fn in_short_names(reason: Reason) -> String {
    let words = reason.in_words("a", "b");
    if !(words.starts_with("read-after-write") || words.starts_with("WA")) {
        return words;
    }
    let (what, fields) = words.rsplit_once(" on ").expect("fields");
    let short = |name: &str| Field::named(name).and_then(short_name).unwrap_or("?");
    let mut names: Vec<&str> = fields.split(',').map(short).collect();
    names.sort_unstable();
    format!("{what} on {}", names.join(","))
}

#[test]
fn pairs_are_judged_as_by_the_specification() {
    let vectors: Vectors = serde_json::from_str(VECTORS).expect("vectors");
    let profiles = members();
    assert!(vectors.pairs.len() > 100);
    for pair in &vectors.pairs {
        let verdict = judge(&profiles[&pair.first], &profiles[&pair.second]);
        let told = (verdict.name(), in_short_names(verdict.reason()));
        let wanted = (pair.verdict.as_str(), pair.reason.clone());
        assert_eq!(told, wanted, "{} before {}", pair.first, pair.second);
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (first, a) in &profiles {
        for (second, b) in &profiles {
            if first != second {
                *counts.entry(judge(a, b).name().to_owned()).or_default() += 1;
            }
        }
    }
    assert_eq!(counts, vectors.verdict_counts);
}

/// Profiles of few fields, so that they meet often; who rebuilds a packet reads and writes all of it.
fn any_profile() -> impl Strategy<Value = Profile> {
    let sets = (any::<u8>(), any::<u8>());
    let flags = prop::collection::vec(prop::bool::weighted(0.3), 7);
    (sets, flags, 0_u8..6).prop_map(|((reads, writes), flags, state)| {
        let set = |bits: u8| {
            let chosen =
                FIELDS.into_iter().take(6).enumerate().filter(|(at, _)| bits >> at & 1 == 1);
            chosen.fold(FieldSet::EMPTY, |set, (_, field)| set.with(field))
        };
        let all = FIELDS.into_iter().fold(FieldSet::EMPTY, FieldSet::with);
        let replaces = flags[0] && flags[1];
        Profile {
            reads: if replaces { all } else { set(reads) },
            writes: if replaces { all } else { set(writes & writes >> 3) },
            replaces,
            drops: flags[2],
            has_effects: flags[3],
            effects_are_sums: flags[4],
            state: if state == 0 { StateScope::All } else { StateScope::Packet },
            generates: flags[5] && flags[0],
            is_ordered: flags[6] && state == 0,
            ..Profile::IDENTITY
        }
    })
}

fn any_packets() -> impl Strategy<Value = Vec<Packet>> {
    let packet = prop::collection::vec(0_u128..4, FIELDS.len());
    let named = packet.prop_map(|values| FIELDS.into_iter().zip(values).collect());
    prop::collection::vec(named, 40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Whatever stages are made of, nobody can tell them from one function after the other.
    #[test]
    fn stages_do_what_the_chain_does_one_after_the_other(
        profiles in prop::collection::vec(any_profile(), 2..7),
        packets in any_packets(),
    ) {
        let named = |(at, profile): (usize, &Profile)| StageMember { name: at.to_string(), profile: *profile };
        let members: Vec<StageMember> = profiles.iter().enumerate().map(named).collect();
        let stages = Stages::of(&members);
        let places: Vec<usize> = stages.stages.iter().flatten().copied().collect();
        prop_assert_eq!(places, (0..profiles.len()).collect::<Vec<_>>(), "all, in the chain's order");
        for stage in &stages.stages {
            for (at, first) in stage.iter().enumerate() {
                for second in &stage[at + 1..] {
                    prop_assert!(stages.verdict(*first, *second).is_some_and(Verdict::is_parallel));
                }
            }
        }
        let toys: Vec<Toy> = profiles.into_iter().map(Toy::new).collect();
        let is_held = |first, second| {
            matches!(stages.verdict(first, second), Some(Verdict::Parallel(Parallel { is_held: true, .. })))
        };
        let plan = Plan { stages: &stages.stages, is_held: &is_held };
        prop_assert_eq!(in_stages(&toys, plan, &packets), in_series(&toys, &packets));
    }
}

/// Runs two of the vectors' functions side by side against their verdict: what is forbidden shows in most cases, which
/// proves that the comparison above can fail.
#[test]
fn what_is_forbidden_would_show() {
    let profiles = members();
    let packets: Vec<Packet> = (0..400_u128)
        .map(|number| {
            let value = |at: usize| ((number * 2_654_435_761) >> (2 * at)) % 5;
            FIELDS.into_iter().enumerate().map(|(at, field)| (field, value(at))).collect()
        })
        .collect();
    let (mut serial, mut shown) = (0, 0);
    for (first, a) in &profiles {
        for (second, b) in &profiles {
            let toys = [Toy::new(*a), Toy::new(*b)];
            let reference = in_series(&toys, &packets);
            let plan = Plan { stages: &[vec![0, 1]], is_held: &|_, _| false };
            let beside = in_stages(&toys, plan, &packets);
            if first == second || judge(a, b).is_parallel() {
                assert!(first == second || beside == reference, "{first} beside {second}");
                continue;
            }
            serial += 1;
            shown += usize::from(beside != reference);
            assert!(reference.weight() != (0, 0) || !(a.drops || a.has_effects || b.has_effects));
        }
    }
    assert!(serial > 100 && shown * 5 > serial * 4, "{shown} of {serial} differ");
}

#[test]
fn checksums_follow_what_they_cover() {
    let writes = Profile { writes: FieldSet::EMPTY.with(Field::Dscp), ..Profile::IDENTITY };
    let reads = Profile { reads: FieldSet::EMPTY.with(Field::HeaderChecksum), ..Profile::IDENTITY };
    let upper = Profile { reads: FieldSet::EMPTY.with(Field::UpperChecksum), ..Profile::IDENTITY };
    assert!(matches!(judge(&writes, &reads), Verdict::Serial(Reason::ReadAfterWrite(_))));
    assert!(judge(&writes, &upper).is_parallel(), "DSCP is in no pseudo header");
    let Verdict::Parallel(parallel) = judge(&reads, &writes) else { panic!("it may") };
    assert_eq!(parallel.copy, PacketCopy::Headers, "the sum is written as well");
}

#[test]
fn bits_of_one_field_are_told_apart() {
    let bits = |reads, writes| Profile {
        reads: FieldSet::EMPTY.with_bits(Field::Destination, reads),
        writes: FieldSet::EMPTY.with_bits(Field::Destination, writes),
        ..Profile::IDENTITY
    };
    assert!(judge(&bits(0, 0xff), &bits(0xff00, 0)).is_parallel());
    assert!(!judge(&bits(0, 0xff), &bits(0xff, 0)).is_parallel());
}

#[test]
fn sums_are_held_until_the_verdict_and_nothing_else_is() {
    let drops = Profile { drops: true, ..Profile::IDENTITY };
    let counts = Profile { has_effects: true, effects_are_sums: true, ..Profile::IDENTITY };
    let Verdict::Parallel(parallel) = judge(&drops, &counts) else { panic!("sums may be held") };
    assert!(parallel.is_held);
    for other in [
        Profile { effects_are_sums: false, ..counts },
        Profile { state: StateScope::Flow, ..counts },
        Profile { is_ordered: true, ..counts },
    ] {
        assert_eq!(judge(&drops, &other), Verdict::Serial(Reason::Dropped));
    }
}

#[test]
fn what_is_only_declared_or_waits_or_cuts_stays_alone() {
    let identity = Profile::IDENTITY;
    let declared = Profile { is_verified: false, ..identity };
    let holds = Profile { holds: true, ..identity };
    let cuts = Profile { takes_super_frames: false, ..identity };
    for (other, reason) in [(declared, Reason::Declared), (holds, Reason::Holds)] {
        assert_eq!(judge(&identity, &other), Verdict::Serial(reason));
        assert_eq!(judge(&other, &identity), Verdict::Serial(reason));
    }
    // Whoever stands behind a function that takes packets as on the wire gets them so.
    assert_eq!(judge(&identity, &cuts), Verdict::Serial(Reason::Granularity));
    assert!(judge(&cuts, &identity).is_parallel() && judge(&cuts, &cuts).is_parallel());
}

#[test]
fn profiles_that_are_none_are_refused_by_name() {
    let refused = |text: &str| {
        let profiles: Profiles = serde_json::from_str(text).expect("form");
        profiles.members().expect_err("it is wrong").to_string()
    };
    let field = refused(r#"{"profiles": {"FW": {"R": ["ip.sorce"]}}}"#);
    assert!(
        field.starts_with("the profile FW names the field 'ip.sorce', which there is not"),
        "{field}"
    );
    assert!(refused(r#"{"profiles": {"FW": {"R": ["ip.dscp&0x1ff"]}}}"#).contains("ip.dscp&0x1ff"));
    for (text, part) in [
        (r#"{"profiles": {"FW": {}, "FW": {"D": true}}}"#, "the profile FW is there twice"),
        (r#"{"profiles": {"FW": {"S": "none"}}}"#, "S as true, false"),
    ] {
        let error = serde_json::from_str::<Profiles>(text).expect_err("no form").to_string();
        assert!(error.contains(part), "{error}");
    }
    assert!(refused(r#"{"profiles": {}}"#).contains("there are 0 profiles"));
    let held = refused(r#"{"profiles": {"P": {"O": true, "S": "flow"}}}"#);
    assert!(held.contains("contradicts itself"), "{held}");
    let empty = refused(r#"{"profiles": {"P": {"X": true}}}"#);
    assert!(empty.contains("contradicts itself"), "{empty}");
    let text = r#"{"profiles": {"P": {"R": ["sip", "ip.dst&0xff", "meta.vni"], "S": "host"}}}"#;
    let profiles: Profiles = serde_json::from_str(text).expect("form");
    let member = &profiles.members().expect("right")[0];
    assert_eq!(member.profile.reads.in_words(), ["ip.src", "ip.dst&0xff", "meta.vni"]);
    assert_eq!(member.profile.state, StateScope::Host);
    // What is told of it is read as it was.
    let told = serde_json::to_string(&[member.clone()].iter().collect::<Profiles>()).expect("text");
    let again: Profiles = serde_json::from_str(&told).expect("form");
    assert_eq!(again.members().expect("right").as_slice(), std::slice::from_ref(member));
}

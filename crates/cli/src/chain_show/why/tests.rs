//! The words for each reason, and what is told of a chain from what its functions are and what hosts say.

#![allow(clippy::unwrap_used)]

use super::*;
use catena_model::id::{BlueprintNumber, ChainId};
use catena_model::profile::{FieldSet, Meta, Profile, StateScope};
use catena_model::resource::Encapsulation;
use catena_model::setup::Setup;
use catena_model::status::{ChainState, ChainStatus, PathInstance};
use catena_plan::parallelism::judge;
use catena_wire::field::Field;
use serde_json::{Value, json};

const CHAIN: ChainId = ChainId(uuid::Uuid::from_u128(1));

/// Of `a` before `b`, made of these profiles.
fn said(a: Profile, b: Profile) -> String {
    let [a, b] =
        [("a", a), ("b", b)].map(|(name, profile)| StageMember { name: name.into(), profile });
    words::of_pair(&a, &b, &judge(&a.profile, &b.profile))
}

fn fields(fields: &[Field]) -> FieldSet {
    fields.iter().fold(FieldSet::EMPTY, |set, field| set.with(*field))
}

fn reads(of: &[Field]) -> Profile {
    Profile { reads: fields(of), ..Profile::IDENTITY }
}

fn writes(of: &[Field]) -> Profile {
    Profile { writes: fields(of), ..Profile::IDENTITY }
}

#[test]
fn each_reason_to_wait_is_said_in_plain_words() {
    let looks_on =
        Profile { has_effects: true, effects_are_sums: false, ..reads(&[Field::Source]) };
    let drops = Profile { drops: true, ..reads(&[Field::Source]) };
    let replaces = Profile { replaces: true, ..Profile::IDENTITY };
    let cut = Profile { takes_super_frames: false, ..Profile::IDENTITY };
    let declared = Profile { is_verified: false, ..Profile::IDENTITY };
    let holds = Profile { holds: true, ..Profile::IDENTITY };
    let makes = Profile { generates: true, ..Profile::IDENTITY };
    let sums = Profile { has_effects: true, ..reads(&[Field::Source]) };
    for (a, b, expected) in [
        (
            declared,
            looks_on,
            "b after a: what a may read and write is declared, and held against no code",
        ),
        (
            declared,
            declared,
            "b after a: what a and b may read and write is declared, and held against no code",
        ),
        (looks_on, holds, "b after a: packets wait in b"),
        (
            Profile::IDENTITY,
            cut,
            "b after a: a takes super-frames whole, and b packets as on the wire",
        ),
        (
            replaces,
            looks_on,
            "b after a: a may put another packet in a packet's place, which b has to see",
        ),
        (makes, looks_on, "b after a: a makes packets of its own, which b has to see"),
        (
            writes(&[Field::Dscp]),
            reads(&[Field::Dscp]),
            "b after a: a writes ip.dscp, which b reads",
        ),
        (drops, looks_on, "b after a: b would act on packets that a drops"),
        (
            writes(&[Field::Dscp]),
            replaces,
            "b after a: b may put another packet in a packet's place, which has to hold what a writes",
        ),
        (
            drops,
            sums,
            "b after a: what b counts must leave out packets that a drops, and nodes hold no counts back until a has \
             decided",
        ),
    ] {
        assert_eq!(said(a, b), expected);
    }
    assert_eq!(looks_on.state, StateScope::Packet);
}

#[test]
fn each_reason_not_to_wait_is_said_in_plain_words() {
    let replaces = Profile { replaces: true, ..Profile::IDENTITY };
    let time = Profile { reads: FieldSet::EMPTY.with_meta(Meta::ReceivedAt), ..Profile::IDENTITY };
    for (a, b, expected) in [
        (
            reads(&[Field::Source]),
            replaces,
            "a ∥ b: b rebuilds packets, on a copy, and a sees them as they came",
        ),
        (
            reads(&[Field::Dscp]),
            writes(&[Field::Dscp]),
            "a ∥ b: b writes ip.dscp, which a reads as it came",
        ),
        (
            writes(&[Field::Dscp]),
            writes(&[Field::Dscp]),
            "a ∥ b: both write ip.dscp, and what b writes stays",
        ),
        (time, reads(&[Field::Source]), "a ∥ b: both only read"),
        (time, writes(&[Field::Dscp]), "a ∥ b: neither touches what the other reads or writes"),
    ] {
        assert_eq!(said(a, b), expected);
    }
}

#[test]
fn who_keeps_a_function_out_of_a_stage_is_told_though_it_is_no_neighbour() {
    let members = [
        ("marker", writes(&[Field::Dscp])),
        ("flows", reads(&[Field::Source])),
        ("guard", reads(&[Field::Dscp])),
        ("last", Profile::IDENTITY),
    ]
    .map(|(name, profile)| StageMember { name: name.into(), profile });
    let (stages, pairs) = judged(&members);
    assert_eq!(json!(stages), json!([["marker", "flows"], ["guard", "last"]]));
    let said: Vec<&str> = pairs.iter().map(|pair| pair.text.as_str()).collect();
    assert_eq!(
        said,
        [
            "marker ∥ flows: neither touches what the other reads or writes",
            "guard after marker: marker writes ip.dscp, which guard reads",
            "flows ∥ guard: both only read",
            "guard ∥ last: both only read",
        ]
    );
}

/// A function of a kind that comes with Catena, with the configuration that `catena policy pairs` has.
fn bundled(name: &str, kind: &str, counters: &Value) -> FunctionReport {
    let kinds: Vec<Value> = serde_json::from_str(include_str!("../../policy/kinds.json")).unwrap();
    let config = &kinds.iter().find(|known| known["name"] == kind).unwrap()["config"];
    function(name, &json!({"runs": {"bundled": kind}, "config": config}), counters)
}

fn function(name: &str, template: &Value, counters: &Value) -> FunctionReport {
    let report = json!({
        "id": uuid::Uuid::nil(), "name": name, "is_tap": false, "on_failure": "unwatched",
        "instances": [format!("{name}-1"), format!("{name}-2")], "template": template, "counters": counters,
    });
    serde_json::from_value(report).unwrap()
}

/// What a host tells of the instances of a function.
fn counted(instances: &[&str], choice: &Value) -> Value {
    let one = |name: &&str| {
        json!({
            "instance": uuid::Uuid::nil(), "name": name, "configuration": "00".repeat(32), "rules": [],
            "rules_untold": 0, "events": 0, "errors_withheld": 0, "choice": choice,
        })
    };
    instances.iter().map(one).collect()
}

/// Functions with the numbers of their hops and the hosts of their instances.
fn path(number: u32, direction: &str, hops: &[(u16, &str, &[&str])]) -> PathReport {
    let member = |at: usize, hop: u16| hops[..at].iter().filter(|other| other.0 == hop).count();
    let hop = |(at, (hop, name, hosts)): (usize, &(u16, &str, &[&str]))| PathHop {
        hop: *hop,
        member: u8::try_from(member(at, *hop)).unwrap(),
        function: (*name).into(),
        is_tap: name.ends_with("tap"),
        instances: (1..)
            .zip(*hosts)
            .map(|(number, host)| PathInstance {
                name: format!("{name}-{number}"),
                node: host.parse().ok(),
                weight: 1,
            })
            .collect(),
    };
    PathReport {
        path: PathId(number),
        chain: CHAIN,
        chain_name: "web".into(),
        direction: direction.into(),
        encapsulation: Encapsulation::Nsh,
        phase: "classified".into(),
        since: BlueprintNumber(3),
        hops: hops.iter().enumerate().map(hop).collect(),
        routes: Vec::new(),
        headers: Vec::new(),
    }
}

fn report(paths: Vec<PathReport>) -> ChainReport {
    ChainReport {
        status: ChainStatus {
            chain: CHAIN,
            state: ChainState::Active,
            reason: String::new(),
            path: Some(PathId(42)),
        },
        name: "web".into(),
        functions: Vec::new(),
        encapsulation: Encapsulation::Nsh,
        setup: Setup::default(),
        setups: None,
        telemetry: None,
        via: BTreeMap::new(),
        paths,
        nodes: Vec::new(),
        silent: Vec::new(),
        health: Vec::new(),
        receipt: None,
    }
}

#[test]
fn of_both_ways_stages_reasons_and_what_hosts_chose_are_told() {
    let fork =
        json!({"form": "fork", "fuse_ns": 812_000, "pipeline_ns": 830_000, "fork_ns": 402_000});
    let functions = [
        bundled("edge", "firewall", &counted(&["edge-1"], &fork)),
        bundled("ids", "ids", &counted(&["ids-1"], &fork)),
        bundled("flows", "monitor", &counted(&["flows-1"], &fork)),
        bundled("nat", "nat", &json!([])),
    ];
    let here: &[&str] = &["host3"];
    let report = report(vec![
        path(
            42,
            "forward",
            &[(0, "edge", here), (0, "ids", here), (0, "flows", here), (1, "nat", &["host4"])],
        ),
        path(
            43,
            "reverse",
            &[(0, "nat", &["host4"]), (1, "flows", here), (1, "ids", here), (1, "edge", here)],
        ),
        PathReport { phase: "superseded".into(), ..path(41, "forward", &[(0, "edge", here)]) },
    ]);
    let why = Why::of(&report, &functions);
    assert_eq!(
        why.lines(),
        [
            "why forward, path 42",
            "  hop 0 at host3: edge → ids ∥ flows",
            "    ids after edge: ids would act on packets that edge drops",
            "    flows after edge: flows would act on packets that edge drops",
            "    ids ∥ flows: both only read",
            "    at host3: fork (fuse 812 µs, pipeline 830 µs, fork 402 µs)",
            "  flows, then nat: they are on different hosts",
            "  hop 1 at host4: nat",
            "why reverse, path 43",
            "  hop 0 at host4: nat",
            "  nat, then flows: they are on different hosts",
            "  hop 1 at host3: flows → ids ∥ edge",
            "    ids after flows: flows takes super-frames whole, and ids packets as on the wire",
            "    ids ∥ edge: neither touches what the other reads or writes",
            "    at host3: fork (fuse 812 µs, pipeline 830 µs, fork 402 µs)",
        ]
    );
    let told = json!(why);
    let hop = &told["ways"][0]["hops"][0];
    assert_eq!(hop["stages"], json!([["edge"], ["ids", "flows"]]));
    assert_eq!(hop["forms"][0]["choice"]["form"], "fork");
    assert_eq!(hop["pairs"][2]["side_by_side"], true);
    assert_eq!(told["ways"][0]["apart"][0]["side_by_side"], false);
}

#[test]
fn what_hosts_have_not_told_is_not_made_up() {
    let functions = [
        bundled("edge", "firewall", &counted(&["edge-1"], &Value::Null)),
        bundled("marks", "marker", &counted(&["marks-1"], &Value::Null)),
    ];
    let hosts: &[&str] = &["host2", "host3"];
    let whole = report(vec![path(42, "forward", &[(0, "edge", hosts), (0, "marks", hosts)])]);
    let expected = [
        "why forward, path 42",
        "  hop 0 at host2, host3: edge → marks",
        "    marks after edge: what marks counts must leave out packets that edge drops, and nodes hold no counts back \
         until edge has decided",
        "    at host2: by the worker, one after the other; it has no threads for functions (--function-threads), or \
         has measured nothing yet",
        "    at host3: it has not told how they are asked",
    ];
    assert_eq!(Why::of(&whole, &functions).lines(), expected);
    // Whoever is told no hosts reads of none.
    let mut hidden = whole.clone();
    for instance in hidden.paths[0].hops.iter_mut().flat_map(|hop| &mut hop.instances) {
        instance.node = None;
    }
    let lines = Why::of(&hidden, &functions).lines();
    assert_eq!(lines[1], "  hop 0: edge → marks");
    assert!(
        lines[3].starts_with("    at their host (edge-1, marks-1): by the worker"),
        "{lines:?}"
    );
    assert_eq!(lines[4], "    at their host (edge-2, marks-2): it has not told how they are asked");
    // A path on its way is told as one; none at all, too.
    hidden.paths[0].phase = "installed".into();
    let lines = Why::of(&hidden, &functions).lines();
    assert_eq!(lines[0], "why forward, path 42, on its way, not in use yet");
    hidden.paths.clear();
    assert_eq!(Why::of(&hidden, &functions).lines(), [NO_PATH]);
}

/// The line between two functions that each are a hop.
fn between(functions: &[FunctionReport], a: (&str, &[&str]), b: (&str, &[&str])) -> String {
    let whole = report(vec![path(42, "forward", &[(0, a.0, a.1), (1, b.0, b.1)])]);
    Why::of(&whole, functions).lines()[2].clone()
}

#[test]
fn why_functions_do_not_stand_together_is_told() {
    let mut functions = vec![
        bundled("edge", "firewall", &json!([])),
        bundled("flows", "monitor", &json!([])),
        bundled("ids-tap", "ids", &json!([])),
        function("dpi", &json!({"runs": {"command": ["dpi"]}}), &json!([])),
        function("box", &json!({"runs": {"external": "box7"}}), &json!([])),
        function("own", &json!({"runs": {"bundled": "monitor"}, "door": "apart"}), &json!([])),
    ];
    let here: &[&str] = &["host2"];
    for (a, b, expected) in [
        (
            ("edge", here),
            ("flows", &["host3"][..]),
            "edge, then flows: they are on different hosts",
        ),
        (
            ("edge", here),
            ("flows", &["host2", "host3"]),
            "edge, then flows: they are not on the same hosts",
        ),
        (
            ("edge", here),
            ("ids-tap", here),
            "edge, then ids-tap: ids-tap gets copies, and no packet waits for it",
        ),
        (
            ("edge", here),
            ("dpi", here),
            "edge, then dpi: dpi is a command of its own, and nobody knows what it reads and writes",
        ),
        (
            ("box", here),
            ("edge", here),
            "box, then edge: box is run by somebody else, and nobody knows what it reads and writes",
        ),
        (("edge", here), ("own", here), "edge, then own: own runs apart from the data plane"),
        (
            ("edge", here),
            ("flows", here),
            "edge, then flows: they are two hops: one has a single function that rewrites addresses, and none where \
             there are several instances",
        ),
        (
            ("edge", here),
            ("flows", &["host2", "host2"]),
            "edge, then flows: their instances do not take the same shares of flows",
        ),
    ] {
        assert_eq!(between(&functions, a, b), format!("  {expected}"));
    }
    functions[1].on_failure = catena_model::resource::FailurePolicy::Bypass;
    assert_eq!(
        between(&functions, ("edge", here), ("flows", here)),
        "  edge, then flows: they differ in what becomes of packets when they die (unwatched, bypass)"
    );
}

#[test]
fn where_rules_are_not_told_with_a_function_stages_are_not_guessed() {
    let file = json!({"file": {"name": "web.rules", "sha256": "00".repeat(32)}});
    let functions = [
        bundled("edge", "firewall", &counted(&["edge-1"], &Value::Null)),
        bundled("flows", "monitor", &counted(&["flows-1"], &Value::Null)),
        function("ids", &json!({"runs": {"bundled": "ids"}, "config": file}), &json!([])),
    ];
    let here: &[&str] = &["host2"];
    let hops = [(0, "edge", here), (0, "flows", here), (0, "ids", here)];
    let lines = Why::of(&report(vec![path(42, "forward", &hops)]), &functions).lines();
    assert_eq!(
        lines[1..4],
        [
            "  hop 0 at host2: edge, flows, ids (stages not known here)",
            "    flows after edge: flows would act on packets that edge drops",
            "    flows, ids: not known here, as the rules of ids are too many to be told with it",
        ]
    );
}

//! The ids and the ips beside an evaluator of its own in Python, which was written from the rules' manuals: the same
//! packets, the same alerts at the same packets. What the corpus says of itself holds as well: hostile talks alert,
//! benign ones and those that lack one condition do not.

use crate::collector::Workplace;
use catena_nf::Function;
use catena_nf::ids::{Ids, IdsConfig};
use catena_nf::outcome::{DropCause, Outcomes, Verdict};
use catena_nf::packet::{Direction, Packet, Time};
use catena_rules::ReadOptions;
use catena_rules::snort::{self, Action, IdsRules};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const THEMES: [&str; 6] = ["payload", "http", "packets", "flows", "counts", "actions"];
/// Options that ask for something, each of which the corpus must have in ten rules at least.
const OPTIONS: [&str; 26] = [
    "content",
    "nocase",
    "offset",
    "depth",
    "distance",
    "within",
    "startswith",
    "endswith",
    "fast_pattern",
    "pcre",
    "byte_test",
    "isdataat",
    "dsize",
    "flags",
    "itype",
    "icode",
    "ttl",
    "flow",
    "flowbits",
    "threshold",
    "detection_filter",
    "http.method",
    "http.uri",
    "http.header",
    "http.host",
    "http.user_agent",
];

/// A talk, and what the corpus says of it.
#[derive(Deserialize)]
struct Sequence {
    sid: u32,
    kind: String,
    of: String,
    alerts: Option<usize>,
    ends: Option<bool>,
    packets: Vec<(u64, String, String)>,
}

/// What is found of one packet: the rules that alert, and the one that ends it.
type Found = (Vec<u32>, Option<u32>);

pub(crate) fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/nf/ids")
}

fn python(script: &str, arguments: &[&Path], option: Option<&str>) -> String {
    let mut command = Command::new("python3");
    command.arg("-B").arg(corpus().join(script)).args(option.filter(|one| !one.starts_with("--")));
    command.args(arguments).args(option.filter(|one| one.starts_with("--")));
    let done = command.output().expect("python3 is installed");
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).expect("text")
}

pub(crate) fn rules(theme: &str) -> IdsRules {
    let file = format!("{theme}.rules");
    let text = std::fs::read_to_string(corpus().join(&file)).expect("the corpus is there");
    let options = ReadOptions { file, ..ReadOptions::default() };
    snort::read(&text, &BTreeMap::new(), &options).unwrap_or_else(|wrong| panic!("{wrong}"))
}

fn frame(hexadecimal: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&hexadecimal[at..at + 2], 16).expect("two digits");
    (0..hexadecimal.len()).step_by(2).map(pair).collect()
}

/// What ours finds of a talk that is the first it sees.
fn ours(prototype: &Ids, rules: &IdsRules, talk: &Sequence) -> Vec<Found> {
    let (mut ids, mut outcomes) = (prototype.clone(), Outcomes::default());
    let of_packet = |(micros, way, hexadecimal): &(u64, String, String)| {
        let bytes = frame(hexadecimal);
        let packet = Packet::read(&bytes).expect("a packet");
        let direction = if way == "f" { Direction::Forward } else { Direction::Backward };
        ids.process(Time(micros * 1_000), direction, &[packet], &mut outcomes);
        let rule = |number: u32| &rules.rules[number as usize];
        let mut alerts: Vec<u32> =
            outcomes.events().iter().map(|(_, event)| rule(event.rule).sid).collect();
        alerts.sort_unstable();
        let ended = match outcomes.verdicts()[0] {
            Verdict::Pass => None,
            Verdict::Drop(DropCause::Rule(number)) => Some(rule(number)),
            Verdict::Drop(DropCause::Full) | Verdict::Hold => panic!("there is room, at once"),
        };
        let tells_sender = ended.is_some_and(|rule| rule.action == Action::Reject);
        assert_eq!(!outcomes.generated().is_empty(), tells_sender, "{ended:?}");
        (alerts, ended.map(|rule| rule.sid))
    };
    talk.packets.iter().map(of_packet).collect()
}

/// What the corpus says of a talk; an error: what is otherwise.
fn as_expected(talk: &Sequence, found: &[Found], is_preventing: bool) -> Result<(), String> {
    let alerts =
        found.iter().flat_map(|(alerts, _)| alerts).filter(|sid| **sid == talk.sid).count();
    let ends = found.iter().any(|(_, ended)| ended.is_some());
    let is_right = match talk.alerts {
        Some(wanted) => alerts == wanted,
        None if talk.kind == "drawn" => true,
        None => (alerts > 0) == (talk.kind == "hostile"),
    };
    if !is_right && !is_preventing {
        return Err(format!("{alerts} alerts"));
    }
    if is_preventing && talk.ends.is_some_and(|wanted| wanted != ends) {
        return Err(format!("ended: {ends}"));
    }
    Ok(())
}

/// A talk with what both sides found of it.
struct Judged {
    talk: Sequence,
    own: Vec<Found>,
    theirs: Vec<Found>,
}

/// Holds all talks of a file against the rules of a theme, each with nothing before it.
fn judge(theme: &str, talks: &Path, config: IdsConfig) -> Vec<Judged> {
    let rules = rules(theme);
    let prototype = Ids::new(rules.clone(), config).expect("it can be made");
    let option = config.is_preventing.then_some("--ips");
    let file = corpus().join(format!("{theme}.rules"));
    let said = python("evaluator.py", &[&file, talks], option);
    let text = std::fs::read_to_string(talks).expect("it was made");
    assert_eq!(said.lines().count(), text.lines().count());
    let both = text.lines().zip(said.lines()).map(|(talk, found)| {
        let talk: Sequence = serde_json::from_str(talk).expect("a talk");
        let theirs: Vec<Found> = serde_json::from_str(found).expect("what it found");
        assert_eq!(talk.packets.len(), theirs.len());
        Judged { own: ours(&prototype, &rules, &talk), talk, theirs }
    });
    both.collect()
}

/// Each theme as ids; as ips the one whose rules end packets.
fn modes() -> impl Iterator<Item = (&'static str, bool)> {
    THEMES.into_iter().map(|theme| (theme, false)).chain([("actions", true)])
}

/// The first packets of which both sides found other things.
fn differences(judged: &Judged) -> Vec<String> {
    let Judged { talk, own, theirs } = judged;
    let about = format!("{} {} {}", talk.sid, talk.kind, talk.of);
    let all = own.iter().zip(theirs).enumerate().filter(|(_, (own, theirs))| own != theirs);
    let told = |(at, (own, theirs)): (usize, (&Found, &Found))| {
        format!("{about}: packet {at}: ours {own:?}, the evaluator {theirs:?}")
    };
    all.map(told).take(4).collect()
}

#[test]
fn alerts_are_those_of_an_evaluator_written_from_the_manuals() {
    let place = Workplace::new("ids");
    python("generate.py", &[&place.0], Some("sequences"));
    let (mut wrong, mut kinds, mut packets, mut alerts) = (Vec::new(), BTreeMap::new(), 0, 0);
    for (theme, is_preventing) in modes() {
        let config = IdsConfig {
            is_preventing,
            flows_max: 64,
            reassembly_bytes: 1 << 20,
            ..IdsConfig::default()
        };
        for judged in judge(theme, &place.0.join(format!("{theme}.jsonl")), config) {
            let Judged { talk, own, .. } = &judged;
            packets += own.len();
            alerts += own.iter().map(|(alerts, _)| alerts.len()).sum::<usize>();
            *kinds.entry(talk.kind.clone()).or_insert(0) += 1;
            wrong.extend(differences(&judged));
            let otherwise = as_expected(talk, own, is_preventing).err();
            let about = format!("{theme} {} {} {}", talk.sid, talk.kind, talk.of);
            wrong.extend(otherwise.map(|what| format!("{about}, ips {is_preventing}: {what}")));
        }
    }
    println!("{kinds:?}, {packets} packets judged, {alerts} alerts");
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(12)].join("\n")
    );
    assert!(kinds["hostile"] > 1_000 && kinds["near"] > 4_000 && kinds["benign"] > 600);
}

#[test]
fn talks_that_are_held_at_once_are_told_apart() {
    let place = Workplace::new("ids-together");
    python("generate.py", &[&place.0], Some("sequences"));
    for (theme, is_preventing) in modes() {
        let config = IdsConfig { is_preventing, ..IdsConfig::default() };
        let judged = judge(theme, &place.0.join(format!("{theme}-together.jsonl")), config);
        let [one] = judged.as_slice() else { panic!("{} talks", judged.len()) };
        let alerts: usize = one.own.iter().map(|(alerts, _)| alerts.len()).sum();
        println!("{theme}, ips {is_preventing}: {} packets, {alerts} alerts", one.own.len());
        assert_eq!(differences(one), Vec::<String>::new(), "{theme}");
        assert!(alerts >= 100);
    }
}

#[test]
fn the_corpus_is_as_its_generator_makes_it_and_has_all_there_is() {
    let place = Workplace::new("ids-rules");
    python("generate.py", &[&place.0], Some("rules"));
    let (mut of_option, mut rich, mut all) = (BTreeMap::new(), 0, 0);
    for theme in THEMES {
        let file = format!("{theme}.rules");
        let read = |folder: &Path| std::fs::read_to_string(folder.join(&file)).expect("a file");
        assert!(read(&place.0) == read(&corpus()), "{file} is not what generate.py rules makes");
        for rule in rules(theme).rules {
            let words: BTreeSet<&str> = rule
                .text
                .split(';')
                .map(|part| part.trim().split(':').next().unwrap_or_default())
                .filter_map(|name| OPTIONS.iter().find(|option| **option == name).copied())
                .collect();
            rich += usize::from(words.len() >= 3);
            all += 1;
            words.into_iter().for_each(|name| *of_option.entry(name).or_insert(0) += 1);
        }
    }
    println!("{all} rules, {rich} of them with three options or more; {of_option:?}");
    assert!(all >= 500 && rich >= 300, "{all} rules, {rich} with three options or more");
    for option in OPTIONS {
        assert!(of_option.get(option).is_some_and(|rules| *rules >= 10), "{option}: {of_option:?}");
    }
}

//! What is said of functions in comparison: that a firewall decides as an independent evaluator does (`verdicts`), and
//! that two chains come to the same (`same_as`). Knows what can be compared; refuses to know how it is.

use super::bundled::Bundled;
use super::error::Fault;
use super::lab::{Lab, LabChain};
use super::validate::unknown;
use catena_model::resource::Runs;
use std::ops::RangeInclusive;

/// Kinds that let each packet pass, though one of them under another address.
const KINDS_THAT_PASS_ALL: [&str; 4] = ["monitor", "ids", "nat", "marker"];
/// What a classifier may say where its packets are found in captures.
const CONDITIONS: [&str; 5] = [
    "protocol",
    "ethertype",
    "destination_port",
    "destination_port_range_min",
    "destination_port_range_max",
];
/// Transports whose connections the evaluator follows.
const TRANSPORTS: [&str; 2] = ["tcp", "udp"];
/// Kinds that tell of what they see.
const KINDS_THAT_TELL: [&str; 2] = ["ids", "ips"];

/// Does it tell of what it sees?
pub(crate) fn tells(bundled: &Bundled) -> bool {
    KINDS_THAT_TELL.contains(&bundled.kind())
}

/// Does Catena count what its rules end, and which they are? Of what runs in a process of its own it sees what comes
/// back.
pub(crate) fn counts_what_ends(bundled: &Bundled) -> bool {
    matches!(bundled.runs, Runs::Bundled(_)) && bundled.door.is_inside()
}

/// The name and the text of a function's rules.
pub(crate) fn rules_of(bundled: &Bundled) -> Option<(&str, &str)> {
    let file = bundled.config.get("file")?;
    Some((file["name"].as_str()?, file["text"].as_str()?))
}

/// The chains with a function.
pub(crate) fn chains_with<'l>(lab: &'l Lab, function: &str) -> impl Iterator<Item = &'l LabChain> {
    let has_it =
        move |chain: &&LabChain| chain.document.chain.iter().any(|step| step.name == function);
    lab.chains.iter().filter(has_it)
}

/// The destination ports of a chain's packets.
pub(crate) fn ports_of(chain: &LabChain) -> RangeInclusive<u64> {
    let said = |key: &str| chain.document.match_fields.get(key).and_then(serde_json::Value::as_u64);
    let one = said("destination_port");
    let low = one.or_else(|| said("destination_port_range_min")).unwrap_or_default();
    low..=one.or_else(|| said("destination_port_range_max")).unwrap_or(u64::from(u16::MAX))
}

/// A firewall can be held against its rules: it alone ends packets, and both ends of its chains are captured.
pub(super) fn check_verdicts(lab: &Lab, function: &str, key: &str) -> Result<(), Fault> {
    let Some(bundled) = lab.bundled.get(function) else {
        return Err(unknown(key, "bundled function", function, lab.bundled.names()));
    };
    let fault = |problem: String, advice: &str| Err(Fault::new(key, problem, advice));
    if bundled.kind() != "firewall" || rules_of(bundled).is_none() {
        let problem = format!("'{function}' is no firewall with rules from a file");
        return fault(problem, "name one with config: {file: …} as iptables-save writes it");
    }
    if lab.updates.is_some() {
        return fault(
            "is about one rule set, and updates: changes a chain".into(),
            "leave one out",
        );
    }
    if chains_with(lab, function).next().is_none() {
        return fault(format!("'{function}' is in no chain"), "put it into one");
    }
    for chain in chains_with(lab, function) {
        check_judgeable(lab, function, chain, key)?;
    }
    Ok(())
}

fn check_judgeable(lab: &Lab, function: &str, chain: &LabChain, key: &str) -> Result<(), Fault> {
    let (name, document) = (&chain.name, &chain.document);
    let fault = |problem: String, advice: &str| Err(Fault::new(key, problem, advice));
    let passes_all = |step: &str| {
        lab.bundled.get(step).is_some_and(|it| KINDS_THAT_PASS_ALL.contains(&it.kind()))
    };
    let mut steps = document.chain.iter().map(|step| step.name.as_str());
    if let Some(other) = steps.find(|step| *step != function && !passes_all(step)) {
        let problem = format!("'{other}' of chain '{name}' may end packets, too");
        let advice = "leave beside it monitor, ids, nat and marker";
        return fault(problem, advice);
    }
    let fields = &document.match_fields;
    let protocol = fields.get("protocol").and_then(|protocol| protocol.as_str());
    if !protocol.is_some_and(|protocol| TRANSPORTS.contains(&protocol)) {
        return fault(format!("chain '{name}' takes more than TCP, or UDP"), "classify: tcp");
    }
    if let Some(other) = fields.keys().find(|key| !CONDITIONS.contains(&key.as_str())) {
        let problem =
            format!("chain '{name}' classifies by {other}, which captures are not read for");
        return fault(problem, "classify by protocol and destination port");
    }
    let mut ends = [&document.source, &document.destination].into_iter();
    if let Some(end) = ends.find(|end| !lab.capture.contains(end)) {
        let advice =
            format!("add capture: {{at: [{}, {}]}}", document.source, document.destination);
        return fault(format!("is judged from captures, and there is none at '{end}'"), &advice);
    }
    Ok(())
}

/// Two chains have traffic of their own that can be compared, one by one.
pub(super) fn check_same(lab: &Lab, [one, other]: [&String; 2], key: &str) -> Result<(), Fault> {
    let known = || lab.chains.iter().map(|chain| chain.name.as_str());
    if let Some(name) = [one, other].into_iter().find(|name| lab.chain(name).is_none()) {
        return Err(unknown(key, "chain", name, known()));
    }
    if one == other {
        return Err(Fault::new(key, "compares a chain with itself", "name another one"));
    }
    let advice =
        format!("add traffic: [{{tool: program, chain: {one}, …}}], and the same for '{other}'");
    let times = |name: &String| -> Vec<u32> {
        let of = lab.calls.iter().filter(|call| call.chain.as_ref() == Some(name));
        of.map(|call| call.times).collect()
    };
    let [ours, theirs] = [one, other].map(times);
    if let Some((name, _)) =
        [(one, &ours), (other, &theirs)].into_iter().find(|(_, its)| its.is_empty())
    {
        return Err(Fault::new(
            key,
            format!("no program of traffic is for chain '{name}'"),
            advice,
        ));
    }
    if ours != theirs {
        let problem = format!("the traffic of '{one}' is not run as often as that of '{other}'");
        return Err(Fault::new(key, problem, "give both the same programs, in the same order"));
    }
    if lab.sweep.chains.contains(one) || lab.sweep.chains.contains(other) {
        let problem = "compares chains of one run, and the sweep takes one at a time";
        return Err(Fault::new(key, problem, "leave out sweep.chain"));
    }
    Ok(())
}

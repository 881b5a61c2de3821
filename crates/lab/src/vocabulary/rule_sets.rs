//! Rule sets that bundled functions of a chain are told in turns. Knows what can be told apart in captures; refuses to
//! know what a function makes of its rules.

use super::bundled::Bundled;
use super::document::{RuleSetEntry, UpdatesEntry};
use super::error::Fault;
use super::lab::{Lab, LabChain};
use super::ordered::Ordered;
use super::updates::ChangeKind;
use super::validate::unknown;
use serde_json::{Map, Value};

/// Largest code point (RFC 2474: six bits).
const DSCP_MAX: u8 = 63;

/// What bundled functions of a chain are told together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// The code point of packets that have met it, as every function with an interface sees it, and the destination:
    /// by it captures tell one set from another.
    pub dscp: u8,
    /// What each function is told.
    pub config: Ordered<Map<String, Value>>,
}

/// The rule sets of an entry of updates.
pub(super) fn understand(
    lab: &Lab,
    chain: &LabChain,
    entry: &UpdatesEntry,
) -> Result<Vec<RuleSet>, Fault> {
    let key = "updates.rule_sets";
    let sets = entry.rule_sets.as_slice();
    if !entry.kinds.contains(&ChangeKind::Config) {
        let advice = "write kinds: [config], or leave them out";
        let fault = || Fault::new(key, "are for changes of the kind config", advice);
        return if sets.is_empty() { Ok(Vec::new()) } else { Err(fault()) };
    }
    if entry.kinds.iter().any(|kind| *kind != ChangeKind::Config) {
        let problem = "changes rule sets and functions";
        return Err(Fault::new("updates.kinds", problem, "write kinds: [config] alone"));
    }
    let Some(first) = sets.first().filter(|_| sets.len() > 1) else {
        return Err(Fault::new(key, "has no two rule sets", "write two or more"));
    };
    for (index, set) in sets.iter().enumerate() {
        let key = format!("{key}[{index}]");
        let before = sets.get(index.checked_sub(1).unwrap_or(sets.len() - 1));
        if set.dscp > DSCP_MAX || before.is_some_and(|before| before.dscp == set.dscp) {
            let problem = format!("{} does not tell it from the set before it", set.dscp);
            let advice = format!("use another code point, 0 to {DSCP_MAX}");
            return Err(Fault::new(format!("{key}.dscp"), problem, advice));
        }
        if !set.config.names().eq(first.config.names()) || set.config.is_empty() {
            let problem = "tells other functions than the first";
            let advice = "tell the same functions in each, in the same order";
            return Err(Fault::new(format!("{key}.config"), problem, advice));
        }
    }
    first.config.names().try_for_each(|name| is_told(lab, chain, name))?;
    let set = |set: &RuleSetEntry| RuleSet { dscp: set.dscp, config: set.config.clone() };
    Ok(sets.iter().map(set).collect())
}

/// A function is told by rule sets if it is a bundled one of the chain, and told nothing elsewhere.
fn is_told(lab: &Lab, chain: &LabChain, name: &str) -> Result<(), Fault> {
    let steps = || chain.document.chain.iter().map(|step| step.name.as_str());
    let Some(bundled) = lab.bundled.get(name).filter(|_| steps().any(|step| step == name)) else {
        let known = steps().filter(|step| lab.bundled.contains(step));
        return Err(unknown("updates.rule_sets", "bundled function of the chain", name, known));
    };
    if bundled.config.is_empty() {
        return Ok(());
    }
    let problem = "is said by updates.rule_sets, too";
    let advice = "leave it out: the chain begins with the first rule set";
    Err(Fault::new(format!("functions.{name}.config"), problem, advice))
}

/// The bundled functions of a lab, told what its updates begin with.
pub(super) fn begin(lab: &Lab) -> Ordered<Bundled> {
    let first = lab.updates.as_ref().and_then(|updates| updates.rule_sets.first());
    let told = |(name, bundled): (&str, &Bundled)| {
        let mut bundled = bundled.clone();
        if let Some(config) = first.and_then(|set| set.config.get(name)) {
            bundled.config.clone_from(config);
        }
        (name.to_owned(), bundled)
    };
    lab.bundled.iter().map(told).collect()
}

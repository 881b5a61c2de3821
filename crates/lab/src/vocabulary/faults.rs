//! What befalls cables during a run. Knows cables and moments; refuses to know how a cable is made to fail.

use super::document::{Document, FaultEntry};
use super::error::Fault;
use super::lab::{Lab, NodeCable};
use super::validate::unknown;
use super::validate_traffic::TRAFFIC_SECONDS_MAX;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::Duration;

/// What befalls a cable, when the traffic has gone on for so long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CableFault {
    /// Since the traffic began.
    pub at: Duration,
    /// What.
    pub kind: FaultKind,
    /// The cable, by its place in [`Lab::cables`].
    pub cable: usize,
}

/// What can befall a cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FaultKind {
    /// It is pulled out: both ends lose their carrier.
    Cut,
    /// It carries nothing any more, and both ends keep their carrier.
    Silence,
    /// It is as it was.
    Heal,
}

/// The faults of a lab file.
pub(super) fn understand(document: &Document, lab: &Lab) -> Result<Vec<CableFault>, Fault> {
    let mut broken = BTreeSet::new();
    let mut faults: Vec<CableFault> = Vec::new();
    for (index, entry) in document.faults.iter().enumerate() {
        let key = format!("faults[{index}]");
        let fault = read(lab, &key, entry)?;
        if faults.last().is_some_and(|before| before.at > fault.at) {
            let advice = "write them in the order in which they happen";
            return Err(Fault::new(format!("{key}.at"), "is before the fault above it", advice));
        }
        let is_healed = fault.kind == FaultKind::Heal;
        let is_new =
            if is_healed { broken.remove(&fault.cable) } else { broken.insert(fault.cable) };
        if !is_new {
            let (problem, advice) = match is_healed {
                true => ("heals a cable that is whole", "cut or silence it before"),
                false => ("befalls a cable that does not carry anyway", "heal it before"),
            };
            return Err(Fault::new(key, problem, advice));
        }
        faults.push(fault);
    }
    Ok(faults)
}

fn read(lab: &Lab, key: &str, entry: &FaultEntry) -> Result<CableFault, Fault> {
    let said = [
        (FaultKind::Cut, &entry.cut),
        (FaultKind::Silence, &entry.silence),
        (FaultKind::Heal, &entry.heal),
    ];
    let said: Vec<_> =
        said.into_iter().filter_map(|(kind, name)| Some((kind, name.as_ref()?))).collect();
    let [(kind, name)] = said[..] else {
        let advice =
            "write one of cut:, silence: and heal: with a cable, such as {at: 1, cut: a1-c1}";
        return Err(Fault::new(key, "says nothing, or several things", advice));
    };
    let at = entry.at.map_or(0.0, |seconds| seconds.0);
    if !(0.0..=TRAFFIC_SECONDS_MAX).contains(&at) {
        let advice = format!("use 0 to {TRAFFIC_SECONDS_MAX} seconds");
        return Err(Fault::new(format!("{key}.at"), format!("{at} s is no moment"), advice));
    }
    let names: Vec<String> = lab.cables.iter().map(name_of).collect();
    let cable = names.iter().position(|one| one == name || backwards(one) == *name);
    let cable = cable.ok_or_else(|| {
        unknown(
            &format!("{key}.{kind:?}").to_lowercase(),
            "cable",
            name,
            names.iter().map(String::as_str),
        )
    })?;
    Ok(CableFault { at: Duration::from_secs_f64(at), kind, cable })
}

/// What a file calls a cable: the first between two nodes by their names, another by a number too.
fn name_of(cable: &NodeCable) -> String {
    let [left, right] = &cable.ends;
    let number = left.interface.strip_prefix(&format!("l-{}", right.node)).unwrap_or_default();
    format!("{}-{}{number}", left.node, right.node)
}

fn backwards(name: &str) -> String {
    let mut parts = name.splitn(3, '-');
    let (left, right) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let number = parts.next().map(|number| format!("-{number}")).unwrap_or_default();
    format!("{right}-{left}{number}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn read_with(faults: &str) -> Result<Vec<CableFault>, String> {
        let folder = tempfile::tempdir().unwrap();
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/source-route.yaml");
        let file = folder.path().join("cut.yaml");
        let text = format!("extends: {}\nname: cut\nfaults: [{faults}]\n", base.display());
        std::fs::write(&file, text).unwrap();
        Lab::read(&file, false).map(|lab| lab.faults).map_err(|error| error.to_string())
    }

    #[test]
    fn cables_are_called_by_their_ends_in_any_order() {
        let faults = read_with("{cut: spine1-leaf1}, {at: 500ms, heal: leaf1-spine1}").unwrap();
        assert_eq!(faults[0], CableFault { at: Duration::ZERO, kind: FaultKind::Cut, cable: 4 });
        assert_eq!((faults[1].kind, faults[1].at.as_millis()), (FaultKind::Heal, 500));
    }

    #[test]
    fn false_alarms_are_counted_where_cables_stay_whole() {
        for (faults, problem) in [
            ("{at: 1, silence: h1-leaf1}", Some("silences a cable")),
            ("{at: 1, cut: h1-leaf1}", None),
            ("", None),
        ] {
            let told = read_with(&format!("{faults}]\ncheck: [false_alarms == 0")).err();
            match problem {
                Some(problem) => assert!(told.unwrap().contains(problem), "{faults}"),
                None => assert_eq!(told, None, "{faults}"),
            }
        }
    }

    #[test]
    fn what_cannot_befall_a_cable_is_refused() {
        for (faults, problem) in [
            ("{at: 1, cut: leaf1-leaf2}", "leaf1-leaf2"),
            ("{at: 1}", "says nothing"),
            ("{cut: h1-leaf1, heal: h1-leaf1}", "several things"),
            ("{heal: h1-leaf1}", "heals a cable that is whole"),
            ("{cut: h1-leaf1}, {silence: h1-leaf1}", "does not carry anyway"),
            ("{at: 2, cut: h1-leaf1}, {at: 1, heal: h1-leaf1}", "before the fault above"),
            ("{at: -1, cut: h1-leaf1}", "-1"),
        ] {
            let told = read_with(faults).unwrap_err();
            assert!(told.contains(problem), "{faults}: {told}");
        }
    }
}

//! What befalls cables and functions during a run. Knows them and moments; refuses to know how a cable is made to fail,
//! or a function to die.

use super::document::{Document, FaultEntry};
use super::error::Fault;
use super::lab::{Lab, NodeCable};
use super::validate::unknown;
use super::validate_traffic::TRAFFIC_SECONDS_MAX;
use catena_model::instance::Door;
use catena_model::resource::Runs;
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

/// A function that dies when the traffic has gone on for so long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Since the traffic began.
    pub at: Duration,
    /// The function.
    pub function: String,
    /// How.
    pub ending: Ending,
}

/// How a function dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// By SIGKILL, whatever it is at.
    Kill,
    /// By SIGTERM, which it may take as the word to end by itself.
    End,
}

/// The faults of a lab file: of cables, and of functions.
pub(super) fn understand(
    document: &Document,
    lab: &Lab,
) -> Result<(Vec<CableFault>, Vec<Kill>), Fault> {
    let mut broken = BTreeSet::new();
    let (mut faults, mut kills): (Vec<CableFault>, Vec<Kill>) = (Vec::new(), Vec::new());
    let mut latest = Duration::ZERO;
    for (index, entry) in document.faults.iter().enumerate() {
        let key = format!("faults[{index}]");
        let at = moment(&key, entry)?;
        if latest > at {
            let advice = "write them in the order in which they happen";
            return Err(Fault::new(format!("{key}.at"), "is before the fault above it", advice));
        }
        latest = at;
        let (what, name) = said(&key, entry)?;
        let kind = match what {
            Said::Cable(kind) => kind,
            Said::Function(ending) => {
                kills.push(Kill { at, function: killed(lab, &key, name)?, ending });
                continue;
            }
        };
        let fault = CableFault { at, kind, cable: cable(lab, &key, kind, name)? };
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
    Ok((faults, kills))
}

/// What befalls what.
enum Said {
    Cable(FaultKind),
    Function(Ending),
}

fn said<'e>(key: &str, entry: &'e FaultEntry) -> Result<(Said, &'e str), Fault> {
    let said = [
        (Said::Cable(FaultKind::Cut), &entry.cut),
        (Said::Cable(FaultKind::Silence), &entry.silence),
        (Said::Cable(FaultKind::Heal), &entry.heal),
        (Said::Function(Ending::Kill), &entry.kill),
        (Said::Function(Ending::End), &entry.end),
    ];
    let mut said = said.into_iter().filter_map(|(what, name)| Some((what, name.as_deref()?)));
    match (said.next(), said.next()) {
        (Some(one), None) => Ok(one),
        _ => {
            let advice = "write one of cut:, silence: and heal: with a cable, such as {at: 1, cut: a1-c1}, or of kill: \
                and end: with a function";
            Err(Fault::new(key, "says nothing, or several things", advice))
        }
    }
}

fn moment(key: &str, entry: &FaultEntry) -> Result<Duration, Fault> {
    let at = entry.at.map_or(0.0, |seconds| seconds.0);
    if !(0.0..=TRAFFIC_SECONDS_MAX).contains(&at) {
        let advice = format!("use 0 to {TRAFFIC_SECONDS_MAX} seconds");
        return Err(Fault::new(format!("{key}.at"), format!("{at} s is no moment"), advice));
    }
    Ok(Duration::from_secs_f64(at))
}

fn cable(lab: &Lab, key: &str, kind: FaultKind, name: &str) -> Result<usize, Fault> {
    let names: Vec<String> = lab.cables.iter().map(name_of).collect();
    let cable = names.iter().position(|one| one == name || backwards(one) == name);
    cable.ok_or_else(|| {
        unknown(
            &format!("{key}.{kind:?}").to_lowercase(),
            "cable",
            name,
            names.iter().map(String::as_str),
        )
    })
}

/// A function that dies alone: what runs in a data plane dies with it.
fn killed(lab: &Lab, key: &str, name: &str) -> Result<String, Fault> {
    let is_apart = |function: &&str| {
        let bundled = lab.bundled.get(function);
        bundled.is_some_and(|it| it.door == Door::Apart || matches!(it.runs, Runs::Command(_)))
    };
    if let Some(found) = lab.bundled.names().filter(is_apart).find(|function| *function == name) {
        return Ok(found.to_owned());
    }
    let known = lab.bundled.names().filter(is_apart);
    Err(unknown(&format!("{key}.kill"), "function in a process of its own", name, known))
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
        lab_with(faults).map(|lab| lab.faults)
    }

    fn lab_with(faults: &str) -> Result<Lab, String> {
        let folder = tempfile::tempdir().unwrap();
        let base = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../labs/source-route.yaml");
        let file = folder.path().join("cut.yaml");
        let functions = "functions: {edge: {bundled: marker, door: apart, on: h2, networks: [customer]}, \
            relay: {command: [sleep, 1], on: h2, networks: [customer]}, \
            inner: {bundled: marker, on: h2, networks: [customer]}}";
        let text =
            format!("extends: {}\nname: cut\n{functions}\nfaults: [{faults}]\n", base.display());
        std::fs::write(&file, text).unwrap();
        Lab::read(&file, false).map_err(|error| error.to_string())
    }

    #[test]
    fn cables_are_called_by_their_ends_in_any_order() {
        let faults = read_with("{cut: spine1-leaf1}, {at: 500ms, heal: leaf1-spine1}").unwrap();
        assert_eq!(faults[0], CableFault { at: Duration::ZERO, kind: FaultKind::Cut, cable: 4 });
        assert_eq!((faults[1].kind, faults[1].at.as_millis()), (FaultKind::Heal, 500));
    }

    #[test]
    fn functions_die_that_have_processes_of_their_own_and_cables_fail_beside_them() {
        let lab =
            lab_with("{at: 1, kill: edge}, {at: 2, cut: h1-leaf1}, {at: 3, end: relay}").unwrap();
        let kill = |seconds, function: &str, ending| Kill {
            at: Duration::from_secs(seconds),
            function: function.into(),
            ending,
        };
        assert_eq!(lab.kills, [kill(1, "edge", Ending::Kill), kill(3, "relay", Ending::End)]);
        assert_eq!(lab.faults.len(), 1);
        for (faults, problem) in [
            (
                "{at: 1, kill: inner}",
                "no function in a process of its own is named 'inner'; name one of edge, relay",
            ),
            ("{at: 1, kill: v1}", "named 'v1'"),
            ("{at: 2, kill: edge}, {at: 1, end: relay}", "before the fault above"),
            ("{at: 1, kill: edge, end: edge}", "several things"),
            (
                "{at: 1, cut: h1-leaf1}]\ncheck: [recovered",
                "about functions that are killed, and none is",
            ),
            ("]\ncheck: [unnamed == 0", "is about what fails, and nothing does"),
        ] {
            let told = lab_with(faults).unwrap_err();
            assert!(told.contains(problem), "{faults}: {told}");
        }
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

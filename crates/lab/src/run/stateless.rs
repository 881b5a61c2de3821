//! Whether switches hold anything of what passes them: digests of all that each of them holds, before its lab has a
//! chain, and while chains stand whose traffic has passed. Knows whom to ask and when; refuses to know what a node's
//! parts mean.

use super::evidence::Evidence;
use crate::error::{LabError, Result};
use crate::up::RunningLab;
use catena_model::dump::StateDump;
use serde::Serialize;
use std::time::Duration;

/// Pause between two looks at switches that shall be at rest.
const PAUSE: Duration = Duration::from_millis(200);
/// How often switches are looked at until they are.
const LOOKS_MAX: usize = 50;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stateless {
    /// Switches that were compared.
    pub switches: Vec<String>,
    /// The parts of each that were compared.
    pub parts: usize,
    /// What was otherwise afterwards, with the switch.
    pub differing: Vec<String>,
}

/// What each switch held.
pub(crate) struct Held(Vec<(String, StateDump)>);

impl Held {
    /// Of each switch that no header ends at, once two looks show the same: they hear of their cables until then.
    pub(crate) fn at_rest(running: &RunningLab) -> Result<Self> {
        let switches = running.lab.transit_switches();
        let mut held = Self(switches.map(|name| (name.clone(), StateDump::default())).collect());
        let mut differing = Vec::new();
        for _ in 0..LOOKS_MAX {
            std::thread::sleep(PAUSE);
            let now = held.now(running)?;
            differing = held.beside(&now).differing;
            if differing.is_empty() {
                return Ok(held);
            }
            held.0.iter_mut().zip(now).for_each(|((_, before), now)| *before = now);
        }
        let reason = format!("its switches do not come to rest: {}", differing.join(", "));
        Err(LabError::DidNotComeUp { lab: running.lab.name.clone(), reason })
    }

    /// Asks again.
    pub(crate) fn compare(&self, running: &RunningLab) -> Result<Stateless> {
        Ok(self.beside(&self.now(running)?))
    }

    fn now(&self, running: &RunningLab) -> Result<Vec<StateDump>> {
        let dump = |(switch, _): &(String, StateDump)| Ok(running.client.dump(switch)?);
        self.0.iter().map(dump).collect()
    }

    fn beside(&self, now: &[StateDump]) -> Stateless {
        let differing = self.0.iter().zip(now).flat_map(|((switch, before), now)| {
            let told = before.differences(now).into_iter();
            told.map(move |difference| format!("{switch}: {difference}"))
        });
        Stateless {
            switches: self.0.iter().map(|(switch, _)| switch.clone()).collect(),
            parts: self.0.iter().map(|(_, before)| before.parts.len()).min().unwrap_or_default(),
            differing: differing.collect(),
        }
    }
}

/// Every run was compared, and nothing differed.
pub(super) fn judge(evidence: &Evidence) -> (bool, String) {
    let runs: Vec<_> =
        evidence.runs.iter().map(|run| (&run.case, run.stateless.as_ref())).collect();
    if let Some((case, _)) = runs.iter().find(|(_, compared)| compared.is_none()) {
        return (false, format!("{case}: no switch was compared"));
    }
    let compared = || runs.iter().filter_map(|(case, compared)| Some((case, (*compared)?)));
    let differing = compared().find_map(|(case, it)| Some((case, it.differing.first()?)));
    if let Some((case, difference)) = differing {
        return (false, format!("{case}: {difference}"));
    }
    let counts = compared().map(|(_, it)| (it.switches.len(), it.parts));
    match counts.min() {
        Some((switches, parts)) if switches > 0 && parts > 0 => {
            (true, format!("{switches} switches of at least {parts} parts are as they were"))
        }
        _ => (false, "nothing was compared".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::RunEvidence;
    use super::*;
    use catena_model::dump::DumpedPart;

    fn dump(digests: [u8; 2]) -> StateDump {
        let part = |(name, digest): (&str, u8)| DumpedPart {
            name: name.to_owned(),
            bytes: 2,
            digest: digest.to_string(),
        };
        StateDump {
            process: 4,
            parts: ["paths", "kernel"].into_iter().zip(digests).map(part).collect(),
        }
    }

    fn judged(compared: Option<Stateless>) -> (bool, String) {
        let mut run = RunEvidence::new("native".to_owned(), None, None);
        run.stateless = compared;
        judge(&Evidence { runs: vec![run], ..Evidence::default() })
    }

    #[test]
    fn a_switch_that_holds_something_else_is_named_with_it() {
        let held = Held(["a1", "a2"].map(|name| (name.to_owned(), dump([1, 2]))).into());
        let same = held.beside(&[dump([1, 2]), dump([1, 2])]);
        let (holds, told) = judged(Some(same));
        assert!(holds && told.contains("2 switches of at least 2 parts"), "{told}");
        let other = held.beside(&[dump([1, 2]), dump([1, 3])]);
        let (holds, told) = judged(Some(other));
        assert!(!holds && told.contains("native: a2: 'kernel' is another"), "{told}");
        let restarted = StateDump { process: 5, ..dump([1, 2]) };
        assert!(!judged(Some(held.beside(&[dump([1, 2]), restarted]))).0);
    }

    #[test]
    fn what_was_not_compared_is_not_said_to_hold() {
        assert_eq!(judged(None), (false, "native: no switch was compared".to_owned()));
        let nothing = Held(Vec::new()).beside(&[]);
        assert_eq!(judged(Some(nothing)), (false, "nothing was compared".to_owned()));
        let empty = Held(vec![("a1".to_owned(), StateDump::default())]);
        assert!(!judged(Some(empty.beside(&[StateDump::default()]))).0);
        assert!(!judge(&Evidence::default()).0);
    }
}

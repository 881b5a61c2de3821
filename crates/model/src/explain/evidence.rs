//! An explanation beside what nodes saw of the packet itself. Knows which line is borne out and which
//! is only computed; refuses to know how a node looks.

use super::{ExplainAction, ExplainLine, ExplainStep};
use crate::id::NodeName;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a line is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Evidence {
    /// The node did it with the packet itself.
    Observed,
    /// The node would do it, by its tables: nobody saw the packet there.
    Rehearsed,
}

/// What each node that answered did with the packet, in order.
pub type Witnesses = BTreeMap<NodeName, Vec<ExplainAction>>;

/// Says of each line how it is known, and puts what was seen and not foreseen behind the lines of its
/// node. Answers the lines and what became of the packet.
#[must_use]
pub fn beside_what_was_seen(
    lines: Vec<ExplainLine>,
    verdict: &str,
    mut seen: Witnesses,
) -> (Vec<ExplainLine>, String) {
    let mut lines: Vec<ExplainLine> =
        lines.into_iter().map(|line| judged(line, &mut seen)).collect();
    for line in lines.iter_mut().filter(|line| line.evidence == Some(Evidence::Rehearsed)) {
        see_otherwise(line, &mut seen);
    }
    bear_out_returns(&mut lines);
    bear_out_switches(&mut lines);
    let end = end_otherwise(&lines, verdict, &seen);
    for (node, unforeseen) in seen {
        let behind = lines.iter().rposition(|line| line.node == node && !line.is_copy);
        let place = behind.map_or(lines.len(), |last| last + 1);
        let observed = unforeseen.into_iter().map(|action| ExplainLine {
            number: 0,
            node: node.clone(),
            is_copy: false,
            step: ExplainStep::new(0, action),
            evidence: Some(Evidence::Observed),
        });
        lines.splice(place..place, observed);
    }
    for (number, line) in (1..).zip(&mut lines) {
        line.number = number;
    }
    let verdict = end.unwrap_or_else(|| format!("{verdict} · {}", extent(&lines)));
    (lines, verdict)
}

/// What became of the packet, where what was seen and not foreseen tells another end.
fn end_otherwise(lines: &[ExplainLine], verdict: &str, seen: &Witnesses) -> Option<String> {
    let all = || seen.iter().flat_map(|(node, left)| left.iter().map(move |action| (node, action)));
    let dropped = all().find_map(|(node, action)| match action {
        ExplainAction::Dropped { reason } => Some((node, reason)),
        _ => None,
    });
    if let Some((node, reason)) = dropped {
        return Some(format!(
            "dropped at {node}: {} (observed; rehearsed was: {verdict})",
            reason.name()
        ));
    }
    // Where the rehearsal came no further, the packet may have.
    let mut own = lines.iter().filter(|line| !line.is_copy);
    let (silent, why) = own.find_map(|line| match &line.step.action {
        ExplainAction::Stopped { why } => Some((&line.node, why)),
        _ => None,
    })?;
    let delivered = all().find_map(|(node, action)| match action {
        ExplainAction::Delivered { port, .. } => Some((node, port)),
        _ => None,
    });
    let (node, port) = delivered?;
    Some(format!(
        "delivered by port {port} of {node} (observed); what {silent} did is not known: {why}"
    ))
}

fn judged(mut line: ExplainLine, seen: &mut Witnesses) -> ExplainLine {
    let known = seen.get_mut(&line.node).filter(|_| !line.is_copy);
    let found = known.and_then(|actions| {
        let place = actions.iter().position(|action| *action == line.step.action)?;
        Some(actions.remove(place))
    });
    let is_seen = found.is_some();
    line.evidence = Some(if is_seen { Evidence::Observed } else { Evidence::Rehearsed });
    line
}

/// What was decided in another way than rehearsed, such as at the end of a path where a function has
/// addressed the packet: what was seen stands in place of it.
fn see_otherwise(line: &mut ExplainLine, seen: &mut Witnesses) {
    let Some(actions) = seen.get_mut(&line.node).filter(|_| !line.is_copy) else { return };
    let verb = line.step.action.verb();
    let is_end = matches!(line.step.action, ExplainAction::Dropped { .. });
    let found = actions.iter().position(|action| action.verb() == verb).filter(|_| !is_end);
    if let Some(place) = found {
        line.step = ExplainStep::new(0, actions.remove(place));
        line.evidence = Some(Evidence::Observed);
    }
}

/// That a function gave the packet back is seen in what becomes of it behind the function.
fn bear_out_returns(lines: &mut [ExplainLine]) {
    for place in 1..lines.len() {
        let is_seen = lines[place].evidence == Some(Evidence::Observed);
        let is_same = lines[place - 1].node == lines[place].node;
        let line = &mut lines[place - 1];
        if is_seen
            && is_same
            && let ExplainAction::Assumed { instance, port, .. } = &line.step.action
        {
            line.step.text = format!("'{instance}' gave it back by port {port}");
            line.evidence = Some(Evidence::Observed);
        }
    }
}

/// That switches passed a packet on, who remember none, is seen where it comes out: its header names the way.
fn bear_out_switches(lines: &mut [ExplainLine]) {
    for place in (1..lines.len()).rev() {
        let (before, behind) = lines.split_at_mut(place);
        let (line, next) = (&mut before[place - 1], &behind[0]);
        let is_on_its_way = matches!(
            next.step.action,
            ExplainAction::PassedOn { .. } | ExplainAction::CameOut { .. }
        );
        if is_on_its_way
            && !line.is_copy
            && next.evidence == Some(Evidence::Observed)
            && matches!(line.step.action, ExplainAction::PassedOn { .. })
        {
            line.evidence = Some(Evidence::Observed);
        }
    }
}

/// How far the packet itself was seen.
fn extent(lines: &[ExplainLine]) -> String {
    let is_seen = |line: &&ExplainLine| line.evidence == Some(Evidence::Observed);
    let own = || lines.iter().filter(|line| !line.is_copy);
    match own().rfind(is_seen) {
        None => "rehearsed: no node saw the packet".to_owned(),
        Some(_) if own().all(|line| is_seen(&line)) => "observed at every step".to_owned(),
        Some(last) => format!("observed as far as line {}, at {}", last.number, last.node),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DropReason;
    use crate::explain::WrittenMacs;

    fn node(name: &str) -> NodeName {
        name.parse().unwrap()
    }

    #[test]
    fn switches_are_borne_out_by_where_a_packet_comes_out_and_by_nothing_else() {
        let passed = || {
            let by = crate::topology::PortNumber::new(2).unwrap();
            ExplainAction::PassedOn { by, header: None, written_to: None }
        };
        let out = || ExplainAction::CameOut { port: "v1".into(), header: None };
        let lines = || lines(vec![("a", passed()), ("b", passed()), ("c", out())]);
        let seen = Witnesses::from([(node("c"), vec![out()])]);
        let (told, _) = beside_what_was_seen(lines(), "delivered", seen);
        assert!(told.iter().all(|line| line.evidence == Some(Evidence::Observed)));
        let (told, verdict) = beside_what_was_seen(lines(), "delivered", Witnesses::new());
        assert!(told.iter().all(|line| line.evidence == Some(Evidence::Rehearsed)), "{verdict}");
    }

    fn visited(instance: &str) -> ExplainAction {
        let port = format!("{instance}@in");
        ExplainAction::Visited {
            instance: instance.into(),
            port,
            header: None,
            macs: WrittenMacs::default(),
        }
    }

    fn assumed(instance: &str) -> ExplainAction {
        let port = format!("{instance}@out");
        ExplainAction::Assumed { instance: instance.into(), port, index: None }
    }

    fn delivered() -> ExplainAction {
        ExplainAction::Delivered { port: "D".into(), macs: WrittenMacs::default() }
    }

    fn own(port: &str) -> ExplainAction {
        ExplainAction::OwnTraffic { port: port.into() }
    }

    fn rehearsed() -> Vec<ExplainLine> {
        let steps = [
            ("n1", visited("v1")),
            ("n1", assumed("v1")),
            ("n1", own("v1@out")),
            ("n2", visited("v7")),
            ("n2", assumed("v7")),
            ("n2", delivered()),
        ];
        lines(steps.to_vec())
    }

    fn lines(steps: Vec<(&str, ExplainAction)>) -> Vec<ExplainLine> {
        let line = |(number, (at, action)): (usize, (&str, ExplainAction))| ExplainLine {
            number,
            node: node(at),
            is_copy: false,
            step: ExplainStep::new(0, action),
            evidence: None,
        };
        (1..).zip(steps).map(line).collect()
    }

    fn told(seen: &[(&str, &[ExplainAction])]) -> (Vec<String>, String) {
        let seen = seen.iter().map(|(at, actions)| (node(at), actions.to_vec())).collect();
        let (lines, verdict) = beside_what_was_seen(rehearsed(), "delivered", seen);
        let word = |line: &ExplainLine| {
            let known = if line.evidence == Some(Evidence::Observed) { '+' } else { '-' };
            format!("{}{known}{} {}", line.number, line.node, line.step.action.verb())
        };
        (lines.iter().map(word).collect(), verdict)
    }

    #[test]
    fn a_line_is_observed_where_the_packet_itself_was_seen() {
        let first = [visited("v1"), own("v1@out")];
        let (lines, verdict) = told(&[("n1", &first), ("n2", &[visited("v7"), delivered()])]);
        assert!(lines.iter().all(|line| line.contains('+')), "{lines:?}");
        assert_eq!(verdict, "delivered · observed at every step");
        // Who gave it back is known by what came after, and a function that keeps it by nothing.
        let (lines, verdict) = told(&[("n1", &first), ("n2", &[visited("v7")])]);
        let expected = [
            "1+n1 function",
            "2+n1 assume",
            "3+n1 recall",
            "4+n2 function",
            "5-n2 assume",
            "6-n2 deliver",
        ];
        assert_eq!(lines, expected);
        assert_eq!(verdict, "delivered · observed as far as line 4, at n2");
        let (lines, verdict) = told(&[]);
        assert!(lines.iter().all(|line| line.contains('-')), "{lines:?}");
        assert_eq!(verdict, "delivered · rehearsed: no node saw the packet");
    }

    #[test]
    fn what_was_decided_in_another_way_stands_in_place_of_what_was_rehearsed() {
        let first = [visited("v1"), own("v2@out")];
        let (lines, verdict) = told(&[("n1", &first), ("n2", &[visited("v7"), delivered()])]);
        assert_eq!(lines.len(), 6);
        assert!(lines.iter().all(|line| line.contains('+')), "{lines:?}");
        assert_eq!(verdict, "delivered · observed at every step");
    }

    #[test]
    fn what_was_seen_and_not_foreseen_stands_behind_the_lines_of_its_node() {
        let reason = DropReason::TtlExpired;
        let seen = [visited("v1"), ExplainAction::Dropped { reason }];
        let (lines, verdict) = told(&[("n1", &seen)]);
        let expected = [
            "1+n1 function",
            "2-n1 assume",
            "3-n1 recall",
            "4+n1 drop",
            "5-n2 function",
            "6-n2 assume",
            "7-n2 deliver",
        ];
        assert_eq!(lines, expected);
        assert_eq!(
            verdict,
            format!("dropped at n1: {} (observed; rehearsed was: delivered)", reason.name())
        );
    }

    #[test]
    fn an_end_that_was_seen_behind_a_silent_node_is_the_end() {
        let mut lines = rehearsed();
        lines.truncate(3);
        let why = "node 'n2' is not connected".to_owned();
        let stopped = ExplainStep::new(0, ExplainAction::Stopped { why });
        let (number, is_copy, evidence) = (4, false, None);
        lines.push(ExplainLine { number, node: node("n2"), is_copy, step: stopped, evidence });
        let told = |seen: &[(&str, ExplainAction)]| {
            let seen = seen.iter().map(|(at, action)| (node(at), vec![action.clone()])).collect();
            beside_what_was_seen(lines.clone(), "unknown behind n2", seen).1
        };
        assert_eq!(
            told(&[("n1", visited("v1")), ("n3", delivered())]),
            "delivered by port D of n3 (observed); what n2 did is not known: node 'n2' is not \
             connected"
        );
        let unseen = told(&[("n1", visited("v1"))]);
        assert!(unseen.starts_with("unknown behind n2 · observed as far as"), "{unseen}");
    }
}

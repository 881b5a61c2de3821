//! The latest alerts of each instance. Knows their order and bounds; refuses to know where they come from.

use super::INSTANCES_MAX;
use catena_model::id::InstanceId;
use catena_model::limits::{
    FUNCTION_ALERTS_KEPT_BYTES_MAX, FUNCTION_ALERTS_KEPT_MAX, FUNCTION_ALERTS_TOLD_MAX,
};
use catena_model::question::{AlertMark, AlertQuestion, InstanceAlerts};
use std::collections::{BTreeMap, VecDeque};
use uuid::Uuid;

#[derive(Debug)]
pub(super) struct Alerts {
    /// Which row this is, among those of other agents of the node.
    row: u64,
    of: BTreeMap<InstanceId, Row>,
    /// How many have come of all instances.
    count: u64,
}

#[derive(Debug, Default)]
struct Row {
    lines: VecDeque<String>,
    bytes: usize,
    /// How many were before the first that is kept.
    gone: u64,
    /// How many of all instances had come with the last of these.
    latest: u64,
}

impl Row {
    fn drop_oldest(&mut self) {
        if let Some(line) = self.lines.pop_front() {
            self.bytes -= line.len();
            self.gone += 1;
        }
    }

    fn answer(&self, instance: InstanceId, after: Option<u64>, limit: usize) -> InstanceAlerts {
        let from = after.map_or(self.gone, |after| after.max(self.gone));
        let skipped = usize::try_from(from - self.gone).unwrap_or(usize::MAX);
        let lines: Vec<String> = self.lines.iter().skip(skipped).take(limit).cloned().collect();
        let number = from + lines.len() as u64;
        let lost = after.map_or(0, |after| self.gone.saturating_sub(after));
        InstanceAlerts { instance, lines, lost, end: AlertMark { row: 0, number } }
    }
}

impl Alerts {
    pub(super) fn new() -> Self {
        let (row, _) = Uuid::new_v4().as_u64_pair();
        Self { row, of: BTreeMap::new(), count: 0 }
    }

    /// Keeps one more; older ones that find no room beside it are forgotten.
    pub(super) fn add(&mut self, instance: InstanceId, line: String) {
        if self.of.len() >= INSTANCES_MAX && !self.of.contains_key(&instance) {
            let silent = self.of.iter().min_by_key(|(_, row)| row.latest).map(|(id, _)| *id);
            silent.map(|id| self.of.remove(&id));
        }
        self.count += 1;
        let row = self.of.entry(instance).or_default();
        row.latest = self.count;
        row.bytes += line.len();
        row.lines.push_back(line);
        while row.lines.len() > FUNCTION_ALERTS_KEPT_MAX
            || row.bytes > FUNCTION_ALERTS_KEPT_BYTES_MAX
        {
            row.drop_oldest();
        }
    }

    /// What is asked for. Of the row of another agent nothing is left: all that is kept is new.
    pub(super) fn answer(&self, question: &AlertQuestion) -> Vec<InstanceAlerts> {
        let limit = usize::try_from(question.limit).unwrap_or(usize::MAX);
        let limit = limit.min(FUNCTION_ALERTS_TOLD_MAX);
        let asked = question.of.iter().map(|(instance, after)| {
            let after = after.filter(|after| after.row == self.row).map(|after| after.number);
            let empty = Row::default();
            let row = self.of.get(instance).unwrap_or(&empty);
            let told = row.answer(*instance, after, limit);
            InstanceAlerts { end: AlertMark { row: self.row, ..told.end }, ..told }
        });
        asked.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(number: u128) -> InstanceId {
        InstanceId(Uuid::from_u128(number))
    }

    fn ask(alerts: &Alerts, after: Option<AlertMark>, limit: u32) -> InstanceAlerts {
        let of = BTreeMap::from([(instance(1), after)]);
        alerts.answer(&AlertQuestion { of, limit }).remove(0)
    }

    #[test]
    fn they_are_told_in_their_order_and_once() {
        let mut alerts = Alerts::new();
        (0..5).for_each(|number| alerts.add(instance(1), format!("a{number}")));
        alerts.add(instance(2), "another's".into());
        let first = ask(&alerts, None, 3);
        assert_eq!((first.lines, first.lost), (vec!["a0".into(), "a1".into(), "a2".into()], 0));
        let second = ask(&alerts, Some(first.end), 3);
        assert_eq!((second.lines, second.lost), (vec!["a3".into(), "a4".into()], 0));
        let none = ask(&alerts, Some(second.end), 3);
        assert_eq!((none.lines.len(), none.end), (0, second.end));
        alerts.add(instance(1), "a5".into());
        assert_eq!(ask(&alerts, Some(none.end), 3).lines, ["a5"]);
    }

    #[test]
    fn what_is_kept_no_longer_is_counted() {
        let mut alerts = Alerts::new();
        let mark = ask(&alerts, None, 1).end;
        let all = FUNCTION_ALERTS_KEPT_MAX + 7;
        (0..all).for_each(|number| alerts.add(instance(1), number.to_string()));
        let told = ask(&alerts, Some(mark), 1);
        assert_eq!((told.lines, told.lost), (vec!["7".to_owned()], 7));
        // What is long leaves fewer.
        (0..3)
            .for_each(|_| alerts.add(instance(1), "x".repeat(FUNCTION_ALERTS_KEPT_BYTES_MAX / 2)));
        let told = ask(&alerts, Some(told.end), 9);
        assert_eq!((told.lines.len(), told.lost), (2, all as u64 - 8 + 1));
    }

    #[test]
    fn after_another_agent_all_that_is_kept_is_new() {
        let mut former = Alerts::new();
        (0..9).for_each(|_| former.add(instance(1), "before".into()));
        let mark = ask(&former, None, 100).end;
        let mut alerts = Alerts::new();
        alerts.add(instance(1), "after".into());
        let told = ask(&alerts, Some(mark), 100);
        assert_eq!((told.lines, told.lost), (vec!["after".to_owned()], 0));
    }

    #[test]
    fn however_many_instances_there_were_those_that_speak_stay() {
        let mut alerts = Alerts::new();
        alerts.add(instance(1), "first".into());
        for number in 2..2 * INSTANCES_MAX as u128 {
            alerts.add(instance(number), "once".into());
            alerts.add(instance(1), "again".into());
        }
        assert_eq!(alerts.of.len(), INSTANCES_MAX);
        assert_eq!(ask(&alerts, None, 1).lines, ["first"]);
    }
}

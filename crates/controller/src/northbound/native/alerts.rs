//! `/v1/functions/{function}/alerts`: what bundled functions tell of packets, as the agents of their nodes keep it.
//! Knows who is asked and how to go on; refuses to know what an alert says.

use super::functions::find_function;
use super::problem::Problem;
use super::view::View;
use axum::response::Response;
use catena_model::id::InstanceId;
use catena_model::limits::FUNCTION_ALERTS_TOLD_MAX;
use catena_model::question::{AlertMark, AlertQuestion, InstanceAlerts};
use catena_model::resource::{Instance, Runs};
use catena_model::status::{AlertReport, FunctionAlert};
use catena_model::{Answer, NodeName, Question};
use std::collections::BTreeMap;
use uuid::Uuid;

/// How far alerts of instances were told.
type Marks = BTreeMap<InstanceId, AlertMark>;

pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    let limit = limit(view)?;
    let mut marks = read(view.call.word("after").unwrap_or_default())?;
    let id = find_function(view)?;
    let function = view.intent.functions.get(&id).ok_or_else(Problem::gone)?;
    let template = function.template.as_ref().map(|template| &template.runs);
    if !matches!(template, Some(Runs::Bundled(_))) {
        return Err(Problem::conflict(format!(
            "Function '{}' does not come with Catena, and tells no alerts here.",
            function.name()
        )));
    }
    let instances = function.instances.iter().filter_map(|id| view.intent.instances.get(id));
    let place = |one: &Instance| view.intent.ports.get(&one.ingress)?.node.clone();
    let placed: Vec<(&Instance, NodeName)> =
        instances.filter_map(|one| Some((one, place(one)?))).collect();
    marks.retain(|id, _| placed.iter().any(|(one, _)| one.id == *id));
    let of = placed.iter().map(|(one, _)| (one.id, marks.get(&one.id).copied())).collect();
    let question = Question::Alerts(AlertQuestion { of, limit });
    let nodes = placed.iter().map(|(_, node)| node.clone());
    let answers = view.app.fleet.ask_each(nodes, &question).await;
    let mut report = AlertReport::default();
    for (instance, node) in placed {
        let answer = match answers.get(&node) {
            Some(Ok(Answer::Alerts(rows))) => rows.iter().find(|row| row.instance == instance.id),
            _ => None,
        };
        let Some(InstanceAlerts { lines, lost, end, .. }) = answer else {
            report.silent.push(instance.name());
            continue;
        };
        let told = |line: &String| FunctionAlert { instance: instance.name(), line: line.clone() };
        report.alerts.extend(lines.iter().map(told));
        report.lost = report.lost.saturating_add(*lost);
        marks.insert(instance.id, *end);
    }
    report.next = write(&marks);
    view.told(&report)
}

fn limit(view: &View) -> Result<u32, Problem> {
    let most = u32::try_from(FUNCTION_ALERTS_TOLD_MAX).unwrap_or(u32::MAX);
    match view.call.word("limit").map(str::parse::<u32>) {
        None => Ok(most),
        Some(Ok(limit)) if limit > 0 => Ok(limit.min(most)),
        Some(_) => Err(Problem::bad_request("'limit' is a number above 0.".into())),
    }
}

fn write(marks: &Marks) -> String {
    let words = marks.iter().map(|(instance, AlertMark { row, number })| {
        format!("{}.{row:x}.{number:x}", instance.0.simple())
    });
    words.collect::<Vec<String>>().join(",")
}

fn read(text: &str) -> Result<Marks, Problem> {
    let words = text.split(',').filter(|word| !word.is_empty());
    let marks: Option<Marks> = words.map(read_one).collect();
    marks.ok_or_else(|| {
        Problem::bad_request("'after' is what an answer of this route called 'next'.".into())
    })
}

fn read_one(word: &str) -> Option<(InstanceId, AlertMark)> {
    let mut parts = word.split('.');
    let instance = Uuid::try_parse(parts.next()?).ok()?;
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    let mark = AlertMark { row: number()?, number: number()? };
    parts.next().is_none().then_some((InstanceId(instance), mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written() {
        let instance = |number| InstanceId(Uuid::from_u128(number));
        let marks = Marks::from([
            (instance(7), AlertMark { row: u64::MAX, number: 0 }),
            (instance(u128::MAX), AlertMark { row: 1, number: 255 }),
        ]);
        let text = write(&marks);
        assert_eq!(read(&text).ok(), Some(marks));
        assert_eq!(read("").ok(), Some(Marks::new()));
        let one = text.split(',').next().unwrap();
        for wrong in ["x", &format!("{one}.1"), &one[1..], "7.1.1,", &format!("{one},{one}x")] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

//! The account of a function that runs alone, for people and for programs. Knows how it is told; refuses
//! to count.

use crate::output::{block, json_escaped, say, table};
use catena_rules::Side;
use catena_runner::{Account, Place, Sides};
use serde::Serialize;

/// Tells it in the form that was asked for.
pub(crate) fn tell(account: &Account, place: &Place, is_json: bool) {
    if is_json { tell_programs(account) } else { tell_people(account, place) }
}

/// Tells an account, and what else is beside it, as one line of JSON.
pub(crate) fn tell_programs(account: &impl Serialize) {
    match serde_json::to_string(account) {
        Ok(text) => block(json_escaped(&text)),
        Err(error) => tracing::warn!("the account cannot be written: {error}"),
    }
}

/// Tells it for people.
pub(crate) fn tell_people(account: &Account, place: &Place) {
    let names = (place.name(Side::In), place.name(Side::Out));
    let mut rows = table(["packets", "", "count"]);
    for [what, of, count] in lines(account, names) {
        rows.add_row([what, of, count]);
    }
    block(rows);
    say!("unaccounted {}", account.unaccounted);
    if account.rules.is_empty() {
        return;
    }
    let mut rules = table(["rule", "packets", "bytes"]);
    for line in &account.rules {
        rules.add_row([&line.rule, &line.packets.to_string(), &line.bytes.to_string()]);
    }
    block(rules);
}

/// Each number with what it is of.
fn lines(account: &Account, names: (&str, &str)) -> Vec<[String; 3]> {
    let line =
        |what: &str, of: &str, count: u64| [what.to_owned(), of.to_owned(), count.to_string()];
    let sides = |what: &str, counts: Sides| {
        [line(what, names.0, counts.at_in), line(what, names.1, counts.at_out)]
    };
    let mut lines = Vec::from(sides("received", account.received));
    lines.extend(account.created.iter().map(|(kind, count)| line("created", kind, *count)));
    lines.extend(sides("sent", account.sent));
    let dropped = &account.dropped;
    lines.extend(dropped.rules.iter().map(|rule| line("dropped", &rule.rule, rule.packets)));
    lines.extend(dropped.reasons.iter().map(|(reason, count)| line("dropped", reason, *count)));
    if dropped.function_full > 0 {
        lines.push(line("dropped", "function_full", dropped.function_full));
    }
    let held = &account.held;
    if held.held > 0 {
        lines.push(line("had to wait", "in all", held.held));
        lines.push(line("waiting", "now", held.waiting));
    }
    let unseen = sides("never seen, ring full", account.ring_full);
    lines.extend(unseen.into_iter().filter(|[_, _, count]| count != "0"));
    if account.errors_withheld > 0 {
        lines.push(line("not made, too many", "ICMP errors", account.errors_withheld));
    }
    if account.events > 0 {
        lines.push(line("told of", "by its rules", account.events));
    }
    let messages = &account.messages;
    if messages.handed_out > 0 {
        lines.push(line("messages", "handed out", messages.handed_out));
        lines.push(line("messages", "sent", messages.sent));
        lines.push(line("messages", "refused by who takes them", messages.refused));
    }
    lines
}

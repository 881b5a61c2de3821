//! The difference between two versions of a chain in words. Knows names; refuses to know paths.

use crate::intent::Intent;
use catena_model::id::FunctionId;
use catena_model::resource::{Chain, Instance, ServiceFunction};
use catena_model::telemetry::Telemetry;
use std::net::Ipv6Addr;

type Version<'i> = Option<(&'i Intent, &'i Chain)>;

/// What differs, a line each; a chain that comes or goes differs in everything.
pub(super) fn lines(before: Version<'_>, after: Version<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let order = |version: Version<'_>| {
        version.map(|(intent, chain)| {
            let names = chain.functions.iter().map(|id| function_name(intent, *id));
            names.collect::<Vec<String>>()
        })
    };
    functions(&mut lines, order(before), order(after));
    if let (Some((now, old)), Some((then, new))) = (before, after) {
        for id in new.functions.iter().filter(|id| old.functions.contains(id)) {
            if let (Some(old), Some(new)) = (now.functions.get(id), then.functions.get(id)) {
                function(&mut lines, (now, old), (then, new));
            }
        }
    }
    let rules = |version: Version<'_>| {
        let named = |(intent, chain): (&Intent, &Chain)| {
            let rules = chain.rules.iter().filter_map(|id| intent.rules.get(id));
            rules.map(|rule| (rule.id, rule.clone())).collect::<Vec<_>>()
        };
        version.map(named).unwrap_or_default()
    };
    let (old, new) = (rules(before), rules(after));
    for (id, rule) in &new {
        match old.iter().find(|(known, _)| known == id) {
            None => lines.push(format!("+ classifier {}", rule.name())),
            Some((_, former)) if former != rule => {
                lines.push(format!("~ classifier {}", rule.name()));
            }
            Some(_) => {}
        }
    }
    for (_, rule) in old.iter().filter(|(id, _)| !new.iter().any(|(known, _)| known == id)) {
        lines.push(format!("- classifier {}", rule.name()));
    }
    let of = |version: Version<'_>, what: fn(&Chain) -> String| version.map(|(_, c)| what(c));
    for (label, what) in ATTRIBUTES {
        changed(&mut lines, label, of(before, what), of(after, what));
    }
    changed(&mut lines, BETWEEN_HOSTS, before.map(segments), after.map(segments));
    lines
}

/// An attribute of a chain: its name and how its value reads.
type Attribute = (&'static str, fn(&Chain) -> String);

/// What a chain says about itself beside functions and rules.
const ATTRIBUTES: [Attribute; 6] = [
    ("name", |chain| chain.label.name.clone()),
    ("encapsulation", |chain| chain.encapsulation.name().to_owned()),
    ("set-up", |chain| chain.setup.name().to_owned()),
    ("symmetric", |chain| if chain.is_symmetric { "yes".into() } else { "no".into() }),
    ("context headers", |chain| chain.context.len().to_string()),
    ("telemetry", |chain| {
        chain.telemetry.as_ref().map_or_else(|| "none".to_owned(), Telemetry::to_string)
    }),
];

/// What is said of the network between hosts.
const BETWEEN_HOSTS: &str = "segments on the way";

/// Is a line about a chain for whoever runs the network between hosts, and for nobody else?
#[must_use]
pub fn is_for_operators(line: &str) -> bool {
    line.strip_prefix("~ ").is_some_and(|rest| rest.starts_with(BETWEEN_HOSTS))
}

/// The segments of others that packets visit, by the function that they lead to.
fn segments((intent, chain): (&Intent, &Chain)) -> String {
    let of_one = |function: &FunctionId| {
        let segments: Vec<String> =
            chain.via.get(function)?.iter().map(Ipv6Addr::to_string).collect();
        Some(format!("{} by {}", function_name(intent, *function), segments.join(", ")))
    };
    let all: Vec<String> = chain.functions.iter().filter_map(of_one).collect();
    if all.is_empty() { "none".into() } else { all.join("; ") }
}

fn changed(lines: &mut Vec<String>, label: &str, before: Option<String>, after: Option<String>) {
    if let (Some(before), Some(after)) = (before, after)
        && before != after
    {
        lines.push(format!("~ {label}   {before} → {after}"));
    }
}

fn functions(lines: &mut Vec<String>, before: Option<Vec<String>>, after: Option<Vec<String>>) {
    let arrow = |names: &[String]| names.join(" ─► ");
    match (before, after) {
        (None, Some(after)) => lines.push(format!("+ {}", arrow(&after))),
        (Some(before), None) => lines.push(format!("- {}", arrow(&before))),
        (Some(before), Some(after)) if before != after => {
            lines.push(format!("~ {}   was: {}", arrow(&after), arrow(&before)));
        }
        _ => {}
    }
}

/// What differs in a function that stays.
fn function(
    lines: &mut Vec<String>,
    (now, before): (&Intent, &ServiceFunction),
    (then, after): (&Intent, &ServiceFunction),
) {
    let label = format!("function {}", after.name());
    let of = |intent: &Intent, function: &ServiceFunction| -> Vec<Instance> {
        let instances = function.instances.iter().filter_map(|id| intent.instances.get(id));
        instances.cloned().collect()
    };
    let (old, new) = (of(now, before), of(then, after));
    let mut words = Vec::new();
    for instance in &new {
        let name = instance.name();
        match old.iter().find(|known| known.id == instance.id) {
            None => words.push(format!("+ {name}")),
            Some(former) => {
                if former.weight != instance.weight {
                    words.push(format!("{name} weight {} → {}", former.weight, instance.weight));
                }
                if former.is_draining != instance.is_draining {
                    let word = if instance.is_draining { "drains" } else { "takes flows again" };
                    words.push(format!("{name} {word}"));
                }
                if (former.ingress, former.egress, former.speaks)
                    != (instance.ingress, instance.egress, instance.speaks)
                {
                    words.push(format!("{name} other ports"));
                }
            }
        }
    }
    for gone in old.iter().filter(|known| !new.iter().any(|instance| instance.id == known.id)) {
        words.push(format!("- {}", gone.name()));
    }
    if !words.is_empty() {
        lines.push(format!(
            "~ {label}   instances {} → {}: {}",
            old.len(),
            new.len(),
            words.join(", ")
        ));
    }
    if before.on_failure != after.on_failure {
        let (old, new) = (before.on_failure.name(), after.on_failure.name());
        lines.push(format!("~ {label}   on failure {old} → {new}"));
    }
    if before.keeps_mac != after.keeps_mac {
        let what = if after.keeps_mac { "keeps MACs" } else { "keeps MACs no more" };
        lines.push(format!("~ {label}   {what}"));
    }
}

fn function_name(intent: &Intent, id: FunctionId) -> String {
    intent.functions.get(&id).map_or_else(|| id.to_string(), ServiceFunction::name)
}

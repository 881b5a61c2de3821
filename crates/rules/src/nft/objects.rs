//! The objects of a listing, with their lines.

use super::keys::only;
use super::{Hook, Id};
use crate::error::RuleError;
use crate::options::ReadOptions;
use crate::refusal::Refusal;
use crate::rule_set::Families;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};

/// The list of all objects.
const LIST: &str = "nftables";

/// A table, a chain, a rule or something else.
pub(super) struct Object {
    /// Its line, from 1.
    pub(super) line: u32,
    pub(super) kind: String,
    pub(super) body: Value,
}

/// Reads the objects of a listing.
pub(super) fn read(text: &str, options: &ReadOptions) -> Result<Vec<Object>, RuleError> {
    let not_json = |error: &serde_json::Error, before: u32| {
        let line = before + u32::try_from(error.line()).unwrap_or(u32::MAX);
        let refusal = Refusal::wrong(
            format!("it is no list of rules in JSON: {error}"),
            "write the file by nft -j list ruleset",
        );
        refusal.at(line, options)
    };
    let listing: BTreeMap<String, Vec<&RawValue>> =
        serde_json::from_str(text).map_err(|error| not_json(&error, 0))?;
    let Some(listed) = listing.get(LIST) else {
        let what = format!("it has no list '{LIST}'");
        let refusal = Refusal::wrong(what, "write the file by nft -j list ruleset");
        return Err(refusal.at(0, options));
    };
    let is_one_line = !text.trim().contains('\n');
    let mut objects = Vec::with_capacity(listed.len());
    let (mut at, mut line) = (0, 1);
    for (number, raw) in (1..).zip(listed) {
        let start = (raw.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        line += newlines(text, at, start);
        at = start;
        let line = if is_one_line { number } else { line };
        let mut members: BTreeMap<String, Value> =
            serde_json::from_str(raw.get()).map_err(|error| not_json(&error, line - 1))?;
        let (Some((kind, body)), true) = (members.pop_first(), members.is_empty()) else {
            let what = "an object of the list has not one member";
            let refusal = Refusal::wrong(what, "write the file by nft -j list ruleset");
            return Err(refusal.at(line, options));
        };
        let is_command = ["add", "create", "insert", "replace", "delete", "flush", "rename"];
        if is_command.contains(&&*kind) {
            let what = format!("'{kind}' is a command, not what a listing has");
            let refusal = Refusal::wrong(what, "load it, and list it by nft -j list ruleset");
            return Err(refusal.at(line, options));
        }
        objects.push(Object { line, kind, body });
    }
    Ok(objects)
}

fn newlines(text: &str, from: usize, to: usize) -> u32 {
    let between = text.as_bytes().get(from..to).unwrap_or_default();
    u32::try_from(between.iter().filter(|byte| **byte == b'\n').count()).unwrap_or(u32::MAX)
}

/// Names of tables that several families have.
pub(super) fn shared_tables(objects: &[Object]) -> BTreeSet<&str> {
    let mut families: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for body in objects.iter().filter(|object| object.kind == "chain").map(|object| &object.body) {
        let member = |name| body.get(name).and_then(Value::as_str).unwrap_or_default();
        families.entry(member("table")).or_default().insert(member("family"));
    }
    families.into_iter().filter(|(_, families)| families.len() > 1).map(|(name, _)| name).collect()
}

/// Families and names of tables that are switched off.
pub(super) fn dormant_tables(objects: &[Object]) -> BTreeSet<(&str, &str)> {
    let tables = objects.iter().filter(|object| object.kind == "table").map(|object| &object.body);
    let is_dormant = |flags: &Value| match flags {
        Value::Array(flags) => flags.iter().any(|flag| flag.as_str() == Some("dormant")),
        flag => flag.as_str() == Some("dormant"),
    };
    let dormant = tables.filter(|table| table.get("flags").is_some_and(is_dormant));
    dormant
        .filter_map(|table| {
            let family = table.get("family").and_then(Value::as_str)?;
            Some((family, table.get("name").and_then(Value::as_str)?))
        })
        .collect()
}

/// Sets and maps that rules put elements into, which their own flags need not say.
pub(super) fn growing_sets(objects: &[Object]) -> BTreeSet<Id<'_>> {
    let rules = objects.iter().filter(|object| object.kind == "rule").map(|object| &object.body);
    let mut growing = BTreeSet::new();
    for rule in rules {
        let member = |name| rule.get(name).and_then(Value::as_str).unwrap_or_default();
        let statements = rule.get("expr").and_then(Value::as_array).into_iter().flatten();
        for (kind, body) in statements.filter_map(only) {
            let name = body.get(kind).and_then(Value::as_str).filter(|_| kind != "match");
            let name = name.and_then(|name| name.strip_prefix('@'));
            growing.extend(name.map(|name| (member("family"), member("table"), name)));
        }
    }
    growing
}

/// Versions of IP of a family; none: it is not supported.
pub(super) fn families(family: &str) -> Option<Families> {
    match family {
        "ip" => Some(Families::V4),
        "ip6" => Some(Families::V6),
        "inet" => Some(Families::BOTH),
        _ => None,
    }
}

/// Where packets meet a chain, and why it is not read if it is not.
pub(super) fn hook(chain: &Value, is_ip: bool) -> (Hook, &'static str) {
    let member = |name| chain.get(name).and_then(Value::as_str);
    if !is_ip {
        let why = "only tables of the families ip, ip6 and inet are supported";
        return (Hook::Elsewhere, why);
    }
    match (member("hook"), member("type")) {
        (None, _) => (Hook::None, ""),
        (Some("forward"), Some("filter")) => (Hook::Forward, ""),
        (Some("input" | "output"), _) => (Hook::Local, "is for what the host itself gets or sends"),
        (_, Some("nat")) => (
            Hook::Elsewhere,
            "nat is not the firewall's: addresses are translated by the function nat",
        ),
        _ => (Hook::Elsewhere, "only the hook forward is supported, and chains of the type filter"),
    }
}

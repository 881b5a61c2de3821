//! Sets and maps, named and anonymous: what their elements are. Knows that those which change by
//! themselves are none of ours.

use super::Scope;
use super::keys::{Key, malformed, only};
use super::values;
use crate::condition::Range;
use crate::refusal::Refusal;
use serde_json::Value;

/// Ranges that all rules may ask for together: a named set counts wherever a rule names it.
pub(super) const RANGES_MAX: usize = 1 << 20;

/// The elements of a set or map, or the one value that stands for such a set.
pub(super) fn elements<'a>(scope: &Scope<'a>, value: &'a Value) -> Result<Vec<&'a Value>, Refusal> {
    if let Some(name) = value.as_str().and_then(|text| text.strip_prefix('@')) {
        return named(scope, name);
    }
    match only(value) {
        Some(("set", Value::Array(elements))) => Ok(elements.iter().collect()),
        Some(("set", Value::String(name))) if name.starts_with('@') => named(scope, &name[1..]),
        Some(("set", element)) => Ok(vec![element]),
        _ => Ok(vec![value]),
    }
}

fn named<'a>(scope: &Scope<'a>, name: &str) -> Result<Vec<&'a Value>, Refusal> {
    let Some(set) = scope.sets.get(&(scope.family, scope.table, name)) else {
        let what = format!("there is no set or map {name} in the table {}", scope.table);
        return Err(Refusal::wrong(what, "list the whole rule set, by nft -j list ruleset"));
    };
    if scope.growing.contains(&(scope.family, scope.table, name)) {
        let what = format!("sets that rules put elements into are not supported, as {name} is");
        return Err(Refusal::unsupported(what));
    }
    let flags = match set.get("flags") {
        Some(Value::Array(flags)) => flags.iter().collect(),
        Some(flag) => vec![flag],
        None => Vec::new(),
    };
    let is_steady = |flag: &&Value| matches!(flag.as_str(), Some("constant" | "interval"));
    if let Some(flag) = flags.into_iter().find(|flag| !is_steady(flag)) {
        let what = format!("sets that are {flag} are not supported, as {name} is");
        return Err(Refusal::unsupported(what));
    }
    if let Some(member) = ["timeout", "stmt"].into_iter().find(|member| set.get(member).is_some()) {
        let what = format!("sets with a {member} are not supported, as {name} is");
        return Err(Refusal::unsupported(what));
    }
    match set.get("elem") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(elements)) => Ok(elements.iter().collect()),
        Some(element) => Ok(vec![element]),
    }
}

/// An element without its comment.
fn bare(element: &Value) -> Result<&Value, Refusal> {
    let Some(("elem", body)) = only(element) else { return Ok(element) };
    let members = body.as_object().into_iter().flat_map(|body| body.keys());
    if let Some(other) = members.into_iter().find(|name| !matches!(&***name, "val" | "comment")) {
        return Err(Refusal::unsupported(format!("elements with a {other} are not supported")));
    }
    body.get("val").ok_or_else(|| malformed("'val'", element))
}

/// The element and its verdict of a map.
pub(super) fn pair(element: &Value) -> Result<(&Value, &Value), Refusal> {
    match element.as_array().map(Vec::as_slice) {
        Some([value, verdict]) => Ok((value, verdict)),
        _ => Err(malformed("a pair of value and verdict", element)),
    }
}

/// Does it stand for all that no other element has?
pub(super) fn is_catch_all(element: &Value) -> Result<bool, Refusal> {
    Ok(bare(element)?.as_str() == Some("*"))
}

/// The ranges of an element, one for each key; none: no packet has its values.
pub(super) fn ranges(
    scope: &Scope<'_>,
    keys: &[Key],
    element: &Value,
) -> Result<Option<Vec<Range>>, Refusal> {
    let asked = scope.ranges.get() + keys.len();
    scope.ranges.set(asked);
    if asked > RANGES_MAX {
        let what = format!("the rules ask for more than {RANGES_MAX} values");
        return Err(Refusal::wrong(what, "name large sets in fewer rules"));
    }
    let element = bare(element)?;
    if element.as_str() == Some("*") {
        return Ok(Some(keys.iter().map(everything).collect()));
    }
    let parts = match (keys, only(element)) {
        ([_], _) => std::slice::from_ref(element),
        (_, Some(("concat", Value::Array(parts)))) if parts.len() == keys.len() => &parts[..],
        _ => return Err(malformed("a value for each part of the concatenation", element)),
    };
    let ranges: Result<Vec<Option<Range>>, Refusal> =
        keys.iter().zip(parts).map(|(key, part)| values::range(key, part, scope.options)).collect();
    Ok(ranges?.into_iter().collect())
}

/// All values of a key.
fn everything(key: &Key) -> Range {
    Range { first: 0, last: key.all }
}

//! A rule in words, as `nft list ruleset` writes it; what has no words here is shown as it stands.

use super::keys::only;
use serde_json::Value;

/// The words of a rule, without counters.
pub(super) fn rule(statements: &[Value], comment: Option<&str>) -> String {
    let mut words: Vec<String> = statements.iter().map(statement).collect();
    words.extend(comment.map(|comment| format!("comment \"{comment}\"")));
    words.join(" ")
}

fn statement(value: &Value) -> String {
    let Some((name, body)) = only(value) else { return expression(value, false) };
    match name {
        "match" => condition(body),
        "vmap" => {
            let key = body.get("key").unwrap_or(&Value::Null);
            let data = body.get("data").unwrap_or(&Value::Null);
            format!("{} vmap {}", expression(key, false), expression(data, names_interface(key)))
        }
        "counter" => match body.as_str() {
            Some(name) => format!("counter name \"{name}\""),
            None => "counter".into(),
        },
        "limit" => limit(body),
        "log" => log(body),
        "reject" => reject(body),
        "accept" | "drop" | "return" | "continue" => name.into(),
        "jump" | "goto" => format!("{name} {}", member(body, "target")),
        _ if body.is_null() => name.into(),
        _ => format!("{name} {body}"),
    }
}

fn member(body: &Value, name: &str) -> String {
    body.get(name).map(|value| expression(value, false)).unwrap_or_default()
}

fn condition(body: &Value) -> String {
    let (left, right) = (body.get("left"), body.get("right"));
    let (Some(left), Some(right)) = (left, right) else { return format!("match {body}") };
    let op = body.get("op").and_then(Value::as_str).unwrap_or("==");
    let is_set = matches!(only(right), Some(("set", _)))
        || right.as_str().is_some_and(|text| text.starts_with('@'));
    // Where flags stand alone, nothing between them means any of them.
    let is_said = is_bits(left) && !is_set;
    let right = expression(right, names_interface(left));
    let left = expression(left, false);
    match op {
        "in" => format!("{left} {right}"),
        "==" if !is_said => format!("{left} {right}"),
        _ => format!("{left} {op} {right}"),
    }
}

fn is_bits(left: &Value) -> bool {
    match only(left) {
        Some(("&", _)) => true,
        Some(("ct", body)) => matches!(&*member(body, "key"), "state" | "status"),
        Some(("payload", body)) => {
            member(body, "protocol") == "tcp" && member(body, "field") == "flags"
        }
        _ => false,
    }
}

fn names_interface(left: &Value) -> bool {
    match only(left) {
        Some(("meta", body)) => {
            matches!(&*member(body, "key"), "iif" | "oif" | "iifname" | "oifname")
        }
        Some(("concat", parts)) => parts.as_array().into_iter().flatten().any(names_interface),
        _ => false,
    }
}

fn limit(body: &Value) -> String {
    if let Some(name) = body.as_str() {
        return format!("limit name \"{name}\"");
    }
    let is_over = body.get("inv").and_then(Value::as_bool).unwrap_or(false);
    let over = if is_over { "over " } else { "" };
    let unit = body.get("rate_unit").and_then(Value::as_str).filter(|unit| *unit != "packets");
    let unit = unit.map(|unit| format!(" {unit}")).unwrap_or_default();
    let mut words =
        format!("limit rate {over}{}{unit}/{}", member(body, "rate"), member(body, "per"));
    let burst_unit = body.get("burst_unit").and_then(Value::as_str).unwrap_or("packets");
    match body.get("burst").and_then(Value::as_u64) {
        None | Some(0 | 5) => {}
        Some(burst) => words.push_str(&format!(" burst {burst} {burst_unit}")),
    }
    words
}

fn log(body: &Value) -> String {
    let mut words = String::from("log");
    for (name, value) in body.as_object().into_iter().flatten() {
        words.push_str(&format!(" {name} {}", expression(value, name == "prefix")));
    }
    words
}

fn reject(body: &Value) -> String {
    let (kind, code) = (member(body, "type"), member(body, "expr"));
    match (&*kind, &*code) {
        ("", _) | ("icmpx" | "icmp" | "icmpv6", "port-unreachable") => "reject".into(),
        (_, "") => format!("reject with {kind}"),
        _ => format!("reject with {kind} {code}"),
    }
}

/// An expression in words; `is_quoted`: names stand in quotation marks.
fn expression(value: &Value, is_quoted: bool) -> String {
    let row = |values: &[Value], between: &str| {
        let words: Vec<String> = values.iter().map(|value| expression(value, is_quoted)).collect();
        words.join(between)
    };
    match value {
        Value::String(text) if is_quoted && text != "*" && !text.starts_with('@') => {
            return format!("\"{text}\"");
        }
        Value::String(text) => return text.clone(),
        Value::Bool(true) => return "exists".into(),
        Value::Bool(false) => return "missing".into(),
        Value::Array(values) => return row(values, ","),
        _ => {}
    }
    match only(value) {
        Some(("set", Value::Array(elements))) => {
            let elements: Vec<String> =
                elements.iter().map(|element| self::element(element, is_quoted)).collect();
            format!("{{ {} }}", elements.join(", "))
        }
        Some(("set", element)) => format!("{{ {} }}", self::element(element, is_quoted)),
        Some(("range", Value::Array(ends))) => row(ends, "-"),
        Some(("concat", Value::Array(parts))) => row(parts, " . "),
        Some((operator @ ("&" | "|" | "^" | "<<" | ">>"), Value::Array(sides))) => {
            row(sides, &format!(" {operator} "))
        }
        Some(("prefix", body)) => format!("{}/{}", member(body, "addr"), member(body, "len")),
        Some(("payload", body)) if body.get("base").is_some() => {
            format!("@{},{},{}", member(body, "base"), member(body, "offset"), member(body, "len"))
        }
        Some(("payload", body)) => {
            format!("{} {}", member(body, "protocol"), member(body, "field"))
        }
        Some(("meta", _)) if names_interface(value) => {
            only(value).map(|(_, body)| member(body, "key")).unwrap_or_default()
        }
        Some(("meta", body)) => format!("meta {}", member(body, "key")),
        Some(("ct", body)) => format!("ct {}", member(body, "key")),
        Some(("elem", _)) => element(value, is_quoted),
        _ => value.to_string(),
    }
}

/// An element of a set, or a value with its verdict.
fn element(value: &Value, is_quoted: bool) -> String {
    if let Some(("elem", body)) = only(value) {
        let comment = body.get("comment").and_then(Value::as_str);
        let comment = comment.map(|comment| format!(" comment \"{comment}\"")).unwrap_or_default();
        let value = body.get("val").unwrap_or(&Value::Null);
        return format!("{}{comment}", expression(value, is_quoted));
    }
    match value.as_array().map(Vec::as_slice) {
        Some([value, verdict]) if verdict.is_object() => {
            format!("{} : {}", element(value, is_quoted), statement(verdict))
        }
        _ => expression(value, is_quoted),
    }
}

//! Converters of attribute values that several resources share: from what clients send, in all its
//! spellings, to one form; or the sentence that says why not.

use super::errors::ApiError;
use catena_model::text::is_unseen;
use ipnet::IpNet;
use serde_json::{Map, Value};
use std::cmp::Ordering;
use uuid::Uuid;

/// Longest name, description or owner, in characters.
const TEXT_CHARACTERS_MAX: usize = 255;

/// A value in messages: texts without quotes, the rest as JSON.
pub(crate) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// An order over values: null, then false and true, numbers, texts, and what has none.
pub(crate) fn compare(a: Option<&Value>, b: Option<&Value>) -> Ordering {
    let rank = |value: Option<&Value>| match value {
        None | Some(Value::Null) => 0,
        Some(Value::Bool(_)) => 1,
        Some(Value::Number(_)) => 2,
        Some(Value::String(_)) => 3,
        Some(Value::Array(_) | Value::Object(_)) => 4,
    };
    match (a, b) {
        (Some(Value::Bool(a)), Some(Value::Bool(b))) => a.cmp(b),
        (Some(Value::Number(a)), Some(Value::Number(b))) => a.as_i64().cmp(&b.as_i64()),
        (Some(Value::String(a)), Some(Value::String(b))) => a.cmp(b),
        _ => rank(a).cmp(&rank(b)),
    }
}

pub(crate) fn any(_: &str, value: &Value) -> Result<Value, ApiError> {
    Ok(value.clone())
}

pub(crate) fn text(name: &str, value: &Value) -> Result<Value, ApiError> {
    let Some(text) = value.as_str() else {
        return Err(ApiError::attribute(
            name,
            format!("'{}' is not a valid string.", shown(value)),
        ));
    };
    if text.chars().count() > TEXT_CHARACTERS_MAX {
        let reason = format!("'{text}' exceeds maximum length of {TEXT_CHARACTERS_MAX}.");
        return Err(ApiError::attribute(name, reason));
    }
    Ok(value.clone())
}

/// A text; null is the empty one.
pub(crate) fn text_or_null(name: &str, value: &Value) -> Result<Value, ApiError> {
    if value.is_null() { Ok(Value::String(String::new())) } else { text(name, value) }
}

/// A text that people and programs read in lists, logs and metrics: nothing in it is unseen.
pub(crate) fn name(name: &str, value: &Value) -> Result<Value, ApiError> {
    let value = text(name, value)?;
    match value.as_str().and_then(|text| text.chars().find(|c| is_unseen(*c))) {
        None => Ok(value),
        Some(unseen) => {
            let reason = format!(
                "it holds the character U+{:04X}; leave out what cannot be seen.",
                u32::from(unseen)
            );
            Err(ApiError::attribute(name, reason))
        }
    }
}

/// The same; null is the empty one.
pub(crate) fn name_or_null(attribute: &str, value: &Value) -> Result<Value, ApiError> {
    if value.is_null() { Ok(Value::String(String::new())) } else { name(attribute, value) }
}

pub(crate) fn boolean(_: &str, value: &Value) -> Result<Value, ApiError> {
    let converted = match value {
        Value::Bool(flag) => Some(*flag),
        Value::String(text) => match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" | "t" | "yes" | "y" | "on" => Some(true),
            "false" | "0" | "f" | "no" | "n" | "off" => Some(false),
            _ => None,
        },
        Value::Number(number) => match number.as_u64() {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => None,
        },
        _ => None,
    };
    converted.map(Value::Bool).ok_or_else(|| {
        ApiError::conversion(format!("'{}' cannot be converted to boolean.", shown(value)))
    })
}

/// An integer, also as a numeric text; the sentence that says why not, of the original's type.
pub(crate) fn integer_or_error(value: &Value) -> Result<i64, ApiError> {
    integer(value)
        .ok_or_else(|| ApiError::conversion(format!("'{}' is not an integer.", shown(value))))
}

/// An integer, also as a numeric text.
pub(crate) fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

pub(crate) fn uuid(name: &str, value: &Value) -> Result<Value, ApiError> {
    match value.as_str().and_then(|text| Uuid::parse_str(text).ok()) {
        Some(id) => Ok(Value::String(id.to_string())),
        None => {
            let reason = format!("'{}' is not a valid UUID.", shown(value));
            Err(ApiError::attribute(name, reason))
        }
    }
}

pub(crate) fn uuid_or_null(name: &str, value: &Value) -> Result<Value, ApiError> {
    if value.is_null() { Ok(Value::Null) } else { uuid(name, value) }
}

/// A list of uuids without a repetition; null is the empty one.
pub(crate) fn uuid_list(name: &str, value: &Value) -> Result<Value, ApiError> {
    let list = match value {
        Value::Array(list) => list,
        Value::Null => &[][..],
        other => {
            let reason = format!("'{}' is not a list.", shown(other));
            return Err(ApiError::attribute(name, reason));
        }
    };
    let mut ids: Vec<Value> = Vec::with_capacity(list.len());
    for item in list {
        ids.push(uuid(name, item)?);
    }
    let mut seen = std::collections::BTreeSet::new();
    if ids.iter().any(|id| !seen.insert(shown(id))) {
        let reason = format!("Duplicate items in the list: '{value}'.");
        return Err(ApiError::attribute(name, reason));
    }
    Ok(Value::Array(ids))
}

/// The same; a bare uuid is a list of one, an empty dictionary is the empty one.
pub(crate) fn uuid_list_or_one(name: &str, value: &Value) -> Result<Value, ApiError> {
    match value {
        Value::String(_) => uuid_list(name, &Value::Array(vec![value.clone()])),
        Value::Object(map) if map.is_empty() => Ok(Value::Array(Vec::new())),
        _ => uuid_list(name, value),
    }
}

/// An address with the length of its prefix. Digits with zeros before them are refused: some read
/// them as octal.
pub(crate) fn prefix(value: &Value) -> Option<IpNet> {
    let (address, length) = value.as_str()?.split_once('/')?;
    let is_plain = length == "0" || !length.starts_with(['0', '+']);
    IpNet::new(address.parse().ok()?, length.parse().ok().filter(|_| is_plain)?).ok()
}

/// A dictionary with no other keys than these.
pub(crate) fn dict(
    name: &str,
    value: &Value,
    keys: &[&str],
) -> Result<Map<String, Value>, ApiError> {
    let Value::Object(map) = value else {
        let reason = format!("'{}' is not a dictionary.", shown(value));
        return Err(ApiError::attribute(name, reason));
    };
    let extra: Vec<&str> =
        map.keys().map(String::as_str).filter(|key| !keys.contains(key)).collect();
    if !extra.is_empty() {
        let reason = format!("Unexpected keys supplied: {}.", extra.join(", "));
        return Err(ApiError::attribute(name, reason));
    }
    Ok(map.clone())
}

/// The same; whatever is empty is the empty one.
pub(crate) fn dict_or_empty(
    name: &str,
    value: &Value,
    keys: &[&str],
) -> Result<Map<String, Value>, ApiError> {
    if is_empty(value) { Ok(Map::new()) } else { dict(name, value, keys) }
}

/// Null, or nothing in it.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// One of these texts or null.
pub(crate) fn one_of_or_null(name: &str, value: &Value, legal: &[&str]) -> Result<Value, ApiError> {
    match value.as_str() {
        Some(text) if legal.contains(&text) => Ok(value.clone()),
        None if value.is_null() => Ok(Value::Null),
        _ => {
            let reason = format!("'{}' is not in valid_values.", shown(value));
            Err(ApiError::attribute(name, reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn booleans_and_integers_are_taken_in_every_spelling_of_the_clients() {
        for yes in [json!(true), json!("True"), json!("1"), json!(1)] {
            assert_eq!(boolean("x", &yes).unwrap(), json!(true));
        }
        for no in [json!(false), json!("false"), json!("0"), json!(0)] {
            assert_eq!(boolean("x", &no).unwrap(), json!(false));
        }
        for bad in [json!("maybe"), json!(2), json!(null), json!([]), json!({})] {
            assert_eq!(boolean("x", &bad).unwrap_err().kind, "InvalidInput");
        }
        assert_eq!(integer(&json!("17")), Some(17));
        assert_eq!(integer(&json!(-3)), Some(-3));
        for bad in [json!("x"), json!(1.5), json!(true), json!(null)] {
            assert_eq!(integer(&bad), None);
        }
    }

    #[test]
    fn prefixes_have_a_length_and_no_digit_that_could_be_octal() {
        for good in ["10.0.0.1/24", "0.0.0.0/0", "2001:DB8::/32", "::/0", "10.0.0.0/8"] {
            assert_eq!(prefix(&json!(good)), good.parse().ok(), "{good}");
        }
        for bad in [
            "10.0.0.1",
            "010.0.0.0/24",
            "10.0.0.0/08",
            "10.0.0.0/+8",
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0/24",
            "::/129",
            "/8",
            "10.0.0.0/8/8",
            "10.0.0.0/00",
        ] {
            assert_eq!(prefix(&json!(bad)), None, "{bad}");
        }
        assert_eq!(prefix(&json!(10)), None);
    }

    #[test]
    fn values_have_an_order() {
        let ordered =
            [json!(null), json!(false), json!(true), json!(2), json!(10), json!("10"), json!("9")];
        for pair in ordered.windows(2) {
            assert_eq!(compare(pair.first(), pair.get(1)), Ordering::Less, "{pair:?}");
        }
        assert_eq!(compare(None, Some(&json!(null))), Ordering::Equal);
    }

    #[test]
    fn lists_of_ids_refuse_strangers_and_repetitions() {
        let id = "5C5B1C84-6E1D-4E59-9B40-2A4F0F0A7A11";
        assert_eq!(uuid_list("x", &json!([id])).unwrap(), json!([id.to_lowercase()]));
        assert_eq!(uuid_list("x", &json!(null)).unwrap(), json!([]));
        assert_eq!(uuid_list_or_one("x", &json!(id)).unwrap(), json!([id.to_lowercase()]));
        let twice = uuid_list("x", &json!([id, id.to_lowercase()])).unwrap_err();
        assert!(twice.message.contains("Duplicate items in the list"));
        assert!(uuid_list("x", &json!("abc")).unwrap_err().message.contains("is not a list"));
        assert!(uuid_list("x", &json!(["abc"])).unwrap_err().message.contains("not a valid UUID"));
    }
}

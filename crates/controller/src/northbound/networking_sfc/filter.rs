//! Lists: equality filters and the choice of fields. Knows shown resources only.

use super::Shown;
use super::values::shown;
use serde_json::Value;
use std::collections::BTreeMap;

/// Query keys that are no filter.
const NO_FILTER: [&str; 6] = ["fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"];

/// The items that match all filters, cut down to the wanted fields. A repeated key means «or»; a
/// key that is no simple attribute of the items is ignored, as in the original.
pub(crate) fn select(items: Vec<Shown>, query: &[(String, String)]) -> Vec<Shown> {
    let mut wanted: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (key, value) in query.iter().filter(|(key, _)| !NO_FILTER.contains(&key.as_str())) {
        wanted.entry(key).or_default().push(value);
    }
    let matches = |item: &Shown| {
        wanted.iter().all(|(key, values)| match item.get(*key) {
            None | Some(Value::Array(_) | Value::Object(_)) => true,
            Some(found) => values.iter().any(|value| is_equal(key, found, value)),
        })
    };
    let fields = fields(query);
    let chosen = items.into_iter().filter(matches);
    chosen.map(|item| if fields.is_empty() { item } else { cut(item, &fields) }).collect()
}

/// One item, cut down to the wanted fields; its id is always among them.
pub(crate) fn one(item: Shown, query: &[(String, String)]) -> Shown {
    let mut fields = fields(query);
    if fields.is_empty() {
        return item;
    }
    fields.push("id");
    cut(item, &fields)
}

fn fields(query: &[(String, String)]) -> Vec<&str> {
    query.iter().filter(|(key, _)| key == "fields").map(|(_, value)| value.as_str()).collect()
}

fn cut(item: Shown, fields: &[&str]) -> Shown {
    item.into_iter().filter(|(key, _)| fields.contains(&key.as_str())).collect()
}

/// Attributes that are stored in one spelling and taken in any.
const CASELESS: [&str; 3] = ["ethertype", "mac_address", "protocol"];

fn is_equal(key: &str, found: &Value, wanted: &str) -> bool {
    match found {
        Value::Bool(flag) => {
            let wanted = Value::String(wanted.into());
            super::values::boolean("", &wanted).is_ok_and(|wanted| wanted == Value::Bool(*flag))
        }
        Value::Null => wanted.is_empty(),
        other if CASELESS.contains(&key) => shown(other).eq_ignore_ascii_case(wanted),
        other => shown(other) == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn items() -> Vec<Shown> {
        let list = json!([
            {"id": "1", "name": "a", "n": 1, "up": true, "list": []},
            {"id": "2", "name": "a", "n": 2, "up": false, "list": []},
            {"id": "3", "name": "", "n": 3, "up": false, "list": []}
        ]);
        serde_json::from_value(list).unwrap()
    }

    fn ids(query: &[(&str, &str)]) -> Vec<String> {
        let query: Vec<_> = query.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        select(items(), &query).iter().map(|item| shown(&item["id"])).collect()
    }

    #[test]
    fn repeated_keys_mean_or_and_different_keys_mean_and() {
        assert_eq!(ids(&[("name", "a"), ("id", "2"), ("id", "3")]), ["2"]);
        assert_eq!(ids(&[("n", "1"), ("n", "3")]), ["1", "3"]);
        assert_eq!(ids(&[("name", "")]), ["3"]);
        assert_eq!(ids(&[("up", "TRUE")]), ["1"]);
        assert_eq!(ids(&[("unknown", "x"), ("list", "y"), ("limit", "1")]), ["1", "2", "3"]);
    }

    #[test]
    fn fields_cut_a_list_exactly_and_keep_the_id_of_one_item() {
        let query = [("fields".into(), "name".into()), ("fields".into(), "nothing".into())];
        let cut = select(items(), &query);
        assert_eq!(cut[0], json!({"name": "a"}).as_object().unwrap().clone());
        let one = one(items().remove(0), &query);
        assert_eq!(one, json!({"id": "1", "name": "a"}).as_object().unwrap().clone());
    }
}

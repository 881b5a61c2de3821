//! Lists: which resources a query asks for, in which order, which page of them and which of their
//! attributes. Knows shown resources only.

use super::collection::{Collection, Shown};
use super::errors::ApiError;
use super::kinds::Kind;
use super::scope::View;
use super::values::{self, shown};
use crate::northbound::call::Call;
use catena_model::resource::Label;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use uuid::Uuid;

/// Query keys that are no filter.
const NO_FILTER: [&str; 6] = ["fields", "limit", "marker", "page_reverse", "sort_key", "sort_dir"];
/// Attributes that have no order: lists and dictionaries.
const UNSORTABLE: [&str; 13] = [
    "allocation_pools",
    "binding:profile",
    "binding:vif_details",
    "chain_parameters",
    "fixed_ips",
    "flow_classifiers",
    "l7_parameters",
    "port_chains",
    "port_pair_group_parameters",
    "port_pair_groups",
    "port_pairs",
    "service_function_parameters",
    "subnets",
];
/// Attributes that the tables do not name, because they come from the owner.
const OWNER: [&str; 2] = ["project_id", "tenant_id"];

/// What is not itself in a query; a space is a plus there.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~').remove(b' ');

/// A list and the links to the pages beside it.
pub(super) struct Listed {
    pub(super) items: Vec<Shown>,
    /// None: it was not asked for pages.
    pub(super) links: Option<Vec<Value>>,
}

/// Answers a query.
pub(super) fn list(kind: &Kind, view: &View, call: &Call) -> Result<Listed, ApiError> {
    let collection = kind.collection;
    let filters = Filters::read(collection, view, &call.query)?;
    let order = Order::read(collection, view, &call.query)?;
    let fields = fields(&call.query);
    let labels = collection.labels(view.scope(), filters.name());
    let candidates = labels.filter(|(id, label)| filters.allow(*id, label));
    let candidates: Vec<Uuid> = candidates.map(|(id, _)| id).collect();
    let render = |id: Uuid| collection.show(view, id).filter(|item| filters.match_shown(item));
    let (items, links) = match Page::read(&call.query)? {
        None => (order.sort(candidates.into_iter().filter_map(render)), None),
        Some(page) => {
            let marker = page.marker.map(|marker| {
                let id = Uuid::parse_str(marker).ok()?;
                collection.show(view, id)
            });
            let items = match marker {
                // The page after one that is not there is empty, as in the original.
                Some(None) => Vec::new(),
                marker => page.cut(candidates, render, &order, marker.flatten().as_ref()),
            };
            let base = format!("{}{}", call.base(), kind.path);
            let links = page.links(&base, call, &items);
            (items, Some(links))
        }
    };
    let cut = |item| if fields.is_empty() { item } else { cut(item, &fields) };
    Ok(Listed { items: items.into_iter().map(cut).collect(), links })
}

/// One item, cut down to the wanted attributes.
pub(super) fn one(item: Shown, query: &[(String, String)]) -> Shown {
    let fields = fields(query);
    if fields.is_empty() { item } else { cut(item, &fields) }
}

fn fields(query: &[(String, String)]) -> Vec<&str> {
    query.iter().filter(|(key, _)| key == "fields").map(|(_, value)| value.as_str()).collect()
}

fn cut(item: Shown, fields: &[&str]) -> Shown {
    item.into_iter().filter(|(key, _)| fields.contains(&key.as_str())).collect()
}

/// What items must be like. Values of one key are alternatives; a key that no item has is ignored.
struct Filters<'q>(BTreeMap<&'q str, Vec<String>>);

impl<'q> Filters<'q> {
    fn read(
        collection: &dyn Collection,
        view: &View,
        query: &'q [(String, String)],
    ) -> Result<Self, ApiError> {
        // What somebody may not see is for him no attribute at all.
        let is_hidden = |key: &str| {
            let mut table = collection.table().iter();
            table.any(|attribute| attribute.name == key && !attribute.is_for(&view.identity))
        };
        let is_filter = |key: &str| !NO_FILTER.contains(&key) && !is_hidden(key);
        let mut filters: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (key, value) in query.iter().filter(|(key, _)| is_filter(key)) {
            let wanted = converted(collection, key, value)?;
            filters.entry(key).or_default().push(wanted);
        }
        Ok(Self(filters))
    }

    /// The one name that is asked for.
    fn name(&self) -> Option<&str> {
        match self.0.get("name")?.as_slice() {
            [name] => Some(name),
            _ => None,
        }
    }

    /// What can be told without rendering anything.
    fn allow(&self, id: Uuid, label: &Label) -> bool {
        let is = |key: &str, found: &str| {
            self.0.get(key).is_none_or(|wanted| wanted.iter().any(|wanted| wanted == found))
        };
        is("name", &label.name)
            && OWNER.iter().all(|key| is(key, &label.project.0))
            && (!self.0.contains_key("id") || is("id", &id.to_string()))
    }

    fn match_shown(&self, item: &Shown) -> bool {
        self.0.iter().all(|(key, wanted)| match item.get(*key) {
            None | Some(Value::Object(_)) => true,
            Some(Value::Array(list)) => is_in_list(list, wanted),
            Some(Value::Null) => wanted.iter().any(String::is_empty),
            Some(found) => wanted.iter().any(|wanted| *wanted == shown(found)),
        })
    }
}

/// A wanted value in the one form that an attribute has. What cannot be converted at all is refused
/// as in a body; what is only not legal matches nothing.
fn converted(collection: &dyn Collection, key: &str, value: &str) -> Result<String, ApiError> {
    let Some(attribute) = collection.table().iter().find(|attribute| attribute.name == key) else {
        return Ok(value.into());
    };
    match (attribute.convert)(key, &json!(value)) {
        Ok(Value::Array(_) | Value::Object(_)) => Ok(value.to_ascii_lowercase()),
        Ok(converted) => Ok(shown(&converted)),
        Err(error) if error.kind == "HTTPBadRequest" => Ok(value.into()),
        Err(error) => Err(error),
    }
}

/// Lists of values match by any member, an empty one by the empty text; lists of dictionaries by
/// `key=value` of any member.
fn is_in_list(list: &[Value], wanted: &[String]) -> bool {
    let has = |wanted: &String| match wanted.split_once('=') {
        Some((key, value)) if list.iter().any(Value::is_object) => {
            list.iter().any(|member| member.get(key).is_some_and(|found| shown(found) == value))
        }
        _ if wanted.is_empty() => list.is_empty(),
        _ => list.iter().any(|member| shown(member) == *wanted),
    };
    wanted.iter().any(has)
}

/// By which attributes, and which way.
struct Order<'q>(Vec<(&'q str, Way)>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl<'q> Order<'q> {
    fn read(
        collection: &dyn Collection,
        view: &View,
        query: &'q [(String, String)],
    ) -> Result<Self, ApiError> {
        let all = |wanted: &'static str| {
            query.iter().filter(move |(key, _)| key == wanted).map(|(_, value)| value.as_str())
        };
        let (keys, ways): (Vec<&str>, Vec<&str>) =
            (all("sort_key").collect(), all("sort_dir").collect());
        if keys.len() != ways.len() {
            let message = "The number of sort_keys and sort_dirs must be same";
            return Err(ApiError::bad_request(message));
        }
        let is_sortable = |key: &&str| {
            let mut table = collection.table().iter();
            let is_known =
                table.any(|attribute| attribute.name == *key && attribute.is_for(&view.identity));
            (is_known || OWNER.contains(key)) && !UNSORTABLE.contains(key)
        };
        let unknown: Vec<&str> = keys.iter().copied().filter(|key| !is_sortable(key)).collect();
        if !unknown.is_empty() {
            let message = format!("{} is invalid attribute for sort_keys", json!(unknown));
            return Err(ApiError::bad_request(message));
        }
        let way = |way: &str| match way {
            "asc" => Ok(Way::Up),
            "desc" => Ok(Way::Down),
            other => Err(ApiError::bad_request(format!(
                "'{other}' is invalid value for sort_dirs, valid value is 'asc' and 'desc'"
            ))),
        };
        let pairs = keys.into_iter().zip(ways);
        pairs.map(|(key, named)| Ok((key, way(named)?))).collect::<Result<_, _>>().map(Self)
    }

    /// By the wanted attributes, then by identity: no two items are equal.
    fn compare(&self, a: &Shown, b: &Shown) -> Ordering {
        for (key, way) in &self.0 {
            let ordering = values::compare(a.get(*key), b.get(*key));
            let ordering = if *way == Way::Up { ordering } else { ordering.reverse() };
            if ordering.is_ne() {
                return ordering;
            }
        }
        values::compare(a.get("id"), b.get("id"))
    }

    /// All items in order; they come ordered by identity.
    fn sort(&self, items: impl Iterator<Item = Shown>) -> Vec<Shown> {
        let mut items: Vec<Shown> = items.collect();
        if !self.0.is_empty() {
            items.sort_by(|a, b| self.compare(a, b));
        }
        items
    }
}

/// A page: so many items after or before one of them.
struct Page<'q> {
    limit: usize,
    marker: Option<&'q str>,
    is_reverse: bool,
}

impl<'q> Page<'q> {
    fn read(query: &'q [(String, String)]) -> Result<Option<Self>, ApiError> {
        let last = |wanted: &str| query.iter().rev().find(|(key, _)| key == wanted);
        let Some((_, given)) = last("limit") else { return Ok(None) };
        let Ok(limit) = given.trim().parse::<usize>() else {
            let message = format!(
                "Bad limit request: Limit must be an integer 0 or greater and not '{given}'."
            );
            return Err(ApiError::invalid("BadRequest", message));
        };
        if limit == 0 {
            return Ok(None);
        }
        let marker = last("marker").map(|(_, marker)| marker.as_str());
        let is_reverse =
            last("page_reverse").is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"));
        Ok(Some(Self { limit, marker, is_reverse }))
    }

    /// The items of the page. Without another order, no more are rendered than are needed.
    fn cut(
        &self,
        mut candidates: Vec<Uuid>,
        render: impl Fn(Uuid) -> Option<Shown>,
        order: &Order<'_>,
        marker: Option<&Shown>,
    ) -> Vec<Shown> {
        let is_beyond = |item: &Shown| {
            let Some(marker) = marker else { return true };
            let ordering = order.compare(item, marker);
            if self.is_reverse { ordering.is_lt() } else { ordering.is_gt() }
        };
        let mut page: Vec<Shown> = if order.0.is_empty() {
            let at = marker.and_then(|item| Uuid::parse_str(item.get("id")?.as_str()?).ok());
            candidates.retain(|id| match at {
                None => true,
                Some(at) => {
                    if self.is_reverse {
                        *id < at
                    } else {
                        *id > at
                    }
                }
            });
            if self.is_reverse {
                candidates.reverse();
            }
            candidates.into_iter().filter_map(render).take(self.limit).collect()
        } else {
            let mut items = order.sort(candidates.into_iter().filter_map(render));
            if self.is_reverse {
                items.reverse();
            }
            items.into_iter().filter(is_beyond).take(self.limit).collect()
        };
        if self.is_reverse {
            page.reverse();
        }
        page
    }

    /// Where the pages beside this one are: a page that is not full ends the list on its side.
    fn links(&self, base: &str, call: &Call, page: &[Shown]) -> Vec<Value> {
        let is_full = page.len() >= self.limit;
        let mut links = Vec::new();
        if is_full || self.is_reverse {
            links.push(json!({"rel": "next", "href": href(base, call, page.last(), false)}));
        }
        if is_full || !self.is_reverse {
            links.push(json!({"rel": "previous", "href": href(base, call, page.first(), true)}));
        }
        links
    }
}

/// The same query, from another item on.
fn href(base: &str, call: &Call, marker: Option<&Shown>, is_reverse: bool) -> String {
    let is_kept = |key: &str| key != "marker" && key != "page_reverse";
    let kept = call.query.iter().map(|(key, value)| (key.as_str(), value.clone()));
    let marker = marker.and_then(|item| item.get("id")).map(|id| ("marker", shown(id)));
    let reverse = is_reverse.then(|| ("page_reverse", "True".to_owned()));
    let query = kept.filter(|(key, _)| is_kept(key)).chain(marker).chain(reverse);
    let query: Vec<String> =
        query.map(|(key, value)| format!("{}={}", encode(key), encode(&value))).collect();
    format!("{base}?{}", query.join("&"))
}

/// A part of a query, encoded.
fn encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string().replace(' ', "+")
}

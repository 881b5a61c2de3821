//! Groups of addresses by their names, and where the items of a document stand. Knows words; refuses to know what is
//! said of the groups.

use super::GroupNames;
use crate::condition::Condition;
use crate::matches::MatchText;
use crate::scalars::{self, Listed, Word};
use ipnet::IpNet;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// The longest name of a group, bytes.
const NAME_BYTES_MAX: usize = 63;
/// Groups of a document.
const GROUPS_MAX: usize = 4_096;

/// One end of a match: a group, or addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Group(String),
    Net(IpNet),
}

impl Word for End {
    const EXPECTED: &'static str =
        "a group, an address or a prefix, such as Tenant1, 10.0.1.0/24 or 2001:db8::/32";

    fn read(text: &str) -> Result<Self, String> {
        // What may be a name is one.
        match is_name(text) {
            true => Ok(Self::Group(text.to_owned())),
            false => scalars::prefix(text).map(Self::Net),
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_letter = |one: char| one.is_ascii_alphanumeric() || "-_.".contains(one);
    text.len() <= NAME_BYTES_MAX
        && text.starts_with(|one: char| one.is_ascii_alphabetic())
        && text.chars().all(is_letter)
}

/// The groups of a document.
#[derive(Debug, Default)]
pub(crate) struct Groups(BTreeMap<String, Vec<IpNet>>);

impl<'de> Deserialize<'de> for Groups {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(GroupsVisitor)
    }
}

struct GroupsVisitor;

impl<'de> Visitor<'de> for GroupsVisitor {
    type Value = Groups;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names of groups with their addresses, such as {Tenant1: [10.1.0.0/24]}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Groups, A::Error> {
        let mut groups = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            if !is_name(&name) {
                let what = format!(
                    "'{name}' is no name of a group: it begins with a letter, and has letters, digits, '-', '_' \
                     and '.', {NAME_BYTES_MAX} at most"
                );
                return Err(de::Error::custom(what));
            }
            let Listed(nets) = map.next_value()?;
            if groups.insert(name.clone(), nets).is_some() {
                return Err(de::Error::custom(format!("there are two groups {name}")));
            }
            if groups.len() > GROUPS_MAX {
                return Err(de::Error::custom(format!("there are more than {GROUPS_MAX} groups")));
            }
        }
        Ok(Groups(groups))
    }
}

impl Groups {
    /// Each by its addresses; of two with the same, the first by its name.
    pub(crate) fn names(&self) -> GroupNames {
        let mut names = GroupNames::new();
        for (name, nets) in &self.0 {
            for net in nets {
                names.entry(*net).or_insert_with(|| name.clone());
            }
        }
        names
    }

    /// The rows of conditions of a match between groups.
    pub(crate) fn rows(&self, asks: MatchText<End>) -> Result<Vec<Vec<Condition>>, String> {
        asks.resolved(|end| self.nets(end))?.rows()
    }

    fn nets(&self, end: &End) -> Result<Vec<IpNet>, String> {
        let name = match end {
            End::Net(net) => return Ok(vec![*net]),
            End::Group(name) => name,
        };
        self.0.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
            match known.as_slice() {
                [] => format!("there is no group {name}, as the key 'groups' names none"),
                known => format!("there is no group {name}; there are {}", known.join(", ")),
            }
        })
    }
}

/// Has a document this key at the beginning of a line?
pub(crate) fn has_key(text: &str, key: &str) -> bool {
    line_of(text, key) > 0
}

/// The line of a document's key, from 1; 0: it stands nowhere at the beginning of a line.
pub(crate) fn line_of(text: &str, key: &str) -> u32 {
    let is_it = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.starts_with(':'));
    (1..).zip(text.lines()).find(|(_, line)| is_it(line)).map_or(0, |(number, _)| number)
}

/// The line of each item of a list, with its words: of one that is written `- …`, line by line; of others, that of its
/// key.
pub(crate) fn items(text: &str, key: &str, count: usize) -> Vec<(u32, String)> {
    let start = line_of(text, key);
    let lines = (1..).zip(text.lines()).skip_while(|(number, _)| *number <= start);
    let mut found: Vec<(u32, String)> = Vec::new();
    let mut column = None;
    for (number, line) in lines {
        let words = line.trim_start();
        let indent = line.len() - words.len();
        if words.is_empty() || words.starts_with('#') {
            continue;
        }
        let item = words.strip_prefix('-').filter(|rest| rest.is_empty() || rest.starts_with(' '));
        match item {
            Some(item) if *column.get_or_insert(indent) == indent => {
                found.push((number, item.trim().to_owned()));
            }
            None if indent == 0 => break,
            _ => {}
        }
    }
    if found.len() == count {
        return found;
    }
    (1..=count).map(|at| (start, format!("item {at} of '{key}'"))).collect()
}

//! Switches as a file lists them: a list of plain ones, or a mapping that says what each is. Knows the two
//! forms; refuses to know what a switch is plugged into.

use super::ordered::Ordered;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// What a file says of one switch; nothing: it is a plain one.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct SwitchEntry {
    role: Option<SwitchRole>,
    /// Do headers of source routes end at it, so that it writes the next ones?
    edge: bool,
}

/// What a switch is, where it is more than a bridge of the kernel.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum SwitchRole {
    /// A node that reads source routes.
    Switch,
}

/// The switches of a file, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct SwitchesEntry(Vec<(String, SwitchEntry)>);

impl SwitchesEntry {
    /// Their names: of those that read source routes, or of plain ones.
    pub(crate) fn names(&self, reads_source_routes: bool) -> Vec<String> {
        let is_it =
            |(_, entry): &&(String, SwitchEntry)| entry.role.is_some() == reads_source_routes;
        self.0.iter().filter(is_it).map(|(name, _)| name.clone()).collect()
    }
}

impl SwitchesEntry {
    /// Those that are edges; of a plain one, that cannot be, its name.
    ///
    /// # Errors
    /// A plain switch shall be one.
    pub(crate) fn edges(&self) -> Result<Vec<String>, String> {
        let edges = self.0.iter().filter(|(_, entry)| entry.edge);
        let named = |(name, entry): &(String, SwitchEntry)| {
            entry.role.map(|_| name.clone()).ok_or_else(|| name.clone())
        };
        edges.map(named).collect()
    }
}

struct ListOrMapping;

impl<'de> Visitor<'de> for ListOrMapping {
    type Value = SwitchesEntry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of names, or a mapping such as {a1: {role: switch}, x: {}}")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(SwitchesEntry::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        let names = Vec::<String>::deserialize(SeqAccessDeserializer::new(list))?;
        Ok(SwitchesEntry(names.into_iter().map(|name| (name, SwitchEntry::default())).collect()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let entries = Ordered::<Option<SwitchEntry>>::deserialize(MapAccessDeserializer::new(map))?;
        let named =
            entries.iter().map(|(name, entry)| (name.to_owned(), entry.unwrap_or_default()));
        Ok(SwitchesEntry(named.collect()))
    }
}

impl<'de> Deserialize<'de> for SwitchesEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListOrMapping)
    }
}

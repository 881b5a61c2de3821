//! Looks through YAML or JSON for a mapping that says a key twice: most readers take the last one, and
//! what the first one said is lost without a word. Knows no document.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

/// A key that a mapping says twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTwice {
    /// The key with all above it: `chains[1].name`.
    pub key: String,
    /// The line that says it again, counted from 1.
    pub line: usize,
}

/// The first key that is given twice; none also when the text is no YAML: whoever reads it says that
/// better.
#[must_use]
pub fn key_twice(text: &str) -> Option<KeyTwice> {
    let found = RefCell::default();
    let look = || Look { path: String::new(), found: &found };
    // JSON may be indented by tabs, which are no YAML.
    let mut json = serde_json::Deserializer::from_str(text);
    let json = look().deserialize(&mut json).and_then(|()| json.end());
    let line = match json {
        Ok(()) => return None,
        Err(error) if found.borrow().is_some() => error.line(),
        Err(_) => {
            let yaml = look().deserialize(serde_norway::Deserializer::from_str(text));
            yaml.err()?.location().map_or(1, |location| location.line())
        }
    };
    Some(KeyTwice { key: found.into_inner()?, line })
}

/// Looks through a value.
#[derive(Clone)]
struct Look<'f> {
    path: String,
    found: &'f RefCell<Option<String>>,
}

impl Look<'_> {
    fn below(&self, key: &str) -> Self {
        let dot = if self.path.is_empty() || key.starts_with('[') { "" } else { "." };
        Self { path: format!("{}{dot}{key}", self.path), found: self.found }
    }
}

impl<'de> DeserializeSeed<'de> for Look<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Look<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key_seed(Key { look: &self, seen: &seen })? {
            map.next_value_seed(self.below(&key))?;
            seen.insert(key);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let mut index = 0_usize;
        while items.next_element_seed(self.below(&format!("[{index}]")))?.is_some() {
            index += 1;
        }
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Reads a key; where one stands again, the error has the place of the key and not of its mapping.
struct Key<'l, 'f> {
    look: &'l Look<'f>,
    seen: &'l BTreeSet<String>,
}

impl<'de> DeserializeSeed<'de> for Key<'_, '_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<String, D::Error> {
        from.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key<'_, '_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<String, E> {
        if self.seen.contains(key) {
            *self.look.found.borrow_mut() = Some(self.look.below(key).path);
            return Err(E::custom("a key twice"));
        }
        Ok(key.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_said_twice_is_found_with_its_line_at_any_depth() {
        for (text, key, line) in [
            ("name: a\nhosts: {}\nname: b\n", "name", 3),
            ("chains:\n- name: a\n- name: b\n  source: S\n  source: T\n", "chains[1].source", 5),
            (
                "chains:\n- {classify: {protocol: tcp,\n    protocol: udp}}\n",
                "chains[0].classify.protocol",
                3,
            ),
            ("{\"a\": 1,\n\t\"a\": 2}", "a", 2),
            ("a: &x {b: 1}\nc: *x\na: 2\n", "a", 3),
            ("80: a\n80: b\n", "80", 2),
        ] {
            assert_eq!(key_twice(text), Some(KeyTwice { key: key.into(), line }), "{text}");
        }
        for text in [
            "a: {b: 1}\nc: {b: 1}\n",
            "- a\n- a\n",
            "",
            "7",
            "a: [",
            "{\"a\": [}",
            "a: 1.5\nb: -3\nc: ~\nd: true",
        ] {
            assert_eq!(key_twice(text), None, "{text}");
        }
    }
}

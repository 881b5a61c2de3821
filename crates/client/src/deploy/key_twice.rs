//! Looks through YAML or JSON for the line of a key, or for a mapping that says a key twice: most readers
//! take the last one, and what the first one said is lost without a word. Knows no document.

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
    let (key, line) = look(text, None)?;
    Some(KeyTwice { key, line })
}

/// The line, counted from 1, of what a path of keys names, such as `chains[1].name`; of the first key
/// in it where it has some, else of the value. None: there is nothing of that path.
pub(super) fn line_of(text: &str, path: &str) -> Option<usize> {
    Some(look(text, Some(path))?.1)
}

/// The key that is looked for and its line.
fn look(text: &str, wanted: Option<&str>) -> Option<(String, usize)> {
    let found = RefCell::default();
    let look = || Look { path: String::new(), wanted, found: &found };
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
    Some((found.into_inner()?, line))
}

/// Looks through a value.
#[derive(Clone)]
struct Look<'f> {
    path: String,
    /// The path of a key; none: one that is given twice.
    wanted: Option<&'f str>,
    found: &'f RefCell<Option<String>>,
}

impl Look<'_> {
    fn below(&self, key: &str) -> Self {
        let dot = if self.path.is_empty() || key.starts_with('[') { "" } else { "." };
        Self { path: format!("{}{dot}{key}", self.path), ..self.clone() }
    }

    /// A value that is neither mapping nor list: in a list it has no key that was looked at before.
    fn end<E: Error>(self) -> Result<(), E> {
        if self.wanted != Some(self.path.as_str()) {
            return Ok(());
        }
        *self.found.borrow_mut() = Some(self.path);
        Err(E::custom("found"))
    }

    /// Is this the key that is looked for, or the first below it?
    fn is_it(&self, is_again: bool) -> bool {
        let Some(wanted) = self.wanted else { return is_again };
        let below = self.path.strip_prefix(wanted);
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
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
        self.end()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.end()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.end()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.end()
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.end()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.end()
    }
}

/// Reads a key; at the one that is looked for the error has the place of the key and not of its mapping.
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
        let below = self.look.below(key);
        if below.is_it(self.seen.contains(key)) {
            *self.look.found.borrow_mut() = Some(below.path);
            return Err(E::custom("found"));
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

    #[test]
    fn what_a_list_holds_has_the_line_of_its_own() {
        let text =
            "chains:\n- through:\n  - v1\n  - v2\n  - {name: v3,\n     instances: [a,\n  7]}\n";
        for (key, line) in [
            ("chains[0].through[1]", 4),
            ("chains[0].through[2]", 5),
            ("chains[0].through[2].instances[1]", 7),
        ] {
            assert_eq!(line_of(text, key), Some(line), "{key}");
        }
        assert_eq!(line_of(text, "chains[0].through[3]"), None);
        assert_eq!(line_of("{\"through\": [\n\"v1\",\n\"v2\"]}", "through[1]"), Some(3));
    }
}

//! What a node holds, told so that two moments can be compared: what passes a switch leaves nothing in it. Knows parts,
//! their lengths and digests; refuses to tell what is in them, keys among it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All that a node holds, but for what it counts: `GET /v1/nodes/{node}/dump`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StateDump {
    /// The process of its data plane: digests of another cannot be compared with these.
    pub process: u32,
    /// The tables of the program that it runs; what is compiled of them; what each worker remembers, and what the
    /// kernel holds for it.
    pub parts: Vec<DumpedPart>,
}

/// A part of what a node holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DumpedPart {
    /// Which.
    pub name: String,
    /// Its length as text, in bytes.
    pub bytes: u64,
    /// Of what is in it, in hexadecimal digits, by a key that the process has made for itself: two that differ are of
    /// different content.
    pub digest: String,
}

impl StateDump {
    /// What differs in a later dump, for people; nothing: both hold the same.
    #[must_use]
    pub fn differences(&self, later: &Self) -> Vec<String> {
        if self.process != later.process {
            let (before, after) = (self.process, later.process);
            return vec![format!(
                "another data plane runs: process {before} before, {after} after"
            )];
        }
        fn found<'d>(dump: &'d StateDump, name: &str) -> Option<(u64, &'d str)> {
            let part = dump.parts.iter().find(|part| part.name == name)?;
            Some((part.bytes, &part.digest))
        }
        let names = self.parts.iter().map(|part| part.name.as_str());
        let new = later.parts.iter().map(|part| part.name.as_str());
        let new = new.filter(|name| found(self, name).is_none());
        names
            .chain(new)
            .filter_map(|name| match (found(self, name), found(later, name)) {
                (one, other) if one == other => None,
                (Some((before, _)), Some((after, _))) => {
                    Some(format!("'{name}' is another: {before} bytes before, {after} after"))
                }
                (Some(_), None) => Some(format!("'{name}' has gone")),
                (None, after) => {
                    let size = after.map_or(0, |(size, _)| size);
                    Some(format!("'{name}' has come, {size} bytes"))
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(parts: &[(&str, u64, u64)]) -> StateDump {
        let part = |(name, bytes, digest): &(&str, u64, u64)| DumpedPart {
            name: (*name).to_owned(),
            bytes: *bytes,
            digest: format!("{digest:x}"),
        };
        StateDump { process: 7, parts: parts.iter().map(part).collect() }
    }

    #[test]
    fn each_part_that_differs_is_told_by_name_and_size() {
        let before = dump(&[("exits", 4, 1), ("paths", 0, 2), ("worker 0: flow cache", 9, 3)]);
        assert_eq!(before.differences(&before), Vec::<String>::new());
        let after = dump(&[("exits", 4, 1), ("paths", 2, 5), ("worker 0: carried", 3, 3)]);
        assert_eq!(
            before.differences(&after),
            [
                "'paths' is another: 0 bytes before, 2 after",
                "'worker 0: flow cache' has gone",
                "'worker 0: carried' has come, 3 bytes"
            ]
        );
        // Of the same size, and another.
        let altered = dump(&[("exits", 4, 9), ("paths", 0, 2), ("worker 0: flow cache", 9, 3)]);
        assert_eq!(before.differences(&altered), ["'exits' is another: 4 bytes before, 4 after"]);
        let restarted = StateDump { process: 8, ..before.clone() };
        let told = before.differences(&restarted);
        assert!(told.len() == 1 && told[0].contains("another data plane"), "{told:?}");
    }
}

//! What fuzzing begins with: goldens of the house, and good documents of which bytes replace parts.

use serde_json::Value;
use std::path::{Path, PathBuf};

/// Edits that one input makes at most.
const EDITS_MAX: usize = 8;
/// What a part is replaced by, beside another part of the same document.
const ODD: &[&str] = &[
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "4294967296",
    "18446744073709551615",
    "1e999",
    "\"\"",
    "\"a\"",
    "\"10.0.0.0/33\"",
    "\"\\u0000\\u001b[2J\"",
    "[]",
    "{}",
    "[[]]",
    "[null]",
];

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The goldens of a format, in bytes: hexadecimal digits, `#` begins a comment.
#[must_use]
pub fn goldens(folder: &str) -> Vec<Vec<u8>> {
    let Ok(entries) = std::fs::read_dir(root().join("conformance").join(folder)) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    files.iter().filter_map(|file| hex(&std::fs::read_to_string(file).ok()?)).collect()
}

/// The bytes of a text of hexadecimal digits with comments; none where it holds anything else.
#[must_use]
pub fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: String = text
        .lines()
        .filter_map(|line| line.split('#').next())
        .flat_map(str::chars)
        .filter(|digit| !digit.is_whitespace())
        .collect();
    let octets = digits.as_bytes().chunks(2);
    octets.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
}

pub(crate) fn program() -> Value {
    let text = include_str!("../../../conformance/plan/classifying-node.json");
    serde_json::from_str(text).unwrap()
}

pub(crate) fn document() -> Value {
    serde_json::json!({
        "chains": [{
            "name": "web", "source": "S", "destination": "D", "encapsulation": "nsh",
            "symmetric": true, "match_fields": {"protocol": "tcp", "destination_port": "80-90"},
            "chain": [{"name": "v1", "direction": "same", "instances": [{"name": "v1", "weight": 2}]}, {"name": "v2"}],
        }],
        "functions": [{"name": "v1", "on_failure": "bypass"}],
        "graphs": [{"name": "g", "branches": {"web": ["other"]}}],
        "slices": [{"name": "s", "chain": "web", "vni": 5, "teids": [1, 9]}],
    })
}

pub(crate) fn nft() -> Value {
    let text = include_str!("../../../crates/rules/src/nft/samples/edge.json");
    serde_json::from_str(text).unwrap()
}

pub(crate) fn lab() -> Value {
    serde_json::json!({
        "name": "small",
        "hosts": {"host1": {}, "host2": {}},
        "switches": ["ovs01"],
        "links": ["host1-ovs01", "host2-ovs01"],
        "networks": {"customer": {"cidrs": ["10.0.1.0/24"]}},
        "endpoints": {"S": {"on": "host1", "networks": ["customer"]}, "D": {"on": "host2", "networks": ["customer"]}},
        "functions": {"v1": {"on": "host1", "networks": ["customer"], "routes": {"customer": "customer"}}},
        "chains": [{"name": "c", "source": "S", "destination": "D", "match_fields": {"protocol": "udp"}, "chain": [{"name": "v1"}]}],
        "capture": {"at": ["S", "D", "v1"]},
        "sweep": {"chain": ["c"], "encapsulation": ["nsh", "mpls"], "repeat": 2},
        "traffic": [{"name": "t", "tool": "iperf3", "protocol": "udp", "from": "S", "to": "D", "port": 5001, "seconds": 1}],
        "check": ["order", "loss == 0", "sum v1 = v1"],
    })
}

/// A document with parts replaced: three bytes an edit, which part and by what.
pub(crate) fn edited(mut document: Value, bytes: &[u8]) -> Value {
    for edit in bytes.chunks_exact(3).take(EDITS_MAX) {
        let parts = pointers(&document);
        let [place, kind, other] = [edit[0], edit[1], edit[2]].map(usize::from);
        let Some(pointer) = parts.get(place % parts.len().max(1)) else { continue };
        let odd = ODD.get(kind % (ODD.len() + 1)).and_then(|text| serde_json::from_str(text).ok());
        let another = || document.pointer(parts.get(other % parts.len())?).cloned();
        let Some(value) = odd.or_else(another) else { continue };
        if let Some(part) = document.pointer_mut(pointer) {
            *part = value;
        }
    }
    document
}

/// Every part of a document but the whole, from the top down (RFC 6901).
fn pointers(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), document)];
    while let Some((at, value)) = open.pop() {
        let parts: Vec<(String, &Value)> = match value {
            Value::Array(items) => {
                items.iter().enumerate().map(|(number, item)| (number.to_string(), item)).collect()
            }
            Value::Object(fields) => {
                let escape = |key: &String| key.replace('~', "~0").replace('/', "~1");
                fields.iter().map(|(key, item)| (escape(key), item)).collect()
            }
            _ => Vec::new(),
        };
        for (key, part) in parts {
            let pointer = format!("{at}/{key}");
            found.push(pointer.clone());
            open.push((pointer, part));
        }
    }
    found
}

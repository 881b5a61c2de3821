//! Where things run is the operator's to know: whatever others are told names no node. Knows how our
//! own sentences name one; refuses to know what they are about.

use crate::reconcile::Situation;
use catena_model::NodeName;
use catena_plan::Programs;
use serde_json::{Map, Value};

/// The keys under which reports name a node, or what is at links of nodes, whoever's packets those are.
const NODES: [&str; 2] = ["node", "at_links"];
/// The keys of sentences that we write.
const SENTENCES: [&str; 6] = ["detail", "disruption", "message", "reason", "status_reason", "text"];
/// What stands before a node's name in a sentence that does not quote it.
const BEFORE_NAMES: [&str; 4] = [" at ", " (", "left ", "reach "];
/// What stands before a name of the network between hosts in quotation marks.
const QUOTED: [&str; 2] = ["node '", "segment '"];
/// What stands in place of a name.
const HIDDEN: &str = "(hidden)";
/// What stands before the words of a node, on why it does not attach a port or refuses a program, and
/// what stands in place of them: they name its interfaces, addresses and files. People's names come
/// before them and may say the same: then more is hidden.
const BEFORE_A_NODES_WORDS: [&str; 2] = ["node '(hidden)': ", "refused its program: "];
const NODES_WORDS: &str = "whoever runs the deployment sees why";

/// Takes the names of nodes out of an answer.
pub(super) fn hide(answer: &mut Value, situation: &Situation) {
    hide_of(answer, &situation.blueprint.programs);
}

/// The same, of an answer that is one object.
pub(super) fn hide_in_map(answer: &mut Map<String, Value>, situation: &Situation) {
    hide_of_map(answer, &situation.blueprint.programs);
}

/// A sentence without the names of nodes.
pub(super) fn in_sentence(sentence: &str, situation: &Situation) -> String {
    without(sentence, situation.blueprint.programs.keys())
}

fn hide_of(answer: &mut Value, known: &Programs) {
    match answer {
        Value::Object(map) => hide_of_map(map, known),
        Value::Array(list) => list.iter_mut().for_each(|item| hide_of(item, known)),
        _ => {}
    }
}

fn hide_of_map(answer: &mut Map<String, Value>, known: &Programs) {
    for (key, value) in answer {
        if NODES.contains(&key.as_str()) {
            *value = Value::Null;
        } else if SENTENCES.contains(&key.as_str()) {
            hide_in_sentences(value, known);
        } else {
            hide_of(value, known);
        }
    }
}

fn hide_in_sentences(told: &mut Value, known: &Programs) {
    match told {
        Value::String(text) => *text = without(text, known.keys()),
        Value::Array(list) => list.iter_mut().for_each(|item| hide_in_sentences(item, known)),
        other => hide_of(other, known),
    }
}

fn without<'n>(sentence: &str, known: impl Iterator<Item = &'n NodeName>) -> String {
    let mut told = sentence.to_owned();
    for quoted in QUOTED {
        let mut parts = told.split(quoted);
        let mut hidden = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let rest = part.split_once('\'').map_or("", |(_, rest)| rest);
            hidden.push_str(&format!("{quoted}{HIDDEN}'{rest}"));
        }
        told = hidden;
    }
    for before in BEFORE_A_NODES_WORDS {
        if let Some(at) = told.find(before) {
            told.truncate(at + before.len());
            told.push_str(NODES_WORDS);
        }
    }
    for node in known {
        for before in BEFORE_NAMES {
            told = replace_word(&told, before, node.as_str());
        }
    }
    told
}

/// Hides a word behind others, where it ends there.
fn replace_word(text: &str, before: &str, word: &str) -> String {
    let named = format!("{before}{word}");
    let mut parts = text.split(named.as_str());
    let mut told = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let goes_on = |c: char| c.is_alphanumeric() || ['-', '_'].contains(&c);
        let is_whole = !part.starts_with(goes_on);
        told.push_str(before);
        told.push_str(if is_whole { HIDDEN } else { word });
        told.push_str(part);
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn sentences_keep_all_but_the_names_of_nodes() {
        let known = ["v8", "host1"].map(|name| NodeName::new(name).unwrap());
        for (sentence, told) in [
            ("node 'v8' is not connected", "node '(hidden)' is not connected"),
            (
                "its ingress on node 'a' and its egress on node 'b'; no",
                "its ingress on node '(hidden)' and its egress on node '(hidden)'; no",
            ),
            ("1 of 1 probes dropped at v8: no_rule", "1 of 1 probes dropped at (hidden): no_rule"),
            (
                "did not come back from instance 'v8' of 'v8' (v8)",
                "did not come back from instance 'v8' of 'v8' ((hidden))",
            ),
            ("left host1 and did not reach v8", "left (hidden) and did not reach (hidden)"),
            (
                "segment '5f00:0:2::e' on the way to 'v8' is of node 'v8', by its locator",
                "segment '(hidden)' on the way to 'v8' is of node '(hidden)', by its locator",
            ),
            ("visited v8 instead of host1", "visited v8 instead of host1"),
            (
                "port 'p' is not bound on node 'v8': interface 'eth7' carries the node's own \
                 address 192.0.2.1, and so on",
                "port 'p' is not bound on node '(hidden)': whoever runs the deployment sees why",
            ),
            (
                "port 'p' is not bound on node 'v8' yet",
                "port 'p' is not bound on node '(hidden)' yet",
            ),
            ("at host12 and at v8-a", "at host12 and at v8-a"),
        ] {
            assert_eq!(without(sentence, known.iter()), told);
        }
    }

    #[test]
    fn what_is_at_links_of_nodes_is_for_nobody_but_the_operator() {
        let losses = json!({"links": [{"node": "e1", "link": "l-a1"}], "unknown_at": ["a2"]});
        let mut receipt = json!({"drained": [{"path": 4, "at_links": losses}]});
        hide_of(&mut receipt, &Programs::default());
        assert_eq!(receipt, json!({"drained": [{"path": 4, "at_links": null}]}));
    }

    #[test]
    fn no_name_of_a_port_lets_the_words_of_a_node_through() {
        let known = [NodeName::new("host1").unwrap()];
        for name in [
            "p",
            "is not bound on q",
            "p' is not bound on node 'q",
            "p' is not bound on node 'q' yet",
            "node ",
            "node '",
            "a node 'b' is not bound on node ",
            "node '(hidden)'",
            "refused its program",
        ] {
            for said in [
                format!("port '{name}' is not bound on node 'host1': interface 'secret0'"),
                format!("port '{name}' waits; node 'host1' refused its program: /secret0"),
            ] {
                let told = without(&said, known.iter());
                assert!(!told.contains("secret0") && !told.contains("host1"), "{told}");
            }
        }
    }
}

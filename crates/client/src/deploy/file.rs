//! A whole document: chains, what is said of their functions, graphs over them, and slices. Knows what
//! a file says, in YAML or JSON; refuses to know what becomes of it.

use super::beside::read_config_files;
use super::document::ChainDocument;
use super::key_twice::{KeyTwice, key_twice, line_of};
use catena_model::resource::{FailurePolicy, FunctionSettings, FunctionTemplate, Runs};
use catena_model::slice::SliceDocument;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Largest document, in bytes: what it becomes must fit one transaction.
const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What a document is, for whoever gave something else.
const FORM: &str = "a document has 'chains', 'functions', 'graphs' and 'slices', or is one chain \
                    with 'source' and 'through'";
/// What a chain's keys are called in the study's documents.
const KEYS_OF_THE_STUDY: [(&str, &str); 2] = [("through", "chain"), ("classify", "match_fields")];

/// What a file declares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Document {
    /// Chains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<ChainDocument>,
    /// What is said of functions beside who their instances are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<FunctionDocument>,
    /// Chains that go on in others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub graphs: Vec<GraphDocument>,
    /// Slices of chains, here or declared before.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<SliceDocument>,
}

/// A function in a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a function with its 'name'")]
pub struct FunctionDocument {
    /// Its name; one that no chain has made is made without instances.
    pub name: String,
    /// What becomes of packets when an instance dies.
    #[serde(default)]
    pub on_failure: FailurePolicy,
    /// Do frames leave it with the source MAC that they came with?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_mac: bool,
    /// How its instances are to be run; none: somebody else runs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<FunctionTemplate>,
}

impl FunctionDocument {
    /// Does it come with Catena?
    #[must_use]
    pub fn is_bundled(&self) -> bool {
        self.template.as_ref().is_some_and(|template| matches!(template.runs, Runs::Bundled(_)))
    }

    /// Are its instances made from its template?
    #[must_use]
    pub fn makes_instances(&self) -> bool {
        self.template.as_ref().is_some_and(FunctionTemplate::makes_instances)
    }

    /// What is said of it, without its name.
    #[must_use]
    pub fn settings(&self) -> FunctionSettings {
        let Self { on_failure, keeps_mac, ref template, .. } = *self;
        FunctionSettings { on_failure, keeps_mac, template: template.clone() }
    }
}

/// A graph in a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a graph with its 'name' and 'branches'")]
pub struct GraphDocument {
    /// Its name.
    pub name: String,
    /// The names of the chains that each chain branches into.
    pub branches: BTreeMap<String, Vec<String>>,
}

/// Why a text is no document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is too large.
    #[error("it has {0} bytes, at most {DOCUMENT_BYTES_MAX} are read; split it")]
    TooLarge(usize),
    /// It is neither YAML nor JSON, or says what no document says.
    #[error("{0}; {FORM}")]
    Unreadable(String),
    /// It is empty, or one word.
    #[error("it is {0}; {FORM}")]
    NoDocument(&'static str),
    /// Something in it is not what it must be.
    #[error("{place}: {problem}")]
    Misplaced {
        /// Line, key and the chain that it is of.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// A key stands twice in one mapping.
    #[error("{0}: it is given twice; leave one of them")]
    KeyTwice(String),
    /// Two things of one kind have one name.
    #[error("{place}: two {kind}s are called '{name}'; give one of them another name")]
    SameName {
        /// Line and key of the second.
        place: String,
        /// What they are.
        kind: &'static str,
        /// The name.
        name: String,
    },
}

impl Document {
    /// Reads a document in YAML or JSON: one chain, a list of chains, or chains, functions and
    /// graphs.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn parse(text: &str) -> Result<Self, DocumentError> {
        if text.len() > DOCUMENT_BYTES_MAX {
            return Err(DocumentError::TooLarge(text.len()));
        }
        if text.trim().is_empty() {
            return Err(DocumentError::NoDocument("empty"));
        }
        // Both become the same form: YAML of its own would spell some values in another way.
        let form = || -> Result<Value, DocumentError> {
            match text.trim_start().starts_with(['{', '[']) {
                true => serde_json::from_str(text).map_err(unreadable),
                false => serde_norway::from_str(text).map_err(unreadable),
            }
        };
        if let Some(KeyTwice { key, line }) = key_twice(text) {
            let chain = form().ok().and_then(|form| chain_of(&form, &key));
            return Err(DocumentError::KeyTwice(place(Some(line), &key, chain)));
        }
        let form = form()?;
        match &form {
            Value::Array(_) | Value::Object(_) => {}
            Value::Null => return Err(DocumentError::NoDocument("empty")),
            Value::String(_) => return Err(DocumentError::NoDocument("a text")),
            Value::Bool(_) | Value::Number(_) => {
                return Err(DocumentError::NoDocument("a single value"));
            }
        }
        let of_chains = |chains| Self { chains, ..Self::default() };
        let document = if form.is_array() {
            read(text, &form).map(of_chains)
        } else if form.get("source").is_some() {
            read(text, &form).map(|chain| of_chains(vec![chain]))
        } else {
            read(text, &form)
        }?;
        document.check_names(text)?;
        Ok(document)
    }

    /// Puts the text of files in the place of their names, where bundled functions are told any: `file`, and keys that
    /// end with it.
    ///
    /// # Errors
    /// The key of the first that cannot be read, and why.
    pub fn read_files(
        &mut self,
        read: impl Fn(&str) -> Result<String, String>,
    ) -> Result<(), (String, String)> {
        let bundled = self.functions.iter_mut().enumerate().filter(|(_, one)| one.is_bundled());
        for (index, function) in bundled {
            let Some(template) = function.template.as_mut() else { continue };
            read_config_files(&mut template.config, &read)
                .map_err(|(key, why)| (format!("functions[{index}].template.config.{key}"), why))?;
        }
        Ok(())
    }

    fn check_names(&self, text: &str) -> Result<(), DocumentError> {
        let chains = self.chains.iter().map(ChainDocument::name);
        unique(text, "chain", chains)?;
        unique(text, "function", self.functions.iter().map(|function| function.name.clone()))?;
        unique(text, "graph", self.graphs.iter().map(|graph| graph.name.clone()))?;
        unique(text, "slice", self.slices.iter().map(|slice| slice.name.clone()))
    }
}

/// Where something of a document is, for people: its line, its key and what it is of.
///
/// `key` is that of a whole document, such as `chains[1].through[0]`: a text that is a list of chains,
/// or one chain, has its own. What is missing has no line: that of what it is missing in.
#[must_use]
pub fn place_of(text: &str, key: &str, owner: &str) -> String {
    let spellings = spellings(key);
    let depth_max = key.matches(['.', '[']).count();
    let found = (0..=depth_max).find_map(|depth| {
        spellings.iter().find_map(|spelling| {
            let above = above(spelling).nth(depth)?;
            Some((line_of(text, above)?, spelling))
        })
    });
    match found {
        Some((line, key)) => format!("line {line}, {key}, {owner}"),
        None => owner.to_owned(),
    }
}

/// A key and those above it, the nearest first.
fn above(key: &str) -> impl Iterator<Item = &str> {
    let all = std::iter::successors(Some(key), |key| Some(&key[..key.rfind(['.', '['])?]));
    all.filter(|key| !key.is_empty())
}

/// The keys that may stand for one of a whole document.
fn spellings(key: &str) -> Vec<String> {
    let of_list = key.strip_prefix("chains").filter(|rest| rest.starts_with('['));
    let of_one = key.strip_prefix("chains[0].");
    let forms: Vec<&str> = [Some(key), of_list, of_one].into_iter().flatten().collect();
    let of_study = |form: &&str| {
        let mut parts: Vec<String> = form.split('.').map(str::to_owned).collect();
        for part in &mut parts {
            for (ours, theirs) in KEYS_OF_THE_STUDY {
                if part.split('[').next() == Some(ours) {
                    *part = part.replacen(ours, theirs, 1);
                }
            }
        }
        parts.join(".")
    };
    let of_study: Vec<String> = forms.iter().map(of_study).collect();
    forms.into_iter().map(str::to_owned).chain(of_study).collect()
}

/// Reads a part of a document; what is wrong has its place.
fn read<T: DeserializeOwned>(text: &str, form: &Value) -> Result<T, DocumentError> {
    serde_path_to_error::deserialize(form).map_err(|error| {
        let key = error.path().to_string();
        let problem = error.into_inner().to_string();
        if key == "." {
            return match form.get("source").and_then(|_| chain_of(form, "")) {
                Some(name) => {
                    DocumentError::Misplaced { place: format!("chain '{name}'"), problem }
                }
                None => unreadable(problem),
            };
        }
        // What is missing has no line: that of what it is missing in.
        let line = above(&key).find_map(|key| line_of(text, key));
        DocumentError::Misplaced { place: place(line, &key, chain_of(form, &key)), problem }
    })
}

fn place(line: Option<usize>, key: &str, chain: Option<String>) -> String {
    let line = line.map_or_else(String::new, |line| format!("line {line}, "));
    let chain = chain.map_or_else(String::new, |name| format!(", chain '{name}'"));
    format!("{line}{key}{chain}")
}

/// The name of the chain that a key is of.
fn chain_of(form: &Value, key: &str) -> Option<String> {
    let of_list = |list: &Value, key: &str| {
        let index: usize = key.strip_prefix('[')?.split(']').next()?.parse().ok()?;
        list.get(index).cloned()
    };
    let chain = match key.strip_prefix("chains") {
        Some(rest) => of_list(form.get("chains")?, rest)?,
        None if form.is_array() => of_list(form, key)?,
        None if form.get("source").is_some() => form.clone(),
        None => return None,
    };
    let name = chain.get("name").or_else(|| chain.get("source"))?;
    name.as_str().map(str::to_owned)
}

fn unreadable(error: impl std::fmt::Display) -> DocumentError {
    DocumentError::Unreadable(error.to_string())
}

fn unique(
    text: &str,
    kind: &'static str,
    names: impl Iterator<Item = String>,
) -> Result<(), DocumentError> {
    let mut seen = BTreeSet::new();
    for (index, name) in names.enumerate() {
        if !seen.insert(name.clone()) {
            let (key, owner) = (format!("{kind}s[{index}].name"), format!("{kind} '{name}'"));
            return Err(DocumentError::SameName {
                place: place_of(text, &key, &owner),
                kind,
                name,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::resource::{Encapsulation, Runs};

    #[test]
    fn one_chain_several_and_a_whole_document_are_read_in_yaml_and_json() {
        let whole = "
chains:
  - {name: web, source: S, destination: D, classify: tcp dport 80, through: [ids], encapsulation: nsh}
  - {name: rest, source: S, destination: D, classify: udp, through: [fw]}
functions:
  - name: ids
    on_failure: reroute
    keeps_mac: true
    template: {runs: {image: registry/ids:3}, instances: 3, labels: {tier: edge}}
graphs:
  - {name: g, branches: {web: [rest]}}
";
        let document = Document::parse(whole).unwrap();
        let settings = document.functions[0].settings();
        assert_eq!((settings.on_failure, settings.keeps_mac), (FailurePolicy::Reroute, true));
        let template = settings.template.as_ref().unwrap();
        assert_eq!(template.runs, Runs::Image("registry/ids:3".into()));
        assert_eq!(document.graphs[0].branches["web"], ["rest"]);
        for carrier in Encapsulation::ALL {
            let text =
                whole.replace("encapsulation: nsh", &format!("encapsulation: {}", carrier.name()));
            assert_eq!(Document::parse(&text).unwrap().chains[0].encapsulation, Some(carrier));
        }
        let json = serde_json::to_string(&document).unwrap();
        assert_eq!(Document::parse(&json).unwrap(), document);
        let yaml = serde_norway::to_string(&serde_json::to_value(&document).unwrap()).unwrap();
        assert_eq!(Document::parse(&yaml).unwrap(), document);

        let list = serde_json::to_string(&document.chains).unwrap();
        assert_eq!(Document::parse(&list).unwrap().chains, document.chains);
        let one = serde_norway::to_string(&document.chains[0]).unwrap();
        assert_eq!(Document::parse(&one).unwrap().chains, document.chains[..1]);
    }

    #[test]
    fn what_no_document_says_is_named() {
        for (text, named) in [
            ("chains: [{source: S}]", "chain"),
            ("chian: []", "chian"),
            ("chains: [{source: S, chain: [a]}, {source: S, chain: [b]}]", "two chains"),
            ("functions: [{name: a, on_failure: shrug}]", "shrug"),
            ("functions: [{name: a, colour: red}]", "colour"),
            ("functions: [{name: a, template: {runs: {image: x}, instnaces: 3}}]", "instnaces"),
            ("{\"chains\": [}", "line 1"),
            (
                "chains:\n- name: web\n  source: S\n  chain: [a]\n- name: rest\n  source: S\n  \
                 thruogh: [b]",
                "line 7, chains[1].thruogh, chain 'rest': unknown field `thruogh`",
            ),
            (
                "- name: web\n  source: S\n  chain:\n  - a\n  - name: b\n    directoin: in",
                "line 6, [0].chain[1].directoin, chain 'web': unknown field",
            ),
            (
                "name: web\nsource: S\nchain: [a]\nencapsulation: gre",
                "line 4, encapsulation, chain 'web'",
            ),
            (
                "name: web\nsource: S\nchain: [{name: a, speaks: source-route/safe-9}]",
                "no function speaks 'source-route/safe-9'; use one of nsh, mpls, source-route/native",
            ),
            (
                "- {source: S, chain: [a]}\n- name: web\n  source: S\n  chain: [a]\n  encapsulation: nsh\n  \
                 payload: ip",
                "line 2, [1], chain 'web': 'payload' goes with 'encapsulation': 'srv6', and nsh",
            ),
            (
                "name: web\nsource: S\nchain: [a]\npayload: ethernet",
                "chain 'web': 'payload' goes with 'encapsulation': add it",
            ),
            ("{\"source\": \"S\",\n\"chain\": 7}", "line 2, chain, chain 'S'"),
            (
                "chains:\n- source: S\n  chain: [a]\n  classify: {protocol: tcp, protocol: udp}",
                "line 4, chains[0].classify.protocol, chain 'S': it is given twice",
            ),
            ("{\"chains\": [],\n\"chains\": []}", "line 2, chains: it is given twice"),
            (
                "chains:\n- {name: web, source: S, chain: [a]}\n- source: S\n  name: web\n  chain: [b]",
                "line 4, chains[1].name, chain 'web': two chains are called 'web'",
            ),
            (
                "- {source: S, chain: [a]}\n- {source: S, chain: [b]}",
                "line 2, [1].name, chain 'S': two chains are called 'S'",
            ),
            ("", "it is empty; a document has 'chains'"),
            ("hello", "it is a text; a document has 'chains'"),
            ("- 7", "expected a chain with 'source' and 'through'"),
            ("functions: [v1]", "expected a function with its 'name'"),
        ] {
            let problem = Document::parse(text).unwrap_err().to_string();
            assert!(problem.contains(named), "{text}: {problem}");
        }
    }

    #[test]
    fn what_is_inside_is_one_with_the_encapsulation() {
        let text = "name: web\nsource: S\nthrough: [a]\nencapsulation: srv6\npayload: ethernet";
        let read = Document::parse(text).unwrap();
        assert_eq!(read.chains[0].encapsulation, Some(Encapsulation::Srv6Ethernet));
        let written = serde_json::to_value(&read.chains[0]).unwrap();
        assert_eq!(
            (&written["encapsulation"], written.get("payload")),
            (&"srv6/ethernet".into(), None)
        );
    }

    #[test]
    fn the_document_of_the_book_is_one() {
        let book = include_str!("../../../../docs/book/src/documents.md");
        let blocks = book.split("```").skip(1).step_by(2);
        let documents: Vec<&str> =
            blocks.filter(|block| block.trim_start().starts_with("chains:")).collect();
        assert!(!documents.is_empty());
        for text in documents {
            let document = Document::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(document.chains[0].match_fields["protocol"], "tcp");
        }
    }
}

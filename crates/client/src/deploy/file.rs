//! A whole document: chains, what is said of their functions, graphs over them, and slices. Knows what
//! a file says, in YAML or JSON; refuses to know what becomes of it.

use super::document::ChainDocument;
use super::key_twice::{KeyTwice, key_twice, line_of};
use catena_model::resource::{FailurePolicy, FunctionSettings, FunctionTemplate};
use catena_model::slice::SliceDocument;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Largest document, in bytes: what it becomes must fit one transaction.
const DOCUMENT_BYTES_MAX: usize = 16 * 1024 * 1024;

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
#[serde(deny_unknown_fields)]
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
    /// What is said of it, without its name.
    #[must_use]
    pub fn settings(&self) -> FunctionSettings {
        let Self { on_failure, keeps_mac, ref template, .. } = *self;
        FunctionSettings { on_failure, keeps_mac, template: template.clone() }
    }
}

/// A graph in a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    #[error(
        "{0}; a document has 'chains', 'functions', 'graphs' and 'slices', or is one chain with source and chain"
    )]
    Unreadable(String),
    /// Something in it is not what it must be.
    #[error("{place}: {problem}")]
    Misplaced {
        /// Line, key and the chain that it is of.
        place: String,
        /// What is wrong.
        problem: String,
    },
    /// A key stands twice in one mapping.
    #[error("line {}: '{}' is given twice; leave one of them", .0.line, .0.key)]
    KeyTwice(KeyTwice),
    /// Two things of one kind have one name.
    #[error("two {kind}s are called '{name}'; give one of them another name")]
    SameName {
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
        if let Some(twice) = key_twice(text) {
            return Err(DocumentError::KeyTwice(twice));
        }
        // Both become the same form: YAML of its own would spell some values in another way.
        let form: Value = if text.trim_start().starts_with(['{', '[']) {
            serde_json::from_str(text).map_err(unreadable)?
        } else {
            serde_norway::from_str(text).map_err(unreadable)?
        };
        let of_chains = |chains| Self { chains, ..Self::default() };
        let document = if form.is_array() {
            read(text, &form).map(of_chains)
        } else if form.get("source").is_some() {
            read(text, &form).map(|chain| of_chains(vec![chain]))
        } else {
            read(text, &form)
        }?;
        document.check_names()?;
        Ok(document)
    }

    fn check_names(&self) -> Result<(), DocumentError> {
        let chains = self.chains.iter().map(ChainDocument::name);
        unique("chain", chains)?;
        unique("function", self.functions.iter().map(|function| function.name.clone()))?;
        unique("graph", self.graphs.iter().map(|graph| graph.name.clone()))?;
        unique("slice", self.slices.iter().map(|slice| slice.name.clone()))
    }
}

/// Where something of a document is, for people: its line, its key and what it is of.
///
/// `key` is that of a whole document, such as `chains[1]`: a text that is a list of chains, or one
/// chain, has its own.
#[must_use]
pub fn place_of(text: &str, key: &str, owner: &str) -> String {
    let of_list = key.strip_prefix("chains").filter(|of_list| of_list.starts_with('['));
    let known = [Some(key), of_list].into_iter().flatten();
    let found = known.filter_map(|key| Some((line_of(text, key)?, key.to_owned()))).next();
    match found {
        Some((line, key)) => format!("line {line}, {key}, {owner}"),
        None => owner.to_owned(),
    }
}

/// Reads a part of a document; what is wrong has its place.
fn read<T: DeserializeOwned>(text: &str, form: &Value) -> Result<T, DocumentError> {
    serde_path_to_error::deserialize(form).map_err(|error| {
        let key = error.path().to_string();
        let problem = error.into_inner().to_string();
        if key == "." {
            return unreadable(problem);
        }
        // What is missing has no line: that of what it is missing in.
        let above =
            std::iter::successors(Some(key.as_str()), |key| Some(&key[..key.rfind(['.', '['])?]));
        let line = above.filter(|key| !key.is_empty()).find_map(|key| line_of(text, key));
        let line = line.map_or_else(String::new, |line| format!("line {line}, "));
        let chain =
            chain_of(form, &key).map_or_else(String::new, |name| format!(", chain '{name}'"));
        DocumentError::Misplaced { place: format!("{line}{key}{chain}"), problem }
    })
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

fn unique(kind: &'static str, names: impl Iterator<Item = String>) -> Result<(), DocumentError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name.clone()) {
            return Err(DocumentError::SameName { kind, name });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::resource::Runs;

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
            ("- 7", "7"),
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
            ("{\"source\": \"S\",\n\"chain\": 7}", "line 2, chain, chain 'S'"),
            (
                "chains:\n- source: S\n  chain: [a]\n  classify: {protocol: tcp, protocol: udp}",
                "line 4: 'chains[0].classify.protocol' is given twice",
            ),
            ("{\"chains\": [],\n\"chains\": []}", "line 2: 'chains' is given twice"),
        ] {
            let problem = Document::parse(text).unwrap_err().to_string();
            assert!(problem.contains(named), "{text}: {problem}");
        }
    }
}

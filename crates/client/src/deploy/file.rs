//! A whole document: chains, what is said of their functions, graphs over them, and slices. Knows what
//! a file says, in YAML or JSON; refuses to know what becomes of it.

use super::document::ChainDocument;
use super::key_twice::{KeyTwice, key_twice};
use catena_model::resource::{FailurePolicy, FunctionSettings, FunctionTemplate};
use catena_model::slice::SliceDocument;
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
    /// How its instances are to be run; none: somebody else runs them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub template: Option<FunctionTemplate>,
}

impl FunctionDocument {
    /// What is said of it, without its name.
    #[must_use]
    pub fn settings(&self) -> FunctionSettings {
        FunctionSettings { on_failure: self.on_failure, template: self.template.clone() }
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
            serde_json::from_value(form).map(of_chains)
        } else if form.get("source").is_some() {
            serde_json::from_value(form).map(|chain| of_chains(vec![chain]))
        } else {
            serde_json::from_value(form)
        };
        let document = document.map_err(unreadable)?;
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
    template: {runs: {image: registry/ids:3}, instances: 3, labels: {tier: edge}}
graphs:
  - {name: g, branches: {web: [rest]}}
";
        let document = Document::parse(whole).unwrap();
        let settings = document.functions[0].settings();
        assert_eq!(settings.on_failure, FailurePolicy::Reroute);
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

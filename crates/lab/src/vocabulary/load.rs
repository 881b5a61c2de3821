//! From files to one document: reads, follows `extends`, lays `full` over the rest. Knows files
//! and how mappings merge; refuses to know what a lab means.

use super::beside;
use super::document::Document;
use super::error::LabFileError;
use catena_client::deploy::{KeyTwice, key_twice};
use serde_norway::{Mapping, Value};
use std::path::{Path, PathBuf};

/// How many files may extend one another.
pub(crate) const EXTENDS_DEPTH_MAX: usize = 8;
/// Largest lab file, in bytes.
pub(crate) const LAB_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The merged document and the texts it came from, the extending file first.
pub(crate) struct Loaded {
    pub(crate) document: Document,
    /// The same as YAML, for whoever must not read the files again.
    pub(crate) merged: String,
    pub(crate) sources: Vec<(PathBuf, String)>,
}

fn whole_file(file: &Path, problem: impl Into<String>, advice: &str) -> LabFileError {
    LabFileError {
        file: file.to_path_buf(),
        line: None,
        key: String::new(),
        problem: problem.into(),
        advice: advice.into(),
    }
}

/// Reads a lab file and all that it extends.
pub(crate) fn load(file: &Path, is_full: bool) -> Result<Loaded, LabFileError> {
    let mut sources = Vec::new();
    let merged = Value::Mapping(read_merged(file, is_full, &mut sources, 0)?);
    let fault = |error: serde_norway::Error| {
        whole_file(file, format!("{error}"), "compare it with the files it extends")
    };
    let text = serde_norway::to_string(&merged).map_err(fault)?;
    let document = serde_norway::from_value(merged).map_err(fault)?;
    Ok(Loaded { document, merged: text, sources })
}

/// Reads a merged document again; `file` is where it came from, for messages.
pub(crate) fn reload(file: &Path, merged: String) -> Result<Loaded, LabFileError> {
    let document = serde_norway::from_str(&merged)
        .map_err(|error| whole_file(file, error.to_string(), "start the lab by: catena lab up"))?;
    Ok(Loaded { document, merged, sources: Vec::new() })
}

fn read_merged(
    file: &Path,
    is_full: bool,
    sources: &mut Vec<(PathBuf, String)>,
    depth: usize,
) -> Result<Mapping, LabFileError> {
    if depth >= EXTENDS_DEPTH_MAX {
        let problem = format!("more than {EXTENDS_DEPTH_MAX} files extend one another");
        return Err(whole_file(file, problem, "check 'extends' for a circle"));
    }
    let text = read_text(file)?;
    if let Some(KeyTwice { key, line }) = key_twice(&text) {
        let fault = whole_file(file, "is given twice", "leave one of them");
        return Err(LabFileError { key, line: Some(line), ..fault });
    }
    let document: Document = serde_norway::from_str(&text).map_err(|error| {
        let line = error.location().map(|location| location.line());
        let advice = "correct the key or its value; the book lists the vocabulary";
        LabFileError { line, ..whole_file(file, error.to_string(), advice) }
    })?;
    let value: Value = serde_norway::from_str(&text)
        .map_err(|error| whole_file(file, error.to_string(), "correct the YAML"))?;
    let Value::Mapping(mut own) = value else {
        return Err(whole_file(file, "holds no keys", "begin with 'name:' and 'hosts:'"));
    };
    own.remove("extends");
    let mut full = own.remove("full");
    beside::read(file, &text, &mut own)?;
    if let Some(Value::Mapping(full)) = &mut full {
        beside::read(file, &text, full)?;
    }
    sources.push((file.to_path_buf(), text));
    let mut merged = match &document.extends {
        Some(base) => {
            let base = file.parent().unwrap_or(Path::new(".")).join(base);
            read_merged(&base, is_full, sources, depth + 1)?
        }
        None => Mapping::new(),
    };
    merge(&mut merged, own);
    if let (true, Some(Value::Mapping(full))) = (is_full, full) {
        merge(&mut merged, full);
    }
    Ok(merged)
}

fn read_text(file: &Path) -> Result<String, LabFileError> {
    let advice = "name a lab file, for example labs/openstack-testbed.yaml";
    let length = std::fs::metadata(file)
        .map_err(|error| whole_file(file, format!("cannot be read: {error}"), advice))?
        .len();
    if length > LAB_FILE_BYTES_MAX {
        let problem = format!("is larger than {LAB_FILE_BYTES_MAX} bytes");
        return Err(whole_file(file, problem, advice));
    }
    std::fs::read_to_string(file)
        .map_err(|error| whole_file(file, format!("cannot be read: {error}"), advice))
}

/// Lays `over` upon `base`: mappings merge key by key; anything else replaces.
fn merge(base: &mut Mapping, over: Mapping) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Mapping(below)), Value::Mapping(above)) => merge(below, above),
            (Some(below), value) => *below = value,
            (None, value) => {
                base.insert(key, value);
            }
        }
    }
}

//! What stands beside a lab file: its folder, which `${lab}` stands for anywhere in it, and the rules of its bundled
//! functions, whose text takes the place of their names. Refuses to know what stands in them.

use super::error::{LabFileError, line_of};
use catena_client::deploy::{read_config_files, text_beside};
use serde_json::Map;
use serde_norway::{Mapping, Value};
use std::path::Path;

/// What stands for the folder of a file in its texts.
const FOLDER: &str = "${lab}";

/// Reads what is beside a file for what it says; `text` is the whole of it.
pub(super) fn read(file: &Path, text: &str, said: &mut Mapping) -> Result<(), LabFileError> {
    // A file that is named alone is in the folder where we stand.
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    // Who reads it stands elsewhere.
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    for (_, value) in said.iter_mut() {
        name_folder(value, &absolute.display().to_string());
    }
    for (at, config) in configs(said) {
        let fault = |key: String, problem: String| LabFileError {
            file: file.to_path_buf(),
            line: line_of(text, &key).map(|(_, line)| line),
            key,
            problem,
            advice: String::new(),
        };
        let unread = |error: serde_norway::Error| fault(at.clone(), error.to_string());
        let mut read: Map<_, _> = serde_norway::from_value(config.clone()).map_err(unread)?;
        read_config_files(&mut read, |named| text_beside(folder, named))
            .map_err(|(key, why)| fault(format!("{at}.{key}"), why))?;
        *config = serde_norway::to_value(read).map_err(unread)?;
    }
    Ok(())
}

/// What bundled functions are told, at first and in rule sets that take turns, each with its key.
fn configs(said: &mut Mapping) -> Vec<(String, &mut Value)> {
    let mut found = Vec::new();
    let name_of = |name: &Value| name.as_str().unwrap_or_default().to_owned();
    for (section, value) in said.iter_mut() {
        match (section.as_str(), value) {
            (Some("functions"), Value::Mapping(functions)) => {
                found.extend(functions.iter_mut().filter_map(|(name, function)| {
                    let key = format!("functions.{}.config", name_of(name));
                    Some((key, function.get_mut("config")?))
                }));
            }
            (Some("updates"), Value::Mapping(updates)) => {
                let sets = updates.get_mut("rule_sets").and_then(Value::as_sequence_mut);
                for (index, set) in sets.into_iter().flatten().enumerate() {
                    let config = set.get_mut("config").and_then(Value::as_mapping_mut);
                    found.extend(config.into_iter().flatten().map(|(name, config)| {
                        let key = format!("updates.rule_sets[{index}].config.{}", name_of(name));
                        (key, config)
                    }));
                }
            }
            _ => {}
        }
    }
    found
}

fn name_folder(value: &mut Value, folder: &str) {
    match value {
        Value::String(text) if text.contains(FOLDER) => *text = text.replace(FOLDER, folder),
        Value::Sequence(all) => all.iter_mut().for_each(|one| name_folder(one, folder)),
        Value::Mapping(all) => all.iter_mut().for_each(|(_, one)| name_folder(one, folder)),
        _ => {}
    }
}

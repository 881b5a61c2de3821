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
    let folder = file.parent().unwrap_or(Path::new("."));
    // Who reads it stands elsewhere.
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    for (_, value) in said.iter_mut() {
        name_folder(value, &absolute.display().to_string());
    }
    let Some(Value::Mapping(functions)) = said.get_mut("functions") else { return Ok(()) };
    for (name, function) in functions.iter_mut() {
        let Some(config) = function.get_mut("config") else { continue };
        let named = |key: &str| format!("functions.{}.{key}", name.as_str().unwrap_or_default());
        let fault = |key: String, problem: String| LabFileError {
            file: file.to_path_buf(),
            line: line_of(text, &key).map(|(_, line)| line),
            key,
            problem,
            advice: String::new(),
        };
        let unread = |error: serde_norway::Error| fault(named("config"), error.to_string());
        let mut read: Map<_, _> = serde_norway::from_value(config.clone()).map_err(unread)?;
        read_config_files(&mut read, |named| text_beside(folder, named))
            .map_err(|(key, why)| fault(named(&format!("config.{key}")), why))?;
        *config = serde_norway::to_value(read).map_err(unread)?;
    }
    Ok(())
}

fn name_folder(value: &mut Value, folder: &str) {
    match value {
        Value::String(text) if text.contains(FOLDER) => *text = text.replace(FOLDER, folder),
        Value::Sequence(all) => all.iter_mut().for_each(|one| name_folder(one, folder)),
        Value::Mapping(all) => all.iter_mut().for_each(|(_, one)| name_folder(one, folder)),
        _ => {}
    }
}

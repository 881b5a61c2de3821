//! Files that a document names, beside it: rules of bundled functions. Knows where they are, how long they may be, and
//! which words of a configuration name one; refuses to know what stands in them.

use catena_model::limits::FUNCTION_CONFIG_BYTES_MAX;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The text of a file that something in this folder names.
///
/// # Errors
/// Why it cannot be read, and what to do.
pub fn text_beside(folder: &Path, named: &str) -> Result<String, String> {
    let file = folder.join(named);
    let mut text = String::new();
    let bytes_max = FUNCTION_CONFIG_BYTES_MAX as u64;
    let read =
        File::open(&file).and_then(|open| open.take(bytes_max + 1).read_to_string(&mut text));
    match read {
        Ok(_) if text.len() > FUNCTION_CONFIG_BYTES_MAX => Err(format!(
            "{} has more than {bytes_max} bytes, which no function takes; split its rules among several",
            file.display()
        )),
        Ok(_) => Ok(text),
        Err(error) => Err(format!(
            "{} cannot be read: {error}; name a file with rules, by its way from the document",
            file.display()
        )),
    }
}

/// Puts the text of files in the place of their names in a bundled function's configuration: `file`, and keys that
/// end with it.
///
/// # Errors
/// The key of the first that cannot be read, and why.
pub fn read_config_files(
    config: &mut Map<String, Value>,
    read: impl Fn(&str) -> Result<String, String>,
) -> Result<(), (String, String)> {
    for (key, value) in config {
        let is_file = key == "file" || key.ends_with("_file");
        let Some(name) = value.as_str().filter(|_| is_file).map(str::to_owned) else { continue };
        let text = read(&name).map_err(|why| (key.clone(), why))?;
        *value = json!({"name": name, "text": text});
    }
    Ok(())
}

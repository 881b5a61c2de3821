//! What fuzzing has kept of a target: `fuzz/corpus/TARGET.hex`, an input a line, the shortest first. libFuzzer
//! works on a folder of files, which is made of it and packed again.

use std::fs;
use std::io::Result;
use std::path::{Path, PathBuf};

/// Bytes of all inputs of a target that the tree keeps.
const KEPT_BYTES_MAX: usize = 8_192;

/// Where the tree keeps the corpus of a target.
pub(crate) fn file(root: &Path, target: &str) -> PathBuf {
    root.join("fuzz/corpus").join(target).with_extension("hex")
}

/// Writes each input of a corpus into a file of its own; lines that are no bytes are left out.
pub(crate) fn unpack(file: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let text = fs::read_to_string(file).unwrap_or_default();
    for (number, input) in text.lines().filter_map(bytes).enumerate() {
        fs::write(folder.join(format!("kept-{number}")), input)?;
    }
    Ok(())
}

/// Packs the inputs of a folder, as many of the shortest as are kept.
pub(crate) fn pack(folder: &Path, file: &Path) -> Result<()> {
    let mut inputs = Vec::new();
    for entry in fs::read_dir(folder)? {
        inputs.push(fs::read(entry?.path())?);
    }
    inputs.retain(|input| !input.is_empty());
    inputs.sort_by(|one, other| one.len().cmp(&other.len()).then_with(|| one.cmp(other)));
    inputs.dedup();
    let mut kept = 0;
    let fits = inputs.iter().take_while(|input| {
        kept += input.len();
        kept <= KEPT_BYTES_MAX
    });
    let text: String = fits.map(|input| hex(input) + "\n").collect();
    fs::write(file, text)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(line: &str) -> Option<Vec<u8>> {
    let octet = |at| u8::from_str_radix(line.get(at..at + 2)?, 16).ok();
    (0..line.len()).step_by(2).map(octet).collect()
}

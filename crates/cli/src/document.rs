//! The document that `apply`, `plan` and `diff` are about.

use crate::failure::Failure;
use catena_client::deploy::Document;
use clap::Args;
use std::io::Read;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct DocumentArgument {
    /// The document, in YAML or JSON; `-` is standard input.
    #[arg(short, long)]
    pub(crate) file: PathBuf,
}

impl DocumentArgument {
    /// Reads it.
    pub(crate) fn read(&self) -> Result<Document, Failure> {
        read(&self.file)
    }
}

/// Reads a document.
pub(crate) fn read(file: &Path) -> Result<Document, Failure> {
    let name = file.display();
    let text =
        text(file).map_err(|error| Failure::failed(format!("{name} cannot be read: {error}")))?;
    Document::parse(&text).map_err(|error| Failure::failed(format!("{name}: {error}")))
}

fn text(file: &Path) -> std::io::Result<String> {
    if file.as_os_str() != "-" {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

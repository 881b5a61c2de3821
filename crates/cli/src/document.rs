//! The document that `apply`, `plan` and `diff` are about.

use crate::failure::Failure;
use crate::output::progress;
use catena_client::deploy::{DeployError, Document, FunctionDocument, place_of, text_beside};
use catena_model::resource::FunctionTemplate;
use catena_nf::registry::{self, Surroundings};
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
    pub(crate) fn read(&self) -> Result<Written, Failure> {
        Written::read(&self.file)
    }
}

/// A document with its text.
pub(crate) struct Written {
    pub(crate) document: Document,
    text: String,
    name: String,
}

impl Written {
    /// Reads a document.
    pub(crate) fn read(file: &Path) -> Result<Self, Failure> {
        let (text, name) = (text(file)?, file.display().to_string());
        let mut document = parse(file, &text)?;
        let folder = file.parent().unwrap_or(Path::new("."));
        document.read_files(|named| text_beside(folder, named)).map_err(|(key, why)| {
            let place = place_of(&text, &key, "a bundled function");
            Failure::failed(format!("{name}: {place}: {why}"))
        })?;
        document.functions.iter().for_each(remark);
        Ok(Self { document, text, name })
    }

    /// What is wrong with a part of it, with the part's place in the file.
    pub(crate) fn failure(&self, error: DeployError) -> Failure {
        let DeployError::OfDocument { mut key, owner, mut source } = error else {
            return error.into();
        };
        while let DeployError::At { key: below, source: inner } = *source {
            key = format!("{key}.{below}");
            source = inner;
        }
        let place = place_of(&self.text, &key, &owner);
        let Failure { message, exit } = Failure::from(*source);
        Failure { message: format!("{}: {place}: {message}", self.name), exit }
    }
}

fn parse(file: &Path, text: &str) -> Result<Document, Failure> {
    let name = file.display();
    Document::parse(text).map_err(|error| Failure::failed(format!("{name}: {error}")))
}

/// Says what of a bundled function's rules has no effect or is left out. What is wrong with them, the controller says.
fn remark(function: &FunctionDocument) {
    let configuration = function.template.as_ref().and_then(FunctionTemplate::configuration);
    let made = configuration.map(|it| registry::make(&it, &Surroundings::default()));
    for remark in made.and_then(Result::ok).into_iter().flat_map(|made| made.remarks) {
        progress(format_args!("{}: {remark}", function.name));
    }
}

fn text(file: &Path) -> Result<String, Failure> {
    let cannot = |error| Failure::failed(format!("{} cannot be read: {error}", file.display()));
    content(file).map_err(cannot)
}

fn content(file: &Path) -> std::io::Result<String> {
    if file.as_os_str() != "-" {
        return std::fs::read_to_string(file);
    }
    let mut text = String::new();
    std::io::stdin().lock().read_to_string(&mut text)?;
    Ok(text)
}

//! `catena function create`: a Cargo project for a function of one's own. Knows its files and which sources of Catena
//! it builds on; refuses to build it.

use crate::failure::Failure;
use crate::output::say;
use clap::{Args, ValueEnum};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where this binary's sources were when it was built.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The crates that a project uses.
const CRATES: [&str; 4] = ["model", "nf", "runner", "wire"];

/// What is written, and where.
#[derive(Args)]
pub(crate) struct ProjectArguments {
    /// What the function does at first.
    #[arg(long, value_enum, value_name = "NAME")]
    template: Template,
    /// A folder that is not there yet, or empty; its name is that of the program.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The folder of Catena's sources, which the project builds on: Catena is in no registry. Those that this binary
    /// was built from, unless said otherwise.
    #[arg(long, value_name = "DIR")]
    catena: Option<PathBuf>,
}

/// What a function of one's own may begin as.
#[derive(Clone, Copy, ValueEnum)]
enum Template {
    /// Ends packets whose TTL is below a bound, by name.
    Filter,
}

impl Template {
    /// Its code: an example of `runner`, so that whatever is written builds.
    const fn code(self) -> &'static str {
        match self {
            Self::Filter => include_str!("../../runner/examples/filter.rs"),
        }
    }

    /// A file for `--config`, with its name.
    const fn config(self) -> (&'static str, &'static str) {
        match self {
            Self::Filter => ("least-ttl", "5\n"),
        }
    }
}

/// Writes the project.
pub(crate) fn create(wanted: &ProjectArguments) -> Result<(), Failure> {
    let folder = &wanted.folder;
    let name = program_name(folder)?;
    let sources = sources(wanted.catena.as_deref())?;
    // The versions that Catena itself is tested with.
    let lock = sources.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(|error| unreadable(&lock, &error))?;
    let (config, setting) = wanted.template.config();
    let shown = folder.display();
    let written = |error: std::io::Error| {
        Failure::failed(format!(
            "no project can be written to {shown}: {error}; name a folder that is not there yet"
        ))
    };
    claim(folder).map_err(written)?;
    for (file, text) in [
        ("Cargo.toml", manifest(name, &sources)?.as_str()),
        ("Cargo.lock", &lock),
        ("README.md", &readme(name, config)),
        (".gitignore", "/target\n"),
        (config, setting),
        ("src/main.rs", wanted.template.code()),
    ] {
        fs::write(folder.join(file), text).map_err(written)?;
    }
    say!("{shown}: a function of your own, on the sources in {}", sources.display());
    say!(
        "its code is in src/main.rs; `cargo test` there holds it against its profile, README.md tells the rest"
    );
    Ok(())
}

/// The name of the program, which Cargo takes.
fn program_name(folder: &Path) -> Result<&str, Failure> {
    let name = folder.file_name().and_then(|name| name.to_str());
    let is_taken = |name: &&str| {
        let is_named = |letter: char| {
            letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter)
        };
        name.starts_with(|letter: char| letter.is_ascii_lowercase()) && name.chars().all(is_named)
    };
    name.filter(is_taken).ok_or_else(|| {
        Failure::usage(format!(
            "the folder {} has no name for a program: call it by small letters, digits, - and _, such as my-filter",
            folder.display()
        ))
    })
}

/// The folder of Catena's sources.
fn sources(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = named.unwrap_or(Path::new(SOURCES));
    let refused = |error: std::io::Error| {
        let was = if named.is_some() { "" } else { ", where this binary was built" };
        Failure::failed(format!(
            "Catena's sources are not in {}{was}: {error}; name the folder of a checkout by --catena",
            folder.display()
        ))
    };
    let sources = folder.canonicalize().map_err(refused)?;
    for one in CRATES {
        fs::metadata(sources.join("crates").join(one).join("Cargo.toml")).map_err(refused)?;
    }
    Ok(sources)
}

fn unreadable(file: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!(
        "{} cannot be read: {error}; name the folder of a whole checkout by --catena",
        file.display()
    ))
}

/// Makes the folders; what somebody has in one stays theirs.
fn claim(folder: &Path) -> std::io::Result<()> {
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Err(ErrorKind::DirectoryNotEmpty.into());
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::create_dir_all(folder.join("src"))
}

fn manifest(name: &str, sources: &Path) -> Result<String, Failure> {
    let mut text = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\nrust-version = \"{}\"\n\
         publish = false\n\n# Catena is in no registry: these are the crates of a checkout.\n[dependencies]\n",
        env!("CARGO_PKG_RUST_VERSION")
    );
    for one in CRATES {
        let path = sources.join("crates").join(one);
        let path = path.to_str().ok_or_else(|| {
            Failure::failed(format!(
                "{} is no UTF-8, which manifests of Cargo are: name another by --catena",
                path.display()
            ))
        })?;
        // A text of JSON is one of TOML.
        let path = serde_json::to_string(path)?;
        text.push_str(&format!("catena-{one} = {{ path = {path} }}\n"));
    }
    text.push_str(
        "\n# Of its own, wherever it stands.\n[workspace]\n\n\
         # As Catena's own: what is counted wrongly is noticed.\n[profile.release]\noverflow-checks = true\n",
    );
    Ok(text)
}

fn readme(name: &str, config: &str) -> String {
    format!(
        "# {name}\n\n\
         A network function on Catena's `runner`: `src/main.rs` is all of it. The book's page «Write a function» walks \
         through it.\n\n\
         ```\n\
         cargo test              # holds it against its profile\n\
         cargo build --release\n\
         target/release/{name} --config {config} --in eth1 --out eth2\n\
         ```\n\n\
         In a chain it is the command of a template, which an agent runs; its interfaces are told by the agent:\n\n\
         ```yaml\n\
         functions:\n  \
           - name: {name}\n    \
             template:\n      \
               runs: {{command: [/opt/{name}/target/release/{name}, --config, /opt/{name}/{config}]}}\n      \
               on: [host2]\n\
         ```\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_names_a_program_or_is_refused() {
        assert_eq!(program_name(Path::new("/tmp/my-filter_2")).ok(), Some("my-filter_2"));
        assert_eq!(program_name(Path::new("here/")).ok(), Some("here"));
        for wrong in ["", "/", "..", "My", "2nd", "a b", "a.b", "-a", "é"] {
            let refused = program_name(Path::new(wrong)).err().unwrap();
            assert_eq!(refused.exit, 2, "{wrong}");
            assert!(refused.message.contains("my-filter"), "{}", refused.message);
        }
    }

    #[test]
    fn a_path_of_any_letters_is_one_of_the_manifest() {
        let text = manifest("own", Path::new("/a \"b\"\\c\n")).ok().unwrap();
        assert!(text.contains(r#"path = "/a \"b\"\\c\n/crates/nf""#), "{text}");
    }

    #[test]
    fn the_manifest_names_each_crate_that_the_code_uses() {
        let text = manifest("own", Path::new("/catena")).ok().unwrap();
        let used = Template::Filter.code().split("catena_").skip(1);
        let used = used.map(|rest| rest.split("::").next().unwrap_or_default());
        let missing: Vec<&str> =
            used.filter(|one| !text.contains(&format!("\ncatena-{one} = "))).collect();
        assert_eq!(missing, [""; 0]);
    }

    #[test]
    fn the_code_of_a_template_has_fewer_than_sixty_lines() {
        let lines = Template::Filter.code().lines().count();
        assert!(lines < 60, "{lines}");
    }
}

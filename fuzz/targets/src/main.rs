//! Names the fuzz targets, or writes the seeds of one into a folder: `catena-fuzz [TARGET FOLDER]`.
#![forbid(unsafe_code)]

use catena_fuzz::{TARGETS, seeds};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.as_slice() {
        [] => {
            TARGETS.iter().for_each(|target| println!("{}", target.name));
            ExitCode::SUCCESS
        }
        [name, folder] => match write(name, Path::new(folder)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => complain(&why),
        },
        _ => complain("usage: catena-fuzz [TARGET FOLDER]"),
    }
}

fn complain(why: &str) -> ExitCode {
    eprintln!("catena-fuzz: {why}");
    ExitCode::FAILURE
}

/// Writes the goldens of a target's format, each into a file of its own.
fn write(name: &str, folder: &Path) -> Result<(), String> {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.ok_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        format!("no target is called '{name}'; there are: {}", names.join(", "))
    })?;
    let failed = |error: std::io::Error| format!("cannot write into {}: {error}", folder.display());
    std::fs::create_dir_all(folder).map_err(failed)?;
    let goldens = target.goldens.into_iter().flat_map(seeds::goldens);
    for (number, golden) in goldens.enumerate() {
        std::fs::write(folder.join(format!("golden-{number}")), golden).map_err(failed)?;
    }
    Ok(())
}

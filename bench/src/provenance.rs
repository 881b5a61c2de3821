//! Which commit a benchmark's figures are of. Knows git and what a benchmark writes itself; refuses to
//! know figures.

use crate::error::BenchError;
use std::path::Path;
use std::process::Command;

/// What benchmarks write, from the root of the tree: no figure is another for it.
const WRITTEN: [&str; 2] = ["bench/results", "bench/RESULTS.md"];

/// The commit of the tree with this folder, with `-dirty` where anything else than results is not as
/// it says; `unknown` without a repository.
pub(crate) fn commit(folder: &Path) -> String {
    let Some(commit) = git(folder, &["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    if changed(folder).is_empty() { commit } else { format!("{commit}-dirty") }
}

/// Refuses to measure for the record what no commit holds.
///
/// # Errors
/// Which files have changed.
pub(crate) fn require_commit(folder: &Path) -> Result<(), BenchError> {
    let changed = changed(folder);
    if changed.is_empty() { Ok(()) } else { Err(BenchError::Uncommitted { changed }) }
}

/// The files that are not as the commit says, one a line.
fn changed(folder: &Path) -> String {
    let mut words = ["status", "--porcelain", "--untracked-files=all", "--", ":(top)"]
        .map(str::to_owned)
        .to_vec();
    words.extend(WRITTEN.map(|path| format!(":(top,exclude){path}")));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    git(folder, &words).unwrap_or_default()
}

/// What git says of the tree with this folder, if there is one.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let said = Command::new("git").arg("-C").arg(folder).args(words).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_name_a_commit_that_holds_all_but_results() {
        let tree = tempfile::tempdir().unwrap();
        let folder = tree.path().join("bench");
        std::fs::create_dir_all(folder.join("results")).unwrap();
        assert_eq!(commit(&folder), "unknown");
        let call = |words: &[&str]| {
            let named = [&["-c", "user.name=a", "-c", "user.email=a@b"], words].concat();
            git(tree.path(), &named).unwrap()
        };
        call(&["init"]);
        call(&["commit", "--allow-empty", "-m", "first"]);
        let head = call(&["rev-parse", "--short=12", "HEAD"]);
        std::fs::write(folder.join("results/engine.json"), "{}").unwrap();
        std::fs::write(folder.join("RESULTS.md"), "# Results").unwrap();
        assert_eq!(commit(&folder), head);
        require_commit(&folder).unwrap();
        std::fs::write(tree.path().join("engine.rs"), "fn main() {}").unwrap();
        assert_eq!(commit(&folder), format!("{head}-dirty"));
        let refused = require_commit(&folder).unwrap_err().to_string();
        assert!(refused.contains("?? engine.rs") && !refused.contains("results"), "{refused}");
    }
}

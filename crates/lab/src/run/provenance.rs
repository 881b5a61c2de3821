//! Where a figure comes from: what was called, and of which commit. Knows the command line and git;
//! refuses to know figures.

use std::path::Path;
use std::process::Command;

/// The command line of this process, with the program's name alone.
#[must_use]
pub fn command() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
    name.into_iter().chain(words).collect::<Vec<String>>().join(" ")
}

/// What git calls the tree that a folder is in: its commit, with `-dirty` where there are changes
/// beside it; `unknown` without a repository.
#[must_use]
pub fn commit_of(folder: &Path) -> String {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(["describe", "--always", "--dirty", "--abbrev=12"]);
    let said = git.output().ok().filter(|done| done.status.success());
    let said = said.map(|done| String::from_utf8_lossy(&done.stdout).trim().to_owned());
    said.unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_told_where_there_is_a_repository() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(commit_of(folder.path()), "unknown");
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(folder.path()).args(["-c", "user.name=a", "-c", "user.email=a@b"]);
            assert!(git.args(words).output().unwrap().status.success(), "{words:?}");
        };
        git(&["init"]);
        git(&["commit", "--allow-empty", "-m", "first"]);
        let clean = commit_of(folder.path());
        assert!(clean.len() >= 12 && clean.chars().all(|c| c.is_ascii_hexdigit()), "{clean}");
        std::fs::write(folder.path().join("file"), "1").unwrap();
        git(&["add", "file"]);
        assert_eq!(commit_of(folder.path()), format!("{clean}-dirty"));
    }
}

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

/// What git calls the tree that a folder is in: its commit, with `-dirty` where [`changes_in`] it are
/// any; `unknown` without a repository.
#[must_use]
pub fn commit_of(folder: &Path, but: &[&str]) -> String {
    match git(folder, &["describe", "--always", "--abbrev=12"]) {
        None => "unknown".to_owned(),
        Some(commit) if changes_in(folder, but).is_empty() => commit,
        Some(commit) => format!("{commit}-dirty"),
    }
}

/// The files of the tree that a folder is in that are not as its commit says, one a line, `but` for
/// those at these paths from its root. What git does not know is no change.
#[must_use]
pub fn changes_in(folder: &Path, but: &[&str]) -> String {
    let but: Vec<String> = but.iter().map(|path| format!(":(top,exclude){path}")).collect();
    let mut words = vec!["status", "--porcelain", "--untracked-files=no", "--", ":(top)"];
    words.extend(but.iter().map(String::as_str));
    git(folder, &words).unwrap_or_default()
}

/// What git says of the tree that a folder is in, if there is one.
fn git(folder: &Path, words: &[&str]) -> Option<String> {
    let said = Command::new("git").arg("-C").arg(folder).args(words).output().ok()?;
    said.status.success().then(|| String::from_utf8_lossy(&said.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_told_where_there_is_a_repository() {
        let folder = tempfile::tempdir().unwrap();
        let commit = |but: &[&str]| commit_of(folder.path(), but);
        assert_eq!(commit(&[]), "unknown");
        let call = |words: &[&str]| {
            let named = [&["-c", "user.name=a", "-c", "user.email=a@b"], words].concat();
            git(folder.path(), &named).unwrap_or_else(|| panic!("{words:?}"))
        };
        call(&["init"]);
        call(&["commit", "--allow-empty", "-m", "first"]);
        let clean = commit(&[]);
        assert!(clean.len() >= 12 && clean.chars().all(|c| c.is_ascii_hexdigit()), "{clean}");
        std::fs::write(folder.path().join("file"), "1").unwrap();
        assert_eq!(commit(&[]), clean, "git does not know the file");
        call(&["add", "file"]);
        assert_eq!(commit(&[]), format!("{clean}-dirty"));
        assert_eq!(commit(&["file"]), clean);
        assert_eq!(commit(&["fil"]), format!("{clean}-dirty"));
        assert_eq!(changes_in(folder.path(), &["other"]), "A  file");
    }
}

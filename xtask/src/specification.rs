//! Every promise of SPECIFICATION.md names a test that exists, or says «pending».

use crate::files;
use std::path::Path;

pub(crate) fn check(root: &Path) -> Vec<String> {
    let Ok(text) = std::fs::read_to_string(root.join("SPECIFICATION.md")) else {
        return vec!["SPECIFICATION.md is missing".into()];
    };
    let mut code = String::new();
    let folders = [("crates", "rs"), ("bench/src", "rs"), ("fuzz", "rs"), ("labs", "py")];
    for path in folders.iter().flat_map(|(folder, ending)| files(&root.join(folder), ending)) {
        code.push_str(&std::fs::read_to_string(path).unwrap_or_default());
    }
    let scripts = std::fs::read_to_string(root.join("test")).unwrap_or_default();
    let mut faults = Vec::new();
    for row in text.lines().filter(|line| is_promise(line)) {
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let tests: Vec<&str> = last.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() && !last.contains("pending") {
            faults.push(format!("a promise names no test and is not pending: {row:.60}"));
        }
        for test in tests {
            let exists = code.contains(&format!("fn {test}(")) || scripts.contains(test);
            if !exists && !root.join(test).exists() {
                faults.push(format!("SPECIFICATION.md names `{test}`, which does not exist"));
            }
        }
    }
    faults
}

/// Rows of promise tables start with a number such as `| A1 |`.
fn is_promise(line: &str) -> bool {
    let mut cell = line.trim_start_matches('|').trim_start().chars();
    line.starts_with('|')
        && cell.next().is_some_and(|c| c.is_ascii_uppercase())
        && cell.next().is_some_and(|c| c.is_ascii_digit())
}

//! The verbs of the command line, as its help names them.

use super::Controller;

/// The words of the verbs that a help text names.
fn verbs_of(controller: &Controller, words: &[&str]) -> Vec<String> {
    let help = controller.tell(0, &[words, &["--help"]].concat());
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = commands.take_while(|line| !line.is_empty()).filter_map(|line| {
        let verb = line.strip_prefix("  ")?.split(' ').next()?;
        (!verb.is_empty() && verb != "help").then(|| verb.to_owned())
    });
    verbs.collect()
}

/// The verbs of the command line that the walk has left out, but for those that print nothing of what
/// tenants have named, and `top`, which has a test of its own.
pub(super) fn unwalked(controller: &Controller, walked: &[(Vec<&str>, bool)]) -> Vec<String> {
    const OF_OUR_OWN: [&str; 6] = ["controller", "agent", "dataplane", "lab", "top", "watch"];
    const CHANGES: [&str; 14] = [
        "create", "set", "unset", "delete", "deploy", "undeploy", "update", "enroll", "drain",
        "undrain", "inject", "apply", "uninject", "export",
    ];
    let mut missing = Vec::new();
    for noun in verbs_of(controller, &[]) {
        let verbs = verbs_of(controller, &[&noun]);
        let is_seen = |words: &[&str]| walked.iter().any(|(seen, _)| seen.starts_with(words));
        if OF_OUR_OWN.contains(&noun.as_str()) || CHANGES.contains(&noun.as_str()) {
            continue;
        }
        if verbs.is_empty() && !is_seen(&[&noun]) {
            missing.push(noun.clone());
        }
        let walkable =
            |verb: &&String| ![&CHANGES[..], &["watch"]].concat().contains(&verb.as_str());
        for verb in verbs.iter().filter(walkable) {
            if !is_seen(&[&noun, verb]) {
                missing.push(format!("{noun} {verb}"));
            }
        }
    }
    missing
}

//! `catena diff`: where a document and what is declared differ, line by line, both told in the words
//! of a document.

use crate::connection::Connection;
use crate::document::DocumentArgument;
use crate::failure::Failure;
use crate::output::say;
use catena_client::Client;
use catena_client::deploy::Deployment;
use clap::Args;

/// Lines around a difference.
const CONTEXT_LINES: usize = 3;
/// Pairs of lines that are compared to find the shortest difference; beyond it all that is between
/// the first and the last difference is told as one.
const PAIRS_MAX: usize = 16_000_000;

#[derive(Args)]
pub(crate) struct DiffArguments {
    #[command(flatten)]
    document: DocumentArgument,
}

pub(crate) fn run(connection: &Connection, arguments: &DiffArguments) -> Result<(), Failure> {
    let client = connection.client()?;
    let written = arguments.document.read()?;
    let document = &written.document;
    let draft = Deployment::draft(&client, document).map_err(|error| written.failure(error))?;
    let described = |client: &Client| -> Result<String, Failure> {
        let described = Deployment::describe(client, document)?;
        Ok(serde_norway::to_string(&serde_json::to_value(described)?)?)
    };
    let (declared, wanted) = (described(&client)?, described(draft.client())?);
    let told = unified(&declared, &wanted);
    if told.is_empty() {
        return Ok(());
    }
    say!("--- declared");
    say!("+++ {}", arguments.document.file.display());
    for line in told {
        say!("{line}");
    }
    Err(Failure::changes())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edit<'t> {
    Keep(&'t str),
    Remove(&'t str),
    Add(&'t str),
}

/// The hunks of a unified diff; empty: the texts are the same.
fn unified(before: &str, after: &str) -> Vec<String> {
    let edits = edits(&before.lines().collect::<Vec<_>>(), &after.lines().collect::<Vec<_>>());
    let is_change = |edit: &Edit<'_>| !matches!(edit, Edit::Keep(_));
    let mut shown = vec![false; edits.len()];
    for (index, _) in edits.iter().enumerate().filter(|(_, edit)| is_change(edit)) {
        let end = (index + CONTEXT_LINES + 1).min(shown.len());
        shown[index.saturating_sub(CONTEXT_LINES)..end].fill(true);
    }
    let mut lines = Vec::new();
    let (mut old, mut new) = (1, 1);
    for (index, edit) in edits.iter().enumerate() {
        if shown[index] && (index == 0 || !shown[index - 1]) {
            let hunk = &edits[index..];
            let len = shown[index..].iter().take_while(|shown| **shown).count();
            let of = |gone: bool| {
                let counts = |edit: &&Edit<'_>| match edit {
                    Edit::Keep(_) => true,
                    Edit::Remove(_) => gone,
                    Edit::Add(_) => !gone,
                };
                hunk.iter().take(len).filter(counts).count()
            };
            lines.push(format!("@@ -{old},{} +{new},{} @@", of(true), of(false)));
        }
        let (mark, text) = match edit {
            Edit::Keep(text) => (' ', text),
            Edit::Remove(text) => ('-', text),
            Edit::Add(text) => ('+', text),
        };
        if shown[index] {
            lines.push(format!("{mark}{text}"));
        }
        old += usize::from(!matches!(edit, Edit::Add(_)));
        new += usize::from(!matches!(edit, Edit::Remove(_)));
    }
    lines
}

/// The shortest way from one text to another, by the longest common subsequence of their lines.
fn edits<'t>(before: &[&'t str], after: &[&'t str]) -> Vec<Edit<'t>> {
    let same = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let (start, before, after) = (&before[..same], &before[same..], &after[same..]);
    let tail = before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count();
    let (before, end) = before.split_at(before.len() - tail);
    let after = &after[..after.len() - tail];
    let mut edits: Vec<Edit<'t>> = start.iter().map(|line| Edit::Keep(line)).collect();
    if before.len().saturating_mul(after.len()) > PAIRS_MAX {
        edits.extend(before.iter().map(|line| Edit::Remove(line)));
        edits.extend(after.iter().map(|line| Edit::Add(line)));
    } else {
        edits.extend(middle(before, after));
    }
    edits.extend(end.iter().map(|line| Edit::Keep(line)));
    edits
}

fn middle<'t>(before: &[&'t str], after: &[&'t str]) -> Vec<Edit<'t>> {
    // longest[i][j]: lines that before[i..] and after[j..] have in common.
    let mut longest = vec![vec![0_u32; after.len() + 1]; before.len() + 1];
    for (i, old) in before.iter().enumerate().rev() {
        for (j, new) in after.iter().enumerate().rev() {
            longest[i][j] = if old == new {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut edits = Vec::new();
    while i < before.len() || j < after.len() {
        if i < before.len() && j < after.len() && before[i] == after[j] {
            edits.push(Edit::Keep(before[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == after.len() || (i < before.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            edits.push(Edit::Remove(before[i]));
            i += 1;
        } else {
            edits.push(Edit::Add(after[j]));
            j += 1;
        }
    }
    edits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_told_with_what_is_around_it() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let after = "a\nb\nc\nd\nE\nf\ng\nh\ni\n";
        let expected = ["@@ -2,7 +2,8 @@", " b", " c", " d", "-e", "+E", " f", " g", " h", "+i"];
        assert_eq!(unified(before, after), expected);
        assert!(unified(before, before).is_empty());
        assert_eq!(unified("", "x\n"), ["@@ -1,0 +1,1 @@", "+x"]);
        let far = unified(
            &format!("{before}{before}"),
            &format!("A\n{}H\n", &format!("{before}{before}")[2..30]),
        );
        assert_eq!(far.iter().filter(|line| line.starts_with("@@")).count(), 2, "{far:#?}");
    }

    #[test]
    fn the_edits_lead_from_one_text_to_the_other_by_the_shortest_way() {
        let texts = ["", "a", "a b", "b a", "a b c d", "b c x d", "x", "d c b a"];
        for before in texts {
            for after in texts {
                let (old, new): (Vec<&str>, Vec<&str>) =
                    (before.split_whitespace().collect(), after.split_whitespace().collect());
                let edits = edits(&old, &new);
                let kept = |gone: bool| -> Vec<&str> {
                    let of = |edit: &Edit<'static>| match *edit {
                        Edit::Keep(text) => Some(text),
                        Edit::Remove(text) => gone.then_some(text),
                        Edit::Add(text) => (!gone).then_some(text),
                    };
                    edits.iter().filter_map(of).collect()
                };
                assert_eq!((kept(true), kept(false)), (old.clone(), new.clone()));
                if old == new {
                    assert!(edits.iter().all(|edit| matches!(edit, Edit::Keep(_))));
                }
            }
        }
    }
}

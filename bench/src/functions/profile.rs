//! Where the instructions of a packet go whose figure misses its goal: counted by valgrind in another run of this
//! benchmark, which does that work alone.

use super::asked::Asked;
use super::firewall::Listed;
use super::ids::Watched;
use super::segment::Segment;
use super::{SIZES, header};
use crate::engine::drive::IS_COUNTED;
use crate::engine::wrong;
use crate::error::BenchError;
use crate::instructions::said;
use crate::peers::Folder;
use crate::results::{Figure, Notes, row};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

/// Functions that are named, those with the most instructions.
const NAMED: usize = 5;
/// What counts, by the names of functions: none of what it takes to make ready.
const COUNTED: [&str; 3] = ["*::Asked::pass", "*::KnownFlows::ns", "*::Watched::process"];
const MANY_RULES: (usize, &str) = (10_000, "firewall_10k_vs_100");
const SEGMENT: &str = "segment_pass_ns";
const IDS: &str = "ids_500_rules_gbit";

/// What is said of each figure of work in memory that misses its goal.
pub(super) fn of_missed(notes: &Notes, figures: &[Figure]) -> String {
    let is_missed = |figure: &&Figure| {
        let row = notes.samples(figure.name).and_then(|samples| row(figure, samples));
        row.is_some_and(|row| row.met == Some(false))
    };
    let mut text = String::new();
    for figure in figures.iter().filter(is_missed).filter(|figure| is_known(figure.name)) {
        eprintln!("bench: where the instructions of {} go", figure.name);
        match profile(figure.name) {
            Ok(told) => text += &format!(" Instructions of {}: {told}.", figure.name),
            Err(reason) => text += &format!(" Instructions of {}: {reason}.", figure.name),
        }
    }
    text
}

fn is_known(name: &str) -> bool {
    let mut lists = SIZES.iter().chain([&MANY_RULES]).map(|(_, list)| *list);
    name == SEGMENT || name == IDS || header::is_known(name) || lists.any(|list| list == name)
}

/// Does the work of a figure, for whoever counts.
pub(super) fn work(name: &str, root: &Path) -> Result<(), BenchError> {
    IS_COUNTED.store(true, Ordering::Relaxed);
    let listed = SIZES.iter().chain([&MANY_RULES]).find(|(_, list)| *list == name);
    let work = |mut asked: Asked| (0..2).try_for_each(|_| asked.ns().map(drop));
    match listed {
        Some((count, _)) => work(Listed::new(*count)?.asked),
        None if name == SEGMENT => Segment::new()?.take(&mut Notes::default()),
        None if name == IDS => Watched::new(root)?.take(&mut Notes::default()),
        None => work(header::one(name).ok_or_else(|| wrong("--work", &"there is none"))??),
    }
}

fn profile(name: &str) -> Result<String, String> {
    let me = std::env::current_exe().map_err(|error| error.to_string())?;
    let folder = Folder::new().map_err(|error| error.to_string())?;
    let out = folder.0.join("callgrind");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", &format!("--callgrind-out-file={}", out.display())]);
    valgrind.args(COUNTED.map(|names| format!("--toggle-collect={names}")));
    said(valgrind.arg(me).args(["functions", "--work", name]))?;
    let text = said(Command::new("callgrind_annotate").arg("--auto=no").arg(&out))?;
    let told: Vec<String> = text.lines().filter_map(share).take(NAMED).collect();
    if told.is_empty() { Err("valgrind tells of none".into()) } else { Ok(told.join(", ")) }
}

/// A line of `callgrind_annotate`: the share of a function, and its name.
fn share(line: &str) -> Option<String> {
    let (_, rest) = line.split_once('(')?;
    let (share, place) = rest.split_once("%)")?;
    let name = place.trim().split(" [").next()?;
    let name = name.trim_start_matches("???:");
    let name = name.rsplit_once(".S:").map_or(name, |(_, name)| name).replace("catena_", "");
    (name != "PROGRAM TOTALS" && place.contains(':'))
        .then(|| format!("{} % `{name}`", share.trim()))
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn functions_are_told_by_their_names_without_what_is_about_them() {
        let lines = [
            "526,121,715 (100.0%)  PROGRAM TOTALS",
            "104,159,203 (19.80%)  ./string/memmove.S:__memcpy_avx [/usr/lib/libc.so.6]",
            "  6,024,191 ( 1.15%)  ???:<catena_nf::monitor::Monitor as X>::process [/tmp/cb1]",
            " 11,599,872 ( 2.20%)  ???:catena_nf::firewall::walk::step [/tmp/cb1]",
            "Ir",
        ];
        let told: Vec<String> = lines.into_iter().filter_map(share).collect();
        assert_eq!(
            told,
            [
                "19.80 % `__memcpy_avx`",
                "1.15 % `<nf::monitor::Monitor as X>::process`",
                "2.20 % `nf::firewall::walk::step`"
            ]
        );
    }
}

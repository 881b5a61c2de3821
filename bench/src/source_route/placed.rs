//! What it saves where a chain's functions stand: the hosts that the planner proposes beside hosts by chance and hosts
//! by their names.

use super::entries::{Entries, K, OneChain};
use super::source::Random;
use crate::engine::wrong;
use crate::error::BenchError;
use crate::fabric::FatTree;
use crate::plot::{Axis, Line, Plot};
use crate::results::{Better, Figure, Fold, Goal, Notes, median};
use catena_model::NodeName;
use catena_model::placement::PlacedFunction;
use std::sync::LazyLock;

/// Functions of a chain.
const FUNCTIONS_MAX: usize = 10;
/// Numbers of functions that have rows; the others are in the picture.
const ROWS: [usize; 3] = [2, 5, 10];
/// Choices by chance, of which the middle one counts.
const CHOICES: usize = 5;
const RIVALS: [&str; 2] = ["random", "by_name"];
/// What is counted of a chain.
const COUNTED: [(&str, &str); 3] =
    [("ports", "ports"), ("headers", "entries"), ("switches", "switches")];

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let mut all = Vec::new();
    for rival in RIVALS {
        for functions in ROWS {
            for (what, unit) in COUNTED {
                let name: &'static str = figure(what, rival, functions).leak();
                let fold = if rival == "random" { Fold::Median } else { Fold::Count };
                all.push(Figure::new(name, unit, Better::Lower, Goal::None).by(fold));
            }
        }
    }
    all
});

fn figure(what: &str, rival: &str, functions: usize) -> String {
    format!("placed_{what}_vs_{rival}_{functions}")
}

pub(super) fn figures() -> Vec<Figure> {
    FIGURES.clone()
}

/// Hosts for so many functions, no two on one, by the planner's proposal for functions that stand elsewhere.
fn proposed(elsewhere: &[NodeName]) -> Result<Vec<NodeName>, BenchError> {
    let OneChain { domain, tenants, chain, .. } = OneChain::over(elsewhere, false)?;
    let proposal = domain.proposal(&tenants.intent, chain)?;
    let host =
        |function: &PlacedFunction| function.host.clone().or_else(|| function.now.first().cloned());
    let hosts: Option<Vec<NodeName>> = proposal.functions.iter().map(host).collect();
    let hosts = hosts.filter(|hosts| hosts.len() == elsewhere.len());
    hosts.ok_or_else(|| wrong("the placement", &proposal.trouble.unwrap_or_default()))
}

/// Different hosts of the tree.
fn by_chance(
    tree: &FatTree,
    functions: usize,
    random: &mut Random,
) -> Result<Vec<NodeName>, BenchError> {
    let mut left: Vec<usize> = (0..tree.hosts()).collect();
    let one = |_| {
        let place = random.below(left.len() as u32) as usize;
        tree.host_at(left.swap_remove(place))
    };
    (0..functions).map(one).collect()
}

fn by_name(tree: &FatTree, functions: usize) -> Result<Vec<NodeName>, BenchError> {
    let mut all =
        (0..tree.hosts()).map(|number| tree.host_at(number)).collect::<Result<Vec<_>, _>>()?;
    all.sort();
    all.truncate(functions);
    Ok(all)
}

/// Takes what a chain makes up for each number of functions.
#[allow(clippy::cast_precision_loss)]
pub(super) fn measure(notes: &mut Notes) -> Result<(), BenchError> {
    let tree = FatTree::new(K)?;
    let mut random = Random::new(0x91ace);
    for functions in 1..=FUNCTIONS_MAX {
        eprintln!("bench: {functions} functions placed");
        let mut take = |rival: &str, ours: &Entries, peer: &Entries| {
            let of = |entries: &Entries| [entries.ports, entries.headers, entries.visits];
            for ((what, _), (ours, peer)) in COUNTED.iter().zip(of(ours).into_iter().zip(of(peer)))
            {
                let figure = figure(what, rival, functions);
                notes.take(&figure, true, ours as f64);
                notes.take(&figure, false, peer as f64);
            }
        };
        let named = by_name(&tree, functions)?;
        let ours = OneChain::over(&proposed(&named)?, false)?.entries;
        take("by_name", &ours, &OneChain::over(&named, false)?.entries);
        for _ in 0..CHOICES {
            let hosts = by_chance(&tree, functions, &mut random)?;
            take("random", &ours, &OneChain::over(&hosts, false)?.entries);
        }
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn plot(notes: &Notes) -> Plot {
    let line = |name: &str, rival: &str, is_ours: bool| {
        let point = |functions: usize| {
            let samples = notes.samples(&figure("ports", rival, functions))?;
            let middle = median(if is_ours { &samples.ours } else { &samples.peer })?;
            Some((functions as f64, middle))
        };
        Line { name: name.into(), points: (1..=FUNCTIONS_MAX).filter_map(point).collect() }
    };
    Plot {
        stem: "source-route-placement".into(),
        title: "Ports in the headers of a chain by where its functions stand".into(),
        x: Axis::linear("functions"),
        y: Axis::linear("ports"),
        lines: vec![
            line("hosts that the planner proposes", "by_name", true),
            line("hosts by their names", "by_name", false),
            line("hosts by chance", "random", false),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_hosts_by_chance_or_name_make_shorter_headers_than_those_proposed() {
        let tree = FatTree::new(K).unwrap();
        let mut random = Random::new(7);
        for functions in [1, 3, 5] {
            let elsewhere = by_chance(&tree, functions, &mut random).unwrap();
            let ours = OneChain::over(&proposed(&elsewhere).unwrap(), false).unwrap().entries;
            for other in [elsewhere, by_name(&tree, functions).unwrap()] {
                let theirs = OneChain::over(&other, false).unwrap().entries;
                assert!(ours.ports <= theirs.ports, "{functions}: {other:?}");
                assert!(ours.visits <= theirs.visits, "{functions}: {other:?}");
            }
        }
    }
}

//! What is counted and computed, not timed: rows and pictures of entries, control bytes and sizes of headers.

use super::entries;
use super::paper::{self, Controller, SIZES, Spread};
use crate::error::BenchError;
use crate::plot::{Axis, Line, Plot};
use crate::results::{Better, Figure, Fold, Goal, Notes, median};
use std::sync::LazyLock;

pub(super) const FUNCTIONS_MAX: usize = 15;
/// Numbers of functions that have rows; the others are in the picture.
const ROWS: [usize; 4] = [1, 5, 10, 15];
pub(super) const SPREADS: [(Spread, &str); 2] = [(Spread::Pod, "pod"), (Spread::Pods, "pods")];
const TREES: [usize; 4] = [4, 8, 16, 32];
const HOPS: [usize; 2] = [10, 30];
/// Entries of a switch's table.
const TABLE: usize = 2_000;

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    // Counts, of which there is one: kept as they are.
    let lower = |name: String, unit, goal| {
        Figure::new(name.leak(), unit, Better::Lower, goal).by(Fold::Count)
    };
    let nothing = lower("entries_at_switches".into(), "entries", Goal::Value(0.0));
    let mut all = vec![nothing.by(Fold::Most)];
    for (_, place) in SPREADS {
        for ways in ["one", "both"] {
            for functions in ROWS {
                let named = |what: &str| format!("{what}_{place}_{ways}_{functions}");
                all.extend([
                    lower(named("entries"), "entries", Goal::None),
                    lower(named("ports"), "ports", Goal::None),
                    lower(named("hosts"), "entries", Goal::None),
                    lower(named("told_bytes"), "bytes", Goal::None),
                    lower(named("entries_edges"), "headers", Goal::Quotient(Some(1.0))),
                    lower(named("entries_full"), "headers", Goal::None),
                ]);
            }
        }
        let formula = |functions| format!("entries_formula_{place}_{functions}");
        all.extend(ROWS.map(|functions| lower(formula(functions), "entries", Goal::None)));
        let held = format!("chains_held_{place}_10");
        all.push(Figure::new(held.leak(), "chains", Better::Higher, Goal::None).by(Fold::Count));
    }
    for direction in ["up", "down"] {
        all.extend(TREES.map(|k| lower(format!("control_{direction}_k{k}"), "bytes", Goal::None)));
        for against in ["switch_by_switch", "whole_way"] {
            let name = format!("control_{direction}_vs_{against}_10");
            all.push(lower(name, "bytes", Goal::None));
        }
    }
    for (name, _) in SIZES {
        all.extend(HOPS.map(|hops| lower(format!("bytes_{name}_{hops}"), "bytes", Goal::None)));
    }
    all
});

pub(super) fn figures() -> Vec<Figure> {
    FIGURES.clone()
}

/// Counts and computes all.
#[allow(clippy::cast_precision_loss)]
pub(super) fn measure(notes: &mut Notes) -> Result<(), BenchError> {
    entries::measure(notes)?;
    let mut beside = |figure: &str, ours: usize, peer: usize| {
        notes.take(figure, true, ours as f64);
        notes.take(figure, false, peer as f64);
    };
    let (_, switches) = paper::switches(entries::K);
    let hosts = entries::K.pow(3) / 4;
    for (spread, place) in SPREADS {
        // Tables as full as they get where chains are spread evenly.
        let by_rules = TABLE * switches / spread.switches(10);
        let by_hosts = TABLE * hosts / entries::count(spread, 10, false)?.hosts;
        beside(&format!("chains_held_{place}_10"), by_hosts, by_rules);
    }
    for k in TREES {
        let [rules, ours] = paper::fat_tree(k);
        beside(&format!("control_up_k{k}"), ours.up, rules.up);
        beside(&format!("control_down_k{k}"), ours.down, rules.down);
    }
    let switches = Spread::Pod.switches(10);
    let ours = Controller::Headers { are_cut: true }.bytes(switches);
    for (controller, against) in
        [(Controller::SwitchBySwitch, "switch_by_switch"), (Controller::WholeWay, "whole_way")]
    {
        let peer = controller.bytes(switches);
        beside(&format!("control_up_vs_{against}_10"), ours.up, peer.up);
        beside(&format!("control_down_vs_{against}_10"), ours.down, peer.down);
    }
    for (name, size) in SIZES {
        for hops in HOPS {
            notes.take(&format!("bytes_{name}_{hops}"), true, size(hops) as f64);
        }
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn plots(notes: &Notes) -> Vec<Plot> {
    let line = |name: &str, figure: &dyn Fn(usize) -> String, at: &[usize], is_ours: bool| {
        let point = |x: &usize| {
            let samples = notes.samples(&figure(*x))?;
            Some((*x as f64, median(if is_ours { &samples.ours } else { &samples.peer })?))
        };
        Line { name: name.into(), points: at.iter().filter_map(point).collect() }
    };
    let functions: Vec<usize> = (1..=FUNCTIONS_MAX).collect();
    let counted = |place: &'static str| move |n: usize| format!("entries_{place}_one_{n}");
    let edges = |place: &'static str| move |n: usize| format!("entries_edges_{place}_one_{n}");
    let formula = |place: &'static str| move |n: usize| format!("entries_formula_{place}_{n}");
    let tree = |direction: &'static str| move |k: usize| format!("control_{direction}_k{k}");
    vec![
        Plot {
            stem: "source-route-entries".into(),
            title: "Entries of a chain".into(),
            x: Axis::linear("functions"),
            y: Axis::linear("entries"),
            lines: vec![
                line("ours: headers at hosts", &counted("pod"), &functions, true),
                line("rules, in a pod", &counted("pod"), &functions, false),
                line("rules, across pods", &counted("pods"), &functions, false),
                line("edges everywhere, in a pod", &formula("pod"), &functions, true),
                line("edges everywhere, pods", &formula("pods"), &functions, true),
            ],
        },
        Plot {
            stem: "source-route-edges".into(),
            title: "Headers of a chain in safe-9 where every switch is an edge".into(),
            x: Axis::linear("functions"),
            y: Axis::linear("headers"),
            lines: vec![
                line("ours, in a pod", &edges("pod"), &functions, true),
                line("the fewest, in a pod", &edges("pod"), &functions, false),
                line("ours, across pods", &edges("pods"), &functions, true),
                line("the fewest, across pods", &edges("pods"), &functions, false),
            ],
        },
        Plot {
            stem: "source-route-control".into(),
            title: "Control bytes per flow of all switches of a fat tree, by the paper's model"
                .into(),
            x: Axis::logarithmic("ports of a switch (logarithmic)"),
            y: Axis::logarithmic("bytes (logarithmic)"),
            lines: vec![
                line("source routes, up", &tree("up"), &TREES, true),
                line("rules, up", &tree("up"), &TREES, false),
                line("source routes, down", &tree("down"), &TREES, true),
                line("rules, down", &tree("down"), &TREES, false),
            ],
        },
    ]
}

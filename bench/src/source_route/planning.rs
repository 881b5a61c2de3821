//! What the planner takes for fat trees: nodes that come, chains by the thousand, one chain more, a cable that dies.

use super::source::Random;
use crate::engine::cpu_ns;
use crate::error::BenchError;
use crate::fabric::{Domain, FatTree, Place, Tenants};
use crate::plot::{Axis, Line, Plot};
use crate::results::{Better, Figure, Goal, Notes, median};
use catena_model::NodeName;
use catena_model::id::{ChainId, FunctionId};
use catena_model::topology::NodeRole;
use std::sync::LazyLock;

/// Ports of a switch.
const SIZES: [usize; 4] = [4, 8, 16, 32];
const SIZES_QUICK: [usize; 2] = [4, 8];
const CHAINS: usize = 1_000;
const CHAINS_QUICK: usize = 100;
/// Chains more, one by one, before and behind the others.
const ONES: usize = 5;
/// Seconds for all chains of the largest tree.
const SECONDS: f64 = 10.0;

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let lower = |name: String, unit, goal| Figure::new(name.leak(), unit, Better::Lower, goal);
    SIZES
        .into_iter()
        .flat_map(|k| {
            let goal = if k == SIZES[SIZES.len() - 1] { Goal::Value(SECONDS) } else { Goal::None };
            [
                lower(named("plan_nodes_s", k), "s", Goal::None),
                lower(named("plan_1000_chains_s", k), "s", goal),
                lower(named("plan_one_more_ms", k), "ms", Goal::Quotient(None)),
                lower(named("plan_dead_link_ms", k), "ms", Goal::None),
                lower(named("plan_dead_link_ways", k), "ways", Goal::Quotient(None)),
            ]
        })
        .collect()
});

fn named(what: &str, k: usize) -> String {
    format!("{what}_k{k}")
}

pub(super) fn figures() -> Vec<Figure> {
    FIGURES.clone()
}

/// Measures all trees.
pub(super) fn measure(is_quick: bool, notes: &mut Notes) -> Result<(), BenchError> {
    let sizes = if is_quick { &SIZES_QUICK[..] } else { &SIZES };
    let chains = if is_quick { CHAINS_QUICK } else { CHAINS };
    sizes.iter().try_for_each(|k| tree(*k, chains, notes))
}

fn tree(k: usize, chains: usize, notes: &mut Notes) -> Result<(), BenchError> {
    eprintln!("bench: a fat tree of switches with {k} ports");
    let begun = cpu_ns();
    let mut domain = Domain::new(FatTree::new(k)?)?;
    notes.take(&named("plan_nodes_s", k), true, since(begun) / 1e3);
    let mut random = Random::new(k as u64);
    let mut choose = |bound: usize| random.below(u32::try_from(bound).unwrap_or(u32::MAX)) as usize;
    let mut tenants = Tenants::default();
    let mut wanted = tenants.populate(&domain.tree, chains + 2 * ONES, &mut choose)?;
    domain.bind(&tenants.intent);
    domain.settle(&tenants.intent)?;
    let (last, first) = (wanted.split_off(chains + ONES), wanted.split_off(chains));
    let one_more = named("plan_one_more_ms", k);
    let mut declared = Vec::new();
    for one in first {
        notes.take(&one_more, false, plan(&mut domain, &mut tenants, vec![one], &mut declared)?);
    }
    let all = plan(&mut domain, &mut tenants, wanted, &mut declared)?;
    notes.take(&named("plan_1000_chains_s", k), true, all / 1e3);
    for one in last {
        notes.take(&one_more, true, plan(&mut domain, &mut tenants, vec![one], &mut declared)?);
    }
    domain.require(&tenants.intent, &declared)?;
    cut(&mut domain, &tenants, &declared, notes)
}

/// Declares chains and plans until every node has what it needs; in milliseconds.
fn plan(
    domain: &mut Domain,
    tenants: &mut Tenants,
    wanted: Vec<(Place, Vec<FunctionId>)>,
    declared: &mut Vec<ChainId>,
) -> Result<f64, BenchError> {
    for (source, functions) in wanted {
        declared.push(tenants.chain((&source, None), functions));
    }
    let begun = cpu_ns();
    domain.settle(&tenants.intent)?;
    Ok(since(begun))
}

/// A link between two switches dies that ways lead over.
fn cut(
    domain: &mut Domain,
    tenants: &Tenants,
    declared: &[ChainId],
    notes: &mut Notes,
) -> Result<(), BenchError> {
    let k = domain.tree.k;
    let ledger = domain.blueprint().ledger.clone();
    let is_switch = |node: &NodeName| {
        let mut nodes = domain.tree.nodes.iter();
        nodes.any(|(other, role)| other == node && *role == NodeRole::Switch)
    };
    let far = |node, port| {
        let interface = ledger.port_numbers.get(node)?.interface(port)?;
        let far = domain.tree.far(node, interface)?;
        is_switch(&far.0).then(|| (node.clone(), interface.to_owned()))
    };
    let legs = || ledger.ways.values().flat_map(|ways| ways.values()).flatten();
    let Some(dead) =
        legs().filter(|leg| is_switch(&leg.node)).find_map(|leg| far(&leg.node, leg.port))
    else {
        return Ok(());
    };
    domain.look(Some(&dead));
    let begun = cpu_ns();
    domain.settle(&tenants.intent)?;
    notes.take(&named("plan_dead_link_ms", k), true, since(begun));
    let changed = count(domain.blueprint(), |from, to, legs| {
        ledger.ways.get(from).and_then(|ways| ways.get(to)) != Some(legs)
    });
    let all = count(domain.blueprint(), |_, _, _| true);
    notes.take(&named("plan_dead_link_ways", k), true, changed);
    notes.take(&named("plan_dead_link_ways", k), false, all);
    domain.require(&tenants.intent, declared)
}

#[allow(clippy::cast_precision_loss)]
fn count(
    blueprint: &catena_plan::Blueprint,
    is_counted: impl Fn(&NodeName, &NodeName, &Vec<catena_model::topology::CableEnd>) -> bool,
) -> f64 {
    let books = blueprint.ledger.ways.iter();
    let ways = books.flat_map(|(from, ways)| ways.iter().map(move |(to, legs)| (from, to, legs)));
    ways.filter(|(from, to, legs)| is_counted(from, to, legs)).count() as f64
}

/// Milliseconds of the processor.
fn since(begun: f64) -> f64 {
    (cpu_ns() - begun) / 1e6
}

pub(super) fn plot(notes: &Notes) -> Plot {
    let line = |name: &str, figure: &str, is_ours: bool, scale: f64| {
        let point = |k: usize| {
            let samples = notes.samples(&named(figure, k))?;
            let value = median(if is_ours { &samples.ours } else { &samples.peer })?;
            Some((f64::from(u32::try_from(k).ok()?), value * scale))
        };
        Line { name: name.into(), points: SIZES.into_iter().filter_map(point).collect() }
    };
    Plot {
        stem: "source-route-planning".into(),
        title: "What the planner takes in fat trees".into(),
        x: Axis::logarithmic("ports of a switch (logarithmic)"),
        y: Axis::logarithmic("milliseconds (logarithmic)"),
        lines: vec![
            line("all nodes met", "plan_nodes_s", true, 1e3),
            line("1,000 chains at once", "plan_1000_chains_s", true, 1e3),
            line("one chain more", "plan_one_more_ms", true, 1.0),
            line("one chain among none", "plan_one_more_ms", false, 1.0),
            line("a dead link", "plan_dead_link_ms", true, 1.0),
        ],
    }
}

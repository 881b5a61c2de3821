//! What it costs to find the rule of a packet, among one and among a hundred thousand: asked of the
//! rules themselves (uncached), and of an engine whose flows are known, a whole packet from port to
//! tunnel (cached).

pub(crate) mod rules;

use crate::engine::site::{FIRST_PATH, Hop, Seat, program};
use crate::engine::{cpu_ns, known_flows, wrong};
use crate::error::BenchError;
use crate::machine::calibrate;
use crate::plot::{Axis, Line, Plot};
use crate::publish::{Run, publish};
use crate::results::{Better, Figure, Goal, Notes, median};
use catena_dataplane::engine::Tables;
use catena_model::entry::{Program, RuleKey};
use catena_model::program::RuleEntry;
use catena_model::{NodeProgram, PathId};
use catena_wire::frame::FrameView;
use rules::Random;
use std::path::Path;
use std::sync::Arc;

/// How much is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Less of everything.
    #[arg(long)]
    pub(crate) quick: bool,
}

const SAMPLES: usize = 15;
const SAMPLES_QUICK: usize = 5;
/// Packets of the source.
const PACKETS: usize = 1 << 16;
/// Packets whose rule is also found by asking one rule after the other.
const CHECKED: usize = 256;
/// Changes of one rule.
const UPDATES: u32 = 200;
/// Rules, and what the figures are called: uncached, its quotient by one rule, cached, its quotient.
const SIZES: [(usize, [&str; 4]); 4] = [
    (1, ["classifier_uncached_ns_1", "", "classifier_cached_ns_1", ""]),
    (
        100,
        [
            "classifier_uncached_ns_100",
            "classifier_100_vs_1",
            "classifier_cached_ns_100",
            "classifier_cached_100_vs_1",
        ],
    ),
    (
        10_000,
        [
            "classifier_uncached_ns_10000",
            "classifier_10000_vs_1",
            "classifier_cached_ns_10000",
            "classifier_cached_10000_vs_1",
        ],
    ),
    (
        100_000,
        [
            "classifier_uncached_ns_100000",
            "classifier_100000_vs_1",
            "classifier_cached_ns_100000",
            "classifier_cached_100000_vs_1",
        ],
    ),
];
/// Goals, in nanoseconds, times and microseconds.
const UNCACHED_NS: f64 = 400.0;
const CACHED_NS: f64 = 100.0;
const FLAT: f64 = 2.0;
const UPDATE_US: f64 = 1_000.0;

/// All figures, in the order of the table.
pub(crate) fn figures() -> Vec<Figure> {
    let figure = |name, unit, goal| Figure::new(name, unit, Better::Lower, goal);
    let mut all = vec![figure("copy_1500_ns", "ns", Goal::None)];
    for (_, [uncached, by_one, cached, cached_by_one]) in SIZES {
        all.push(figure(uncached, "ns", Goal::Value(UNCACHED_NS)));
        all.push(figure(cached, "ns", Goal::Value(CACHED_NS)));
        if !by_one.is_empty() {
            all.push(figure(by_one, "times", Goal::Quotient(Some(FLAT))));
            all.push(figure(cached_by_one, "times", Goal::Quotient(Some(FLAT))));
        }
    }
    all.push(figure("rule_update_us_100000", "µs", Goal::Value(UPDATE_US)));
    all.push(figure("rules_compile_ms_100000", "ms", Goal::None));
    all
}

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    let mut notes = Notes::default();
    calibrate(&mut notes);
    let samples = if options.quick { SAMPLES_QUICK } else { SAMPLES };
    let ready: Result<Vec<Asked>, BenchError> =
        SIZES.iter().map(|(count, _)| Asked::new(*count)).collect();
    let mut ready = ready?;
    for _ in 0..samples {
        let mut of_one = (0.0, 0.0);
        for (asked, (count, names)) in ready.iter_mut().zip(SIZES) {
            let [uncached, by_one, cached, cached_by_one] = names;
            let spent = (asked.uncached_ns(), asked.cached_ns()?);
            notes.take(uncached, true, spent.0);
            notes.take(cached, true, spent.1);
            if count == 1 {
                of_one = spent;
                continue;
            }
            for (name, ours, peer) in
                [(by_one, spent.0, of_one.0), (cached_by_one, spent.1, of_one.1)]
            {
                notes.take(name, true, ours);
                notes.take(name, false, peer);
            }
        }
        if let Some(most) = ready.last() {
            notes.take("rule_update_us_100000", true, most.update_us()?);
            notes.take("rules_compile_ms_100000", true, most.compile_ms()?);
        }
    }
    let plots = vec![plot(&notes)];
    let text = |key: &str, value: String| (key.to_owned(), value);
    publish(
        Run {
            name: "classifier",
            about:
                "Rules like those of ClassBench's access lists, the most specific first; 65,536 \
                    packets made of rules drawn at random, every sixteenth a stray one. Uncached: \
                    the rules alone are asked, the packet is parsed before. Cached: an engine that \
                    knows 1,024 flows takes them from a port into NSH, source and sink included. \
                    An update puts another rule in the place of one of 100,000 in the table alone; a \
                    program with one changed rule is compiled whole, as `rules_compile` tells."
                    .into(),
            versions: [text("ours", env!("CARGO_PKG_VERSION").into())].into(),
            options: [
                text("quick", options.quick.to_string()),
                text("packets of a sample", PACKETS.to_string()),
            ]
            .into(),
            notes,
            plots,
        },
        folder,
    )
}

/// A program of so many rules, compiled, and the packets that ask them.
struct Asked {
    program: NodeProgram,
    tables: Tables,
    views: Vec<FrameView>,
    engine: crate::engine::KnownFlows,
}

impl Asked {
    fn new(count: usize) -> Result<Self, BenchError> {
        eprintln!("bench: {count} rules");
        let mut program = program(&[Hop::Far, Hop::Far], 1)?;
        // Below all others: what the engine's packets enter by.
        let last = program.rules.pop();
        program.rules = rules::rules(count, Seat::Source.port(), PathId(FIRST_PATH));
        let mut with_last = program.clone();
        with_last.rules.extend(last.map(|rule| RuleEntry { priority: 0, ..rule }));
        let engine = known_flows(&with_last)?;
        let tables = Tables::compile(&program).map_err(|error| wrong("the program", &error))?;
        let mut random = Random::new(0x7ace);
        let views: Result<Vec<FrameView>, BenchError> = (0..PACKETS)
            .map(|_| {
                let rule = &program.rules[random.below(count as u32) as usize];
                let bytes = rules::packet(&rule.matches, &mut random)?;
                FrameView::parse(&bytes).map_err(|error| wrong("a packet", &error))
            })
            .collect();
        let asked = Self { program, tables, views: views?, engine };
        asked.check(&asked.tables, &asked.program.rules)?;
        Ok(asked)
    }

    /// The rules agree with a walk over all of them.
    fn check(&self, tables: &Tables, rules: &[RuleEntry]) -> Result<(), BenchError> {
        let asked = tables.asked(Seat::Source.port());
        let asked = asked.ok_or_else(|| wrong("the program", &"the port is missing"))?;
        let mut together = Vec::with_capacity(PACKETS);
        asked.rules(&self.views, |rule| together.push(rule));
        let rule = |number: Option<u32>| asked.entry(number?).map(|rule| rule.id);
        for (view, found) in self.views.iter().zip(together).step_by(PACKETS / CHECKED) {
            let walked = rules.iter().find(|rule| rules::meets(&rule.matches, view));
            let walked = walked.map(|rule| rule.id);
            let (found, alone) = (rule(found), rule(asked.rule(view)));
            if (found, alone) != (walked, walked) {
                let told = format!("{found:?}, alone {alone:?}, and not {walked:?}");
                return Err(wrong("the classifier", &told));
            }
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)]
    fn uncached_ns(&self) -> f64 {
        let Some(asked) = self.tables.asked(Seat::Source.port()) else { return f64::NAN };
        let began = cpu_ns();
        let mut sum = 0_u64;
        asked.rules(&self.views, |rule| {
            sum = sum.wrapping_add(u64::from(rule.unwrap_or(u32::MAX)));
        });
        std::hint::black_box(sum);
        (cpu_ns() - began) / self.views.len() as f64
    }

    fn cached_ns(&mut self) -> Result<f64, BenchError> {
        self.engine.ns(PACKETS)
    }

    /// Microseconds that it takes to put another rule in the place of one.
    fn update_us(&self) -> Result<f64, BenchError> {
        let mut random = Random::new(0x0dd5);
        let count = self.program.rules.len() as u32;
        let (port, path) = (Seat::Source.port(), PathId(FIRST_PATH));
        let mut tables = self.tables.clone();
        let mut rules = self.program.rules.clone();
        let keys: Vec<RuleKey> = tables.entries().rules.keys().cloned().collect();
        let mut spent = 0.0;
        for _ in 0..UPDATES {
            let number = random.below(count);
            let entry = rules::entry(number, rules::rule(&mut random, port), path, count);
            let mut entries = tables.entries().clone();
            entries.rules.insert(keys[number as usize].clone(), Arc::new(entry.clone()));
            let program = Program { entries, ..Program::default() };
            let began = cpu_ns();
            let next = tables.following(&program).map_err(|error| wrong("a rule", &error))?;
            spent += cpu_ns() - began;
            tables = next;
            rules[number as usize] = entry;
        }
        self.check(&tables, &rules)?;
        Ok(spent / f64::from(UPDATES) / 1_000.0)
    }

    fn compile_ms(&self) -> Result<f64, BenchError> {
        let began = cpu_ns();
        let tables = Tables::compile(&self.program).map_err(|error| wrong("a rule", &error))?;
        let spent = cpu_ns() - began;
        std::hint::black_box(&tables);
        Ok(spent / 1_000_000.0)
    }
}

#[allow(clippy::cast_precision_loss)]
pub(crate) fn plot(notes: &Notes) -> Plot {
    let line = |name: &str, at: usize| {
        let point = |(count, names): (usize, [&str; 4])| {
            Some((count as f64, median(&notes.samples(names[at])?.ours)?))
        };
        Line { name: name.into(), points: SIZES.into_iter().filter_map(point).collect() }
    };
    Plot {
        stem: "classifier".into(),
        title: "Cost of finding a packet's rule by the number of rules".into(),
        x: Axis::logarithmic("rules (logarithmic)"),
        y: Axis::linear("nanoseconds per packet"),
        lines: vec![line("uncached: the rules alone", 0), line("cached: a whole packet", 2)],
    }
}

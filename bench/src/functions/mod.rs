//! What bundled functions cost: in memory, asked of parsed packets as the engine asks, and with real traffic
//! through them beside programs of others.

mod asked;
mod balance;
mod chain;
mod firewall;
mod header;
mod hyperscan;
mod ids;
mod latency;
mod line;
mod profile;
mod prose;
mod segment;

use crate::error::BenchError;
use crate::machine::calibrate;
use crate::peers::program::version;
use crate::plot::{Axis, Line, Plot};
use crate::publish::{Run, print_rows, publish};
use crate::results::{Better, Figure, Goal, Notes, median};
use asked::Asked;
pub(crate) use balance::ask_for_pages;
use firewall::Listed;
use ids::Watched;
use segment::Segment;
use std::collections::BTreeMap;
use std::path::Path;

/// How much is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Less of everything.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only this part, printed and not published: headers, segment, ids, chain, balancer or qperf.
    #[arg(long)]
    only: Option<String>,
    /// Does the work of one figure, for whoever counts its instructions.
    #[arg(long, hide = true)]
    work: Option<String>,
}

impl Options {
    /// Is nothing published, or what is no measure?
    pub(crate) const fn is_trial(&self) -> bool {
        self.quick || self.only.is_some() || self.work.is_some()
    }
}

const SAMPLES: usize = 15;
const SAMPLES_QUICK: usize = 5;
/// Rules of the firewalls, and the names of the figures.
const SIZES: [(usize, &str); 3] =
    [(1, "firewall_1_ns"), (100, "firewall_100_ns"), (10_000, "firewall_10k_ns")];
/// Goals, nanoseconds and times.
const HEADER_FUNCTION_NS: f64 = 80.0;
const FLAT: f64 = 2.0;

/// All figures, in the order of the table.
pub(crate) fn figures() -> Vec<Figure> {
    let figure = |name, unit, goal| Figure::new(name, unit, Better::Lower, goal);
    let mut all = vec![figure("copy_1500_ns", "ns", Goal::None)];
    for (rules, name) in SIZES {
        let goal = if rules == 10_000 { Goal::None } else { Goal::Value(HEADER_FUNCTION_NS) };
        all.push(figure(name, "ns", goal));
    }
    all.push(figure("firewall_10k_vs_100", "times", Goal::Quotient(Some(FLAT))));
    all.push(figure("firewall_10k_read_ms", "ms", Goal::None));
    all.extend(header::names().map(|name| figure(name, "ns", Goal::Value(HEADER_FUNCTION_NS))));
    all.extend(segment::figures());
    all.extend(ids::figures());
    all.extend(chain::figures());
    all.extend(balance::figures());
    all.extend(latency::figures());
    all
}

/// What is measured by itself, in this order.
const PARTS: [(&str, Part); 6] = [
    ("headers", headers),
    ("segment", segments),
    ("ids", watched),
    ("chain", chains),
    ("balancer", balancers),
    ("qperf", delays),
];

type Part = fn(&mut Measuring<'_>) -> Result<(), BenchError>;

/// A run under way.
struct Measuring<'r> {
    root: &'r Path,
    is_quick: bool,
    notes: Notes,
    /// What could not be measured, and why.
    missing: Vec<String>,
    versions: BTreeMap<String, String>,
    options: BTreeMap<String, String>,
}

impl Measuring<'_> {
    const fn samples(&self) -> usize {
        if self.is_quick { SAMPLES_QUICK } else { SAMPLES }
    }
}

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    let text = |key: &str, value: String| (key.to_owned(), value);
    let root = folder.parent().unwrap_or(folder);
    if let Some(work) = &options.work {
        return profile::work(work, root);
    }
    let mut run = Measuring {
        root,
        is_quick: options.quick,
        notes: Notes::default(),
        missing: Vec::new(),
        versions: [text("ours", env!("CARGO_PKG_VERSION").into())].into(),
        options: [
            text("quick", options.quick.to_string()),
            text("packets of a sample", asked::PACKETS.to_string()),
        ]
        .into(),
    };
    calibrate(&mut run.notes);
    let is_asked = |name: &str| options.only.as_ref().is_none_or(|only| only == name);
    for (_, part) in PARTS.iter().filter(|(name, _)| is_asked(name)) {
        part(&mut run)?;
    }
    for (name, package) in [("haproxy", "haproxy"), ("qperf", "qperf"), ("nginx", "nginx")] {
        run.versions.extend(version(package).map(|version| text(name, version)));
    }
    let missing = run.missing.iter().map(|what| format!(" Not measured: {what}."));
    let about = ABOUT.to_owned()
        + &missing.collect::<String>()
        + &profile::of_missed(&run.notes, &figures());
    if options.only.is_some() {
        println!("{about}");
        print_rows(&run.notes, &figures());
        return Ok(());
    }
    let plots = vec![plot(&run.notes)];
    let Measuring { notes, versions, options, .. } = run;
    publish(Run { name: "functions", about, versions, options, notes, plots }, folder)
}

const ABOUT: &str = "Nanoseconds of processor time. Functions are asked of parsed packets of 64 bytes \
    (60 without the check sequence) in batches of 256, in memory and warm, and what they rewrite is \
    written. Firewalls have rules like \
    those of ClassBench's access lists, as iptables-save writes them, the most specific first, each accepting; \
    the policy drops. Packets are made of rules drawn at random, every sixteenth a stray one; each verdict was \
    held against a walk along the rules before. Reading is that of the text and the making of the firewall. The \
    others know 1,024 flows of UDP, whose packets come in turn, both ways, and all go on; the firewall with \
    states of connections has two rules and verifies checksums, the policer marks three colours. A pass of a \
    segment is from an endpoint through that firewall and a monitor to another endpoint in one engine, source \
    and sink included, beside a packet that no chain takes. The ids has the rules of the conformance corpus and \
    64 connections that upload benign text to a web server, each packet in order and every second acknowledged: \
    checksums, connections, streams and requests included; what is acknowledged takes time and does not count. \
    Hyperscan is given the same text, payload by payload, and the contents that the ids looks for in it; it does \
    nothing else. TCP is one iperf3 stream through a firewall, a monitor and a NAT on this host: inside, in the \
    data plane; as namespaces that route, with the same in nftables, steered by the kernel path (answers go \
    straight to the NAT there, so the firewall asks for ports alone); as the same namespaces on a cable, which \
    nothing steers, both ways; and alone, as three processes of `catena nf run` on that cable. The balancer runs \
    so beside haproxy in mode tcp, before four addresses of one nginx: a stream, and pages by four clients, a \
    connection each. qperf tells how long a message of 50 to 250 bytes takes by TCP through a NAT, a firewall \
    and an ids inside, beside the same endpoints without a chain: the sizes of figure 3 of the study, whose are \
    of networks and not of messages; its seconds are no peer. Instructions (those that read packets among \
    them) are counted by valgrind, for each \
    figure in memory that misses its goal.";

fn headers(run: &mut Measuring<'_>) -> Result<(), BenchError> {
    let ready: Result<Vec<Listed>, BenchError> =
        SIZES.iter().map(|(count, _)| Listed::new(*count)).collect();
    let mut ready = ready?;
    let mut remembering: Vec<(&str, Asked)> = header::ready()?;
    for _ in 0..run.samples() {
        let notes = &mut run.notes;
        let mut spent = Vec::new();
        for (listed, (_, name)) in ready.iter_mut().zip(SIZES) {
            let ns = listed.asked.ns()?;
            notes.take(name, true, ns);
            spent.push(ns);
        }
        for (name, asked) in &mut remembering {
            notes.take(name, true, asked.ns()?);
        }
        if let [_, few, many] = spent[..] {
            notes.take("firewall_10k_vs_100", true, many);
            notes.take("firewall_10k_vs_100", false, few);
        }
        if let Some(most) = ready.last() {
            notes.take("firewall_10k_read_ms", true, most.read_ms()?);
        }
    }
    Ok(())
}

fn segments(run: &mut Measuring<'_>) -> Result<(), BenchError> {
    eprintln!("bench: a segment");
    let mut segment = Segment::new()?;
    (0..run.samples()).try_for_each(|_| segment.take(&mut run.notes))
}

fn watched(run: &mut Measuring<'_>) -> Result<(), BenchError> {
    eprintln!("bench: an ids");
    let mut watched = Watched::new(run.root)?;
    for _ in 0..run.samples() {
        watched.take(&mut run.notes)?;
    }
    run.missing.extend(watched.missing());
    run.versions.extend(watched.version().map(|version| ("hyperscan".to_owned(), version)));
    let (rules, contents) = watched.rules;
    let told = format!("{rules}, of which {contents} have a content that is looked for in TCP");
    run.options.insert("rules of the ids".into(), told);
    Ok(())
}

fn chains(run: &mut Measuring<'_>) -> Result<(), BenchError> {
    run.missing.extend(chain::measure(run.is_quick, run.root, &mut run.notes));
    Ok(())
}

fn balancers(run: &mut Measuring<'_>) -> Result<(), BenchError> {
    run.missing.extend(balance::measure(run.is_quick, run.root, &mut run.notes));
    Ok(())
}

fn delays(run: &mut Measuring<'_>) -> Result<(), BenchError> {
    run.missing.extend(latency::measure(run.is_quick, run.root, &mut run.notes));
    Ok(())
}

#[allow(clippy::cast_precision_loss)]
pub(crate) fn plot(notes: &Notes) -> Plot {
    let point =
        |(rules, name): (usize, &str)| Some((rules as f64, median(&notes.samples(name)?.ours)?));
    Plot {
        stem: "functions".into(),
        title: "Cost of a firewall by the number of its rules".into(),
        x: Axis::logarithmic("rules (logarithmic)"),
        y: Axis::linear("nanoseconds per packet"),
        lines: vec![Line {
            name: "firewall, stateless".into(),
            points: SIZES.into_iter().filter_map(point).collect(),
        }],
    }
}

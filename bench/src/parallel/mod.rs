//! Functions side by side: what that saves, what it costs, and what is read of rules before it may be done.

mod delays;
mod enterprise;
mod price;
mod rules;
mod serving;
mod site;

use crate::error::BenchError;
use crate::machine::calibrate;
use crate::publish::{Run, print_rows, publish};
use crate::results::{Better, Figure, Goal, Notes};
use std::path::Path;

/// How much is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Less of everything.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only this part, printed and not published: delays, enterprise, price or rules.
    #[arg(long)]
    only: Option<String>,
}

impl Options {
    /// Is nothing published?
    pub(crate) const fn is_trial(&self) -> bool {
        self.quick || self.only.is_some()
    }
}

/// All figures, in the order of the table.
pub(crate) fn figures() -> Vec<Figure> {
    let mut all = vec![Figure::new("copy_1500_ns", "ns", Better::Lower, Goal::None)];
    all.extend(delays::figures());
    all.extend(enterprise::figures());
    all.extend(price::figures());
    all.extend(rules::figures());
    all
}

const ABOUT: &str = "\
    Packets of 64 bytes through functions at one hop of the real engine, in memory. Delays: packets come one by \
    one at random (Poisson) at half of what each function can do; functions are monitors whose threads take \
    exponentially distributed times of 1 ms in the mean, by sleeping, or by computing on a core each. Side by \
    side and in a pipeline of as many threads, in turns, with the same arrivals and the same times; the figure \
    is how much less the mean delay is (the model of queues: 52 and 28 %); predicted_mean_error_pct is the \
    largest of the four means' distances from that model. What choosing costs: chains of two to six functions by \
    chance, with two threads beside the same engine without any, which is what serial is. fork_join_ns is what \
    one packet takes longer through two monitors that threads are asked for, one packet after the other, the \
    waking of both threads included; apart_hop_us the same of one monitor in a process of its own. Enterprise: \
    an ids of 500 patterns beside a monitor, then a firewall and a nat; bursts of 64 packets of 1,400 bytes, at \
    random: in the slower form one alone takes three tenths of the mean time between two, waking included; two \
    threads forced to fork beside the same engine without any, in turns; the delay of a packet, the processor \
    time of all threads, and how many points the node's own reckoning (fork_ns by fuse_ns) is away. Rules: \
    iptables rules of random prefixes, protocols and ports, beside each rule held against each; read before the \
    clock runs. one_rule_ms: a new rule against 10,000, whose ranges were read before, as were those of the \
    peer; class_lookup_ns: the first rule of a header, by the firewall that runs and by a look at each rule. \
    Where goals are missed, and why. class_lookup_ns: the firewall lists all rules that a packet meets. \
    Enterprise: a burst takes some 20 us where one asks after the other, and waking threads as long again for \
    each stage; enterprise_model_points has no value where the node reckons with none: three of the four may \
    stand side by side, and with two cores it would not fork.";

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    let mut notes = Notes::default();
    let mut told = Vec::new();
    calibrate(&mut notes);
    let is_asked = |name: &str| options.only.as_ref().is_none_or(|only| only == name);
    let (rounds, packets, samples) = if options.quick { (2, 2_000, 5) } else { (5, 6_000, 15) };
    if is_asked("delays") {
        told = delays::measure(rounds, packets, &mut notes)?;
    }
    if is_asked("price") {
        price::census(&mut notes)?;
        price::fork_join(samples, &mut notes)?;
        price::apart_hop(samples, &mut notes)?;
        price::penalty(samples.max(15), if options.quick { 4_096 } else { 32_768 }, &mut notes)?;
    }
    if is_asked("enterprise") {
        enterprise::measure(rounds, options.quick, &mut notes)?;
    }
    if is_asked("rules") {
        rules::measure(samples, options.quick, &mut notes)?;
    }
    let means = told.iter().map(|told| format!(" {told}.")).collect::<String>();
    let about = format!("{ABOUT}{means}");
    if options.only.is_some() {
        println!("{about}");
        print_rows(&notes, &figures());
        return Ok(());
    }
    let text = |key: &str, value: String| (key.to_owned(), value);
    publish(
        Run {
            name: "parallel",
            about,
            versions: [text("ours", env!("CARGO_PKG_VERSION").into())].into(),
            options: [
                text("quick", options.quick.to_string()),
                text("rounds", rounds.to_string()),
                text("packets of a round", packets.to_string()),
            ]
            .into(),
            notes,
            plots: Vec::new(),
        },
        folder,
    )
}

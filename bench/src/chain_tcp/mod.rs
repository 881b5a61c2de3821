//! TCP through chains of none to six functions over four hosts, and through one function in three
//! places: ours as the demo runs it, beside raw redirection over the same veth crossings, kernel
//! routing with kernel VXLAN, and Open vSwitch in user space; then the delay of each.
//!
//! Knows how each test bed is laid and what is sent through it. Functions are the same in all: a
//! namespace that routes. Refuses to know how ours steers.

mod bed;
mod chains;
mod figures;
mod lab;
mod moved;
mod open_vswitch;
mod redirect;
mod routing;
mod traffic;
mod wires;

use crate::error::BenchError;
use crate::machine::calibrate;
use crate::peers::{self, Unavailable};
use crate::publish::{Run, publish};
use crate::results::{Notes, median};
use bed::Maker;
pub(crate) use bed::{Bed, End, Ends};
pub(crate) use chains::Node;
use chains::{BESIDE_DESTINATION, Chain, ELSEWHERE, LENGTHS};
pub(crate) use figures::{figures, throughput_plot};
pub(crate) use lab::LabBed;
pub(crate) use moved::MovedStreams;
use routing::Between;
use std::collections::BTreeMap;
use std::path::Path;
use traffic::Stream;
pub(crate) use traffic::{echo, make_round_trips};
pub(crate) use wires::{DESTINATION_ADDRESS, Plug, SOURCE_ADDRESS, TENANT_MTU, Wires};

/// The lab of ours with all chains, as the demo runs them.
const LAB: &str = "bench-chain-tcp";

/// How much is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Less of everything.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Cores of both ends of a stream, as `taskset` has them; without it: all.
    #[arg(long)]
    cores: Option<String>,
}

/// Turns, so that a machine that gets slower gets so for all.
const ROUNDS: usize = 5;
const ROUNDS_QUICK: usize = 2;
const SECONDS: u32 = 3;
const SECONDS_QUICK: u32 = 1;
const TRIPS: usize = 4_000;
const TRIPS_QUICK: usize = 1_000;
/// Longer than any round trips beside it take.
const LOAD_SECONDS: u32 = 30;
/// In the order of a round.
const MAKERS: [Maker; 6] = [
    Maker::Ours,
    Maker::Redirect,
    Maker::RedirectPeer,
    Maker::Routing,
    Maker::OpenVswitch,
    Maker::Engine,
];

/// What was seen: Gbit/s of streams and medians of round trips, one of each round.
#[derive(Default)]
struct Seen {
    streams: BTreeMap<(Maker, &'static str), Vec<f64>>,
    idle: BTreeMap<(Maker, &'static str), Vec<f64>>,
    loaded: BTreeMap<(Maker, &'static str), Vec<f64>>,
    /// What nodes said of their kernel path after the last streams.
    kernel_paths: BTreeMap<Maker, String>,
    /// Why something is missing.
    skipped: BTreeMap<String, String>,
}

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    let root = folder.parent().unwrap_or(folder);
    let mut notes = Notes::default();
    calibrate(&mut notes);
    let mut seen = Seen::default();
    for round in 1..=if options.quick { ROUNDS_QUICK } else { ROUNDS } {
        for maker in MAKERS {
            eprintln!("bench: round {round}, {maker:?}");
            seen.round(maker, options, root);
        }
    }
    figures::take(&seen, &mut notes);
    let mut versions = peers::versions();
    versions.insert("ours".into(), env!("CARGO_PKG_VERSION").into());
    let how = stream_of(options);
    publish(
        Run {
            name: "chain-tcp",
            about: seen.about(),
            versions,
            options: [
                ("quick".to_owned(), options.quick.to_string()),
                ("traffic".to_owned(), traffic::described(&how)),
                ("kernel_path".to_owned(), seen.kernel_path_of(Maker::Ours)),
                ("kernel_path_of_engine".to_owned(), seen.kernel_path_of(Maker::Engine)),
            ]
            .into(),
            plots: vec![figures::throughput_plot(&notes), figures::delay_plot(&seen)],
            notes,
        },
        folder,
    )
}

/// Gbit/s of one stream of so many seconds between the ends of a bed, to this port.
pub(crate) fn gbit(bed: &dyn Ends, port: u16, seconds: u32) -> Result<f64, Unavailable> {
    traffic::stream(bed, port, &Stream { seconds, cores: None, rate: None })
}

fn stream_of(options: &Options) -> Stream {
    let seconds = if options.quick { SECONDS_QUICK } else { SECONDS };
    Stream { seconds, cores: options.cores.clone(), rate: None }
}

impl Seen {
    /// One bed after the other; what cannot be is noted, and the rest goes on.
    fn round(&mut self, maker: Maker, options: &Options, root: &Path) {
        if let Maker::Ours | Maker::Engine = maker {
            match LabBed::start(root, LAB, maker == Maker::Ours) {
                Err(reason) => self.skip(maker, "", &reason),
                Ok(bed) => {
                    for chain in chains_of(maker) {
                        self.measure(maker, &chain, options, &bed);
                    }
                    match bed.kernel_paths() {
                        Ok(said) => drop(self.kernel_paths.insert(maker, said)),
                        Err(reason) => self.skip(maker, "kernel path", &reason),
                    }
                }
            }
            return;
        }
        for chain in chains_of(maker) {
            let bed = match maker {
                Maker::Redirect => redirect::lay(&chain, false),
                Maker::RedirectPeer => redirect::lay(&chain, true),
                Maker::Routing => routing::lay(&chain, Between::Vxlan, TENANT_MTU),
                Maker::OpenVswitch | Maker::Ours | Maker::Engine => open_vswitch::lay(&chain),
            };
            match bed {
                Err(reason) => self.skip(maker, chain.name, &reason),
                Ok(bed) => self.measure(maker, &chain, options, &bed),
            }
        }
    }

    fn measure(&mut self, maker: Maker, chain: &Chain, options: &Options, bed: &dyn Ends) {
        let key = (maker, chain.name);
        match traffic::stream(bed, chain.port, &stream_of(options)) {
            Err(reason) => self.skip(maker, chain.name, &reason),
            Ok(gbit) => self.streams.entry(key).or_default().push(gbit),
        }
        if !LENGTHS.contains(chain) {
            return;
        }
        let count = if options.quick { TRIPS_QUICK } else { TRIPS };
        let idle = traffic::round_trips(bed, chain.port + 1, count, None);
        // Beside a load that a bed cannot carry, only its queue would be seen.
        let is_loaded = matches!(maker, Maker::Ours | Maker::Redirect);
        let is_loaded = is_loaded && LENGTHS.last() == Some(chain);
        let load = half_of(self.streams.get(&(Maker::Ours, chain.name)).filter(|_| is_loaded));
        let loaded = load.map(|rate| {
            let load = Stream { seconds: LOAD_SECONDS, rate: Some(rate), ..stream_of(options) };
            traffic::round_trips(bed, chain.port + 3, count, Some(&load))
        });
        for (trips, is_loaded) in [(Some(idle), false), (loaded, true)] {
            match trips {
                None => {}
                Some(Err(reason)) => self.skip(maker, chain.name, &reason),
                Some(Ok(trips)) => {
                    let all = if is_loaded { &mut self.loaded } else { &mut self.idle };
                    all.entry(key).or_default().extend(median(&trips));
                }
            }
        }
    }

    /// Without it, ours would be the engine under another name.
    fn kernel_path_of(&self, maker: Maker) -> String {
        let said = self.kernel_paths.get(&maker).filter(|said| !said.is_empty());
        said.map_or("none", String::as_str).to_owned()
    }

    fn skip(&mut self, maker: Maker, chain: &str, reason: &Unavailable) {
        let what = format!("{maker:?} {chain}").trim().to_owned();
        eprintln!("bench: {what} is not measured: {reason}");
        self.skipped.insert(what, reason.to_string());
    }

    /// For people.
    fn about(&self) -> String {
        let mut text = String::from(
            "Functions are namespaces that route, the same for all; so are hosts, switches and \
             MTU. The answers go straight. Raw redirection has a cable for each hop, so that its \
             programs need not look at packets; `raw_redirect_peer` enters a function without a \
             queue. Kernel routing goes by interface, with a VXLAN network for each hop between \
             hosts. Open vSwitch is one switch with all functions and no tunnels (it has none for \
             super-frames), user-space segmentation on. Nothing is pinned unless said; all of it \
             shares this machine's cores. Delay added per hop is a sixth of what a round trip over \
             six functions takes longer than by raw redirection; half load is half of what ours \
             carries through the same chain.",
        );
        for (what, reason) in &self.skipped {
            text.push_str(&format!(" Not measured: {what} ({reason})."));
        }
        text
    }
}

/// Half of the last stream, in bits a second.
fn half_of(streams: Option<&Vec<f64>>) -> Option<f64> {
    streams?.last().map(|gbit| gbit * 1e9 / 2.0)
}

/// Places are compared with raw redirection alone.
fn chains_of(maker: Maker) -> Vec<Chain> {
    let places = match maker {
        Maker::Routing | Maker::OpenVswitch => vec![],
        Maker::Ours | Maker::Engine | Maker::Redirect | Maker::RedirectPeer => {
            vec![BESIDE_DESTINATION, ELSEWHERE]
        }
    };
    LENGTHS.into_iter().chain(places).collect()
}

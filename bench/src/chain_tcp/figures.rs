//! From what was seen to figures and pictures.

use super::Seen;
use super::bed::Maker;
use super::chains::LENGTHS;
use crate::plot::{Axis, Line, Plot};
use crate::results::{Better, Figure, Goal, Notes, median};

/// A chain's figures: what each peer's is called.
struct Names {
    chain: &'static str,
    peers: [(Maker, &'static str); 5],
}

macro_rules! names {
    ($($chain:literal)*) => {
        [$(Names {
            chain: $chain,
            peers: [
                (Maker::Redirect, concat!($chain, "_vs_raw_redirect")),
                (Maker::RedirectPeer, concat!($chain, "_vs_raw_redirect_peer")),
                (Maker::Routing, concat!($chain, "_vs_kernel_routing")),
                (Maker::OpenVswitch, concat!($chain, "_vs_open_vswitch")),
                (Maker::Engine, concat!($chain, "_vs_engine")),
            ],
        }),*]
    };
}

const STREAMS: [Names; 9] = names!["c0" "c1" "c2" "c3" "c4" "c5" "c6" "destination" "elsewhere"];
const TRIPS: [Names; 3] = names!["c0_round_trip" "c1_round_trip" "c6_round_trip"];
const HOPS: f64 = 6.0;

/// All figures, in the order of the table.
pub(crate) fn figures() -> Vec<Figure> {
    let mut all = vec![
        Figure::new("copy_1500_ns", "ns", Better::Lower, Goal::None),
        Figure::new("elsewhere_vs_source", "Gbit/s", Better::Higher, Goal::Quotient(Some(0.9))),
    ];
    for (_, name) in STREAMS.iter().flat_map(|names| names.peers) {
        let goal = match name {
            "c6_vs_raw_redirect" => Some(0.8),
            "c6_vs_kernel_routing" => Some(2.5),
            "c6_vs_open_vswitch" => Some(4.0),
            _ => None,
        };
        let (unit, better) = ("Gbit/s", Better::Higher);
        all.push(Figure::new(name, unit, better, Goal::Quotient(goal)));
    }
    for name in ["delay_added_per_hop_idle_us", "delay_added_per_hop_half_load_us"] {
        all.push(Figure::new(name, "µs", Better::Lower, Goal::Value(1.0)));
    }
    for (_, name) in TRIPS.iter().flat_map(|names| names.peers) {
        let goal = (name == "c6_round_trip_vs_open_vswitch").then_some(1.0 / 3.0);
        all.push(Figure::new(name, "µs", Better::Lower, Goal::Quotient(goal)));
    }
    all
}

/// Gives every figure its samples.
pub(super) fn take(seen: &Seen, notes: &mut Notes) {
    let mut pair = |name: &str, ours: Option<&Vec<f64>>, peer: Option<&Vec<f64>>| {
        let (Some(ours), Some(peer)) = (ours, peer) else { return };
        ours.iter().for_each(|sample| notes.take(name, true, *sample));
        peer.iter().for_each(|sample| notes.take(name, false, *sample));
    };
    for names in &STREAMS {
        for (maker, name) in names.peers {
            let of = |maker| seen.streams.get(&(maker, names.chain));
            pair(name, of(Maker::Ours), of(maker));
        }
    }
    for names in &TRIPS {
        for (maker, name) in names.peers {
            let chain = LENGTHS.iter().find(|chain| names.chain.starts_with(chain.name));
            let of = |maker| chain.and_then(|chain| seen.idle.get(&(maker, chain.name)));
            pair(name, of(Maker::Ours), of(maker));
        }
    }
    let ours = |chain| seen.streams.get(&(Maker::Ours, chain));
    pair("elsewhere_vs_source", ours("elsewhere"), ours("c1"));
    for (name, trips) in [
        ("delay_added_per_hop_idle_us", &seen.idle),
        ("delay_added_per_hop_half_load_us", &seen.loaded),
    ] {
        let of = |maker| trips.get(&(maker, "c6")).into_iter().flatten();
        for (ours, raw) in of(Maker::Ours).zip(of(Maker::Redirect)) {
            notes.take(name, true, (ours - raw) / HOPS);
        }
    }
}

/// What lines are called, ours first.
const LINES: [(Maker, &str); 6] = [
    (Maker::Ours, "Catena"),
    (Maker::Redirect, "raw redirect"),
    (Maker::RedirectPeer, "raw redirect into the peer"),
    (Maker::Routing, "kernel routing and VXLAN"),
    (Maker::OpenVswitch, "Open vSwitch, user space"),
    (Maker::Engine, "Catena's engine alone"),
];

/// Throughput by length.
pub(crate) fn throughput_plot(notes: &Notes) -> Plot {
    let line = |(maker, name): (Maker, &str)| {
        let point = |(at, chain): (u32, &super::Chain)| {
            let names = STREAMS.iter().find(|names| names.chain == chain.name)?;
            let is_it = |(peer, _): &&(Maker, &str)| *peer == maker || maker == Maker::Ours;
            let (_, figure) = names.peers.iter().find(is_it)?;
            let samples = notes.samples(figure)?;
            let side = if maker == Maker::Ours { &samples.ours } else { &samples.peer };
            Some((f64::from(at), median(side)?))
        };
        let points = (0u32..).zip(&LENGTHS).filter_map(point).collect();
        Line { name: name.to_owned(), points }
    };
    Plot {
        stem: "chain-tcp".into(),
        title: "TCP throughput by chain length".into(),
        x: Axis::linear("functions"),
        y: Axis::linear("Gbit/s"),
        lines: LINES.into_iter().map(line).collect(),
    }
}

/// Round trips by length.
pub(super) fn delay_plot(seen: &Seen) -> Plot {
    let of = |all: &std::collections::BTreeMap<(Maker, &'static str), Vec<f64>>| -> Vec<Line> {
        let line = |(maker, name): &(Maker, &str)| {
            let point = |(at, chain): (u32, &super::Chain)| {
                Some((f64::from(at), median(all.get(&(*maker, chain.name))?)?))
            };
            let points = (0u32..).zip(&LENGTHS).filter_map(point).collect();
            Line { name: (*name).to_owned(), points }
        };
        LINES.iter().map(line).collect()
    };
    Plot {
        stem: "chain-tcp-delay".into(),
        title: "Round trip by chain length, idle, median".into(),
        x: Axis::linear("functions"),
        y: Axis::logarithmic("microseconds (logarithmic)"),
        lines: of(&seen.idle),
    }
}

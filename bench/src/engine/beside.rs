//! The same frames through Open vSwitch and `dpdk-testpmd`. The switch gets NSH over Ethernet, which it
//! knows; what reaches ours by tunnel has VXLAN-GPE before it besides.

use super::frames::{Position, Template, Turn};
use super::kinds::Kind;
use super::site::{FIRST_PATH, Seat};
use crate::peers::{Caches, Mode, Switch, Unavailable, Windows, rules, testpmd};
use crate::results::{Better, Figure, Goal, Notes, median};
use catena_model::resource::Encapsulation;

/// Flows of the source.
const FLOWS: u32 = 1_024;
/// Frames of a source over a table: every position as often, at least so many in all.
const FRAMES_MIN: u32 = 1_024;
const ALL_CACHES: [Caches; 3] = [Caches::Default, Caches::Exact, Caches::Classifier];

/// A step: what ours is called, and the figures beside each peer.
struct Step {
    ours: &'static str,
    switch: &'static str,
    floor: &'static str,
}

const PUSH: Step = Step {
    ours: "nsh_push_ns",
    switch: "nsh_push_vs_open_vswitch",
    floor: "nsh_push_vs_testpmd_macswap",
};
const FORWARD: Step = Step {
    ours: "forward_out_ns",
    switch: "forward_vs_open_vswitch",
    floor: "forward_vs_testpmd_macswap",
};
const POP: Step =
    Step { ours: "pop_ns", switch: "pop_vs_open_vswitch", floor: "pop_vs_testpmd_macswap" };
/// Hops of a table: more of them the switch does not come to rest with.
const TABLES: [(u32, &str, &str); 4] = [
    (1, "hops_1_ns", "hops_1_vs_open_vswitch"),
    (1_024, "hops_1024_ns", "hops_1024_vs_open_vswitch"),
    (4_096, "hops_4096_ns", "hops_4096_vs_open_vswitch"),
    (16_384, "hops_16384_ns", "hops_16384_vs_open_vswitch"),
];

/// Figures beside peers: ours by theirs.
pub(super) fn figures() -> Vec<Figure> {
    let figure = |name, most| Figure::new(name, "ns", Better::Lower, Goal::Quotient(Some(most)));
    let steps = [PUSH, FORWARD, POP];
    let switch = steps.iter().map(|step| figure(step.switch, 0.5));
    let floor = steps.iter().map(|step| figure(step.floor, 3.0));
    let tables = TABLES.iter().map(|(hops, _, name)| {
        // Twice as fast, and eight times where it has left its caches.
        figure(*name, if *hops == 16_384 { 0.125 } else { 0.5 })
    });
    switch.chain(floor).chain(tables).collect()
}

/// Hops of a table and the figure beside the switch.
pub(super) fn tables() -> impl Iterator<Item = (u32, &'static str)> {
    TABLES.into_iter().map(|(hops, _, name)| (hops, name))
}

/// Measures the peers after ours; answers what could not be, and why.
pub(super) fn measure(notes: &mut Notes) -> Vec<String> {
    let mut missing = Vec::new();
    let (push, forward, pop) = (bare(), on_path(254), on_path(253));
    for (step, frames) in [(PUSH, &push), (FORWARD, &forward), (POP, &pop)] {
        eprintln!("bench: testpmd, {}", step.floor);
        let seen = testpmd(Mode::MacSwap, frames, Windows::default());
        take(notes, (step.ours, step.floor), seen, &mut missing);
    }
    let mut switch = match Switch::start() {
        Ok(switch) => switch,
        Err(reason) => {
            missing.push(format!("Open vSwitch ({reason})"));
            return missing;
        }
    };
    let (first, hop, end) = (
        rules::push_all(FIRST_PATH, 255),
        rules::forward(FIRST_PATH, 254),
        rules::pop(FIRST_PATH, 253),
    );
    for (step, frames, rule) in [(PUSH, &push, first), (FORWARD, &forward, hop), (POP, &pop, end)] {
        eprintln!("bench: Open vSwitch, {}", step.switch);
        let seen = fastest(&mut switch, frames, &[rule]);
        take(notes, (step.ours, step.switch), seen, &mut missing);
    }
    for (hops, ours, figure) in TABLES {
        eprintln!("bench: Open vSwitch, {hops} hops");
        let (frames, rules) = table(hops);
        let seen = fastest(&mut switch, &frames, &rules);
        take(notes, (ours, figure), seen, &mut missing);
    }
    missing
}

/// The peer's samples under a figure, beside those that ours has under another.
fn take(
    notes: &mut Notes,
    (ours, figure): (&str, &str),
    seen: Result<Vec<f64>, Unavailable>,
    missing: &mut Vec<String>,
) {
    match seen {
        Err(reason) => missing.push(format!("{figure} ({reason})")),
        Ok(samples) => {
            let ours = notes.samples(ours).cloned().unwrap_or_default().ours;
            ours.iter().for_each(|sample| notes.take(figure, true, *sample));
            samples.iter().for_each(|sample| notes.take(figure, false, *sample));
        }
    }
}

/// The switch with those of its caches that serve it best.
fn fastest(
    switch: &mut Switch,
    frames: &[Vec<u8>],
    rules: &[String],
) -> Result<Vec<f64>, Unavailable> {
    let mut best: Result<Vec<f64>, Unavailable> = Err(Unavailable("it was not asked".into()));
    for caches in ALL_CACHES {
        let seen = switch.measure(frames, rules, caches, None, Windows::default());
        let time = |seen: &Result<Vec<f64>, Unavailable>| {
            seen.as_ref().ok().and_then(|samples| median(samples)).unwrap_or(f64::INFINITY)
        };
        if best.is_err() || time(&seen) < time(&best) {
            best = seen;
        }
    }
    best
}

fn plain() -> Template {
    Template::bare(Kind::ORDINARY, (Seat::Source, Seat::Sink), Seat::Sink.mac().0, 64)
}

fn bare() -> Vec<Vec<u8>> {
    let position = Position { path: 0, index: 0 };
    (0..FLOWS).map(|flow| frame(&plain(), Turn { flow, position })).collect()
}

/// Frames at one position of the first path.
fn on_path(index: u8) -> Vec<Vec<u8>> {
    let template = plain().on_path(Encapsulation::Nsh, index).behind_ethernet(Seat::AwareOut);
    let position = Position { path: 0, index };
    (0..FLOWS).map(|flow| frame(&template, Turn { flow, position })).collect()
}

/// Frames over a table of so many hops, two on each path, and its rules.
fn table(hops: u32) -> (Vec<Vec<u8>>, Vec<String>) {
    let template = plain().on_path(Encapsulation::Nsh, 255).behind_ethernet(Seat::AwareOut);
    let place =
        |hop: u32| Position { path: hop / 2, index: if hop.is_multiple_of(2) { 255 } else { 254 } };
    // A step that shares no factor with a power of two meets every hop, in no order.
    let turns = (0..hops.max(FRAMES_MIN)).map(|at| at.wrapping_mul(40_503) % hops);
    let frames = turns.zip(0..).map(|(hop, flow)| {
        frame(&template, Turn { flow: flow % (FLOWS * 16), position: place(hop) })
    });
    let rule = |hop| {
        let Position { path, index } = place(hop);
        rules::forward(FIRST_PATH + path, index)
    };
    (frames.collect(), (0..hops).map(rule).collect())
}

fn frame(template: &Template, turn: Turn) -> Vec<u8> {
    let mut frame = template.bytes().to_vec();
    template.patch(&mut frame, turn);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_table_s_frames_meet_every_hop_equally_often_and_each_hop_has_one_rule() {
        for hops in [1, 1_024, 4_096] {
            let (frames, rules) = table(hops);
            assert_eq!(rules.iter().collect::<BTreeSet<_>>().len(), hops as usize);
            let positions: BTreeSet<&[u8]> = frames.iter().map(|frame| &frame[18..22]).collect();
            assert_eq!(positions.len(), hops as usize);
            assert_eq!(frames.len() % positions.len(), 0);
        }
    }
}

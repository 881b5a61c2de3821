//! Bytes between one edge and the controller for a flow that is set up with its first packet, by the rate of flows: as
//! the kernel counts them on their connection, beside the messages of OpenFlow 1.0 for a flow at one switch.

use super::paper::{Bytes, Controller};
use super::set_up::RATES;
use crate::plot::{Axis, Line, Plot, line};
use crate::results::{Better, Figure, Goal, Notes};
use serde::Deserialize;
use std::sync::LazyLock;

/// What goes over the connection in a second without any flow.
const REST: [&str; 2] = ["control_rest_up_bytes", "control_rest_down_bytes"];
/// A switch that asks for a flow, and is told where to send it; the second, that is told what header to write.
const RULE: Bytes = Controller::SwitchBySwitch.bytes(1);
const HEADER: Bytes = Controller::Headers { are_cut: false }.bytes(1);

static FIGURES: LazyLock<Vec<Figure>> = LazyLock::new(|| {
    let lower = |name: String, unit| Figure::new(name.leak(), unit, Better::Lower, Goal::None);
    let of_rate = |rate| [up_of(rate), down_of(rate)].map(|name| lower(name, "bytes"));
    let rest = REST.map(|name| lower(name.to_owned(), "bytes/s"));
    RATES.into_iter().flat_map(of_rate).chain(rest).collect()
});

fn up_of(rate: u32) -> String {
    format!("control_up_bytes_{rate}")
}

fn down_of(rate: u32) -> String {
    format!("control_down_bytes_{rate}")
}

pub(super) fn figures() -> Vec<Figure> {
    FIGURES.clone()
}

/// What is read of the lab's report.
#[derive(Clone, Copy, Deserialize)]
pub(super) struct Southbound {
    up_bytes: f64,
    down_bytes: f64,
    rest_up_bytes: f64,
    rest_down_bytes: f64,
}

/// Takes what went over the connection at a rate, beside the sizes.
#[allow(clippy::cast_precision_loss)]
pub(super) fn take(rate: u32, southbound: &Southbound, notes: &mut Notes) {
    let of_flow = [
        (up_of(rate), southbound.up_bytes, RULE.up),
        (down_of(rate), southbound.down_bytes, RULE.down),
    ];
    for (figure, ours, peer) in of_flow {
        notes.take(&figure, true, ours);
        notes.take(&figure, false, peer as f64);
    }
    for (figure, bytes) in REST.iter().zip([southbound.rest_up_bytes, southbound.rest_down_bytes]) {
        notes.take(figure, true, bytes);
    }
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn plot(notes: &Notes) -> Plot {
    let points = |figure: fn(u32) -> String| RATES.map(|rate| (f64::from(rate), figure(rate)));
    let down = line(notes, "down, measured", true, points(down_of));
    // Where something was measured, so that there is no picture of it alone.
    let header = down.points.iter().map(|(rate, _)| (*rate, HEADER.down as f64)).collect();
    Plot {
        stem: "source-route-southbound".into(),
        title: "Control bytes of one switch for a flow, by the rate of flows".into(),
        x: Axis::logarithmic("flows a second (logarithmic)"),
        y: Axis::linear("bytes"),
        lines: vec![
            line(notes, "up, measured", true, points(up_of)),
            down,
            line(notes, "OpenFlow's packet-in", false, points(up_of)),
            line(notes, "OpenFlow's flow-mod", false, points(down_of)),
            Line { name: "OpenFlow's header".into(), points: header },
        ],
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::results::Samples;

    pub(crate) const SEEN: Southbound = Southbound {
        up_bytes: 110.0,
        down_bytes: 97.0,
        rest_up_bytes: 2_300.0,
        rest_down_bytes: 0.0,
    };

    #[test]
    fn bytes_of_a_flow_stand_beside_the_messages_of_one_switch() {
        let mut notes = Notes::default();
        take(500, &SEEN, &mut notes);
        let of = |figure: &str| notes.samples(figure).cloned().unwrap();
        assert_eq!(of("control_up_bytes_500"), Samples { ours: vec![110.0], peer: vec![146.0] });
        assert_eq!(of("control_down_bytes_500"), Samples { ours: vec![97.0], peer: vec![80.0] });
        assert_eq!(of("control_rest_up_bytes"), Samples { ours: vec![2_300.0], peer: vec![] });
        let plot = plot(&notes);
        let points: Vec<_> = plot.lines.iter().map(|line| line.points.clone()).collect();
        assert_eq!(points, [110.0, 97.0, 146.0, 80.0, 132.0].map(|bytes| vec![(500.0, bytes)]));
    }
}

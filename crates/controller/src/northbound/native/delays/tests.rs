//! What is told of delays of a chain. Knows what an observer says of made reports; refuses to know how they came.

use super::*;
use catena_adapt::observe::{Limits, Observer, Quantiles};
use catena_model::id::BlueprintNumber;
use catena_model::telemetry::{DeviceId, PlannedHop, PlannedPath, PlannedVisit};

/// What is known of a path of so many hops, of which nothing was told.
fn figures(hops: u16) -> PathFigures {
    let hop = |device| PlannedHop {
        visits: vec![PlannedVisit { device: DeviceId(device), functions: Vec::new() }],
    };
    let (path, version) = (PathId(1), BlueprintNumber(1));
    let hops = (0..hops).map(hop).collect();
    let mut observer = Observer::new(Limits::default());
    observer.plan(PlannedPath { path, version, one_in: Telemetry::MIRROR, hops }, 0).unwrap();
    observer.figures(path, version, 0).unwrap()
}

#[test]
fn why_a_chain_has_no_delay_is_the_first_thing_that_keeps_it_from_having_one() {
    let all = Telemetry::default;
    let no_arrival = Telemetry { fields: [TelemetryField::Device].into(), ..all() };
    for (hops, telemetry, reports, words) in [
        (1, all(), 5, "one hop"),
        (2, no_arrival, 5, "'arrival'"),
        (2, all(), 0, "no packet of it was told of yet"),
        (2, all(), 5, "synchronised"),
    ] {
        let mut figures = figures(hops);
        figures.taken.reports = reports;
        let whole = whole(&telemetry, &figures);
        let reason = whole.reason.unwrap();
        assert!(whole.delays.is_empty() && reason.contains(words), "{reason}");
    }
}

#[test]
fn a_figure_says_how_far_it_holds_by_what_it_was_measured_with() {
    let quantile = Quantile { ns: Some(5), at_least: None, at_most: Some(9) };
    let all = Quantiles { samples: 3, p50: quantile, p95: quantile, p99: quantile };
    let delay =
        |source| DelayFigures { source, all, windows: Vec::new(), steps: Vec::new(), spoiled: 2 };
    for (source, measured, permille, ns) in [
        (Source::Packet, Measured::Here, 16, Some(64)),
        (Source::Packet, Measured::Apart, 16, None),
        (Source::Engine, Measured::Here, 141, Some(0)),
        (Source::Probe, Measured::Apart, 16, Some(0)),
    ] {
        let told = figure(&delay(source), measured);
        assert_eq!((told.error_permille, told.error_ns), (permille, ns), "{source:?}");
        let expected = DelayQuantile { ns: Some(5), at_least_ns: None, at_most_ns: Some(9) };
        assert_eq!((told.p95, told.samples, told.spoiled_windows), (expected, 3, 2));
    }
}

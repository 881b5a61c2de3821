//! What packets and nodes told of delays, among the metrics. Knows names and labels; refuses to know how figures are
//! reckoned. What was not observed has no line.

use super::metrics::{Counters, Known, Labels, chain_name, count, with};
use crate::northbound::otlp_counters::OtlpCounters;
use crate::southbound::telemetry::state::NodeTold;
use catena_adapt::observe::{DelayFigures, PathFigures, Quantile};
use catena_model::NodeName;
use catena_model::account::NodeCounters;
use catena_model::export::ExportCounters;
use catena_model::telemetry::DeviceId;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

const NS_PER_SECOND: f64 = 1e9;

type Seconds = Family<Labels, Gauge<f64, AtomicU64>>;

/// Every metric of telemetry.
#[derive(Default)]
struct TelemetryMetrics {
    hop_delay: Seconds,
    leg_delay: Seconds,
    chain_delay: Seconds,
    samples: Counters,
    lost: Counters,
    reports: Counters,
    refused: Counters,
    left_out: Counters,
    untold: Counters,
    exported: Counters,
    export_datagrams: Counters,
    otlp_requests: Counters,
    otlp_points: Counters,
}

/// Adds what is known now.
pub(super) fn add(
    known: &Known<'_>,
    counters: &BTreeMap<NodeName, NodeCounters>,
    registry: &mut Registry,
) {
    let metrics = TelemetryMetrics::default();
    metrics.register(registry);
    for (node, counters) in counters {
        metrics.add_exports(&vec![("node", node.into())], &counters.exports);
    }
    metrics.add_otlp(&known.app.otlp);
    let board = &known.app.fleet.telemetry;
    for path in board.paths() {
        let record = known.situation.blueprint.ledger.paths.get(&path);
        let told = board.told_of(path).and_then(|known| known.told.ok());
        let Some((record, (planned, figures))) = record.zip(told) else { continue };
        let (chain, path) = (chain_name(&known.intent, record.chain), path.to_string());
        let labels = with(&Labels::new(), &[("chain", &chain), ("path", &path)]);
        metrics.add_path(&labels, &planned.nodes, &figures);
    }
    for node in board.nodes() {
        metrics.add_node(&vec![("node", (&node).into())], &board.told_by(&node));
    }
}

impl TelemetryMetrics {
    fn register(&self, registry: &mut Registry) {
        let mut seconds = |name: &str, help: &str, family: &Seconds| {
            registry.register(format!("catena_{name}_seconds"), help, family.clone());
        };
        seconds("hop_delay", "How long functions of a hop took, by source", &self.hop_delay);
        seconds("hop_leg_delay", "From a hop to the next one, by source", &self.leg_delay);
        seconds("chain_delay", "From the first hop to the last, by source", &self.chain_delay);
        let mut counter = |name: &str, help: &str, family: &Counters| {
            registry.register(format!("catena_{name}"), help, family.clone());
        };
        counter("hop_delay_samples", "Samples of how long functions of a hop took", &self.samples);
        counter("hop_lost_packets", "Lost from a hop to the next one, as packets tell", &self.lost);
        counter("telemetry_reports", "Reports of packets that were believed", &self.reports);
        counter("telemetry_refused", "Reports that were not believed, by reason", &self.refused);
        counter("telemetry_left_out", "Reports that did not come, by number", &self.left_out);
        counter("telemetry_lost", "Packets not told of for want of room, by place", &self.untold);
        counter("export_packets", "Packets that collectors of others are told of", &self.exported);
        counter("export_datagrams", "Datagrams to such collectors", &self.export_datagrams);
        counter("otlp_requests", "Requests of OTLP to a collector, by result", &self.otlp_requests);
        counter(
            "otlp_points",
            "Figures in requests that the collector took, by what became of them",
            &self.otlp_points,
        );
    }

    fn add_path(&self, path: &Labels, nodes: &BTreeMap<DeviceId, NodeName>, figures: &PathFigures) {
        for (number, hop) in figures.hops.iter().enumerate() {
            let number = number.to_string();
            let at_hop = with(path, &[("hop", &number)]);
            for visit in &hop.visits {
                let node = nodes.get(&visit.device).map(NodeName::as_str).unwrap_or_default();
                let here = with(&at_hop, &[("node", node)]);
                for delay in &visit.delays {
                    set(&self.hop_delay, &here, delay);
                    let labels = with(&here, &[("source", delay.source.name())]);
                    count(&self.samples, &labels, delay.all.samples);
                }
            }
            hop.leg.iter().for_each(|delay| set(&self.leg_delay, &at_hop, delay));
            if let Some(losses) = hop.passage.as_ref().and_then(|passage| passage.losses) {
                count(&self.lost, &at_hop, losses.lost);
            }
        }
        figures.chain.iter().for_each(|delay| set(&self.chain_delay, path, delay));
    }

    /// Nothing where nobody is told.
    fn add_otlp(&self, otlp: &OtlpCounters) {
        let requests = otlp.requests();
        if requests.iter().all(|(_, count)| *count == 0) {
            return;
        }
        for (result, requests) in requests {
            count(&self.otlp_requests, &vec![("result", result.into())], requests);
        }
        count(&self.otlp_points, &vec![("result", "rejected".into())], otlp.rejected_points());
    }

    fn add_exports(&self, here: &Labels, exports: &[ExportCounters]) {
        for export in exports {
            let labels = with(here, &[("format", export.format.name())]);
            for (result, packets) in [("told", export.packets), ("unreadable", export.unreadable)] {
                count(&self.exported, &with(&labels, &[("result", result)]), packets);
            }
            for (result, datagrams) in [("sent", export.sent), ("unsent", export.unsent)] {
                count(&self.export_datagrams, &with(&labels, &[("result", result)]), datagrams);
            }
        }
    }

    fn add_node(&self, here: &Labels, told: &NodeTold) {
        count(&self.reports, here, told.telling.believed);
        count(&self.left_out, here, told.telling.left_out);
        for (reason, reports) in &told.refused {
            count(&self.refused, &with(here, &[("reason", reason)]), *reports);
        }
        for (place, packets) in told.lost_by_place() {
            count(&self.untold, &with(here, &[("at", place)]), packets);
        }
    }
}

fn set(family: &Seconds, labels: &Labels, delay: &DelayFigures) {
    let quantiles = [("0.5", delay.all.p50), ("0.95", delay.all.p95), ("0.99", delay.all.p99)];
    for (share, Quantile { ns, .. }) in quantiles {
        let Some(ns) = ns else { continue };
        let labels = with(labels, &[("source", delay.source.name()), ("quantile", share)]);
        family.get_or_create(&labels).set(ns as f64 / NS_PER_SECOND);
    }
}

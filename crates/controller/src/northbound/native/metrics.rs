//! The counters of all nodes in the Prometheus text form, asked for at each scrape: the nodes count,
//! the controller only carries the numbers.

use super::problem::Problem;
use super::telemetry_metrics;
use super::view::View;
use crate::northbound::answers::of_kind;
use crate::northbound::app::App;
use crate::reconcile::Situation;
use axum::http::StatusCode;
use axum::response::Response;
use catena_model::id::ChainId;
use catena_model::kernel::KernelCounters;
use catena_model::status::ChainState;
use catena_model::text::is_unseen;
use catena_model::{Account, NodeCounters, NodeName, Volume};
use catena_plan::Intent;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::fmt::{self, Write as _};
use std::sync::Arc;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) type Labels = Vec<(&'static str, LabelText)>;
pub(super) type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge>;

/// The value of a label: the encoder writes texts as they are, and people have chosen these.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LabelText(String);

impl<T: ToString + ?Sized> From<&T> for LabelText {
    fn from(text: &T) -> Self {
        Self(text.to_string())
    }
}

impl EncodeLabelValue for LabelText {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        for character in self.0.chars() {
            match character {
                // What the format asks for (OpenMetrics 1.0, `escaped-char`) reads back as it was.
                '\n' => encoder.write_str("\\n")?,
                '"' | '\\' => write!(encoder, "\\{character}")?,
                unseen if is_unseen(unseen) => {
                    write!(encoder, "\\\\u{{{:x}}}", u32::from(unseen))?;
                }
                seen => encoder.write_char(seen)?,
            }
        }
        Ok(())
    }
}

/// Every metric: one list, so that a reader sees them all.
#[derive(Default)]
struct Metrics {
    port_received: Counters,
    port_transmitted: Counters,
    port_created_by_function: Counters,
    port_ring_full: Counters,
    port_crowded: Counters,
    link_received: Counters,
    link_transmitted: Counters,
    link_ring_full: Counters,
    tunnel_transmitted: Counters,
    tunnel_ring_full: Counters,
    received: Counters,
    created: Counters,
    forwarded: Counters,
    dropped: Counters,
    consumed: Counters,
    unaccounted: Gauges,
    chain_entered: Counters,
    chain_finished: Counters,
    chain_dropped: Counters,
    chain_crowded: Counters,
    chain_setups: Counters,
    hop_delivered: Counters,
    hop_returned: Counters,
    hop_denied: Counters,
    hop_generated: Counters,
    hop_timed: Counters,
    hop_service_ns: Counters,
    hop_sojourned: Counters,
    hop_sojourn_ns: Counters,
    hop_sojourn_samples: Counters,
    kernel_carried: Counters,
    kernel_punted: Counters,
    kernel_ring_full: Counters,
    kernel_lost: Counters,
    kernel_transforms: Counters,
    kernel_declined: Counters,
    kernel_flows: Gauges,
    chain_active: Gauges,
    node_connected: Gauges,
}

impl Metrics {
    fn register(&self, registry: &mut Registry) {
        let mut counter = |name: &str, help: &str, family: &Counters| {
            registry.register(format!("catena_{name}"), help, family.clone());
        };
        counter("port_received_packets", "Taken from the port", &self.port_received);
        counter("port_transmitted_packets", "Sent out of the port", &self.port_transmitted);
        counter(
            "port_created_by_function_packets",
            "Received from a function as its own traffic",
            &self.port_created_by_function,
        );
        counter("port_ring_full_frames", "Lost by the kernel at the port", &self.port_ring_full);
        counter(
            "port_crowded_flows",
            "Forgotten by a full memory of the engine, of the port's",
            &self.port_crowded,
        );
        counter("link_received_packets", "Source routes brought by the link", &self.link_received);
        counter("link_transmitted_packets", "Sent into the link", &self.link_transmitted);
        counter("link_ring_full_frames", "Lost by the kernel at the link", &self.link_ring_full);
        counter(
            "tunnel_transmitted_packets",
            "Sent to other nodes, in packets of the tenant",
            &self.tunnel_transmitted,
        );
        counter(
            "tunnel_ring_full_datagrams",
            "Lost by the kernel at the tunnel sockets",
            &self.tunnel_ring_full,
        );
        counter("received_packets", "Taken from ports and tunnels", &self.received);
        counter("created_packets", "Made by the data plane, by kind", &self.created);
        counter("forwarded_packets", "Handed to ports and tunnels", &self.forwarded);
        counter("dropped_packets", "Ended here, by reason", &self.dropped);
        counter("consumed_packets", "Answered by the data plane itself", &self.consumed);
        counter("chain_entered_packets", "Classified into the chain", &self.chain_entered);
        counter("chain_finished_packets", "Come to the chain's end", &self.chain_finished);
        counter("chain_dropped_packets", "Lost on the chain, by reason", &self.chain_dropped);
        counter(
            "chain_crowded_flows",
            "Forgotten by a full memory of the engine, of the path's",
            &self.chain_crowded,
        );
        counter(
            "chain_setup_flows",
            "Flows that the controller was asked for, by what became of that",
            &self.chain_setups,
        );
        counter("hop_delivered_packets", "Given to the instance", &self.hop_delivered);
        counter("hop_returned_packets", "Come back from the instance", &self.hop_returned);
        counter(
            "hop_denied_packets",
            "Of those come back: ended by a rule of the bundled function",
            &self.hop_denied,
        );
        counter(
            "hop_generated_packets",
            "Made by the bundled function of its own",
            &self.hop_generated,
        );
        counter(
            "hop_timed_packets",
            "Packets whose time in the bundled function was measured",
            &self.hop_timed,
        );
        counter(
            "hop_service_nanoseconds",
            "What those took together, in nanoseconds",
            &self.hop_service_ns,
        );
        counter(
            "hop_sojourn_samples",
            "Packets whose time with a function outside was measured",
            &self.hop_sojourn_samples,
        );
        counter("hop_sojourn_packets", "So many packets these stand for", &self.hop_sojourned);
        counter(
            "hop_sojourn_nanoseconds",
            "How long those were with the function together, in nanoseconds",
            &self.hop_sojourn_ns,
        );
        counter("kernel_carried_packets", "Carried by the kernel alone", &self.kernel_carried);
        counter("kernel_punted_packets", "Come up from the kernel path", &self.kernel_punted);
        counter(
            "kernel_punt_ring_full_frames",
            "Lost between the kernel's program and the engine",
            &self.kernel_ring_full,
        );
        counter("kernel_lost_frames", "Lost in the kernel's program", &self.kernel_lost);
        counter(
            "kernel_transforms",
            "Transforms put in and taken out, by what happened",
            &self.kernel_transforms,
        );
        counter(
            "kernel_declined_packets",
            "Of flows that the engine keeps, by cause",
            &self.kernel_declined,
        );
        let mut gauge = |name: &str, help: &str, family: &Gauges| {
            registry.register(format!("catena_{name}"), help, family.clone());
        };
        gauge(
            "unaccounted_packets",
            "What the identity leaves over; 0, or a fault",
            &self.unaccounted,
        );
        gauge("kernel_flows", "Flows that the kernel repeats", &self.kernel_flows);
        gauge("chain_active", "1 when every node has acknowledged the chain", &self.chain_active);
        gauge("node_connected", "1 while the node's agent is connected", &self.node_connected);
    }

    fn add_node(&self, node: &NodeName, counters: &NodeCounters, intent: &Intent) {
        let here: Labels = vec![("node", node.into())];
        for port in &counters.ports {
            let labels = with(&here, &[("port", &port.name)]);
            add(&self.port_received, &labels, port.account.received);
            add(&self.port_transmitted, &labels, port.transmitted);
            count(&self.port_created_by_function, &labels, port.created_by_function);
            count(&self.port_ring_full, &labels, port.ring_full);
            let crowded = counters.crowded.ports.get(&port.port).copied();
            count(&self.port_crowded, &labels, crowded.unwrap_or(0));
        }
        for link in &counters.links {
            let labels = with(&here, &[("link", &link.name)]);
            add(&self.link_received, &labels, link.account.received);
            add(&self.link_transmitted, &labels, link.transmitted);
            count(&self.link_ring_full, &labels, link.ring_full);
        }
        add(&self.tunnel_transmitted, &here, counters.tunnels_transmitted);
        count(&self.tunnel_ring_full, &here, counters.tunnels_ring_full);
        self.add_account(&here, &counters.total());
        if let Some(kernel) = &counters.dataplane.kernel {
            self.add_kernel_path(&here, kernel);
        }
        for chain in &counters.chains {
            let name = chain_name(intent, chain.chain);
            let path = chain.path.to_string();
            let labels = with(&here, &[("chain", &name), ("path", &path)]);
            add(&self.chain_entered, &labels, chain.entered);
            add(&self.chain_finished, &labels, chain.finished);
            let crowded = counters.crowded.paths.get(&chain.path).copied();
            count(&self.chain_crowded, &labels, crowded.unwrap_or(0));
            for (reason, packets) in &chain.dropped {
                count(&self.chain_dropped, &with(&labels, &[("reason", reason.name())]), *packets);
            }
            for hop in &chain.hops {
                let (number, member) = (hop.hop.to_string(), hop.member.to_string());
                let place = [("hop", &*number), ("member", &member), ("instance", &hop.name)];
                let labels = with(&labels, &place);
                add(&self.hop_delivered, &labels, hop.delivered);
                add(&self.hop_returned, &labels, hop.returned);
                count(&self.hop_denied, &labels, hop.denied);
                count(&self.hop_generated, &labels, hop.generated);
                count(&self.hop_timed, &labels, hop.service_time.packets);
                count(&self.hop_service_ns, &labels, hop.service_time.ns);
                count(&self.hop_sojourn_samples, &labels, hop.sojourn_time.timed);
                count(&self.hop_sojourned, &labels, hop.sojourn_time.packets);
                count(&self.hop_sojourn_ns, &labels, hop.sojourn_time.ns);
            }
        }
        for (chain, setups) in &counters.setups.chains {
            let name = chain_name(intent, *chain);
            let ends = [
                ("asked", setups.asked),
                ("asked_again", setups.asked_again),
                ("answered", setups.answered),
                ("unfit", setups.unfit),
                ("unanswered", setups.unanswered),
            ];
            for (end, flows) in ends {
                count(&self.chain_setups, &with(&here, &[("chain", &name), ("end", end)]), flows);
            }
        }
    }

    fn add_kernel_path(&self, here: &Labels, kernel: &KernelCounters) {
        add(&self.kernel_carried, here, kernel.carried);
        count(&self.kernel_punted, here, kernel.punted);
        count(&self.kernel_ring_full, here, kernel.ring_full);
        for (cause, frames) in [
            ("way_up", kernel.punt_lost),
            ("refused", kernel.refused),
            ("copy_refused", kernel.copies_refused),
            ("no_port", kernel.strays),
        ] {
            count(&self.kernel_lost, &with(here, &[("cause", cause)]), frames);
        }
        for (event, transforms) in [
            ("installed", kernel.installed),
            ("aged", kernel.aged),
            ("ended", kernel.ended),
            ("let_up", kernel.let_up),
            ("evicted", kernel.evicted),
            ("crowded_out", kernel.crowded()),
        ] {
            count(&self.kernel_transforms, &with(here, &[("event", event)]), transforms);
        }
        for (cause, packets) in &kernel.declined {
            count(&self.kernel_declined, &with(here, &[("cause", cause.name())]), *packets);
        }
        let flows = i64::try_from(kernel.flows).unwrap_or(i64::MAX);
        self.kernel_flows.get_or_create(here).set(flows);
    }

    fn add_account(&self, here: &Labels, account: &Account) {
        add(&self.received, here, account.received);
        add(&self.forwarded, here, account.forwarded);
        count(&self.consumed, here, account.consumed);
        for (kind, packets) in &account.created {
            count(&self.created, &with(here, &[("kind", kind.name())]), *packets);
        }
        for (reason, packets) in &account.dropped {
            count(&self.dropped, &with(here, &[("reason", reason.name())]), *packets);
        }
        let left_over = i64::try_from(account.unaccounted()).unwrap_or(i64::MAX);
        self.unaccounted.get_or_create(here).set(left_over);
    }
}

/// The answer to a scrape.
pub(super) async fn answer(view: &View) -> Result<Response, Problem> {
    let View { app, situation, intent, .. } = view;
    let known =
        Known { app: app.as_ref(), situation: situation.clone(), intent: Arc::clone(intent) };
    Ok(of_kind(StatusCode::OK, CONTENT_TYPE, text(&known).await))
}

/// What metrics are made of.
pub(in crate::northbound) struct Known<'k> {
    pub(super) app: &'k App,
    pub(super) situation: Situation,
    pub(super) intent: Arc<Intent>,
}

impl<'k> Known<'k> {
    /// All that is known now.
    pub(in crate::northbound) fn now(app: &'k App) -> Self {
        let situation = app.situation.borrow().clone();
        Self { app, situation, intent: Arc::new(app.declared.snapshot().intent.intent().clone()) }
    }
}

/// All metrics, once nodes have told their counters.
pub(in crate::northbound) async fn text(known: &Known<'_>) -> String {
    let Known { app, situation, intent } = known;
    let counters = app.collector.all(true).await;
    let mut registry = Registry::default();
    let metrics = Metrics::default();
    metrics.register(&mut registry);
    for (node, counters) in &counters {
        metrics.add_node(node, counters, intent);
    }
    for (node, _, facts) in situation.inventory.all() {
        let labels = vec![("node", node.into())];
        metrics.node_connected.get_or_create(&labels).set(i64::from(facts.is_connected));
    }
    for chain in intent.chains.values() {
        let labels = vec![("chain", (&chain.label.name).into()), ("id", (&chain.id).into())];
        let state = situation.chain_status(intent, chain.id).state;
        metrics.chain_active.get_or_create(&labels).set(i64::from(state == ChainState::Active));
    }
    telemetry_metrics::add(known, &counters, &mut registry);
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = encode(&mut text, &registry);
    text
}

/// What people call a chain; one without a name by its identity.
pub(super) fn chain_name(intent: &Intent, chain: ChainId) -> String {
    let name = intent.chains.get(&chain).map(|chain| chain.label.name.clone());
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| chain.to_string())
}

pub(super) fn with(labels: &Labels, more: &[(&'static str, &str)]) -> Labels {
    let more = more.iter().map(|(key, value)| (*key, (*value).into()));
    labels.iter().cloned().chain(more).collect()
}

fn add(family: &Counters, labels: &Labels, volume: Volume) {
    count(family, labels, volume.packets);
}

pub(super) fn count(family: &Counters, labels: &Labels, packets: u64) {
    family.get_or_create(labels).inc_by(packets);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_value_on_one_line_whatever_is_in_its_name() {
        let hostile = "a\"} 7\ncatena_unaccounted_packets{node=\"v1\"} 99\n# EOF\\\r\u{1b}[2J";
        let mut registry = Registry::default();
        let metrics = Metrics::default();
        metrics.register(&mut registry);
        let labels: Labels = vec![("chain", hostile.into())];
        metrics.chain_active.get_or_create(&labels).set(1);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        let about: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = r#"catena_chain_active{chain="a\"} 7\ncatena_unaccounted_packets{node=\"v1\"} 99\n# EOF\\\\u{d}\\u{1b}[2J"} 1"#;
        assert_eq!(about, [expected]);
        assert_eq!(text.matches("\n# EOF").count(), 1);
    }
}

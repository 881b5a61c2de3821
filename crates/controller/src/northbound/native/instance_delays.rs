//! How long instances of a chain took, as the engines of nodes measured it. Knows counters of hops; refuses to know
//! what packets tell.

use super::chains::{nodes_of, scope_of};
use super::view::View;
use catena_model::NodeName;
use catena_model::account::{ChainCounters, HopCounters};
use catena_model::delays::{InstanceDelay, MeasuredDelay};
use catena_model::resource::Chain;
use catena_model::status::SilentNode;

/// Asks all nodes of a chain. Answers as well who did not answer.
pub(super) async fn ask(view: &View, chain: &Chain) -> (Vec<InstanceDelay>, Vec<SilentNode>) {
    let nodes = nodes_of(&view.situation, chain.id);
    let of = scope_of(&view.intent, chain);
    let counters = view.app.collector.some(nodes.clone(), true, of).await;
    let silent = nodes.into_iter().filter(|node| !counters.contains_key(node));
    let silent = silent.map(|node| SilentNode { node: Some(node) }).collect();
    let delays = counters.iter().flat_map(|(node, counters)| {
        let of_chain = counters.chains.iter().filter(|counted| counted.chain == chain.id);
        of_chain.flat_map(move |counted| of_path(node, counted))
    });
    (delays.collect(), silent)
}

fn of_path(node: &NodeName, counted: &ChainCounters) -> Vec<InstanceDelay> {
    counted.hops.iter().filter_map(|hop| of_hop(node, counted, hop)).collect()
}

/// None: nothing of it was timed.
fn of_hop(node: &NodeName, counted: &ChainCounters, hop: &HopCounters) -> Option<InstanceDelay> {
    let (service, sojourn) = (&hop.service_time, &hop.sojourn_time);
    let delay = InstanceDelay {
        node: Some(node.clone()),
        path: counted.path,
        hop: hop.hop,
        member: hop.member,
        instance: hop.name.clone(),
        measured: MeasuredDelay::Sojourn,
        p50_ns: sojourn.recent_quantile_ns(50),
        p95_ns: sojourn.recent_quantile_ns(95),
        p99_ns: sojourn.recent_quantile_ns(99),
        samples: sojourn.recent_timed,
        mean_ns: sojourn.mean_ns(),
        sampled: sojourn.sampled,
        timed: sojourn.timed,
        represented: sojourn.packets,
        delivered: hop.delivered.packets,
    };
    if !sojourn.is_empty() {
        return Some(delay);
    }
    (!service.is_empty()).then(|| InstanceDelay {
        measured: MeasuredDelay::Service,
        p50_ns: service.quantile_ns(50),
        p95_ns: service.quantile_ns(95),
        p99_ns: service.quantile_ns(99),
        samples: service.packets,
        mean_ns: service.mean_ns(),
        sampled: service.packets,
        timed: service.packets,
        represented: service.packets,
        ..delay
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::PathId;
    use catena_model::id::{ChainId, InstanceId};
    use serde_json::json;
    use uuid::Uuid;

    /// The counters of a path with one hop, of which this is told as well.
    fn counted(times: &serde_json::Value) -> ChainCounters {
        let none = json!({"packets": 0, "bytes": 0});
        let mut hop = json!({
            "hop": 2, "member": 0, "instance": InstanceId(Uuid::nil()), "name": "fw-1",
            "delivered": {"packets": 500, "bytes": 50_000}, "returned": none, "rewritten": 0,
            "ambiguous": 0
        });
        hop.as_object_mut().unwrap().extend(times.as_object().unwrap().clone());
        let mut counted = ChainCounters { hops: Vec::new(), ..empty() };
        counted.hops.push(serde_json::from_value(hop).unwrap());
        counted
    }

    fn empty() -> ChainCounters {
        ChainCounters {
            chain: ChainId(Uuid::nil()),
            path: PathId(7),
            entered: Default::default(),
            finished: Default::default(),
            tapped: Default::default(),
            pinned_flows: 0,
            tunnelled_out: Default::default(),
            tunnelled_in: Default::default(),
            dropped: Default::default(),
            hops: Vec::new(),
            is_partial: false,
        }
    }

    #[test]
    fn what_was_measured_is_told_with_what_it_stands_for_and_nothing_without() {
        let node = NodeName::new("host1").unwrap();
        let sojourn = json!({"sojourn_time": {
            "sampled": 12, "timed": 10, "packets": 400, "ns": 8_000_000, "recent_timed": 4,
            "recent": {"1000": 90, "9000": 9, "70000": 1}
        }});
        let told = of_path(&node, &counted(&sojourn));
        let told = &told[0];
        assert_eq!((told.path, told.hop, told.instance.as_str()), (PathId(7), 2, "fw-1"));
        assert_eq!(told.measured, MeasuredDelay::Sojourn);
        let quantiles = [told.p50_ns, told.p95_ns, told.p99_ns];
        assert_eq!(quantiles, [1_000, 9_000, 9_000].map(Some));
        assert_eq!((told.samples, told.mean_ns), (4, Some(20_000)));
        assert_eq!(
            (told.sampled, told.timed, told.represented, told.delivered),
            (12, 10, 400, 500)
        );

        let service =
            json!({"service_time": {"packets": 500, "ns": 50_000, "counts": {"111": 500}}});
        let told = &of_path(&node, &counted(&service))[0];
        assert_eq!((told.measured, told.p99_ns), (MeasuredDelay::Service, Some(111)));
        assert_eq!((told.samples, told.represented, told.mean_ns), (500, 500, Some(100)));

        assert!(of_path(&node, &counted(&json!({}))).is_empty());
    }
}

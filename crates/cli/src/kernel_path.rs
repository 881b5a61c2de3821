//! The kernel path of nodes in words: what the kernel repeats, what came up, and why the engine
//! keeps flows to itself. Knows the sentences; refuses to know who prints them.

use catena_model::kernel::{Declined, KernelCounters};
use catena_model::{NodeCounters, NodeName};
use std::collections::BTreeMap;

/// Causes that are named in one look; the rest is a number.
const CAUSES_MAX: usize = 3;

/// One line of `catena status`; none: the node has no kernel path.
pub(crate) fn in_one_line(counters: &NodeCounters) -> Option<String> {
    let kernel = counters.dataplane.kernel.as_ref()?;
    let KernelCounters { carried, punted, evicted, .. } = &**kernel;
    let mut line = format!(
        "{}: {}, carried {} packets, {punted} came up",
        counters.node,
        fill(kernel),
        carried.packets
    );
    for (count, what) in losses(kernel).into_iter().chain([(*evicted, "evicted")]) {
        if count > 0 {
            line.push_str(&format!(", {count} {what}"));
        }
    }
    let kept = kept(&kernel.declined, CAUSES_MAX);
    if !kept.is_empty() {
        line.push_str(&format!("; kept by the engine: {kept}"));
    }
    Some(line)
}

/// All that is known of one node's.
pub(crate) fn in_full(node: &NodeName, kernel: Option<&KernelCounters>) -> Vec<String> {
    let Some(kernel) = kernel else {
        return vec![format!("kernel path  none: the engine decides every packet of {node}")];
    };
    let stale: u64 =
        kernel.stale_paths.values().chain(kernel.stale_networks.values()).copied().sum();
    let kept = kept(&kernel.declined, Declined::ALL.len());
    let lost: Vec<String> =
        losses(kernel).iter().map(|(count, what)| format!("{count} {what}")).collect();
    vec![
        format!(
            "kernel path  {}; installed {}, aged {}, ended {}, let up {}, evicted {}, crowded out {}",
            fill(kernel),
            kernel.installed,
            kernel.aged,
            kernel.ended,
            kernel.let_up,
            kernel.evicted,
            kernel.crowded()
        ),
        format!("carried      {} packets, {} bytes", kernel.carried.packets, kernel.carried.bytes),
        format!("came up      {}; {stale} met a transform that had ended", kernel.punted),
        format!("lost         {}", lost.join(", ")),
        format!("declined     {}", if kept.is_empty() { "none" } else { &kept }),
    ]
}

/// Flows that the kernel repeats; at switches there are none, and it passes on by links.
fn fill(KernelCounters { flows, flows_max, .. }: &KernelCounters) -> String {
    match flows_max {
        0 => "between links".into(),
        _ => format!("{flows} of {flows_max} flows"),
    }
}

/// What was lost in the kernel, each with its words.
fn losses(kernel: &KernelCounters) -> [(u64, &'static str); 5] {
    [
        (kernel.ring_full, "lost on the way up (ring full)"),
        (kernel.punt_lost, "lost on the way up (punt device down or gone)"),
        (kernel.refused, "refused half way"),
        (kernel.copies_refused, "copies refused"),
        (kernel.strays, "at no port's interface"),
    ]
}

/// The most frequent causes with their packets, and the rest as one.
fn kept(declined: &BTreeMap<Declined, u64>, causes_max: usize) -> String {
    let mut named: Vec<(u64, Declined)> =
        declined.iter().filter(|(_, n)| **n > 0).map(|(cause, n)| (*n, *cause)).collect();
    named.sort_by(|a, b| b.cmp(a));
    let rest: u64 = named.iter().skip(causes_max).map(|(n, _)| *n).sum();
    let first = named.iter().take(causes_max).map(|(n, cause)| format!("{} {n}", cause.name()));
    let rest = (rest > 0).then(|| format!("others {rest}"));
    first.chain(rest).collect::<Vec<_>>().join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_model::{BlueprintNumber, DataplaneLife, Volume};

    fn kernel() -> KernelCounters {
        KernelCounters {
            flows: 12,
            flows_max: 65_536,
            installed: 20,
            aged: 5,
            ended: 3,
            let_up: 4,
            evicted: 0,
            punted: 40,
            carried: Volume { packets: 1_000, bytes: 1_500_000 },
            declined: BTreeMap::from([
                (Declined::Dropped, 2),
                (Declined::Tunnel, 1),
                (Declined::AwareFunction, 9),
                (Declined::Slices, 3),
                (Declined::Moved, 0),
            ]),
            ..KernelCounters::default()
        }
    }

    fn node(kernel: Option<KernelCounters>) -> NodeCounters {
        NodeCounters {
            dataplane: DataplaneLife { kernel: kernel.map(Box::new), ..Default::default() },
            ..NodeCounters::none(NodeName::new("host1").unwrap(), BlueprintNumber(1))
        }
    }

    #[test]
    fn one_look_names_fill_and_the_first_causes_and_no_loss_that_was_not() {
        assert_eq!(
            in_one_line(&node(Some(kernel()))).unwrap(),
            "host1: 12 of 65536 flows, carried 1000 packets, 40 came up; kept by the engine: \
             aware_function 9 · slices 3 · dropped 2 · others 1"
        );
        let lossy =
            KernelCounters { ring_full: 7, strays: 2, declined: BTreeMap::new(), ..kernel() };
        assert_eq!(
            in_one_line(&node(Some(lossy))).unwrap(),
            "host1: 12 of 65536 flows, carried 1000 packets, 40 came up, 7 lost on the way up (ring full), \
             2 at no port's interface"
        );
        let switch = KernelCounters { flows_max: 0, declined: BTreeMap::new(), ..kernel() };
        assert_eq!(
            in_one_line(&node(Some(switch))).unwrap(),
            "host1: between links, carried 1000 packets, 40 came up"
        );
        assert_eq!(in_one_line(&node(None)), None);
    }

    #[test]
    fn in_full_every_cause_has_its_name() {
        let name = NodeName::new("host1").unwrap();
        let kernel = KernelCounters { refused: 1, ..kernel() };
        let said = in_full(&name, Some(&kernel)).join("\n");
        assert_eq!(
            said,
            "kernel path  12 of 65536 flows; installed 20, aged 5, ended 3, let up 4, evicted 0, crowded out 0\n\
             carried      1000 packets, 1500000 bytes\n\
             came up      40; 0 met a transform that had ended\n\
             lost         0 lost on the way up (ring full), 0 lost on the way up (punt device down or \
             gone), 1 refused half way, 0 copies refused, 0 at no port's interface\n\
             declined     aware_function 9 · slices 3 · dropped 2 · tunnel 1"
        );
        assert_eq!(
            in_full(&name, None),
            ["kernel path  none: the engine decides every packet of host1"]
        );
    }
}

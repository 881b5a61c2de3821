//! Where instances go that no `on` names hosts for, and what hosts have: in lines for people.

use catena_model::capacity::{CORE_MILLI, HostRoom, NumaNode, PackedInstance, Packing, Room};
use catena_model::status::NodeStatus;

/// What a plan tells of instances that come, move or go without; what stays is not told.
pub(crate) fn lines(packing: &Packing) -> Vec<String> {
    if !packing.is_change() {
        return Vec::new();
    }
    let mut lines: Vec<String> = packing.instances.iter().filter_map(instance).collect();
    lines.extend(packing.hosts.iter().filter(|host| host.before != host.after).map(host));
    let Packing { hosts_used, hosts_least, is_proved, .. } = *packing;
    let proof = match is_proved {
        true => "no choice has fewer".to_owned(),
        false => format!(
            "not every choice was weighed: any has {hosts_least} or more (gap {})",
            hosts_used.saturating_sub(hosts_least)
        ),
    };
    lines.push(format!("hosts in use   {hosts_used}: {proof}"));
    lines
}

fn instance(one: &PackedInstance) -> Option<String> {
    let PackedInstance { instance, host, former, needs, spans_numa, missing } = one;
    let needs = if needs.is_none() { String::new() } else { format!("   {needs}") };
    let spans = if *spans_numa { ", across NUMA nodes" } else { "" };
    match (former, host) {
        (Some(former), Some(host)) if former == host => None,
        (None, Some(host)) => Some(format!("instance {instance}   on {host}{needs}{spans}")),
        (Some(former), Some(host)) => {
            Some(format!("instance {instance}   moves from {former} to {host}{needs}{spans}"))
        }
        (_, None) => {
            let why = missing.as_deref().unwrap_or("there is no room");
            Some(format!("instance {instance}   goes without a host: {why}"))
        }
    }
}

fn host(one: &HostRoom) -> String {
    let HostRoom { host, total, before, after } = one;
    let total = total.unwrap_or_default();
    let of = |before: u64, after: u64, total: u64| format!("{before} → {after} of {total}");
    format!(
        "host {host}   free: {} thousandths of a core, {} MiB",
        of(before.cpu_milli, after.cpu_milli, total.cpu_milli),
        of(before.memory_mib, after.memory_mib, total.memory_mib)
    )
}

/// What a node has for instances; none: it has not said.
pub(crate) fn capacity(status: &NodeStatus) -> Vec<String> {
    let Some(capacity) = &status.capacity else { return Vec::new() };
    let cores = |room: Room| {
        let cores = room.cpu_milli / CORE_MILLI;
        format!("{cores} {}, {} MiB", if cores == 1 { "core" } else { "cores" }, room.memory_mib)
    };
    let link = capacity.link_mbit.map(|mbit| format!(", {mbit} Mbit/s")).unwrap_or_default();
    let mut lines = vec![format!(
        "has {}{link}; what it runs may take {}",
        cores(capacity.total()),
        status.taken
    )];
    if capacity.numa.len() > 1 {
        let node = |node: &NumaNode| format!("NUMA node {}: {}", node.number, cores(node.room()));
        lines.extend(capacity.numa.iter().map(node));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn packing() -> Packing {
        serde_json::from_value(json!({
            "instances": [
                {"instance": "edge-1", "host": "h1", "former": "h1", "needs": {"cpu_milli": 500, "memory_mib": 64}},
                {"instance": "edge-2", "host": "h2", "former": null, "spans_numa": true,
                 "needs": {"cpu_milli": 500, "memory_mib": 64}},
                {"instance": "ids", "host": "h2", "former": "h1", "needs": {"cpu_milli": 0, "memory_mib": 0}},
                {"instance": "batch", "host": null, "former": "h2", "needs": {"cpu_milli": 9, "memory_mib": 0},
                 "missing": "host 'h1' is away"},
            ],
            "hosts": [
                {"host": "h1", "total": null, "before": {"cpu_milli": 0, "memory_mib": 0},
                 "after": {"cpu_milli": 0, "memory_mib": 0}},
                {"host": "h2", "total": {"cpu_milli": 4000, "memory_mib": 512},
                 "before": {"cpu_milli": 1000, "memory_mib": 128}, "after": {"cpu_milli": 509, "memory_mib": 64}},
            ],
            "hosts_used": 2, "hosts_least": 1, "is_proved": false,
        }))
        .unwrap()
    }

    #[test]
    fn a_plan_tells_where_instances_go_and_what_hosts_have_before_and_after() {
        let told = [
            "instance edge-2   on h2   500 thousandths of a core, 64 MiB, across NUMA nodes",
            "instance ids   moves from h1 to h2",
            "instance batch   goes without a host: host 'h1' is away",
            "host h2   free: 1000 → 509 of 4000 thousandths of a core, 128 → 64 of 512 MiB",
            "hosts in use   2: not every choice was weighed: any has 1 or more (gap 1)",
        ];
        assert_eq!(lines(&packing()), told);
        let mut stays = packing();
        stays.instances.truncate(1);
        assert!(lines(&stays).is_empty());
        stays.instances[0].former = None;
        (stays.is_proved, stays.hosts_used) = (true, 1);
        assert_eq!(lines(&stays).last().unwrap(), "hosts in use   1: no choice has fewer");
    }

    #[test]
    fn a_node_tells_its_cores_and_memory_by_numa_node() {
        let mut status: NodeStatus = serde_json::from_value(json!({
            "node": "h1", "is_connected": true, "wanted": 1, "acknowledged": 1, "bound": [], "unbound": [],
        }))
        .unwrap();
        assert!(capacity(&status).is_empty());
        status.capacity = serde_json::from_value(json!({"link_mbit": 1000, "numa": [
            {"number": 0, "cpu_milli": 1000, "memory_mib": 512}, {"number": 1, "cpu_milli": 2000, "memory_mib": 256},
        ]}))
        .unwrap();
        status.taken = Room { cpu_milli: 500, memory_mib: 64 };
        let told = [
            "has 3 cores, 768 MiB, 1000 Mbit/s; what it runs may take 500 thousandths of a core, 64 MiB",
            "NUMA node 0: 1 core, 512 MiB",
            "NUMA node 1: 2 cores, 256 MiB",
        ];
        assert_eq!(capacity(&status), told);
    }
}

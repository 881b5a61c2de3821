//! A path of the ledger as packets with telemetry tell of it. Knows which of its functions are one hop; refuses to know
//! what is measured there.
//!
//! Functions of one node that follow one another are one segment of a header, and so one hop; copies for taps are on no
//! way. Segments of others on the way are hops that write nothing.

use catena_model::NodeName;
use catena_model::id::{BlueprintNumber, InstanceId, PathId};
use catena_model::program::HopKind;
use catena_model::telemetry::{DeviceId, PlannedHop, PlannedPath, PlannedVisit};
use catena_plan::PathRecord;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// A path as it is watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Planned {
    pub(crate) path: PlannedPath,
    /// Who has these numbers.
    pub(crate) nodes: BTreeMap<DeviceId, NodeName>,
    /// A flow may meet instances of two hops in a row on one node, which are one hop for it.
    pub(super) may_fold: bool,
}

/// The nodes of a hop, each with its functions; none: it is somebody else's.
type Group = BTreeMap<NodeName, Vec<InstanceId>>;

/// Why a path cannot be watched, for people.
pub(super) fn planned(
    (id, version): (PathId, BlueprintNumber),
    record: &PathRecord,
    one_in: NonZeroU32,
    device_of: impl Fn(&NodeName) -> Option<DeviceId>,
) -> Result<Planned, String> {
    let groups = groups(record);
    let mut nodes = BTreeMap::new();
    let mut hops = Vec::new();
    for group in &groups {
        let mut hop = PlannedHop::default();
        for (node, functions) in group {
            let device = device_of(node);
            let device =
                device.ok_or_else(|| format!("node '{node}' has no number in telemetry"))?;
            if let Some(other) = nodes.insert(device, node.clone()).filter(|other| other != node) {
                return Err(format!("node '{node}' has the number of node '{other}' in telemetry"));
            }
            hop.visits.push(PlannedVisit { device, functions: functions.clone() });
        }
        hops.push(hop);
    }
    let pairs = groups.iter().zip(groups.iter().skip(1));
    let may_fold =
        pairs.into_iter().any(|(one, next)| next.keys().any(|node| one.contains_key(node)));
    let path = PlannedPath { path: id, version, one_in, hops };
    Ok(Planned { path, nodes, may_fold })
}

fn groups(record: &PathRecord) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut last_hop = None;
    for function in record.functions().filter(|function| function.kind == HopKind::Through) {
        let mut group = Group::new();
        for instance in &function.instances {
            group.entry(instance.node.clone()).or_default().push(instance.id);
        }
        let is_beside = last_hop.replace(function.hop) == Some(function.hop);
        match groups.last_mut() {
            Some(last) if is_beside || is_one_node(last, &group) => {
                for (node, functions) in group {
                    last.entry(node).or_default().extend(functions);
                }
            }
            _ => {
                let hop = record.hops.get(usize::from(function.hop));
                groups.extend(hop.iter().flat_map(|hop| &hop.via).map(|_| Group::new()));
                groups.push(group);
            }
        }
    }
    groups
}

/// Are both on the same node, and on no other?
fn is_one_node(one: &Group, next: &Group) -> bool {
    one.len() == 1 && one.keys().eq(next.keys())
}

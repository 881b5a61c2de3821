//! Hosts for instances that no `on` names any for: what is declared and told, as a question, and the answer in names.
#![allow(clippy::unwrap_used)]

use super::golden::assert_golden;
use super::rig::{CUSTOMER, INTERNAL, World, id, label, node};
use crate::{Intent, Packed, Unplaced};
use catena_model::capacity::{Capacity, NumaNode, Room};
use catena_model::id::FunctionId;
use catena_model::instance::Door;
use catena_model::resource::{FunctionTemplate, Runs};
use std::sync::Arc;

fn template(instances: u32, cpu_milli: u32, memory_mib: u32) -> FunctionTemplate {
    FunctionTemplate {
        runs: Runs::Command(vec!["sleep".into(), "1".into()]),
        door: Door::default(),
        cpu_milli: Some(cpu_milli),
        memory_mib: Some(memory_mib),
        config: Default::default(),
        networks: Vec::new(),
        bandwidth_mbit: None,
        delay_us: None,
        instances,
        priority: None,
        on: Default::default(),
        labels: Default::default(),
    }
}

/// Hosts of two NUMA nodes, of one, and one that says nothing.
fn testbed() -> World {
    let mut world = World::new(3);
    for (number, numa) in [(1, vec![(1_000, 512), (1_000, 512)]), (2, vec![(4_000, 2_048)])] {
        let numa = (0..).zip(numa).map(|(number, (cpu_milli, memory_mib))| NumaNode {
            number,
            cpu_milli,
            memory_mib,
        });
        let capacity = Capacity { numa: numa.collect(), link_mbit: Some(1_000) };
        let facts = world.inventory.nodes.get_mut(&node(number)).unwrap();
        facts.capacity = Some(Arc::new(capacity));
    }
    world
}

/// A function of this name and template; whose hosts are named has its instance on the first.
fn declare(world: &mut World, number: u32, name: &str, template: FunctionTemplate) -> FunctionId {
    let function = FunctionId(id(5, number));
    if !world.intent.functions.contains_key(&function) {
        world.machine(number, 2, &[CUSTOMER, INTERNAL]);
        world.function(number, number, CUSTOMER, INTERNAL);
    }
    let known = world.intent.functions.get_mut(&function).unwrap();
    known.label = label(name);
    if template.is_placed() {
        known.instances.clear();
    }
    known.template = Some(template);
    function
}

fn pack(world: &World) -> Result<Packed, Unplaced> {
    crate::packing(&world.intent, &Intent::default(), &world.inventory)
}

fn hosts(packed: &Packed, function: FunctionId) -> Vec<Option<String>> {
    packed.hosts[&function].iter().map(|host| host.as_ref().map(ToString::to_string)).collect()
}

#[test]
fn what_hosts_have_decides_where_instances_go_and_what_is_told_is_recorded() {
    let mut world = testbed();
    let fixed = FunctionTemplate { on: [node(2)].into(), ..template(1, 3_000, 1_024) };
    declare(&mut world, 11, "ids", fixed);
    let edge = declare(&mut world, 12, "edge", template(3, 600, 128));
    let batch = FunctionTemplate { priority: Some(1), ..template(2, 800, 64) };
    let batch = declare(&mut world, 13, "batch", batch);
    assert_eq!(crate::taken(&world.intent, &node(2)), Room { cpu_milli: 3_000, memory_mib: 1_024 });
    let packed = pack(&world).unwrap();
    assert_eq!(packed, pack(&world).unwrap(), "another time another answer");
    assert!(hosts(&packed, edge).iter().all(Option::is_some));
    assert_eq!(hosts(&packed, batch).iter().flatten().count(), 1, "one goes without");
    assert_golden("packing.json", &(serde_json::to_string_pretty(&packed.told).unwrap() + "\n"));

    // With a priority of its own, the other goes first.
    let first = FunctionTemplate { priority: Some(2), ..template(2, 800, 64) };
    let first = declare(&mut world, 14, "first", first);
    let packed = pack(&world).unwrap();
    assert_eq!(hosts(&packed, batch), [None, None]);
    assert_eq!(hosts(&packed, first).iter().flatten().count(), 1);
}

#[test]
fn what_has_no_room_is_refused_with_what_is_missing_and_what_to_do() {
    let mut world = testbed();
    declare(&mut world, 12, "edge", template(2, 2_500, 128));
    world.inventory.nodes.get_mut(&node(3)).unwrap().is_connected = false;
    let why = pack(&world).unwrap_err().to_string();
    assert_eq!(
        why,
        "there is no host for instance 'edge-2', which needs 2500 thousandths of a core, 128 MiB: host 'host1' has \
         2000 of 2000 thousandths of a core free, 500 more are needed; host 'host2' has 1500 of 4000 thousandths of a \
         core free, 1000 more are needed; host 'host3' is away. Ask for less or for fewer, connect another host, name \
         hosts by 'on', or say by 'priority' what may go without"
    );
    world.inventory.nodes.clear();
    let why = pack(&world).unwrap_err().to_string();
    assert!(why.contains("'edge-1'") && why.contains("no host has ever connected"), "{why}");
}

#[test]
fn neighbours_of_a_chain_share_its_traffic_out_and_stay_near_where_they_say_so() {
    let mut world = testbed();
    let inside = FunctionTemplate { on: [node(2)].into(), ..template(1, 0, 0) };
    declare(&mut world, 11, "ids", inside);
    let near = FunctionTemplate { delay_us: Some(50), ..template(1, 500, 64) };
    let near = declare(&mut world, 12, "near", near);
    world.chain(1, 1, &[11, 12]);
    assert_eq!(hosts(&pack(&world).unwrap(), near), [Some("host2".to_owned())]);
    let large = FunctionTemplate { delay_us: Some(50), ..template(1, 4_500, 64) };
    declare(&mut world, 12, "near", large);
    assert!(pack(&world).is_err());

    // Three instances with 600 Mbit/s each: two fit beside their neighbour, and what is elsewhere crosses its link.
    let fast = |mbit| FunctionTemplate { bandwidth_mbit: Some(mbit), ..template(3, 1_800, 64) };
    let fast_function = declare(&mut world, 12, "near", fast(600));
    let placed = hosts(&pack(&world).unwrap(), fast_function);
    assert_eq!(placed.iter().flatten().filter(|host| *host == "host2").count(), 2);
    declare(&mut world, 12, "near", fast(1_200));
    let why = pack(&world).unwrap_err().to_string();
    assert!(
        why.contains("the link of host 'host1' has 1000 Mbit/s free, 200 more are needed"),
        "{why}"
    );
}

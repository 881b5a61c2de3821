//! What the planner makes is what the engine runs: programs of a planned world, packets through
//! them.

#[path = "../../../plan/src/tests/rig.rs"]
#[allow(dead_code, reason = "the planner's tests use the rest")]
mod world;

use crate::frames::Spec;
use crate::rig::route;
use crate::scene::{packet, three_hosts};
use catena_dataplane::engine::{Engine, EngineConfig, Output, Packet, Tables};
use catena_io::BufferPool;
use catena_model::account::NodeCounters;
use catena_model::id::{FunctionId, InstanceId, PortId};
use catena_model::program::PROXY_MAC;
use std::sync::Arc;
use world::{CUSTOMER, INTERNAL, World, id, node, port_id};

const SOURCE: u32 = 1;
const DESTINATION: u32 = 2;
/// Machines of functions.
const ONE: u32 = 3;
const OTHER: u32 = 4;
const FLOWS: u16 = 200;

/// One host with S, D and two machines for functions.
fn one_host() -> World {
    let mut world = World::new(1);
    world.machine(SOURCE, 1, &[CUSTOMER]);
    world.machine(DESTINATION, 1, &[CUSTOMER]);
    world.machine(ONE, 1, &[CUSTOMER, INTERNAL]);
    world.machine(OTHER, 1, &[CUSTOMER, INTERNAL]);
    world.function(ONE, ONE, CUSTOMER, INTERNAL);
    world
}

/// Sends flows from S to D through the planned program of host1; every function is a router that
/// sends from `egress`.
fn counters_after_traffic(mut world: World, egress: PortId) -> NodeCounters {
    world.settle();
    let program = &world.blueprint.program(&node(1)).unwrap();
    let mut engine = Engine::new(EngineConfig::new(node(1)));
    engine.replace_tables(Arc::new(Tables::compile(program).unwrap()));
    let mut pool = BufferPool::new(16);
    let mac = |port: PortId| world.intent.ports[&port].mac;
    let ingresses = [port_id(ONE, CUSTOMER), port_id(OTHER, CUSTOMER)];
    for flow in 1..=FLOWS {
        let sent = Spec {
            source_mac: mac(port_id(SOURCE, CUSTOMER)),
            destination_mac: mac(port_id(DESTINATION, CUSTOMER)),
            source: "10.10.0.1".parse().unwrap(),
            destination: "10.10.0.2".parse().unwrap(),
            ports: (flow, 5_001),
            ..packet(&three_hosts(), 5_001)
        };
        let mut next = Some((port_id(SOURCE, CUSTOMER), sent.frame()));
        while let Some((port, bytes)) = next.take() {
            let mut buffer = pool.take().unwrap();
            assert!(buffer.fill(&bytes));
            let slot = engine.slot_of(port).unwrap();
            let mut out = Output::default();
            engine.forward(1, &mut vec![Packet::from_port(slot, buffer)], &mut pool, &mut out);
            for frame in out.frames {
                if ingresses.iter().any(|port| engine.slot_of(*port) == Some(frame.to)) {
                    let mut bytes = frame.buffer.bytes().to_vec();
                    assert!(route(&mut bytes, PROXY_MAC, mac(egress)));
                    next = Some((egress, bytes));
                }
                engine.credit_sent(out.batches.withdraw(frame.share));
                pool.put(frame.buffer);
            }
        }
    }
    engine.counters()
}

#[test]
fn a_planned_group_whose_instances_share_an_egress_takes_every_flow() {
    let mut world = one_host();
    world.function(OTHER, OTHER, CUSTOMER, INTERNAL);
    let egress = port_id(ONE, INTERNAL);
    let sibling = InstanceId(id(4, OTHER));
    world.intent.instances.get_mut(&sibling).unwrap().egress = egress;
    world.intent.functions.remove(&FunctionId(id(5, OTHER)));
    world.intent.functions.get_mut(&FunctionId(id(5, ONE))).unwrap().instances.push(sibling);
    world.chain(1, SOURCE, &[ONE]);
    let counters = counters_after_traffic(world, egress);
    let chain = &counters.chains[0];
    assert_eq!(chain.finished.packets, u64::from(FLOWS));
    assert_eq!(chain.hops.len(), 2);
    for hop in &chain.hops {
        assert!(hop.delivered.packets > u64::from(FLOWS) / 4, "{hop:?}");
        assert_eq!(hop.returned, hop.delivered, "{hop:?}");
    }
}

#[test]
fn a_pair_over_the_source_port_that_no_chain_uses_changes_no_classification() {
    let mut world = one_host();
    world.function(9, SOURCE, CUSTOMER, CUSTOMER);
    world.chain(1, SOURCE, &[ONE]);
    let counters = counters_after_traffic(world, port_id(ONE, INTERNAL));
    assert_eq!(counters.chains[0].entered.packets, u64::from(FLOWS));
    assert_eq!(counters.chains[0].finished.packets, u64::from(FLOWS));
}

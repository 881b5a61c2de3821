//! The kernel can take no more flows, or has no more accounts for them: who has most gives way, and
//! what is not taken arrives all the same.

use crate::differential::with_interfaces;
use crate::packets::Sent;
use crate::scene::{packet, rules, three_hosts};
use crate::town::Town;
use crate::twin::{Report, Twin};
use catena_io::Offload;
use catena_model::resource::Encapsulation::Nsh;

const PORTS: usize = 12;
/// Endpoints that a port sends to, so that each is a further account.
const NEIGHBOURS: u8 = 12;
const ACCOUNTS: u32 = 12;
/// As many as fill the tables of a twin, and some.
const FLOOD: u16 = 4_500;
const QUIET: u16 = 300;
/// Packets after which a flow is the kernel's.
const TIMES: usize = 4;
const CHAINED: u16 = 5_001;

fn town() -> Town {
    let mut town = three_hosts();
    town.endpoint("F", 0, 0, &["10.0.0.3"]);
    town.chain("c", Nsh, &[&["v1"]], &rules(CHAINED));
    town
}

/// The same, with neighbours of F.
fn town_with_neighbours() -> Town {
    let mut town = town();
    for number in 0..NEIGHBOURS {
        let address = format!("10.0.0.{}", 20 + number);
        town.endpoint(&neighbour(number), 0, 0, &[&address]);
    }
    town.endpoint("G", 0, 0, &["10.0.0.4"]);
    town
}

fn neighbour(number: u8) -> String {
    format!("E{number}")
}

/// A packet from a port to a neighbour of F; was it taken by the kernel?
fn send_to_neighbour(twin: &mut Twin, from: &str, number: u8) -> bool {
    let mut spec = packet(&twin.town, CHAINED);
    spec.source_mac = twin.town.mac(from);
    spec.destination_mac = twin.town.mac(&neighbour(number));
    spec.source = twin.town.port_named(from).addresses[0];
    spec.destination = twin.town.port_named(&neighbour(number)).addresses[0];
    spec.ports = (9, 9);
    let before = installed(twin);
    twin.follow(Sent { port: from.to_owned(), bytes: spec.frame(), offload: Offload::default() });
    installed(twin) > before
}

fn installed(twin: &mut Twin) -> u64 {
    twin.counters_beside().dataplane.kernel.unwrap().installed
}

/// A packet of the flow with this number, from a port to D; what became of it at each step.
fn send(twin: &mut Twin, from: &str, flow: u16) -> Vec<String> {
    let mut spec = packet(&twin.town, CHAINED);
    if from == "F" {
        // Straight to its neighbour: no chain takes it.
        spec.source_mac = twin.town.mac("F");
        spec.destination_mac = twin.town.mac("S");
        (spec.source, spec.destination) = ("10.0.0.3".parse().unwrap(), spec.source);
        spec.ports = (flow, 9);
    } else {
        spec.ports.0 = flow;
    }
    let bytes = spec.frame();
    twin.follow(Sent { port: from.to_owned(), bytes, offload: Offload::default() }).1
}

fn check(interfaces: &[u32]) {
    let mut twin = Twin::new(town(), 0, interfaces, Report::default());
    for flow in 1..=FLOOD {
        send(&mut twin, "F", flow);
    }
    let full = twin.counters_beside().dataplane.kernel.unwrap();
    assert_eq!(full.flows, full.flows_max, "the flood has filled it");
    let flooding = twin.town.port_named("F").id;
    assert!(full.crowded_ports[&flooding] >= u64::from(FLOOD) - full.flows_max);

    let mut carried = 0;
    for flow in 1..=QUIET {
        let last = (0..TIMES).map(|_| send(&mut twin, "S", flow)).last().unwrap();
        // At its source, and behind its function.
        assert_eq!(last.len(), 2, "{last:?}");
        carried += usize::from(last.iter().all(|what| what == "carried"));
    }
    assert_eq!(carried, usize::from(QUIET), "all are the kernel's beside the flood");
    let after = twin.counters_beside().dataplane.kernel.unwrap();
    assert_eq!(after.flows, after.flows_max);
    let gave_way = after.crowded_ports[&flooding] - full.crowded_ports[&flooding];
    assert_eq!(gave_way, 2 * u64::from(QUIET), "counted at who had most");
    assert_eq!((after.crowded_ports.len(), after.crowded_paths.len()), (1, 0));
    assert!(!send(&mut twin, "F", FLOOD).is_empty());
    twin.compare_counters();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_fills_the_kernels_table_gives_way_to_the_flows_of_others() {
    let name = "a_port_that_fills_the_kernels_table_gives_way_to_the_flows_of_others";
    with_interfaces(name, PORTS, check).await;
}

fn check_accounts(interfaces: &[u32]) {
    let town = town_with_neighbours();
    let mut twin = Twin::with_accounts(ACCOUNTS, town, 0, interfaces, Report::default());
    let taken = |twin: &mut Twin, from: &str| {
        (0..NEIGHBOURS).filter(|number| send_to_neighbour(twin, from, *number)).count()
    };
    assert_eq!(taken(&mut twin, "F"), 10, "four fifths of what there is");
    let carried = |twin: &mut Twin, flow: u16| {
        let last = (0..TIMES).map(|_| send(twin, "S", flow)).last().unwrap();
        last.len() == 2 && last.iter().all(|what| what == "carried")
    };
    assert!(carried(&mut twin, 1), "at its source and behind its function");
    // Now there is none left: another gets some as soon as those of who has most have been read.
    let flooding = twin.town.port_named("F").id;
    let crowded =
        |twin: &mut Twin| twin.counters_beside().dataplane.kernel.unwrap().crowded_ports[&flooding];
    assert_eq!(crowded(&mut twin), u64::from(NEIGHBOURS) - 10, "what it was refused");
    assert!(!send_to_neighbour(&mut twin, "G", 0));
    assert_eq!(crowded(&mut twin), u64::from(NEIGHBOURS) - 10 + 5, "half of what it had");
    assert!(taken(&mut twin, "G") > 1);
    assert!(carried(&mut twin, 2));
    twin.compare_counters();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_takes_accounts_of_the_kernel_leaves_some_to_the_flows_of_others() {
    let name = "a_port_that_takes_accounts_of_the_kernel_leaves_some_to_the_flows_of_others";
    with_interfaces(name, PORTS + usize::from(NEIGHBOURS), check_accounts).await;
}

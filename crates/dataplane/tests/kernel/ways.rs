//! Where the ways to other nodes turn, flows that left by them end in the kernel, and no others.

use crate::differential::with_interfaces;
use crate::following::{row, sent};
use crate::scene::{packet, rules, three_hosts};
use crate::town::node_segments;
use crate::twin::{Report, Twin, UNDERLAY_INTERFACE};
use catena_dataplane::engine::{Packet, UnderlayInterface};
use catena_model::program::Locator;
use catena_model::resource::Encapsulation;
use std::collections::BTreeSet;

const PORTS: usize = 10;

fn check(interfaces: &[u32]) {
    let mut town = three_hosts();
    town.chain("tunnelled", Encapsulation::Nsh, &[&["v2"]], &rules(5_001));
    town.chain("segmented", Encapsulation::Srv6, &[&["v2"]], &rules(5_002));
    let mut twin = Twin::new(town, 0, interfaces, Report::default());
    let missed = |origin, buffer| Packet::from_kernel(origin, buffer, false);
    let send = |twin: &mut Twin| {
        for port in [5_001, 5_002] {
            let flow = packet(&twin.town, port);
            sent(twin, &row(&flow), missed);
        }
        flows(twin)
    };
    assert_eq!(send(&mut twin), 2);
    let (to, others) = (node_segments(1).locator, node_segments(2).locator);
    let underlay = |locators: &[Locator]| {
        let locators = BTreeSet::from_iter(locators.iter().copied());
        Some(UnderlayInterface { interface: UNDERLAY_INTERFACE, locators })
    };
    // Another way comes, that of the flow goes, and comes again.
    for (place, left, again) in [
        (underlay(&[to, others]), 2, 2),
        (underlay(&[others]), 1, 1),
        (underlay(&[to]), 1, 2),
        (underlay(&[to, others]), 2, 2),
        (None, 0, 0),
    ] {
        twin.beside.engine.set_kernel_underlay(place);
        assert_eq!(flows(&mut twin), left);
        assert_eq!(send(&mut twin), again);
    }
}

fn flows(twin: &mut Twin) -> u64 {
    twin.counters_beside().dataplane.kernel.map_or(0, |kernel| kernel.flows)
}

#[tokio::test(flavor = "multi_thread")]
async fn flows_end_in_the_kernel_whose_way_has_gone_and_no_others() {
    const NAME: &str = "flows_end_in_the_kernel_whose_way_has_gone_and_no_others";
    with_interfaces(NAME, PORTS, check).await;
}

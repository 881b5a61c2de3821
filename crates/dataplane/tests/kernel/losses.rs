//! What the kernel's program loses by itself is told by name.

use crate::differential::{HITS_MIN, with_interfaces};
use crate::scene::{packet, rules, three_hosts};
use crate::twin::{Report, Twin};
use catena_fastpath::Operation;
use catena_model::DropReason;
use catena_model::kernel::KernelCounters;
use catena_model::resource::Encapsulation::Nsh;
use catena_wire::scalar::MacAddr;

const PORTS: usize = 10;
/// The number of the first port, an interface that nobody has, and the place of one that is no port
/// of this node.
const FIRST: u16 = 1;
const NOBODYS: u32 = 4_242;
const STRAY: usize = PORTS - 1;

fn check(interfaces: &[u32]) {
    let mut town = three_hosts();
    town.chain("c", Nsh, &[&["v1"]], &rules(5_001));
    let mut twin = Twin::new(town, 0, interfaces, Report::default());
    let frame = packet(&twin.town, 5_001).frame();
    let none = twin.counters_beside();
    assert_eq!(
        none.dataplane.kernel.as_deref(),
        Some(&KernelCounters { flows_max: 4_096, ..KernelCounters::default() })
    );

    twin.send_at_interface(interfaces[STRAY], &frame);
    let (to, out) = (MacAddr([2; 6]), interfaces[1]);
    // Longer than the frame: nothing that could be taken off.
    let half_way = [Operation::set_destination(to), Operation::trim(200), Operation::transmit(out)];
    twin.install(FIRST, &frame, &half_way);
    (0..HITS_MIN).for_each(|_| twin.send_at_interface(interfaces[0], &frame));
    let copy = [Operation::clone_to(NOBODYS), Operation::transmit(out)];
    twin.install(FIRST, &frame, &copy);
    twin.send_at_interface(interfaces[0], &frame);

    let counters = twin.counters_beside();
    let kernel = counters.dataplane.kernel.as_deref().unwrap();
    let refused = HITS_MIN as u64;
    assert_eq!((kernel.strays, kernel.refused, kernel.copies_refused), (1, refused, 1));
    let total = counters.total();
    assert_eq!(total.dropped.get(&DropReason::KernelRefused), Some(&refused));
    assert_eq!((total.received.packets, total.unaccounted()), (refused, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_kernel_loses_is_told_by_name() {
    with_interfaces("what_the_kernel_loses_is_told_by_name", PORTS, check).await;
}

//! What the engine sends of a flow that the kernel takes over goes the way of what the kernel sends:
//! datagram by datagram and without an outer checksum. All else goes in rows, with one.

use crate::differential::with_interfaces;
use crate::frames::Spec;
use crate::scene::{packet, rules, three_hosts};
use crate::twin::{Report, Twin};
use catena_dataplane::engine::{Origin, Output, Packet};
use catena_model::resource::Encapsulation;

const PORTS: usize = 10;
const PACKETS: u32 = 3;

/// What was sent to other nodes of a vector of packets: is it a row, and is it followed?
pub(crate) fn sent(
    twin: &mut Twin,
    specs: &[Spec],
    arrived: fn(Origin, catena_io::Buffer) -> Packet,
) -> Vec<(bool, bool)> {
    let side = &mut twin.beside;
    let port = twin.town.port_named("S").id;
    let origin = Origin::Port(side.engine.slot_of(port).unwrap());
    let mut input: Vec<Packet> = specs
        .iter()
        .map(|spec| {
            let mut buffer = side.pool.take().unwrap();
            assert!(buffer.fill(&spec.frame()));
            arrived(origin, buffer)
        })
        .collect();
    let mut out = Output::default();
    twin.now_ns += 1_000;
    side.engine.forward(twin.now_ns, &mut input, &mut side.pool, &mut out);
    let sent = out.datagrams.iter().map(|one| (one.segment_bytes.is_some(), one.is_followed));
    let sent = sent.collect();
    for datagram in out.datagrams {
        let booking = out.batches.withdraw(datagram.share);
        side.engine.credit_sent(booking);
        side.pool.put(datagram.buffer);
    }
    sent
}

pub(crate) fn row(spec: &Spec) -> Vec<Spec> {
    let numbered = |sequence| Spec { sequence, ..spec.clone() };
    (0..PACKETS).map(numbered).collect()
}

fn check(encapsulation: Encapsulation, interfaces: &[u32]) {
    let mut town = three_hosts();
    town.chain("c", encapsulation, &[&["v2"]], &rules(5_001));
    let mut twin = Twin::new(town, 0, interfaces, Report::default());
    let flow = packet(&twin.town, 5_001);
    let missed = |origin, buffer| Packet::from_kernel(origin, buffer, false);
    let counted = |origin, buffer| Packet::from_kernel(origin, buffer, true);
    let alone = vec![(false, true); PACKETS as usize];
    // The first is recorded, the others were under way; then come those that the gate has counted.
    assert_eq!(sent(&mut twin, &row(&flow), missed), alone);
    assert_eq!(sent(&mut twin, &row(&flow), counted), alone);
    // Somebody looks: the kernel has sent those before, and will send those after.
    assert_eq!(sent(&mut twin, &row(&flow), Packet::watched), alone);

    // The kernel repeats nothing for a flow that it cannot tell from others.
    let with_tag = Spec { ports: (40_001, 5_001), ..flow.clone() };
    assert_eq!(sent(&mut twin, &row(&with_tag), Packet::plainly), [(true, false)]);
    let mixed = [row(&with_tag), row(&flow), row(&with_tag)].concat();
    assert_eq!(sent(&mut twin, &mixed, Packet::plainly).len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_engine_sends_before_the_kernel_goes_the_same_way_as_what_it_sends() {
    const NAME: &str = "what_the_engine_sends_before_the_kernel_goes_the_same_way_as_what_it_sends";
    for encapsulation in Encapsulation::TUNNELLED.into_iter().chain([Encapsulation::Srv6]) {
        with_interfaces(NAME, PORTS, |interfaces| check(encapsulation, interfaces)).await;
    }
}

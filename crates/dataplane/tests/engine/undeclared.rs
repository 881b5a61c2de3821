//! The machine of a function sends by a port that is in no pair: what could be a packet of a path is
//! not let past the functions that remain.

use crate::frames::Spec;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, with_chain};
use catena_model::DropReason;
use catena_model::resource::Encapsulation;
use catena_wire::scalar::{EtherType, IpProtocol, MacAddr};

/// A port of v1's machine that no pair names, in the network of S and D.
fn rig(own: Option<&[&str]>) -> Rig {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v4"]]);
    town.endpoint("v1.other", 0, 0, &["10.0.0.77"]);
    let own = own.map(|own| own.iter().map(|address| address.parse().unwrap()).collect());
    town.ports.iter_mut().find(|port| port.name == "v1.other").unwrap().own_sources = own;
    Rig::new(town)
}

fn by_other(rig: &Rig, spec: Spec) -> Spec {
    Spec { source_mac: rig.town.mac("v1.other"), destination_mac: rig.town.mac("D"), ..spec }
}

#[test]
fn what_no_path_expects_is_not_let_out_by_a_port_that_no_pair_names() {
    let mut rig = rig(Some(&["10.0.0.77", "10.1.0.1"]));
    for spec in [
        packet(&rig.town, CHAINED_PORT),
        packet(&rig.town, PLAIN_PORT),
        packet_v6(&rig.town, PLAIN_PORT),
        Spec { protocol: IpProtocol::TCP, ..packet(&rig.town, PLAIN_PORT) },
    ] {
        for _ in 0..3 {
            rig.moved();
            let frame = by_other(&rig, spec.clone()).frame();
            rig.send("v1.other", &frame);
            rig.assert_only_dropped("v1.other", DropReason::UndeclaredPort);
        }
    }
}

#[test]
fn its_own_traffic_passes_and_that_of_other_machines_is_not_judged() {
    let mut guarded = rig(Some(&["10.0.0.77", "10.1.0.1"]));
    let plain = by_other(&guarded, packet(&guarded.town, PLAIN_PORT));
    let mut arp = plain.frame();
    arp[12..14].copy_from_slice(&EtherType::ARP.0.to_be_bytes());
    let icmp = |kind: u8| Spec {
        protocol: IpProtocol::ICMP,
        payload: vec![kind, 0, 0, 0, 0, 0, 0, 0],
        ..plain.clone()
    };
    let group = Spec {
        destination_mac: MacAddr([1, 0, 0x5e, 1, 2, 3]),
        destination: "224.1.2.3".parse().unwrap(),
        ..plain.clone()
    };
    let from = |source: &str| Spec { source: source.parse().unwrap(), ..plain.clone() };
    let mut passing = vec![arp];
    let specs = [
        from("10.0.0.77"),
        from("10.1.0.1"),
        from("0.0.0.0"),
        from("169.254.1.2"),
        icmp(11),
        group,
    ];
    passing.extend(specs.iter().map(Spec::frame));
    for frame in passing {
        guarded.moved();
        guarded.send("v1.other", &frame);
        let moved = guarded.moved();
        assert!(!moved.keys().any(|name| name.contains("dropped")), "{moved:?}");
    }
    guarded.seen.clear();
    // What it sends of its own enters chains as any endpoint's does.
    let own = Spec { ports: (40_000, CHAINED_PORT), ..from("10.0.0.77") };
    guarded.send("v1.other", &own.frame());
    assert_eq!((guarded.take("v1.in").len(), guarded.take("v4.in").len()), (1, 1));

    let mut open = rig(None);
    open.send("v1.other", &plain.frame());
    assert_eq!(open.take("D").len(), 1, "the operator vouches for it, or it is no function's");
}

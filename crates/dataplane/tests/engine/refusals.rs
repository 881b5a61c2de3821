//! Every drop that the engine can produce, by name, and nothing else moves.

use crate::frames::Spec;
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, three_hosts, with_chain};
use crate::town::node_address;
use catena_dataplane::engine::{Origin, TunnelKind};
use catena_io::{Offload, PartialChecksum, Segmentation, SegmentationKind};
use catena_model::DropReason;
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_wire::ethernet::EthernetHeader;
use catena_wire::mpls::SfcLabelPair;
use catena_wire::nsh::{Metadata, NshHeader, NshNextProtocol};
use catena_wire::scalar::{EtherType, MplsLabel, NshTtl, ServiceIndex, Spi, Vni};
use catena_wire::vxlan::VxlanHeader;
use catena_wire::vxlan_gpe::{GpeNextProtocol, VxlanGpeHeader};

fn rig(encapsulation: Encapsulation) -> Rig {
    Rig::new(with_chain(encapsulation, &[&["v1"], &["v2"], &["v3"], &["v4"]]))
}

#[test]
fn frames_that_are_no_frames() {
    let mut rig = rig(Encapsulation::Nsh);
    let good = packet(&rig.town, CHAINED_PORT).frame();
    rig.send("S", &good[..13]);
    rig.assert_only_dropped("S", DropReason::MalformedEthernet);
    rig.send("S", &good[..30]);
    rig.assert_only_dropped("S", DropReason::MalformedIp);
    rig.send("S", &packet_v6(&rig.town, 1).frame()[..50]);
    rig.assert_only_dropped("S", DropReason::MalformedIp);
    rig.send("S", &[]);
    rig.assert_only_dropped("S", DropReason::MalformedEthernet);
}

#[test]
fn a_transport_header_that_is_cut_short() {
    let mut rig = rig(Encapsulation::Nsh);
    let cut = Spec {
        protocol: catena_wire::scalar::IpProtocol::ICMP,
        payload: vec![8, 0, 0],
        ..packet(&rig.town, 1)
    };
    rig.send("S", &cut.frame());
    rig.assert_only_dropped("S", DropReason::MalformedTransport);
}

#[test]
fn an_arp_message_of_a_function_that_is_cut_short() {
    let mut rig = rig(Encapsulation::Nsh);
    let arp = crate::proxy::arp_request(rig.town.mac("v1.out"), "10.1.0.9", "10.0.0.2");
    rig.send("v1.out", &arp[..30]);
    rig.assert_only_dropped("v1.out", DropReason::MalformedArp);
}

#[test]
fn offloads_that_contradict_their_frame() {
    let mut rig = rig(Encapsulation::Nsh);
    let good = packet(&rig.town, PLAIN_PORT).frame();
    let checksum = |start, offset| Offload {
        checksum: Some(PartialChecksum { start, offset }),
        segmentation: None,
    };
    let segmentation = |kind| Offload {
        checksum: None,
        segmentation: Some(Segmentation {
            kind,
            ecn: false,
            segment_bytes: 1_400,
            header_bytes: 0,
        }),
    };
    let refused = [
        checksum(34, 30_000),
        checksum(u16::MAX, u16::MAX),
        checksum(3, 4),
        segmentation(SegmentationKind::TcpV4),
    ];
    for offload in refused {
        rig.send_all("S", [(good.clone(), offload)]);
        assert_eq!(rig.moved().get("S dropped unsupported_offload"), Some(&1), "{offload:?}");
    }
}

#[test]
fn ports_and_slots_that_are_not_in_the_program() {
    let mut rig = rig(Encapsulation::Nsh);
    let slot = rig.slot("S").unwrap();
    rig.town.absent.insert("S".to_owned());
    rig.apply();
    assert_eq!(rig.moved(), Default::default());
    rig.queue_at_slot(0, slot, &[0; 60]);
    rig.run();
    rig.assert_only_dropped("(removed ports)", DropReason::UnknownPort);
}

#[test]
fn an_instance_whose_port_is_not_in_the_program() {
    let mut rig = rig(Encapsulation::Nsh);
    let mut program = rig.town.program(0);
    let absent = rig.town.port_named("v1.out").id;
    program.ports.retain(|port| port.id != absent);
    rig.apply_program(0, &program);
    rig.moved();
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.moved().get("S dropped unknown_port"), Some(&1));
}

#[test]
fn chain_headers_that_nobody_asked_for() {
    let mut rig = rig(Encapsulation::Nsh);
    for ether_type in [EtherType::NSH, EtherType::MPLS] {
        for port in ["S", "v1.out"] {
            let mut frame = vec![0; 60];
            let header =
                EthernetHeader::untagged(rig.town.mac("D"), rig.town.mac(port), ether_type);
            header.emit(&mut frame).unwrap();
            rig.send(port, &frame);
            rig.assert_only_dropped(port, DropReason::ForeignChainHeader);
        }
    }
}

#[test]
fn an_aware_function_may_not_jump() {
    for behaviour in [Behaviour::Echo, Behaviour::Advance(Encapsulation::Nsh)] {
        let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"], &["v4"]]);
        town.speaking("v1", Encapsulation::Nsh);
        let mut rig = Rig::new(town);
        rig.behaviours.insert("v1".into(), behaviour);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let refused = rig.moved().get("v1.out dropped foreign_chain_header").copied();
        assert_eq!(refused, (behaviour == Behaviour::Echo).then_some(1));
    }
}

#[test]
fn tagged_frames_that_no_rule_takes() {
    let mut rig = rig(Encapsulation::Nsh);
    let tagged = Spec { vlan: Some(7), ..packet(&rig.town, PLAIN_PORT) };
    rig.send("S", &tagged.frame());
    rig.assert_only_dropped("S", DropReason::VlanNotInNetwork);
}

#[test]
fn a_tag_that_only_says_a_priority_is_no_vlan() {
    let mut rig = rig(Encapsulation::Nsh);
    let ordinary = Spec { vlan: Some(0), ..packet(&rig.town, PLAIN_PORT) };
    rig.send("S", &ordinary.frame());
    assert_eq!(rig.take("D"), [ordinary.frame()]);
    rig.send("S", &Spec { vlan: Some(0), ..packet(&rig.town, CHAINED_PORT) }.frame());
    assert!(rig.moved().contains_key("host1 path 100 entered"));
}

#[test]
fn a_frame_for_its_own_port() {
    let mut rig = rig(Encapsulation::Nsh);
    let own = Spec { destination_mac: rig.town.mac("S"), ..packet(&rig.town, PLAIN_PORT) };
    rig.send("S", &own.frame());
    rig.assert_only_dropped("S", DropReason::HairpinToSource);
}

/// A tunnel datagram is dropped for this reason.
fn refused(rig: &mut Rig, kind: TunnelKind, bytes: &[u8], reason: DropReason) {
    rig.send_datagram(0, kind, node_address(1), bytes);
    rig.assert_only_dropped("host1 tunnels", reason);
}

#[test]
fn datagrams_of_strangers() {
    let mut rig = rig(Encapsulation::Nsh);
    for kind in TunnelKind::ALL {
        rig.send_datagram(0, kind, "203.0.113.1".parse().unwrap(), &[0; 100]);
        rig.assert_only_dropped("host1 tunnels", DropReason::UnknownTunnelSource);
    }
}

fn gpe(next: GpeNextProtocol, inner: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; VxlanGpeHeader::LEN];
    let vni = Vni::new(100).unwrap();
    VxlanGpeHeader { vni, next, is_oam: false }.emit(&mut bytes).unwrap();
    bytes.extend(inner);
    bytes
}

fn nsh(spi: u32, si: u8, ttl: u32, next: NshNextProtocol, inner: &[u8]) -> Vec<u8> {
    let header = NshHeader {
        spi: Spi::new(spi).unwrap(),
        si: ServiceIndex(si),
        ttl: NshTtl::new(ttl).unwrap(),
        metadata: Metadata::ZERO,
        next,
        is_oam: false,
    };
    let mut bytes = vec![0; header.len_bytes()];
    header.emit(&mut bytes).unwrap();
    bytes.extend(inner);
    gpe(GpeNextProtocol::NSH, &bytes)
}

fn mpls(path: u32, index: u8, ttl: u8, inner: &[u8]) -> Vec<u8> {
    let pair = SfcLabelPair::new(MplsLabel::new(path).unwrap(), ServiceIndex(index), ttl).unwrap();
    let mut bytes = vec![0; SfcLabelPair::LEN];
    pair.emit(&mut bytes).unwrap();
    bytes.extend(inner);
    bytes
}

#[test]
fn datagrams_whose_tunnel_header_is_broken_or_leads_nowhere() {
    let mut rig = rig(Encapsulation::Nsh);
    let inner = packet(&rig.town, CHAINED_PORT).frame();
    refused(&mut rig, TunnelKind::Vxlan, &[0; 100], DropReason::MalformedVxlan);
    refused(
        &mut rig,
        TunnelKind::Path(Encapsulation::Nsh),
        &[0; 100],
        DropReason::MalformedVxlanGpe,
    );
    refused(&mut rig, TunnelKind::Path(Encapsulation::Mpls), &[0; 100], DropReason::MalformedMpls);
    let mut unknown = vec![0; VxlanHeader::LEN];
    VxlanHeader { vni: Vni::new(999).unwrap() }.emit(&mut unknown).unwrap();
    unknown.extend(&inner);
    refused(&mut rig, TunnelKind::Vxlan, &unknown, DropReason::UnknownNetwork);
    let next = GpeNextProtocol::ETHERNET;
    let ethernet = gpe(next, &inner);
    refused(
        &mut rig,
        TunnelKind::Path(Encapsulation::Nsh),
        &ethernet,
        DropReason::UnsupportedNextProtocol,
    );
    let broken = gpe(GpeNextProtocol::NSH, &[0xff; 60]);
    refused(&mut rig, TunnelKind::Path(Encapsulation::Nsh), &broken, DropReason::MalformedNsh);
    let bare = nsh(100, 255, 63, NshNextProtocol::IPV4, &inner[14..]);
    refused(
        &mut rig,
        TunnelKind::Path(Encapsulation::Nsh),
        &bare,
        DropReason::UnsupportedNextProtocol,
    );
}

#[test]
fn positions_that_are_none() {
    let both = [Encapsulation::Nsh, Encapsulation::Mpls];
    for (encapsulation, other) in both.into_iter().zip(both.into_iter().rev()) {
        let mut rig = rig(encapsulation);
        let inner = packet(&rig.town, CHAINED_PORT).frame();
        let (kind, other) = (TunnelKind::Path(encapsulation), TunnelKind::Path(other));
        let make = |kind, path, index, ttl: u8| match kind {
            TunnelKind::Path(Encapsulation::Mpls) => mpls(path, index, ttl, &inner),
            _ => nsh(path, index, u32::from(ttl), NshNextProtocol::ETHERNET, &inner),
        };
        refused(&mut rig, kind, &make(kind, 999, 255, 63), DropReason::NoPath);
        refused(&mut rig, other, &make(other, 100, 255, 63), DropReason::NoPath);
        refused(&mut rig, kind, &make(kind, 100, 250, 63), DropReason::IndexExhausted);
        refused(&mut rig, kind, &make(kind, 100, 255, 1), DropReason::TtlExpired);
        rig.send_datagram(0, kind, node_address(1), &make(kind, 100, 254, 63));
        rig.assert_moved(&[
            ("host1 tunnels received", 1),
            ("host1 tunnels dropped position_elsewhere", 1),
            ("host1 path 100 tunnelled in", 1),
            ("host1 path 100 dropped position_elsewhere", 1),
        ]);
    }
}

#[test]
fn a_header_runs_out_of_time_on_its_way() {
    let mut rig = rig(Encapsulation::Nsh);
    let inner = packet(&rig.town, CHAINED_PORT).frame();
    // host1 counts 2 down to 1, the proxy keeps it, and host2 may not forward what it gets.
    let sent = nsh(100, 255, 2, NshNextProtocol::ETHERNET, &inner);
    rig.send_datagram(0, TunnelKind::Path(Encapsulation::Nsh), node_address(1), &sent);
    let moved = rig.moved();
    assert_eq!(moved.get("host1 path 100 from v1"), Some(&1));
    assert_eq!(moved.get("host2 tunnels dropped ttl_expired"), Some(&1));
}

#[test]
fn packets_larger_than_the_underlay() {
    let mut rig = rig(Encapsulation::Nsh);
    // 1,500 − 20 − 8 − 8 leaves 1,464 for the inner frame, 14 + 20 + 8 of it headers.
    let mut sent = packet(&rig.town, PLAIN_PORT);
    sent.payload = vec![0; 1_422];
    rig.send("S", &sent.frame());
    assert_eq!(rig.take("D").len(), 1);
    rig.moved();
    sent.payload = vec![0; 1_423];
    rig.send("S", &sent.frame());
    assert_eq!(rig.moved().get("S dropped mtu_exceeded"), Some(&1));
}

#[test]
fn transmissions_that_the_shell_could_not_make() {
    for reason in [DropReason::PortUnbound, DropReason::TransmitFailed] {
        let mut rig = rig(Encapsulation::Nsh);
        rig.refusals.insert("v1.in".into(), reason);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        rig.assert_moved(&[
            ("S received", 1),
            (&format!("S dropped {reason}"), 1),
            ("host1 path 100 entered", 1),
            (&format!("host1 path 100 dropped {reason}"), 1),
        ]);
    }
}

#[test]
fn frames_that_the_shell_lost() {
    let mut rig = Rig::new(three_hosts());
    let slot = rig.slot("S").unwrap();
    rig.note_lost(0, Origin::Port(slot), DropReason::TruncatedByRing);
    rig.assert_only_dropped("S", DropReason::TruncatedByRing);
    let source = node_address(1);
    let tunnel = Origin::Tunnel { kind: TunnelKind::Vxlan, source };
    rig.note_lost(0, tunnel, DropReason::BuffersExhausted);
    rig.assert_only_dropped("host1 tunnels", DropReason::BuffersExhausted);
    rig.check();
}

#[test]
fn a_path_that_meets_an_unaware_instance_twice_is_not_half_walked() {
    for encapsulation in Encapsulation::ALL {
        for behaviour in [Behaviour::Bridge, Behaviour::Route(PROXY_MAC)] {
            let mut rig = Rig::new(with_chain(encapsulation, &[&["v1"], &["v1"]]));
            rig.behaviours.insert("v1".into(), behaviour);
            rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
            let moved = rig.moved();
            assert_eq!(moved.get("v1.out dropped no_instance"), Some(&1));
            assert_eq!(rig.take("D"), Vec::<Vec<u8>>::new());
            // With a function of another node between: over links it would come out at its first place again.
            let mut rig = Rig::new(with_chain(encapsulation, &[&["v2"], &["v1"], &["v2"]]));
            rig.behaviours.insert("v2".into(), behaviour);
            rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
            assert!(rig.take("D").is_empty() && rig.take("v2.in").len() <= 1);
            let dropped = rig.moved().into_iter().filter(|(name, _)| name.ends_with("no_instance"));
            // By its port, and on its path.
            assert_eq!(dropped.map(|(_, count)| count).max(), Some(1), "{encapsulation:?}");
        }
    }
}

#[test]
fn an_instance_that_speaks_another_encapsulation_than_its_path() {
    let mut town = with_chain(Encapsulation::Mpls, &[&["v1"]]);
    town.speaking("v1", Encapsulation::Nsh);
    let mut rig = Rig::new(town);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.moved().get("S dropped unsupported_encapsulation"), Some(&1));
}

#[test]
fn a_node_or_network_that_the_program_does_not_name() {
    let mut rig = rig(Encapsulation::Nsh);
    let mut program = rig.town.program(0);
    program.tunnels.clear();
    rig.apply_program(0, &program);
    rig.moved();
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.moved().get("v1.out dropped no_instance"), Some(&1));

    let mut rig = Rig::new(with_chain(Encapsulation::Nsh, &[&["v3"]]));
    let mut program = rig.town.program(1);
    let customer = program.networks[0].id;
    program.networks.remove(0);
    program.ports.retain(|port| port.network != customer);
    rig.apply_program(1, &program);
    rig.moved();
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(rig.moved().get("v3.out dropped unknown_network"), Some(&1));
}

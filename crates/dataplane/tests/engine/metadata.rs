//! Metadata in NSH MD type 2: written by the classifier, carried past everything, gone at the end.

use crate::frames::Spec;
use crate::passing::{annotation, route};
use crate::rig::{Behaviour, Rig};
use crate::scene::{CHAINED_PORT, all_context, packet, packet_v6, rules, three_hosts, with_chain};
use crate::town::rule;
use catena_dataplane::engine::{Tables, TunnelKind};
use catena_model::limits::{
    NSH_CONTEXT_BYTES_AT_TENANT_MTU, NSH_CONTEXT_BYTES_MAX, TENANT_MTU_BYTES,
};
use catena_model::program::{PROXY_MAC, RuleMatch};
use catena_model::resource::{ContextHeader, Encapsulation, IpFamily, Transport};
use catena_wire::nsh::{Metadata, NshView};
use catena_wire::scalar::VlanId;
use catena_wire::vxlan_gpe::VxlanGpeHeader;

/// The destination port of another chain.
const OTHER_PORT: u16 = 5_002;
const SECOND_NS: u64 = 1_000_000_000;

fn carrying(hops: &[&[&str]], context: &[ContextHeader]) -> Rig {
    let mut town = with_chain(Encapsulation::Nsh, hops);
    town.chains[0].context = context.to_vec();
    // Nothing of it is in what functions read.
    town.choice_seed = 77;
    Rig::new(town)
}

/// The metadata of each NSH datagram, none where it is of MD type 1; forgets them.
fn metadata(rig: &mut Rig) -> Vec<Option<Vec<u8>>> {
    let datagrams = std::mem::take(&mut rig.datagrams);
    let of_nsh =
        datagrams.iter().filter(|datagram| datagram.kind == TunnelKind::Path(Encapsulation::Nsh));
    of_nsh.map(|datagram| read(VxlanGpeHeader::parse(&datagram.bytes).unwrap().1)).collect()
}

fn read(bytes: &[u8]) -> Option<Vec<u8>> {
    match NshView::parse(bytes).unwrap().0.metadata() {
        Metadata::Type1(bytes) => {
            assert_eq!(bytes, [0; 16]);
            None
        }
        Metadata::Type2(headers) => Some(headers.bytes().to_vec()),
    }
}

/// What [`all`] is for a flow of S, without the flow's four bytes.
fn expected(flow: &[u8]) -> Vec<u8> {
    [
        &[0, 0, 5, 4][..],
        b"acme",
        &[0, 0, 6, 5],
        b"host1\0\0\0",
        &[0, 0, 8, 4],
        flow,
        &[0, 0, 10, 4, 0, 0, 0, 7],
    ]
    .concat()
}

#[test]
fn what_the_classifier_wrote_arrives_at_every_node_and_leaves_with_the_path() {
    for make in [packet, packet_v6] {
        for aware in [&[][..], &["v2"], &["v1", "v2", "v3", "v4"]] {
            let mut rig = carrying(&[&["v1"], &["v2"], &["v3"], &["v4"]], &all_context());
            for name in aware {
                rig.town.speaking(name, Encapsulation::Nsh);
                rig.behaviours.insert((*name).into(), Behaviour::Advance(Encapsulation::Nsh));
            }
            rig.apply();
            let sent = make(&rig.town, CHAINED_PORT);
            rig.send("S", &sent.frame());
            for name in aware {
                let seen = rig.take(&format!("{name}.in")).remove(0);
                let context = read(&seen[14..]).unwrap();
                assert_eq!(context, expected(&context[24..28]), "{name}");
            }
            let arrived = metadata(&mut rig);
            assert_eq!(arrived.len(), 2);
            for context in arrived {
                let context = context.unwrap();
                let flow = sent_flow(&sent);
                assert_eq!(context, expected(&flow));
            }
            let ttl = sent.ttl - 4 + u8::try_from(aware.len()).unwrap();
            let last = rig.take("D").remove(0);
            assert_eq!(last[14..], Spec { ttl, ..sent }.frame()[14..], "nothing of it is left");
        }
    }
}

/// The lower 32 bits of the flow's hash.
fn sent_flow(sent: &Spec) -> [u8; 4] {
    let hash = crate::frames::flow(&sent.frame()).symmetric_hash(0);
    u32::try_from(hash & 0xffff_ffff).unwrap().to_be_bytes()
}

#[test]
fn each_flow_has_its_own_number_also_behind_a_proxy() {
    let mut rig = carrying(&[&["v1"], &["v2"]], &[ContextHeader::FlowId]);
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    let mut flows = Vec::new();
    for port in 1..=20 {
        let sent = Spec { ports: (port, CHAINED_PORT), ..packet(&rig.town, CHAINED_PORT) };
        rig.send("S", &sent.frame());
        flows.push([&[0, 0, 8, 4], &sent_flow(&sent)[..]].concat());
    }
    // The function gives them back in another order.
    let inside = rig.take("v1.in");
    for mut frame in inside.into_iter().rev() {
        assert!(route(&mut frame, PROXY_MAC, rig.town.mac("v1.out")));
        rig.send("v1.out", &frame);
        assert_eq!(metadata(&mut rig), [flows.pop()]);
    }
}

#[test]
fn what_an_aware_function_writes_goes_on_in_place_of_it() {
    for context in [&[][..], &all_context()] {
        let mut rig = carrying(&[&["v1"], &["v2"], &["v3"], &["v4"]], context);
        rig.town.speaking("v1", Encapsulation::Nsh);
        rig.apply();
        rig.behaviours.insert("v1".into(), Behaviour::Annotate(5));
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let written = Some(annotation(5));
        assert_eq!(metadata(&mut rig), [written.clone(), written], "past two proxies");
        assert_eq!(rig.take("D").len(), 1);
    }
}

#[test]
fn more_metadata_than_is_carried_ends_by_name() {
    let mut rig = carrying(&[&["v1"], &["v2"]], &all_context());
    rig.town.speaking("v1", Encapsulation::Nsh);
    rig.apply();
    rig.behaviours.insert("v1".into(), Behaviour::Annotate(NSH_CONTEXT_BYTES_MAX - 4));
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    assert_eq!(metadata(&mut rig), [Some(annotation(NSH_CONTEXT_BYTES_MAX - 4))]);
    rig.behaviours.insert("v1".into(), Behaviour::Annotate(NSH_CONTEXT_BYTES_MAX - 3));
    rig.moved();
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let moved = rig.moved();
    assert_eq!(moved.get("v1.out dropped context_too_long"), Some(&1), "{moved:?}");
    assert_eq!(metadata(&mut rig), []);
}

#[test]
fn a_path_that_declares_too_much_is_refused() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"]]);
    let tenant = |bytes| ContextHeader::Tenant("x".repeat(bytes));
    for (context, is_legal) in [
        (vec![tenant(124)], true),
        (vec![tenant(125)], false),
        (vec![tenant(128)], false),
        (vec![tenant(116), ContextHeader::FlowId], true),
        (vec![tenant(116), ContextHeader::FlowId, ContextHeader::Policy(1)], false),
    ] {
        town.chains[0].context = context.clone();
        let compiled = Tables::compile(&town.program(0));
        assert_eq!(compiled.is_ok(), is_legal, "{context:?}: {:?}", compiled.err());
    }
}

#[test]
fn labels_carry_none() {
    let mut town = with_chain(Encapsulation::Mpls, &[&["v1"], &["v2"]]);
    let mut plain = Rig::new(town.clone());
    town.chains[0].context = all_context();
    let mut rig = Rig::new(town);
    for rig in [&mut plain, &mut rig] {
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    }
    assert_eq!(rig.datagrams[0].bytes, plain.datagrams[0].bytes);
    assert_eq!(rig.take("D").len(), 1);
}

#[test]
fn a_copy_for_a_tap_carries_it_too() {
    let mut rig = carrying(&[&["v2"], &["v4"]], &all_context());
    rig.town.chains[0].taps = vec![0];
    rig.apply();
    rig.behaviours.insert("v2".into(), Behaviour::Swallow);
    let sent = packet(&rig.town, CHAINED_PORT);
    rig.send("S", &sent.frame());
    let context = Some(expected(&sent_flow(&sent)));
    assert_eq!(metadata(&mut rig), [context.clone(), context]);
}

#[test]
fn a_full_packet_fits_with_as_much_as_the_limit_says() {
    for (tag, room) in
        [(None, NSH_CONTEXT_BYTES_AT_TENANT_MTU + 4), (Some(7), NSH_CONTEXT_BYTES_AT_TENANT_MTU)]
    {
        for (bytes, fits) in [(room, true), (room + 4, false)] {
            let mut town = three_hosts();
            let vlan = tag.map(|tag| VlanId::new(tag).unwrap());
            let matches = RuleMatch { vlan, ..rule(IpFamily::Ipv4, Transport::Udp, CHAINED_PORT) };
            town.chain("c", Encapsulation::Nsh, &[&["v2"]], &[matches]);
            town.chains[0].context = vec![ContextHeader::Tenant("x".repeat(bytes - 4))];
            let mut rig = Rig::new(town);
            let payload = vec![0; usize::from(TENANT_MTU_BYTES) - 28];
            let vlan = tag.map(|tag| u16::try_from(tag).unwrap());
            rig.send("S", &Spec { vlan, payload, ..packet(&rig.town, CHAINED_PORT) }.frame());
            let refused = rig.moved().contains_key("S dropped mtu_exceeded");
            assert_eq!(refused, !fits, "{bytes} bytes, tag {tag:?}");
        }
    }
}

#[test]
fn when_no_more_can_be_kept_new_packets_end_by_name_and_the_kept_stay() {
    let town = {
        let mut town = with_chain(Encapsulation::Nsh, &[&["v2"]]);
        town.chains[0].context = vec![ContextHeader::FlowId];
        town
    };
    let mut rig = Rig::with(town, |config| config.flows_max = 16, 64);
    let from = |rig: &Rig, port| {
        Spec { ports: (port, CHAINED_PORT), ..packet(&rig.town, CHAINED_PORT) }.frame()
    };
    for port in 1..=16 {
        rig.send("S", &from(&rig, port));
    }
    rig.moved();
    rig.send("S", &from(&rig, 17));
    rig.assert_moved(&[
        ("S received", 1),
        ("S dropped context_memory_full", 1),
        ("host1 path 100 entered", 1),
        ("host1 path 100 dropped context_memory_full", 1),
    ]);
    rig.send("S", &from(&rig, 16));
    assert_eq!(rig.moved().get("D transmitted"), Some(&1));
    rig.now_ns += SECOND_NS + 1;
    rig.send("S", &from(&rig, 17));
    assert_eq!(rig.moved().get("D transmitted"), Some(&1), "the others have passed by now");
}

#[test]
fn metadata_whose_place_was_given_away_while_a_function_had_the_packet_ends_by_name() {
    let mut town = with_chain(Encapsulation::Nsh, &[&["v1"], &["v2"]]);
    // Its packets take places at host1 and are remembered nowhere there.
    town.chain("other", Encapsulation::Nsh, &[&["v2"]], &rules(OTHER_PORT));
    for chain in &mut town.chains {
        chain.context = vec![ContextHeader::FlowId];
    }
    let mut rig = Rig::with(town, |config| config.flows_max = 16, 64);
    rig.behaviours.insert("v1".into(), Behaviour::Swallow);
    rig.behaviours.insert("v2".into(), Behaviour::Swallow);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let mut late = rig.take("v1.in").remove(0);
    assert!(route(&mut late, PROXY_MAC, rig.town.mac("v1.out")));
    for (others, is_kept) in [(1..=15, true), (16..=31, false)] {
        rig.now_ns += SECOND_NS + 1;
        for port in others {
            let other = Spec { ports: (port, OTHER_PORT), ..packet(&rig.town, OTHER_PORT) };
            rig.send("S", &other.frame());
        }
        rig.moved();
        rig.send("v1.out", &late);
        let moved = rig.moved();
        let name = "v1.out dropped context_memory_full";
        assert_eq!(moved.contains_key(name), !is_kept, "{moved:?}");
        assert_eq!(moved.contains_key("host1 path 100 tunnelled out"), is_kept, "{moved:?}");
    }
}

//! What the engine puts on the wire between nodes, byte for byte, against `conformance/`. Run with
//! `CATENA_UPDATE_GOLDENS=1` to write them anew, then read the difference.

use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, with_chain};
use catena_dataplane::engine::TunnelKind;
use catena_model::resource::Encapsulation;
use std::fmt::Write;
use std::path::PathBuf;

fn golden(name: &str, head: &str, bytes: &[u8]) {
    let path =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../conformance/engine").join(name);
    let mut text = format!("# {head}\n");
    for line in bytes.chunks(16) {
        let octets: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(text, "{}", octets.join(" ")).unwrap();
    }
    if std::env::var_os("CATENA_UPDATE_GOLDENS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let stored = std::fs::read_to_string(&path).expect("the golden is stored");
    assert_eq!(text, stored, "{name}");
}

/// The first datagram that a packet of S makes.
fn datagram(encapsulation: Encapsulation, hops: &[&[&str]], port: u16, is_v6: bool) -> Vec<u8> {
    let mut rig = Rig::new(with_chain(encapsulation, hops));
    let spec = if is_v6 { packet_v6(&rig.town, port) } else { packet(&rig.town, port) };
    rig.send("S", &spec.frame());
    rig.datagrams.remove(0).bytes
}

#[test]
fn an_nsh_datagram_reads_as_rfc_8300_says() {
    let bytes = datagram(Encapsulation::Nsh, &[&["v2"]], CHAINED_PORT, false);
    let head = "RFC 8300 section 2 over VXLAN-GPE: path 100, first hop, UDP over IPv4 inside";
    golden("nsh_first_hop.hex", head, &bytes);
    let bytes = datagram(Encapsulation::Nsh, &[&["v1"], &["v2"]], CHAINED_PORT, true);
    let head = "RFC 8300 section 2.3: path 100, second hop after a proxy, UDP over IPv6 inside";
    golden("nsh_second_hop_ipv6.hex", head, &bytes);
}

#[test]
fn an_mpls_datagram_reads_as_rfc_8595_says() {
    let bytes = datagram(Encapsulation::Mpls, &[&["v2"]], CHAINED_PORT, false);
    let head = "RFC 8595 sections 5 and 6 over UDP: path 100, first hop, UDP over IPv4 inside";
    golden("mpls_first_hop.hex", head, &bytes);
    let bytes = datagram(Encapsulation::Mpls, &[&["v1"], &["v2"]], CHAINED_PORT, true);
    let head = "RFC 8595 section 6: path 100, second hop after a proxy, UDP over IPv6 inside";
    golden("mpls_second_hop_ipv6.hex", head, &bytes);
}

#[test]
fn an_ordinary_datagram_reads_as_rfc_7348_says() {
    let bytes = datagram(Encapsulation::Nsh, &[&["v2"]], PLAIN_PORT, false);
    golden("vxlan.hex", "RFC 7348 section 5: network 100, UDP over IPv4 inside", &bytes);
}

#[test]
fn a_frame_to_an_aware_function_reads_as_its_rfc_says() {
    for (encapsulation, name, head) in [
        (Encapsulation::Nsh, "nsh_over_ethernet.hex", "RFC 8300 section 2 behind Ethernet 0x894f"),
        (
            Encapsulation::Mpls,
            "mpls_over_ethernet.hex",
            "RFC 8595 section 5 behind Ethernet 0x8847",
        ),
    ] {
        let mut town = with_chain(encapsulation, &[&["v1"]]);
        town.speaking("v1", encapsulation);
        let mut rig = Rig::new(town);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        golden(name, head, &rig.take("v1.in")[0]);
    }
}

/// The scene with a chain whose classifier writes all that it can.
fn with_context(hops: &[&[&str]]) -> Rig {
    let mut town = with_chain(Encapsulation::Nsh, hops);
    town.chains[0].context = crate::scene::all_context();
    Rig::new(town)
}

#[test]
fn metadata_reads_as_rfc_9263_says() {
    let mut rig = with_context(&[&["v2"]]);
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let head =
        "RFC 8300 section 2.5, RFC 9263 section 4: path 100, first hop, tenant, node, flow, policy";
    golden("nsh_md_type_2_first_hop.hex", head, &rig.datagrams[0].bytes);

    let mut rig = with_context(&[&["v1"], &["v2"]]);
    rig.send("S", &packet_v6(&rig.town, CHAINED_PORT).frame());
    let head =
        "RFC 8300 section 2.5: path 100, second hop, metadata restored by a proxy, IPv6 inside";
    golden("nsh_md_type_2_second_hop_ipv6.hex", head, &rig.datagrams[0].bytes);

    let mut rig = with_context(&[&["v1"]]);
    rig.town.speaking("v1", Encapsulation::Nsh);
    rig.apply();
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let head = "RFC 8300 section 2.5 behind Ethernet 0x894f: metadata for a function that reads it";
    golden("nsh_md_type_2_over_ethernet.hex", head, &rig.take("v1.in")[0]);

    let mut rig = with_context(&[&["v1"], &["v2"]]);
    rig.town.speaking("v1", Encapsulation::Nsh);
    rig.apply();
    rig.behaviours.insert("v1".into(), crate::rig::Behaviour::Annotate(5));
    rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
    let head = "RFC 8300 section 2.5.1: path 100, second hop, metadata that a function put in place of ours";
    golden("nsh_md_type_2_of_a_function.hex", head, &rig.datagrams[0].bytes);
}

#[test]
fn a_copy_for_a_tap_says_the_position_of_the_tap() {
    for (encapsulation, name, head) in [
        (
            Encapsulation::Nsh,
            "nsh_tap_copy.hex",
            "RFC 8300 section 2.3: path 100, a copy for the tap at its second hop",
        ),
        (
            Encapsulation::Mpls,
            "mpls_tap_copy.hex",
            "RFC 8595 section 6: path 100, a copy for the tap at its second hop",
        ),
    ] {
        let mut town = with_chain(encapsulation, &[&["v1"], &["v2"]]);
        town.chains[0].taps = vec![1];
        let mut rig = Rig::new(town);
        rig.behaviours.insert("v2".into(), crate::rig::Behaviour::Swallow);
        rig.send("S", &packet(&rig.town, CHAINED_PORT).frame());
        let kinds = [TunnelKind::Path(Encapsulation::Nsh), TunnelKind::Path(Encapsulation::Mpls)];
        let copy = rig.datagrams.iter().find(|datagram| kinds.contains(&datagram.kind)).unwrap();
        golden(name, head, &copy.bytes);
    }
}

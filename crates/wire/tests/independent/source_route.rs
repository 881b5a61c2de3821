//! Source routes and LLDP as tshark and scapy read them.

use catena_wire::ethernet;
use catena_wire::lldp::{Identifier, LldpFrame, OwnTlv};
use catena_wire::scalar::{EtherType, MplsLabel, Spi};
use catena_wire::source_route::Profile;
use catena_wire::source_route::classic::{ClassicHeader, Density};
use catena_wire::source_route::marked::MarkedHeader;
use catena_wire::source_route::native::{NativeHeader, PortWidth};
use catena_wire::source_route::safe::SafeHeader;
use catena_wire::source_route::sr_mpls::SrMplsHeader;

use crate::packets::{self, CLIENT, emitted};
use crate::programs::{scapy, tshark};

/// A header over an IPv4 packet, from this sender.
fn over_ip(emit: impl FnOnce(&mut [u8]) -> usize) -> Vec<u8> {
    let header = emitted(|into| ethernet::set_source(into, CLIENT).map(|()| emit(into)));
    [header, packets::tenant_packet()].concat()
}

fn classic(way: &[u8]) -> Vec<u8> {
    let header = ClassicHeader::new(way, Density::Labels).unwrap();
    over_ip(|into| header.emit(into).unwrap())
}

fn safe(way: &[u8]) -> Vec<u8> {
    let header = SafeHeader::new(way).unwrap();
    over_ip(|into| header.emit(into).unwrap())
}

fn marked(profile: Profile, way: &[u8]) -> Vec<u8> {
    let header = MarkedHeader::new(profile, way, 0x1234).unwrap();
    over_ip(|into| header.emit(into).unwrap())
}

/// A frame behind labels, which keeps its Ethernet header.
fn labelled(way: &[u8]) -> Vec<u8> {
    let header = SrMplsHeader::new(way, MplsLabel::ordinary(0x1234).unwrap()).unwrap();
    let header = emitted(|into| {
        ethernet::set_source(into, CLIENT).unwrap();
        ethernet::set_destination(into, packets::SERVER).unwrap();
        header.emit(into)
    });
    [header, packets::tenant_frame()].concat()
}

fn lldp() -> Vec<u8> {
    let local = |subtype, value| Identifier { subtype, value };
    let own = OwnTlv { boot: 7, sequence: 1, port: 3, signature: [0; 16] };
    let frame = LldpFrame {
        source: CLIENT,
        chassis: local(Identifier::LOCAL, b"a1"),
        port: local(Identifier::INTERFACE_NAME, b"c1"),
        seconds: 4,
        port_description: Some(b"to c1"),
        system_name: Some(b"a1"),
        own: Some(own),
        signed: &[],
    };
    emitted(|into| frame.emit(into, |_| [0xee; 16]))
}

#[test]
fn tshark_reads_the_fields_that_ports_are_kept_in() {
    let written = [
        classic(&[11, 12, 13, 14, 15, 16, 17, 18, 19, 20]),
        classic(&[101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112]),
        safe(&[1, 3, 5]),
        safe(&[255; 9]),
        marked(Profile::Safe9, &[1, 3, 5]),
        marked(Profile::Classic80, &[1, 3, 6]),
        labelled(&[1, 255]),
    ];
    let fields = ["eth.dst", "vlan.id", "mpls.label", "mpls.bottom", "mpls.ttl", "_ws.malformed"];
    let test = "tshark_reads_the_fields_that_ports_are_kept_in";
    let Some(rows) = tshark(test, &written, &fields) else { return };
    let expected = [
        ["14:13:12:11:10:0f", "224", "855051", "1", "10", ""],
        ["70:6f:6e:6d:6c:6b", "1702", "616551,419408", "0,1", "12,0", ""],
        ["06:40:c0:40:00:00", "1", "524288", "1", "4", ""],
        ["fe:ff:ff:ff:ff:ff", "2048", "557055", "1", "10", ""],
        ["06:40:c0:40:00:00", "1", "528948", "1", "4", ""],
        ["06:03:01:00:00:00", "1", "70196", "1", "3", ""],
        ["02:00:00:00:02:02", "", "1048321,1048575,4660", "0,0,1", "64,64,64", ""],
    ];
    for (read, expected) in rows.iter().zip(expected) {
        // What a pseudowire would have behind the labels is read too: the first reading is ours.
        let first: Vec<&str> = read.iter().map(|one| one.split(',').next().unwrap()).collect();
        assert_eq!(first[..2], expected[..2]);
        assert_eq!(read[2..5], expected[2..5]);
        assert_eq!(read[5], expected[5]);
    }
    assert_eq!(rows.len(), expected.len());
}

#[test]
fn scapy_parses_each_header_to_the_packet_behind_it() {
    const SCRIPT: &str = r"
for packet in packets[:3]:
    frame = Ether(packet)
    labels = []
    label = frame[MPLS]
    while True:
        labels.append((label.label, label.cos, label.s, label.ttl))
        if label.s:
            break
        label = label.payload
    print(frame.dst, frame.src, frame[Dot1Q].vlan, labels, IP(bytes(label.payload)).dst)
native = Ether(packets[3])
print(native.dst, hex(native.type), bytes(native.payload)[:9].hex(), IP(bytes(native.payload)[11:]).dst)
";
    let native = NativeHeader {
        width: PortWidth::Six,
        way: &[1, 2],
        path: Some(Spi::new(7).unwrap()),
        tag: None,
        detours: &[],
        ether_type: EtherType::IPV4,
    };
    let native = over_ip(|into| {
        ethernet::set_destination(into, packets::SERVER).unwrap();
        native.emit(into).unwrap()
    });
    let twelve = [101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112];
    let written = [classic(&[1, 3, 5, 2, 4, 6, 7]), classic(&twelve), safe(&[1, 3, 5]), native];
    let test = "scapy_parses_each_header_to_the_packet_behind_it";
    let Some(lines) = scapy(test, SCRIPT, &written) else { return };
    let expected = [
        "07:06:04:02:05:03 02:00:00:00:02:01 16 [(0, 0, 1, 7)] 10.0.0.2",
        "70:6f:6e:6d:6c:6b 02:00:00:00:02:01 1702 [(616551, 0, 0, 12), (419408, 0, 1, 0)] 10.0.0.2",
        "06:40:c0:40:00:00 02:00:00:00:02:01 1 [(524288, 0, 1, 4)] 10.0.0.2",
        "02:00:00:00:02:02 0x88b5 160202040810000007 10.0.0.2",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn tshark_reads_our_discovery() {
    let fields = [
        "lldp.chassis.subtype",
        "lldp.port.subtype",
        "lldp.port.id",
        "lldp.time_to_live",
        "lldp.port.desc",
        "lldp.tlv.system.name",
        "lldp.orgtlv.oui",
        "_ws.malformed",
    ];
    let Some(rows) = tshark("tshark_reads_our_discovery", &[lldp()], &fields) else { return };
    let oui = u32::from_be_bytes([0, 0x0a, 0xca, 0x7e]).to_string();
    assert_eq!(rows, [["7", "5", "c1", "4", "to c1", "a1", &oui, ""]]);
}

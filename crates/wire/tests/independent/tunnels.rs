//! What tshark finds in tunnels in tunnels, and what we find in those that scapy makes.

use std::fs;
use std::path::Path;

use catena_wire::frame::FrameView;
use catena_wire::inside::Inside;

use crate::programs::{scapy, tshark};

const LAYERS_MAX: u8 = 8;

fn octets(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let (pairs, _) = digits.as_chunks::<2>();
    let octet = |pair: &[u8; 2]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    pairs.iter().map(octet).collect()
}

fn golden(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/inside");
    let text = fs::read_to_string(folder.join(format!("{name}.hex"))).unwrap();
    octets(&text.lines().filter(|line| !line.starts_with('#')).collect::<String>())
}

fn look(bytes: &[u8]) -> Inside {
    Inside::parse(bytes, &FrameView::parse(bytes).unwrap(), LAYERS_MAX).unwrap().unwrap()
}

/// A number as tshark prints it, decimal or hexadecimal; none when there is none.
fn number(reading: &str) -> Option<u64> {
    let reading = reading.split(',').next().filter(|reading| !reading.is_empty())?;
    Some(match reading.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap(),
        None => reading.parse().unwrap(),
    })
}

#[test]
fn tshark_finds_the_same_identifiers_and_flow() {
    let names = [
        "gtp_u_in_vxlan",
        "gtp_u",
        "geneve",
        "gre_key_sequence",
        "nvgre",
        "stt",
        "nsh_in_vxlan_gpe",
        "vlan_stack_gtp_u_in_vxlan_over_ipv6",
        "vxlan_eight_deep",
    ];
    let packets = names.map(golden);
    let fields = [
        "vxlan.vni",
        "geneve.vni",
        "gre.key",
        "stt.context_id",
        "gtp.teid",
        "gtp.ext_hdr.pdu_ses_con.qos_flow_id",
        "ip.dst",
        "ipv6.dst",
        "udp.dstport",
        "tcp.dstport",
        "_ws.malformed",
    ];
    let test = "tshark_finds_the_same_identifiers_and_flow";
    let Some(rows) = tshark(test, &packets, &fields) else { return };
    assert_eq!(rows.len(), names.len());
    for ((name, packet), row) in names.iter().zip(&packets).zip(&rows) {
        let found = look(packet);
        let [vxlan, geneve, key, context, teid, qfi, v4, v6, udp, tcp, malformed] = &row[..] else {
            panic!("eleven fields, not {}", row.len());
        };
        assert_eq!(malformed, "", "{name}");
        let network = [vxlan, geneve, key, context].into_iter().find_map(|field| number(field));
        assert_eq!(found.tunnel_id.map(|id| id.parts().1), network, "{name}");
        assert_eq!(found.teid.map(|teid| u64::from(teid.0)), number(teid), "{name}");
        assert_eq!(found.qfi.map(|qfi| u64::from(qfi.get())), number(qfi), "{name}");
        let flow = found.flow.unwrap();
        let innermost = |readings: &str| readings.split(',').next_back().unwrap().to_owned();
        let address = if flow.destination.is_ipv4() { v4 } else { v6 };
        assert_eq!(flow.destination.to_string(), innermost(address), "{name}");
        let port = if flow.protocol.0 == 6 { tcp } else { udp };
        assert_eq!(flow.destination_port.to_string(), innermost(port), "{name}");
    }
}

/// Frames of random tunnels in tunnels with the answers that their maker expects.
const RANDOM_TUNNELS: &str = r"
import random, struct
random.seed(20261121)
def gtp(teid, qfi, sequence, inner):
    flags, optional = 0x30, b''
    if qfi is not None or sequence is not None:
        flags |= (4 if qfi is not None else 0) | (2 if sequence is not None else 0)
        optional = struct.pack('!HBB', sequence or 0, 0, 0x85 if qfi is not None else 0)
        if qfi is not None:
            optional += bytes([1, random.choice([0, 16]), qfi, 0])
    return Raw(struct.pack('!BBHI', flags, 255, len(optional) + len(inner), teid) + optional + inner)
def ip():
    if random.random() < .5:
        return IP(src='10.0.0.%d' % random.randrange(1, 255), dst='10.9.0.%d' % random.randrange(1, 255))
    return IPv6(src='2001:db8::%x' % random.randrange(1, 9999), dst='2001:db8:9::%x' % random.randrange(1, 9999))
def ethernet():
    frame = Ether(src='02:00:00:00:02:01', dst='02:00:00:00:02:02')
    return frame/Dot1Q(vlan=random.randrange(1, 4095)) if random.random() < .3 else frame
for _ in range(300):
    destination = random.randrange(10000, 20000)
    packet = ip()/UDP(sport=random.randrange(10000, 20000), dport=destination)/b'user data'
    innermost, network, teid, qfi, layers = packet.dst, None, None, None, 0
    for _ in range(random.randrange(1, 4)):
        kind = random.choice(['vxlan', 'geneve', 'gre', 'nvgre', 'gtp', 'gpe'])
        layers += 1
        if kind == 'vxlan':
            vni = random.randrange(1 << 24)
            network = 'VNI_%d' % vni
            packet = ip()/UDP(sport=50000, dport=4789)/VXLAN(flags=8, vni=vni)/ethernet()/packet
        elif kind == 'gpe':
            vni = random.randrange(1 << 24)
            network = 'VNI_%d' % vni
            head = struct.pack('!BBBBI', 12, 0, 0, 3, vni << 8)
            packet = ip()/UDP(sport=50000, dport=4790)/Raw(head + bytes(ethernet()/packet))
        elif kind == 'geneve':
            vni = random.randrange(1 << 24)
            network = 'VNI_%d' % vni
            words = random.randrange(3)
            head = struct.pack('!BBHI', words, 0, 0x6558, vni << 8) + bytes(4 * words)
            packet = ip()/UDP(sport=50000, dport=6081)/Raw(head + bytes(ethernet()/packet))
        elif kind == 'gre':
            kind = 0x0800 if packet.version == 4 else 0x86dd
            packet = ip()/GRE(proto=kind, seqnum_present=1, sequence_number=7)/packet
        elif kind == 'nvgre':
            key = random.randrange(1 << 32)
            network = 'GRE_key_%d' % key
            packet = ip()/GRE(proto=0x6558, key_present=1, key=key)/ethernet()/packet
        else:
            teid = random.randrange(1 << 32)
            qfi = random.choice([None, random.randrange(64)])
            sequence = random.choice([None, random.randrange(1 << 16)])
            packet = ip()/UDP(sport=2152, dport=2152)/gtp(teid, qfi, sequence, bytes(packet))
    print(layers, network, teid, qfi, innermost, destination, bytes(ethernet()/packet).hex())
";

#[test]
fn we_find_in_scapys_tunnels_what_it_put_there() {
    let test = "we_find_in_scapys_tunnels_what_it_put_there";
    let Some(lines) = scapy(test, RANDOM_TUNNELS, &[]) else { return };
    assert_eq!(lines.len(), 300);
    let mut whole = 0;
    for line in &lines {
        let words: Vec<&str> = line.split(' ').collect();
        let [layers, network, teid, qfi, destination, port, frame] = words[..] else {
            panic!("seven words: {line}");
        };
        let found = look(&octets(frame));
        let word = |value: Option<u64>| value.map_or("None".to_owned(), |value| value.to_string());
        let named = found.tunnel_id.map_or("None".to_owned(), |id| id.to_string());
        assert_eq!(named.replace(' ', "_"), network, "{line}");
        assert_eq!(word(found.teid.map(|teid| teid.0.into())), teid, "{line}");
        assert_eq!(word(found.qfi.map(|qfi| qfi.get().into())), qfi, "{line}");
        // It stops at the packet in which network and user are known.
        let is_whole = found.layers.to_string() == layers;
        assert!(is_whole || (found.tunnel_id.is_some() && found.teid.is_some()), "{line}");
        if is_whole {
            whole += 1;
            let flow = found.flow.unwrap();
            assert_eq!(flow.destination.to_string(), destination, "{line}");
            assert_eq!(flow.destination_port.to_string(), port, "{line}");
        }
    }
    assert!(whole > 200, "{whole}");
}

//! What a node tells another by ICMPv6 of its packets of segments that cannot go on: read by the kernel of the other.

use crate::account;
use crate::house::{House, in_own_house};
use crate::patience::wait_for;
use catena_model::DropReason;
use catena_model::account::Created;
use std::collections::BTreeMap;

/// Sends packets of segments from the first address to the second one's node, spoilt each in its own way, and prints
/// what is said of them, by whom.
const SCRIPT: &str = r"
import socket, struct, sys
here, there = sys.argv[1:]
to = socket.inet_pton(socket.AF_INET6, there)
inner = struct.pack('!BBHHHBBH4s4s', 0x45, 0, 20, 0, 0, 64, 59, 0, b'\x0a\x0a\x00\x0a', b'\x0a\x0a\x00\x0b')
ears = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
ears.settimeout(10)
mouth = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)

def told(hops=64, next=4, kind=4, left=0):
    routing = struct.pack('!BBBBBBH', next, 2, kind, left, 0, 0, 0) + to
    length = len(routing) + len(inner)
    header = struct.pack('!IHBB', 6 << 28, length, 43, hops) + socket.inet_pton(socket.AF_INET6, here) + to
    mouth.sendto(header + routing + inner, (there, 0))
    while True:
        message, sender = ears.recvfrom(2000)
        if message[0] in (3, 4):
            break
    kind, code, pointer = struct.unpack('!BBxxI', message[:8])
    whole = 'whole' if message[8:] == header + routing + inner else 'other'
    print(kind, code, pointer, sender[0], whole)

told(hops=1)
told(left=5)
told(kind=5)
told(next=17)
";

fn created(house: &House) -> u64 {
    let nodes = account::counters(house).into_iter();
    nodes.filter_map(|node| node.tunnels.created.get(&Created::SegmentError).copied()).sum()
}

#[test]
fn the_kernel_of_a_node_reads_why_its_packets_of_segments_went_no_further() {
    in_own_house("pair6.yaml", |house| {
        let before = account::dropped(house);
        let said = house
            .node("host1")
            .run("python3", &["-c", SCRIPT, "2001:db8:30::1", "5f00:0:2:1:0:1::"]);
        let from = "2001:db8:30::2 whole";
        let expected = ["3 0 0", "4 0 43", "4 0 42", "4 4 64"].map(|told| format!("{told} {from}"));
        assert_eq!(said.lines().collect::<Vec<_>>(), expected);
        let expected = [
            (DropReason::TtlExpired, 1),
            (DropReason::MalformedSrv6, 2),
            (DropReason::UnsupportedNextProtocol, 1),
        ];
        let expected: BTreeMap<_, u64> =
            expected.map(|(reason, count)| (("host2".to_owned(), reason), count)).into();
        wait_for("drops by name", || {
            let mut dropped = account::dropped(house);
            dropped.retain(|key, count| {
                *count -= before.get(key).copied().unwrap_or_default();
                expected.contains_key(key)
            });
            if dropped == expected && created(house) == 4 {
                Ok(())
            } else {
                Err(format!("{dropped:?}"))
            }
        });
        account::assert_holds(house);
    });
}

//! Whole IPv6 packets over a veth pair between two namespaces of these tests.
#![allow(clippy::unwrap_used, reason = "a test stops at its first surprise")]

mod hosts;
mod linux;
#[path = "../namespace/mod.rs"]
mod namespace;

use std::io::ErrorKind;
use std::net::Ipv6Addr;
use std::thread;
use std::time::{Duration, Instant};

use catena_io::{
    BrokenRow, BufferPool, IPV6_NEXT_HEADERS_MAX, IoError, Ipv6Match, Ipv6Received, Ipv6Receiver,
    Ipv6Reserve, Ipv6Sender, PacketFailure, drop_privileges,
};
use hosts::{FAR, HANG, Hosts, NEAR, ROUTING, SID, TAKEN, interface_index, packet_to, routed};
use namespace::{in_new_namespace, ip};
use rustix::net::sockopt::{set_socket_recv_buffer_size, socket_recv_buffer_size};

/// No next header (RFC 8200 section 4.7).
const NO_NEXT_HEADER: u8 = 59;

#[test]
fn a_packet_comes_out_as_it_went_in_with_every_byte_and_its_hop_limit() {
    in_new_namespace("exact", || {
        let mut hosts = Hosts::new();
        // RFC 8200 section 3, RFC 8754 section 2: to a SID of the locator, one segment is left.
        let mut packet = vec![
            0x6a,
            0xbc,
            0xde,
            0xf1,
            0,
            35,
            43,
            1, // class, flow label, length, next header, hops
            0xfd,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            1, // source
            0x5f,
            0,
            0,
            0,
            0,
            2,
            0,
            0xe1,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0, // destination
            NO_NEXT_HEADER,
            2,
            4,
            1,
            0,
            0,
            0xbe,
            0xef, // routing header: no TLV
            0x5f,
            0,
            0,
            0,
            0,
            3,
            0,
            0xe1,
            0,
            0,
            0,
            0,
            0,
            0,
            0,
            0, // its one segment
            b'c',
            b'o',
            b'n',
            b't',
            b'e',
            b'n',
            b't',
            0,
            0xff,
            1,
            2,
        ];
        for hop_limit in [1, 0, 64, 255] {
            packet[7] = hop_limit;
            hosts.sender.send(SID, &packet, None).unwrap();
            assert_eq!(hosts.arrived(1), [packet.clone()], "hop limit {hop_limit}");
        }
        let sizes: Vec<_> = [41, 60, 100, 1_280, 1_499, 1_500].map(|len| routed(len, 7)).into();
        for packet in &sizes {
            hosts.sender.send(SID, packet, None).unwrap();
        }
        assert_eq!(hosts.arrived(sizes.len()), sizes);
        assert_eq!(hosts.receiver.kernel_drops(), 0);
    });
}

#[test]
fn a_row_of_packets_leaves_in_order_with_its_odd_last() {
    in_new_namespace("row", || {
        let mut hosts = Hosts::new();
        for (count, each, last) in [(200, 700, 99), (64, 200, 200), (1, 900, 900), (2, 1_500, 40)] {
            let mut row: Vec<_> = (1..count).map(|number| routed(each, number as u8)).collect();
            row.push(routed(last, 0));
            hosts.sender.send(SID, &row.concat(), Some(each as u16)).unwrap();
            assert_eq!(hosts.arrived(row.len()), row, "{count} of {each}");
        }
        let single = routed(300, 5);
        hosts.sender.send(SID, &single, Some(u16::MAX)).unwrap();
        assert_eq!(hosts.arrived(1), [single]);
    });
}

#[test]
fn only_what_goes_to_the_prefix_is_seen_to_its_last_bit() {
    in_new_namespace("prefix", || {
        let mut hosts = Hosts::new();
        ip(&format!("-6 route add default via {FAR}"));
        for prefix_len in 1..=128 {
            hosts.receiver.take(Ipv6Match { prefix: SID, prefix_len, ..TAKEN }).unwrap();
            let flipped = |bit: u8| Ipv6Addr::from_bits(SID.to_bits() ^ (1 << (127 - bit)));
            let outside = flipped(prefix_len - 1);
            hosts.sender.send(outside, &packet_to(outside, ROUTING, 60), None).unwrap();
            let inside = if prefix_len < 128 { flipped(prefix_len) } else { SID };
            let seen = packet_to(inside, ROUTING, 61);
            hosts.sender.send(inside, &seen, None).unwrap();
            assert_eq!(hosts.arrived(1), [seen], "/{prefix_len}");
        }
    });
}

#[test]
fn only_the_next_headers_that_were_asked_for_are_seen() {
    in_new_namespace("next header", || {
        let mut hosts = Hosts::new();
        // IPv6, IPv4 and Ethernet inside, without a routing header (RFC 8986 section 5).
        for asked in [&[ROUTING][..], &[ROUTING, 41, 4, 143], &[143], &[0, 255, 4]] {
            hosts.receiver.take(Ipv6Match { next_headers: asked, ..TAKEN }).unwrap();
            let packets = (0..=255).map(|next| packet_to(SID, next, 80));
            let (mut expected, last) = (Vec::new(), packet_to(SID, asked[0], 81));
            for packet in packets.chain([last]) {
                hosts.sender.send(SID, &packet, None).unwrap();
                expected.extend(asked.contains(&packet[6]).then_some(packet));
            }
            assert_eq!(hosts.arrived(expected.len()), expected, "{asked:?}");
        }
    });
}

#[test]
fn what_the_host_sends_itself_or_is_for_another_station_is_not_seen() {
    in_new_namespace("not for us", || {
        let mut hosts = Hosts::new();
        // A part of the locator that is elsewhere: these leave by the interface that is listened at.
        let elsewhere = "5f00:0:2:ffff::1".parse().unwrap();
        hosts.there(|| ip(&format!("-6 route add 5f00:0:2:ffff::/64 via {NEAR}")));
        let mut own = hosts.there(|| Ipv6Sender::new(&mut Ipv6Reserve::open(1).unwrap()).unwrap());
        own.send(elsewhere, &packet_to(elsewhere, ROUTING, 70), None).unwrap();
        // What a switch floods, and an interface without a filter of addresses lets through.
        hosts.there(|| ip("link set far promisc on"));
        ip("-6 neigh add fd00::9 lladdr 02:00:00:00:00:99 dev near");
        ip("-6 route add 5f00:0:2:eeee::/64 via fd00::9");
        let flooded = "5f00:0:2:eeee::1".parse().unwrap();
        hosts.sender.send(flooded, &packet_to(flooded, ROUTING, 71), None).unwrap();
        let marker = packet_to(SID, ROUTING, 72);
        hosts.sender.send(SID, &marker, None).unwrap();
        assert_eq!(hosts.arrived(1), [marker]);
    });
}

#[test]
fn a_packet_comes_once_also_where_its_interface_is_the_port_of_a_bridge() {
    in_new_namespace("bridge", || {
        let mut hosts = Hosts::new();
        hosts.there(|| {
            ip("link add name br0 type bridge");
            ip("link set br0 up");
            ip("link set far master br0");
            ip(&format!("addr del {FAR}/64 dev far"));
            ip(&format!("addr add {FAR}/64 dev br0 nodad"));
        });
        let bridge = hosts.there(|| interface_index("br0"));
        hosts.receiver.take_only_from(vec![bridge]);
        for len in [90, 91] {
            let packet = packet_to(SID, ROUTING, len);
            hosts.sender.send(SID, &packet, None).unwrap();
            assert_eq!(hosts.arrived(1), [packet]);
        }
        assert_eq!(hosts.take().0, Ipv6Received::default());
    });
}

#[test]
fn what_comes_by_an_interface_that_nobody_named_is_counted_and_not_delivered() {
    in_new_namespace("foreign", || {
        let mut hosts = Hosts::new();
        let far = hosts.there(|| interface_index("far"));
        for named in [Vec::new(), vec![far + 1]] {
            hosts.receiver.take_only_from(named);
            for _ in 0..3 {
                hosts.sender.send(SID, &routed(100, 1), None).unwrap();
            }
            hosts.wait();
            // A flood does not keep the call from coming back.
            for foreign in [2, 1, 0] {
                let mut packets = Vec::new();
                let received = hosts.receiver.receive(&mut hosts.pool, &mut packets, 2);
                let foreign_bytes = u64::from(foreign) * 100;
                assert_eq!(
                    received,
                    Ipv6Received { foreign, foreign_bytes, ..Ipv6Received::default() }
                );
                assert!(packets.is_empty());
            }
        }
        hosts.receiver.take_only_from(vec![far + 1, far]);
        hosts.sender.send(SID, &routed(100, 1), None).unwrap();
        assert_eq!(hosts.arrived(1).len(), 1);
    });
}

#[test]
fn an_empty_pool_and_a_bound_of_packets_lose_and_reorder_nothing() {
    in_new_namespace("empty pool", || {
        let mut hosts = Hosts::new();
        let row: Vec<_> = (0..20).map(|number| routed(200, number)).collect();
        hosts.sender.send(SID, &row.concat(), Some(200)).unwrap();
        hosts.pool = BufferPool::new(7);
        let mut arrived = Vec::new();
        let mut was_empty = 0;
        while arrived.len() < row.len() {
            hosts.wait();
            let (received, packets) = hosts.take();
            was_empty += u32::from(received.pool_empty);
            assert!(packets.len() <= 7);
            arrived.extend(packets);
        }
        assert_eq!(arrived, row);
        assert!(was_empty >= 2, "20 packets through 7 buffers");
        hosts.sender.send(SID, &row.concat(), Some(200)).unwrap();
        hosts.wait();
        let mut none = Vec::new();
        assert_eq!(hosts.receiver.receive(&mut hosts.pool, &mut none, 0), Ipv6Received::default());
    });
}

#[test]
fn what_cannot_be_sent_is_told_by_name_with_how_many_were() {
    in_new_namespace("failures", || {
        let mut hosts = Hosts::new();
        let mut outcome = |to: &str, len, each| {
            let to = to.parse().unwrap();
            let row: Vec<u8> = (0..3).flat_map(|_| packet_to(to, ROUTING, len)).collect();
            hosts.sender.send(to, &row, each)
        };
        let none_sent = |why| Err(BrokenRow { sent: 0, why });
        assert_eq!(outcome("2001:db8::1", 80, Some(80)), none_sent(PacketFailure::NoRoute));
        ip("-6 route add unreachable 2001:db8:1::/48");
        assert_eq!(outcome("2001:db8:1::1", 80, Some(80)), none_sent(PacketFailure::NoRoute));
        ip("-6 route add prohibit 2001:db8:2::/48");
        ip("-6 route add blackhole 2001:db8:3::/48");
        for (to, errno) in [("2001:db8:2::1", libc::EACCES), ("2001:db8:3::1", libc::EINVAL)] {
            assert_eq!(outcome(to, 80, Some(80)), none_sent(PacketFailure::Refused(errno)));
        }
        // The link takes 1,500 bytes; a route may take less.
        let sid = SID.to_string();
        for _ in 0..100 {
            assert_eq!(outcome(&sid, 1_501, Some(1_501)), none_sent(PacketFailure::TooLarge));
        }
        assert_eq!(outcome(&sid, 501, None), none_sent(PacketFailure::TooLarge));
        ip(&format!("-6 route add 5f00:0:3::/48 via {FAR} mtu 1300"));
        let narrow = "5f00:0:3::1";
        assert_eq!(outcome(narrow, 1_301, Some(1_301)), none_sent(PacketFailure::TooLarge));
        assert_eq!(outcome(narrow, 1_300, Some(1_300)), Ok(()));
        // Less than a header.
        let refused = PacketFailure::Refused(libc::EINVAL);
        assert_eq!(outcome(&sid, 80, Some(39)), none_sent(refused));
        // None of all that is in the way of what can be sent.
        assert_eq!(outcome(&sid, 1_500, Some(1_500)), Ok(()));
        assert_eq!(hosts.arrived(3).len(), 3);
    });
}

#[test]
fn a_full_queue_of_the_link_is_told_and_the_packets_before_it_arrive() {
    in_new_namespace("full", || {
        let mut hosts = Hosts::new();
        // About 20 packets at once, one that waits, and half a second for each of the others.
        hosts::tc("qdisc add dev near root tbf rate 16kbit burst 20500 limit 2000");
        let row: Vec<_> = (0..100).map(|number| routed(1_000, number)).collect();
        let broken = hosts.sender.send(SID, &row.concat(), Some(1_000)).unwrap_err();
        assert_eq!(broken.why, PacketFailure::BufferFull);
        assert!((10..row.len()).contains(&broken.sent), "{broken}");
        assert_eq!(hosts.arrived(broken.sent), row[..broken.sent]);
    });
}

#[test]
fn all_that_comes_after_the_reserve_needs_no_right() {
    in_new_namespace("reserve", || {
        let mut hosts = Hosts::new();
        let mut reserve = Ipv6Reserve::open(1).unwrap();
        let mut theirs = hosts.there(|| Ipv6Reserve::open(1).unwrap());
        let far = hosts.there(|| interface_index("far"));
        drop_privileges(None).unwrap();
        let refused = Ipv6Reserve::open(1).unwrap_err();
        assert!(matches!(
            refused,
            IoError::System { source, .. } if source.kind() == ErrorKind::PermissionDenied
        ));
        hosts.sender = Ipv6Sender::new(&mut reserve).unwrap();
        hosts.receiver = Ipv6Receiver::bind(TAKEN, &mut theirs).unwrap();
        let bytes = socket_recv_buffer_size(&hosts.receiver).unwrap();
        assert!(bytes >= 16 << 20, "{bytes}");
        hosts.receiver.take_only_from(vec![far]);
        let outside = Ipv6Match { prefix: "5f00:0:3::".parse().unwrap(), ..TAKEN };
        hosts.receiver.take(outside).unwrap();
        hosts.sender.send(SID, &routed(100, 1), None).unwrap();
        hosts.receiver.take(TAKEN).unwrap();
        hosts.sender.send(SID, &routed(100, 2), None).unwrap();
        let arrived = hosts.arrived(1);
        assert_eq!(arrived.last(), Some(&routed(100, 2)));
        // None is made in place of those that are gone.
        let again = Ipv6Receiver::bind(TAKEN, &mut theirs);
        assert!(matches!(again, Err(IoError::ReserveEmpty { .. })));
        assert!(matches!(Ipv6Sender::new(&mut reserve), Err(IoError::ReserveEmpty { .. })));
    });
}

#[test]
fn lengths_and_numbers_outside_their_limits_are_refused_and_cost_no_socket() {
    in_new_namespace("limits", || {
        let mut reserve = Ipv6Reserve::open(1).unwrap();
        let many = [0; IPV6_NEXT_HEADERS_MAX + 1];
        for takes in [
            Ipv6Match { prefix_len: 0, ..TAKEN },
            Ipv6Match { prefix_len: 129, ..TAKEN },
            Ipv6Match { next_headers: &[], ..TAKEN },
            Ipv6Match { next_headers: &many, ..TAKEN },
        ] {
            let refused = Ipv6Receiver::bind(takes, &mut reserve);
            assert!(matches!(refused, Err(IoError::OutOfRange { .. })), "{takes:?}");
        }
        let most = Ipv6Match { next_headers: &many[1..], ..TAKEN };
        Ipv6Receiver::bind(most, &mut reserve).unwrap();
    });
}

#[test]
fn a_receiver_that_is_too_slow_counts_what_it_lost() {
    in_new_namespace("drops", || {
        const PACKETS: u8 = 100;
        let mut hosts = Hosts::new();
        set_socket_recv_buffer_size(&hosts.receiver, 0).unwrap();
        for number in 0..PACKETS {
            hosts.sender.send(SID, &routed(1_000, number), None).unwrap();
        }
        let began = Instant::now();
        while hosts.receiver.kernel_drops() == 0 {
            assert!(began.elapsed() < HANG, "nothing was lost");
        }
        let mut arrived = Vec::new();
        while arrived.len() as u64 + hosts.receiver.kernel_drops() < PACKETS.into() {
            assert!(began.elapsed() < HANG, "{} arrived", arrived.len());
            arrived.extend(hosts.take().1);
        }
        assert_eq!(arrived.len() as u64 + hosts.receiver.kernel_drops(), PACKETS.into());
        assert_eq!(arrived[0], routed(1_000, 0));
        assert!(arrived.is_sorted_by_key(|packet| packet[3]));
    });
}

#[test]
fn whatever_the_rate_each_packet_arrives_or_is_counted() {
    in_new_namespace("rate", || {
        const ROWS: usize = 2_000;
        const PACKETS: usize = 64;
        const ALL: usize = ROWS * PACKETS;
        let mut hosts = Hosts::new();
        let row = routed(100, 9).repeat(PACKETS);
        let (mut sender, began) = (hosts.replace_sender(), Instant::now());
        let sending = thread::spawn(move || {
            (0..ROWS).for_each(|_| sender.send(SID, &row, Some(100)).unwrap());
            began.elapsed()
        });
        let (mut arrived, mut packets) = (0, Vec::new());
        while arrived + hosts.receiver.kernel_drops() as usize != ALL {
            hosts.receiver.receive(&mut hosts.pool, &mut packets, 256);
            if packets.is_empty() {
                hosts.wait();
            }
            arrived += packets.len();
            packets.drain(..).for_each(|packet| hosts.pool.put(packet));
        }
        let (received_in, sent_in) = (began.elapsed(), sending.join().unwrap());
        let rate = |packets: usize, time: Duration| packets as f64 / time.as_secs_f64();
        println!(
            "100-byte packets one way: {:.0} sent, {:.0} received a second; {arrived} of {ALL}",
            rate(ALL, sent_in),
            rate(arrived, received_in),
        );
    });
}

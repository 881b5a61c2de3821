//! What does not fit is answered to its sender with the size that does, by ICMP of its own version,
//! and nothing else is answered.

use crate::frames::Spec;
use crate::rig::Rig;
use crate::scene::{CHAINED_PORT, PLAIN_PORT, packet, packet_v6, with_chain};
use crate::super_frames::{stream, super_frame};
use catena_io::Offload;
use catena_model::DropReason;
use catena_model::limits::{TOO_BIG_ANSWERS_BURST, TOO_BIG_ANSWERS_PER_SECOND};
use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_wire::icmp::IcmpView;
use catena_wire::ipv4::{self, Ipv4View};
use catena_wire::ipv6::Ipv6View;
use catena_wire::scalar::{IpProtocol, MacAddr};
use std::net::IpAddr;

const HOST1: usize = 0;
const HOST2: usize = 1;
/// What the towns' underlay of 1,500 leaves of an IP packet under VXLAN: less 20, 8, 8 and 14.
const UNDER_VXLAN: usize = 1_450;
/// The same under NSH, which is 24 and has 8 before it.
const UNDER_NSH: usize = 1_426;

/// An answer, read by hand.
struct Told {
    from: (MacAddr, IpAddr),
    to: (MacAddr, IpAddr),
    mtu: usize,
    quoted: Vec<u8>,
}

fn read(frame: &[u8]) -> Told {
    let mac = |at: usize| MacAddr(frame[at..at + 6].try_into().unwrap());
    let packet = &frame[14..];
    let (ends, message, mtu) = if frame[12..14] == [0x08, 0x00] {
        let ip = Ipv4View::parse(packet).unwrap();
        assert!(ip.is_checksum_correct() && packet.len() <= 576);
        let message = IcmpView::parse(ip.payload()).unwrap();
        assert!(message.is_v4_checksum_correct());
        assert_eq!((ip.protocol(), ip.payload()[0], message.code()), (IpProtocol::ICMP, 3, 4));
        assert_eq!(ip.payload()[4..6], [0, 0], "unused");
        let ends = (IpAddr::V4(ip.source()), IpAddr::V4(ip.destination()));
        (ends, ip.payload().to_vec(), u16::from_be_bytes([ip.payload()[6], ip.payload()[7]]).into())
    } else {
        let ip = Ipv6View::parse(packet).unwrap();
        assert!(packet.len() <= 1_280);
        let message = IcmpView::parse(ip.payload()).unwrap();
        assert!(message.is_v6_checksum_correct(ip.source(), ip.destination()));
        assert_eq!((ip.next_header(), ip.payload()[0], message.code()), (IpProtocol::ICMPV6, 2, 0));
        let ends = (IpAddr::V6(ip.source()), IpAddr::V6(ip.destination()));
        let mtu = u32::from_be_bytes(ip.payload()[4..8].try_into().unwrap());
        (ends, ip.payload().to_vec(), mtu)
    };
    Told {
        from: (mac(6), ends.0),
        to: (mac(0), ends.1),
        mtu: usize::try_from(mtu).unwrap(),
        quoted: message[8..].to_vec(),
    }
}

/// The packet with as much data as makes it so many bytes of IP.
fn sized(spec: &Spec, bytes: usize) -> Spec {
    let ip = if spec.source.is_ipv4() { 20 } else { 40 };
    let transport = if spec.protocol == IpProtocol::TCP { 20 } else { 8 };
    stream(spec, bytes - ip - transport)
}

fn both(rig: &Rig, port: u16) -> [Spec; 2] {
    [packet(&rig.town, port), packet_v6(&rig.town, port)]
}

fn over_hosts() -> Rig {
    Rig::new(with_chain(Encapsulation::Nsh, &[&["v2"], &["v4"]]))
}

#[test]
fn what_does_not_fit_is_answered_with_the_size_that_does() {
    let mut rig = over_hosts();
    for (port, fits) in [(PLAIN_PORT, UNDER_VXLAN), (CHAINED_PORT, UNDER_NSH)] {
        for spec in both(&rig, port) {
            let large = sized(&spec, fits + 1).frame();
            rig.moved();
            rig.send("S", &large);
            let mut moved = rig.moved();
            moved.retain(|name, _| !name.contains(" path "));
            let names = ["S created packet_too_big", "S dropped mtu_exceeded", "S forwarded"];
            for name in names.into_iter().chain(["S received", "S transmitted"]) {
                assert_eq!(moved.remove(name), Some(1), "{name}");
            }
            assert!(moved.is_empty(), "{moved:?}");
            let answers = rig.take("S");
            let told = read(&answers[0]);
            assert_eq!((answers.len(), told.mtu), (1, fits));
            assert_eq!(told.from, (spec.destination_mac, spec.destination));
            assert_eq!(told.to, (spec.source_mac, spec.source));
            assert!(large[14..].starts_with(&told.quoted) && told.quoted.len() >= 500);
            // What was told is true.
            rig.send("S", &sized(&spec, told.mtu).frame());
            assert_eq!((rig.take("D").len(), rig.take("S").len()), (1, 0));
        }
    }
}

#[test]
fn an_underlay_that_shrinks_is_told_at_once_and_super_frames_by_their_segments() {
    let mut rig = over_hosts();
    let [v4, v6] = both(&rig, CHAINED_PORT).map(|spec| Spec { protocol: IpProtocol::TCP, ..spec });
    let stream_of = |segment: u16, spec: &Spec| {
        let (frame, mut offload) = super_frame(&stream(spec, 20_000));
        offload.segmentation.as_mut().unwrap().segment_bytes = segment;
        (frame, offload)
    };
    let whole = [stream_of(1_340, &v4), stream_of(1_340, &v6)];
    rig.send_all("S", whole.clone());
    assert_eq!((rig.take("S").len(), rig.take("D").is_empty()), (0, false));
    for (underlay, told_v4, told_v6) in [(1_400, 1_326, 1_326), (1_300, 1_226, 1_280)] {
        rig.limit_underlay(HOST1, underlay);
        rig.moved();
        rig.send_all("S", whole.clone());
        let moved = rig.moved();
        let segments = 2 * 20_000_u64.div_ceil(1_340);
        assert_eq!(moved.get("S dropped mtu_exceeded"), Some(&segments));
        assert_eq!(moved.get("S created packet_too_big"), Some(&2), "one for each super-frame");
        let answers: Vec<Told> = rig.take("S").iter().map(|frame| read(frame)).collect();
        assert_eq!([answers[0].mtu, answers[1].mtu], [told_v4, told_v6]);
        assert_eq!(answers[0].quoted[2..4], 1_380_u16.to_be_bytes(), "the first segment's length");
        assert!(rig.take("D").is_empty());
        // The frame is as long as before, its segments are not.
        let segment = u16::try_from(told_v4 - 40).unwrap();
        rig.send_all("S", [stream_of(segment, &v4)]);
        assert_eq!((rig.take("S").len(), rig.take("D").is_empty()), (0, false));
    }
    rig.limit_underlay(HOST1, u16::MAX);
    rig.send_all("S", whole);
    assert_eq!((rig.take("S").len(), rig.take("D").is_empty()), (0, false));
}

#[test]
fn a_packet_too_big_behind_a_function_is_answered_to_its_sender() {
    let mut rig = over_hosts();
    rig.limit_underlay(HOST2, 1_400);
    for spec in both(&rig, CHAINED_PORT) {
        rig.moved();
        rig.send("S", &sized(&spec, 1_400).frame());
        let answers = rig.take("S");
        let told = read(&answers[0]);
        assert_eq!((answers.len(), told.mtu), (1, 1_326));
        assert_eq!(told.from, (PROXY_MAC, spec.destination));
        assert_eq!(told.to, (spec.source_mac, spec.source));
        let moved = rig.moved();
        assert_eq!(moved.get("v2.out created packet_too_big"), Some(&1));
        assert_eq!(moved.get("v2.out dropped mtu_exceeded"), Some(&1));
        assert!(rig.take("D").is_empty());
        rig.send("S", &sized(&spec, told.mtu).frame());
        assert_eq!((rig.take("D").len(), rig.take("S").len()), (1, 0));
    }
}

/// Changes a packet's header and makes its checksum right again.
fn changed(spec: &Spec, change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut frame = spec.frame();
    change(&mut frame[14..]);
    ipv4::refresh_checksum(&mut frame[14..]).unwrap();
    frame
}

#[test]
fn what_must_not_be_answered_is_dropped_without_an_answer() {
    let mut rig = over_hosts();
    let [v4, v6] = both(&rig, PLAIN_PORT).map(|spec| sized(&spec, 1_460));
    let message = |spec: &Spec, protocol, kind: u8| {
        let mut payload = vec![0; 1_440];
        payload[0] = kind;
        Spec { protocol, payload, ..spec.clone() }.frame()
    };
    let icmp = |kind| message(&v4, IpProtocol::ICMP, kind);
    let icmp_v6 = |kind| message(&v6, IpProtocol::ICMPV6, kind);
    let group = |spec: &Spec, to: &str| Spec { destination: to.parse().unwrap(), ..spec.clone() };
    let from = |spec: &Spec, from: &str| Spec { source: from.parse().unwrap(), ..spec.clone() };
    let silent = [
        ("without DF", changed(&v4, |ip| ip[6] = 0)),
        ("an ICMP error", icmp(3)),
        ("a redirect", icmp(5)),
        ("an ICMPv6 error", icmp_v6(2)),
        ("an ICMPv6 redirect", icmp_v6(137)),
        ("to a group", group(&v4, "224.0.0.9").frame()),
        ("to a group", group(&v6, "ff02::9").frame()),
        ("to all", group(&v4, "255.255.255.255").frame()),
        ("from nobody", from(&v4, "0.0.0.0").frame()),
        ("from nobody", from(&v6, "::").frame()),
    ];
    for (name, frame) in silent {
        rig.moved();
        rig.send("S", &frame);
        rig.assert_only_dropped("S", DropReason::MtuExceeded);
        assert!(rig.take("S").is_empty(), "{name}");
    }
    // An echo is no error.
    for frame in [icmp(8), icmp_v6(128)] {
        rig.send("S", &frame);
        assert_eq!(rig.take("S").len(), 1);
    }
    // IPv6 makes no packets smaller than these.
    rig.limit_underlay(HOST1, 1_300);
    rig.moved();
    rig.send("S", &sized(&packet_v6(&rig.town, PLAIN_PORT), 1_280).frame());
    rig.assert_only_dropped("S", DropReason::MtuExceeded);
    // A copy for everybody is no question of its sender's.
    let all = Spec { destination_mac: MacAddr::BROADCAST, ..sized(&v4, 1_460) };
    rig.send("S", &all.frame());
    assert!(rig.take("S").is_empty());
}

#[test]
fn a_later_fragment_is_never_answered() {
    let mut rig = over_hosts();
    let spec = packet(&rig.town, PLAIN_PORT);
    let first = Spec { fragment: (0, true), ..stream(&spec, 1_400) }.frame();
    let later = Spec { fragment: (176, false), ..stream(&spec, 1_440) };
    // A sender that forbids fragments of its fragments.
    let later = changed(&later, |ip| ip[6] |= 0x40);
    rig.send_all("S", [first, later].map(|frame| (frame, Offload::default())));
    assert_eq!((rig.take("D").len(), rig.take("S").len()), (1, 0));
    assert_eq!(rig.moved().get("S dropped mtu_exceeded"), Some(&1));
}

#[test]
fn a_port_is_answered_so_often_and_the_rest_is_counted() {
    let mut rig = over_hosts();
    let large = sized(&packet(&rig.town, PLAIN_PORT), 1_460).frame();
    let burst = u64::from(TOO_BIG_ANSWERS_BURST);
    rig.send_all("S", (0..burst + 7).map(|_| (large.clone(), Offload::default())));
    assert_eq!(rig.take("S").len() as u64, burst);
    let moved = rig.moved();
    assert_eq!(moved.get("S created packet_too_big"), Some(&burst));
    assert_eq!(moved.get("S dropped mtu_exceeded"), Some(&burst));
    assert_eq!(moved.get("S dropped mtu_untold"), Some(&7));
    // Another port has its own.
    let back = sized(&packet(&rig.town, PLAIN_PORT).answer(), 1_460).frame();
    rig.send("D", &back);
    assert_eq!(rig.take("D").len(), 1);
    let gained = u64::from(TOO_BIG_ANSWERS_PER_SECOND) / 10;
    rig.sleep(100);
    rig.send_all("S", (0..burst).map(|_| (large.clone(), Offload::default())));
    assert_eq!(rig.take("S").len() as u64, gained);
}

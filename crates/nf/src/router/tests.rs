//! What goes on and how, what ends and who is told; the profile. The kernel judges the rest.

use super::*;
use crate::carry_out;
use crate::harness::traffic::{self, Shape};
use crate::harness::{Input, verify};
use crate::packet::Metadata;
use catena_rules::router::read;
use catena_wire::frame::FrameView;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;

const NETS: &str = include_str!("../../../../conformance/nf/router/two-nets.yaml");
const LEAST: &str = include_str!("../../../../conformance/nf/router/least.json");
const AT_IN: MacAddr = MacAddr([2, 0, 0, 0, 1, 1]);
const AT_OUT: MacAddr = MacAddr([2, 0, 0, 0, 1, 2]);
const HOST: MacAddr = MacAddr([2, 0, 0, 0, 9, 9]);

fn router(text: &str) -> Router {
    Router::new(&read(text, "edge.yaml").unwrap_or_else(|wrong| panic!("{wrong}")))
}

fn shape(source: &str, destination: &str, ttl: u8) -> Shape {
    Shape {
        ends: (source.parse().unwrap(), destination.parse().unwrap()),
        protocol: IpProtocol::UDP,
        ports: (1, 2),
        flags: TcpFlags(0),
        options: Vec::new(),
        traffic_class: 0xb8,
        ttl,
        identification: 1,
        payload: vec![7; 100],
        vlan: None,
        is_later_fragment: false,
        macs: (AT_IN, HOST),
    }
}

/// What becomes of a frame that goes forward: the one that goes on, or the rule that ends it and the message back.
fn route(router: &mut Router, frame: &[u8]) -> Result<Vec<u8>, (String, Option<Vec<u8>>)> {
    let packet = Packet::read(frame).unwrap();
    let mut outcomes = Outcomes::default();
    router.process(Time(0), Direction::Forward, &[packet], &mut outcomes);
    match outcomes.verdicts()[0] {
        Verdict::Pass => {
            assert_eq!(outcomes.generated(), []);
            let mut frame = frame.to_vec();
            let parts = (&mut frame[..], &packet.view);
            carry_out::apply(outcomes.patches_of(0), parts, packet.upper, &mut Metadata::default())
                .unwrap();
            Ok(frame)
        }
        Verdict::Drop(DropCause::Rule(rule)) => {
            let made = outcomes.generated().first();
            let back = made.map(|(_, made)| {
                assert_eq!(made.direction, Direction::Backward);
                outcomes.bytes(made.frame.clone()).to_vec()
            });
            Err((router.rule_in_words(rule).unwrap(), back))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_packet_goes_to_its_next_hop_with_one_hop_less_and_nothing_else_changed() {
    let mut router = router(NETS);
    for (source, destination) in [("10.1.0.1", "10.2.0.9"), ("2001:db8:1::1", "2001:db8:2::9")] {
        for ttl in [2, 64, 255] {
            let sent = shape(source, destination, ttl);
            let wanted =
                Shape { ttl: ttl - 1, macs: (MacAddr([2, 0, 0, 0, 2, 2]), AT_OUT), ..sent.clone() };
            assert_eq!(route(&mut router, &sent.frame().unwrap()), Ok(wanted.frame().unwrap()));
        }
    }
    let longer = shape("10.1.0.1", "10.2.9.7", 9).frame().unwrap();
    assert!(route(&mut router, &longer).is_ok(), "the longest prefix counts");
    let mut counts = Vec::new();
    router.report(&mut counts);
    let counted: Vec<(usize, u64)> = counts
        .iter()
        .map(|count| count.packets)
        .enumerate()
        .filter(|(_, count)| *count > 0)
        .collect();
    assert_eq!(counted, [(8, 3), (10, 1), (14, 3)]);
    assert_eq!(
        router.rule_in_words(8).unwrap(),
        "route to 10.2.0.0/16 via 02:00:00:00:02:02 at out"
    );
}

#[test]
fn what_ends_does_so_by_name_and_senders_are_told_where_they_may_be() {
    let mut router = router(NETS);
    let (v4, v6) = ("10.1.0.1", "2001:db8:1::1");
    // Type and code of the message back, if there is one.
    let cases = [
        (shape(v4, "10.2.0.9", 1), "time to live exceeded", Some((11, 0))),
        (shape(v4, "10.2.0.9", 0), "time to live exceeded", Some((11, 0))),
        (shape(v6, "2001:db8:2::9", 1), "time to live exceeded", Some((3, 0))),
        (shape(v4, "172.16.0.1", 1), "no route", Some((3, 0))),
        (shape(v6, "2001:db8:77::1", 9), "no route", Some((1, 0))),
        (shape(v4, "10.2.9.8", 9), "route to 10.2.9.0/24 unreachable", Some((3, 1))),
        (shape(v4, "10.2.10.8", 9), "route to 10.2.10.0/24 prohibit", Some((3, 13))),
        (shape(v4, "10.2.11.8", 9), "route to 10.2.11.0/24 blackhole", None),
        (shape(v6, "2001:db8:2:9::1", 9), "route to 2001:db8:2:9::/64 prohibit", Some((1, 1))),
        (shape(v6, "2001:db8:2:a::1", 9), "route to 2001:db8:2:a::/64 unreachable", Some((1, 0))),
        (shape(v4, "10.1.7.7", 9), "routes back", None),
        (shape(v4, "192.0.2.2", 9), "packets for the router itself", None),
        (shape(v6, "2001:db8:ffff::1", 9), "packets for the router itself", None),
        (shape("127.0.0.1", "10.2.0.9", 9), "not forwarded", None),
        (shape("224.0.0.1", "10.2.0.9", 9), "not forwarded", None),
        (shape("0.0.0.0", "10.2.0.9", 9), "not forwarded", None),
        (shape(v4, "239.1.1.1", 9), "not forwarded", None),
        (shape(v4, "255.255.255.255", 9), "not forwarded", None),
        (shape(v4, "169.254.1.1", 9), "not forwarded", None),
        (shape("169.254.1.1", "10.2.0.9", 9), "not forwarded", None),
        (shape("::1", "2001:db8:2::9", 9), "not forwarded", None),
        (shape("fe80::1", "2001:db8:2::9", 9), "not forwarded", Some((1, 2))),
        (Shape { macs: (HOST, HOST), ..shape(v4, "10.2.0.9", 9) }, "not for the router", None),
    ];
    for (shape, rule, told) in cases {
        let frame = shape.frame().unwrap();
        let (words, back) = route(&mut router, &frame).expect_err(rule);
        assert!(words.contains(rule), "{words} in place of {rule}");
        let message = back.map(|back| {
            let view = FrameView::parse(&back).unwrap();
            let flow = view.flow.unwrap();
            assert_eq!((view.source, view.destination), (AT_IN, HOST));
            assert_eq!(flow.destination, shape.ends.0);
            let own = if flow.source.is_ipv4() { "192.0.2.1" } else { "2001:db8:ffff::1" };
            assert_eq!(flow.source, own.parse::<IpAddr>().unwrap());
            let at = usize::from(view.l4_offset.unwrap());
            assert_eq!(back[at + 8..], frame[14..], "it quotes the packet as it came");
            (back[at], back[at + 1])
        });
        assert_eq!(message, told, "{words}: {:?}", shape.ends);
    }
    let mut damaged = shape(v4, "10.2.0.9", 9).frame().unwrap();
    damaged[25] ^= 1;
    let ended = route(&mut router, &damaged);
    assert_eq!(ended, Err(("wrong checksum of IPv4".to_owned(), None)));
}

#[test]
fn nobody_is_told_of_an_error_or_of_a_later_fragment_or_without_an_own_address() {
    let mut nets = router(NETS);
    let error =
        Shape { protocol: IpProtocol::ICMP, ports: (3, 1), ..shape("10.1.0.1", "10.2.0.9", 1) };
    let later = Shape { is_later_fragment: true, ..shape("10.1.0.1", "10.2.0.9", 1) };
    for silent in [error, later] {
        let ended = route(&mut nets, &silent.frame().unwrap());
        assert_eq!(ended, Err(("time to live exceeded".to_owned(), None)));
    }
    let mut least = router(LEAST);
    let macs = (MacAddr([2, 0, 0, 0, 0, 1]), HOST);
    let sent = Shape { macs, ..shape("10.1.0.1", "10.2.0.9", 9) };
    assert_eq!(route(&mut least, &sent.frame().unwrap()), Err(("no route".to_owned(), None)));
}

#[test]
fn the_profile_is_true() {
    let text = "in: {mac: '02:00:00:00:00:01', addresses: [10.0.3.200, '2001:db8:3::c8']}\n\
        out: {mac: '02:00:00:00:00:01', addresses: [10.0.3.201, '2001:db8:3::c9']}\n\
        routes:\n\
        - {to: 10.0.0.0/24, side: in, next_hop: '02:00:00:00:00:07'}\n\
        - {to: 10.0.1.0/24, side: out, next_hop: '02:00:00:00:00:08'}\n\
        - {to: 10.0.2.0/25, refuse: prohibit}\n\
        - {to: '2001:db8::/47', side: out, next_hop: '02:00:00:00:00:08'}\n\
        - {to: '2001:db8:2::/48', refuse: unreachable}\n";
    let inputs: Vec<Input> = traffic::draw(51, 12_000);
    let proof = verify(|| router(text), &inputs, 7).unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{proof:?}");
    assert!(proof.generated > 3_000 && proof.patches > 6_000 && proof.dropped > 4_000, "{proof:?}");
}

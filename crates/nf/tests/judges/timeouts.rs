//! How long connections are remembered, beside the kernel with timeouts of seconds.

use crate::router::Router;
use catena_nf::Function;
use catena_nf::firewall::Firewall;
use catena_nf::function::RuleCount;
use catena_nf::harness::traffic::Shape;
use catena_nf::outcome::Outcomes;
use catena_nf::packet::{Direction, Packet, Time};
use catena_nf::tracking::{Timeouts, TrackingConfig};
use catena_rules::rule_set::Families;
use catena_rules::{ReadOptions, iptables};
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Each state has a rule that counts it.
const STATES: &str = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n\
    -A FORWARD -m conntrack --ctstate NEW\n\
    -A FORWARD -m conntrack --ctstate ESTABLISHED\n\
    -A FORWARD -m conntrack --ctstate RELATED\n\
    -A FORWARD -m conntrack --ctstate INVALID\nCOMMIT\n";
/// The kernel's timeouts and ours: those of a second, and those of three.
const SHORT: [&str; 4] = ["udp_timeout", "icmp_timeout", "tcp_timeout_syn_sent", "generic_timeout"];
const LONG: [&str; 2] = ["udp_timeout_stream", "tcp_timeout_established"];
const SHORT_S: u64 = 1;
const LONG_S: u64 = 3;

/// A packet of the connection with this number.
fn packet(connection: u8, protocol: IpProtocol, is_answer: bool, flags: TcpFlags) -> Shape {
    let ends = (Ipv4Addr::new(10, 0, 0, connection), Ipv4Addr::new(10, 0, 1, 1));
    let ends = if is_answer { (ends.1, ends.0) } else { ends };
    let ports = match (protocol, is_answer) {
        // Type and code of an echo, and of its reply.
        (IpProtocol::ICMP, false) => (8, 0),
        (IpProtocol::ICMP, true) => (0, 0),
        (_, false) => (40_000, 53),
        (_, true) => (53, 40_000),
    };
    Shape {
        ends: (ends.0.into(), ends.1.into()),
        protocol,
        ports,
        flags,
        options: Vec::new(),
        traffic_class: 0,
        ttl: 64,
        identification: 1,
        payload: Vec::new(),
        vlan: None,
        is_later_fragment: false,
        macs: Router::macs(if is_answer { Direction::Backward } else { Direction::Forward }),
    }
}

#[test]
fn connections_are_forgotten_when_the_kernel_forgets_them() {
    let router = Router::new("judge-timeouts");
    let set_all = |names: &[&str], seconds: u64| {
        for name in names {
            router.set(&format!("net/netfilter/nf_conntrack_{name}"), &seconds.to_string());
        }
    };
    set_all(&SHORT, SHORT_S);
    set_all(&LONG, LONG_S);
    router.run("iptables-legacy-restore", &[], STATES);
    let options = ReadOptions { file: "states".into(), ..ReadOptions::default() };
    let set = iptables::read(STATES, Families::V4, &options).expect("rules");
    let timeouts = Timeouts {
        syn_sent_s: SHORT_S,
        established_s: LONG_S,
        udp_s: SHORT_S,
        udp_stream_s: LONG_S,
        icmp_s: SHORT_S,
        other_s: SHORT_S,
        ..Timeouts::default()
    };
    let config = TrackingConfig { timeouts, ..TrackingConfig::default() };
    let mut firewall = Firewall::with_tracking(&[set], &config).expect("a firewall");
    let (udp, icmp, tcp) = (IpProtocol::UDP, IpProtocol::ICMP, IpProtocol::TCP);
    let esp = IpProtocol(50);
    let none = TcpFlags::default();
    let each = |is_answer| {
        let flags = if is_answer { TcpFlags::SYN.with(TcpFlags::ACK) } else { TcpFlags::SYN };
        [(1, udp, none), (2, icmp, none), (3, esp, none), (4, tcp, flags)]
            .map(|(number, protocol, flags)| packet(number, protocol, is_answer, flags))
    };
    let late = |number| packet(number, udp, true, none);
    // What is sent after so many milliseconds: first packets, answers in time, answers far too late.
    let steps: [(u64, Vec<Shape>); 6] = [
        (0, each(false).into()),
        (500, each(true).into()),
        (0, vec![packet(5, udp, false, none), packet(6, udp, false, none)]),
        (500, vec![late(5)]),
        (1_500, vec![late(6), packet(7, icmp, false, none)]),
        (1_600, vec![packet(7, icmp, true, none), late(5)]),
    ];
    let began = Instant::now();
    let mut outcomes = Outcomes::default();
    for (pause_ms, shapes) in steps {
        std::thread::sleep(Duration::from_millis(pause_ms));
        for shape in shapes {
            let is_answer = shape.ends.0 == Ipv4Addr::new(10, 0, 1, 1);
            let way = if is_answer { Direction::Backward } else { Direction::Forward };
            let frame = shape.frame().expect("a frame");
            router.send(way, &frame);
            let now = Time(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
            let packet = Packet::read(&frame).expect("a packet");
            firewall.process(now, way, &[packet], &mut outcomes);
        }
    }
    let mut ours = Vec::new();
    firewall.report(&mut ours);
    let saved = router.run("iptables-legacy-save", &["-c"], "");
    let kernel: Vec<RuleCount> =
        saved.lines().filter(|line| line.contains("-A FORWARD")).map(count).collect();
    assert_eq!(ours[..4], kernel[..], "{saved}");
    let packets: Vec<u64> = ours.iter().map(|count| count.packets).collect();
    assert!(packets[0] >= 8 && packets[1] >= 5, "some are forgotten, others are not: {packets:?}");
}

/// What a line of `iptables-save -c` counts.
fn count(line: &str) -> RuleCount {
    let (packets, rest) = line.trim_start_matches('[').split_once(':').expect("a count");
    let bytes = rest.split(']').next().expect("a count");
    let number = |digits: &str| digits.parse().expect("a number");
    RuleCount { packets: number(packets), bytes: number(bytes) }
}

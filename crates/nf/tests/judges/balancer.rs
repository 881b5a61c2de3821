//! The balancer beside the kernel: `nftables` translates destinations by a map of hashes or turns. Which backend a
//! connection meets is each one's own affair; everything else must be the same, byte by byte, and shares alike.

use crate::router::Router;
use catena_nf::Function;
use catena_nf::balancer::Balancer;
use catena_nf::carry_out;
use catena_nf::harness::traffic::Shape;
use catena_nf::outcome::{Outcomes, Verdict};
use catena_nf::packet::{Direction, Metadata, Packet, Time};
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::frame::FrameView;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Connections of each configuration.
const CONNECTIONS: u16 = 5_000;
const BACKENDS: u16 = 4;
/// Packets that are sent before what came is taken: a socket holds few.
const AT_ONCE: usize = 80;
const ACK: TcpFlags = TcpFlags::ACK;
/// What both sides of a connection say in turn: who, with which flags, how many bytes.
const SCRIPT: [(Direction, TcpFlags, usize); 4] = [
    (Direction::Forward, TcpFlags::SYN, 0),
    (Direction::Backward, TcpFlags::SYN.with(ACK), 0),
    (Direction::Forward, ACK, 200),
    (Direction::Backward, ACK, 1_000),
];

type Place = (IpAddr, u16);

/// What is balanced, and how the kernel chooses.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    is_v6: bool,
    protocol: IpProtocol,
    choice: &'static str,
}

const CASES: [Case; 3] = [
    Case {
        name: "jhash-tcp",
        is_v6: false,
        protocol: IpProtocol::TCP,
        choice: "jhash ip saddr . tcp sport mod 4 seed 0xcafe",
    },
    Case {
        name: "numgen-udp",
        is_v6: false,
        protocol: IpProtocol::UDP,
        choice: "numgen inc mod 4",
    },
    Case {
        name: "jhash-tcp-v6",
        is_v6: true,
        protocol: IpProtocol::TCP,
        choice: "jhash ip6 saddr . tcp sport mod 4 seed 0xcafe",
    },
];

impl Case {
    fn host(self, net: u8, number: u16) -> IpAddr {
        if self.is_v6 {
            Ipv6Addr::new(0x2001, 0xdb8, net.into(), 0, 0, 0, 0, number).into()
        } else {
            Ipv4Addr::new(10, net, (number >> 8) as u8, number as u8).into()
        }
    }

    fn service(self) -> Place {
        (self.host(1, 10), 80)
    }

    fn backend(self, number: u16) -> Place {
        (self.host(2, 1 + number), 8_080)
    }

    fn client(self, connection: u16) -> Place {
        (self.host(3, 1 + connection / 20), 30_000 + connection % 20 * 7)
    }

    fn protocol(self) -> &'static str {
        if self.protocol == IpProtocol::TCP { "tcp" } else { "udp" }
    }

    fn ours(self) -> Balancer {
        let all: Vec<String> = (0..BACKENDS)
            .map(|number| self.backend(number))
            .map(|(address, port)| format!("{{address: '{address}', port: {port}}}"))
            .collect();
        let ((address, port), protocol) = (self.service(), self.protocol());
        let text = format!(
            "services: [{{name: judged, address: '{address}', protocol: {protocol}, port: {port}, \
             backends: [{}]}}]",
            all.join(", ")
        );
        let config = catena_rules::balancer::read(&text, "judged");
        Balancer::new(&config.unwrap_or_else(|error| panic!("{error}")))
    }

    fn rules(self) -> String {
        let family = if self.is_v6 { "ip6" } else { "ip" };
        let all: Vec<String> = (0..BACKENDS)
            .map(|number| (number, self.backend(number)))
            .map(|(number, (address, port))| format!("{number} : {address} . {port}"))
            .collect();
        let ((address, port), protocol) = (self.service(), self.protocol());
        format!(
            "table {family} judge {{ chain in {{ type nat hook prerouting priority -100; \
             {family} daddr {address} {protocol} dport {port} dnat to {} map {{ {} }}\n }}\n }}\n",
            self.choice,
            all.join(", ")
        )
    }

    /// A packet of a connection; `hops` are those that it has taken.
    fn frame(self, (from, to): (Place, Place), step: usize, (number, hops): (u16, u8)) -> Vec<u8> {
        let (direction, flags, bytes) = SCRIPT[step];
        let shape = Shape {
            ends: (from.0, to.0),
            protocol: self.protocol,
            ports: (from.1, to.1),
            flags,
            options: Vec::new(),
            traffic_class: 0,
            ttl: 60 - hops,
            identification: number,
            payload: (0..bytes).map(|at| at as u8).collect(),
            vlan: None,
            is_later_fragment: false,
            macs: Router::macs(direction),
        };
        shape.frame().expect("a frame")
    }
}

fn view(frame: &[u8]) -> FrameView {
    FrameView::parse(frame).expect("a packet")
}

fn packet(frame: &[u8]) -> &[u8] {
    &frame[usize::from(view(frame).l3_offset)..view(frame).end as usize]
}

/// The number that tells a packet from others.
fn number(case: Case, frame: &[u8]) -> Option<u16> {
    let field = if case.is_v6 { Field::FlowLabel } else { Field::Identification };
    field.read(frame, &view(frame)).map(|number| number as u16)
}

/// Who balances.
enum Engine<'r> {
    Kernel(&'r Router),
    Ours(Box<Balancer>, Time),
}

impl Engine<'_> {
    /// Sends packets, and answers what comes out, by their numbers.
    fn pass(
        &mut self,
        case: Case,
        sent: &[(Direction, Vec<u8>)],
    ) -> BTreeMap<u16, (Direction, Vec<u8>)> {
        let mut came = Vec::new();
        match self {
            Self::Kernel(router) => {
                for some in sent.chunks(AT_ONCE) {
                    let before = came.len();
                    some.iter().for_each(|(direction, frame)| router.send(*direction, frame));
                    router.collect(&mut came, before + some.len());
                }
            }
            Self::Ours(balancer, now) => {
                let mut outcomes = Outcomes::default();
                for (direction, frame) in sent {
                    now.0 += 100_000;
                    let packet = Packet::read(frame).expect("a packet");
                    balancer.process(*now, *direction, &[packet], &mut outcomes);
                    assert_eq!(outcomes.verdicts(), [Verdict::Pass]);
                    let mut out = frame.clone();
                    let parts = (&mut out[..], &packet.view);
                    let patches = outcomes.patches_of(0);
                    carry_out::apply(patches, parts, packet.upper, &mut Metadata::default())
                        .expect("they name what the packet has");
                    // The router that a kernel is has decremented it.
                    let bits = (59, u128::MAX);
                    let ttl = Field::Ttl.write(&mut out, &packet.view, bits, UpperChecksum::Closed);
                    ttl.expect("it has one");
                    came.push((*direction, out));
                }
            }
        }
        let of_test = came.into_iter().filter(|(_, frame)| {
            view(frame).flow.is_some_and(|flow| flow.protocol == case.protocol)
        });
        of_test.filter_map(|one| Some((number(case, &one.1)?, one))).collect()
    }
}

/// All connections through one engine: which backend each met, and how many packets came out.
fn run(case: Case, mut engine: Engine<'_>) -> (Vec<Place>, usize) {
    let mut met: BTreeMap<u16, Place> = BTreeMap::new();
    let mut all = 0;
    for (step, (direction, ..)) in SCRIPT.into_iter().enumerate() {
        let ends = |connection: u16, there: Place| match direction {
            Direction::Forward => (case.client(connection), there),
            Direction::Backward => (there, case.client(connection)),
        };
        let sent: Vec<_> = (0..CONNECTIONS)
            .map(|connection| {
                let there = match direction {
                    Direction::Forward => case.service(),
                    Direction::Backward => met[&connection],
                };
                (direction, case.frame(ends(connection, there), step, (1 + connection, 0)))
            })
            .collect();
        let came = engine.pass(case, &sent);
        assert_eq!(came.len(), sent.len(), "{} step {step}: all arrives", case.name);
        for (number, (way, frame)) in came {
            let connection = number - 1;
            assert_eq!(way, direction);
            let flow = view(&frame).flow.expect("it has one");
            let there = match direction {
                Direction::Forward => {
                    let to = (flow.destination, flow.destination_port);
                    assert!((0..BACKENDS).any(|one| case.backend(one) == to), "{to:?}");
                    assert_eq!(*met.entry(connection).or_insert(to), to, "it stays there");
                    to
                }
                Direction::Backward => case.service(),
            };
            let expected = case.frame(ends(connection, there), step, (number, 1));
            assert_eq!(packet(&frame), packet(&expected), "{} {connection} {step}", case.name);
            all += 1;
        }
    }
    (met.into_values().collect(), all)
}

#[test]
fn packets_are_rewritten_as_the_kernel_does_and_shares_are_alike() {
    for case in CASES {
        let router = Router::new(&format!("judge-lb-{}", case.name));
        router.set("net/netfilter/nf_conntrack_tcp_be_liberal", "1");
        router.run("nft", &["-f", "-"], &case.rules());
        let (kernel, theirs) = run(case, Engine::Kernel(&router));
        let (ours, own) = run(case, Engine::Ours(Box::new(case.ours()), Time::seconds(1)));
        assert_eq!(own, usize::from(CONNECTIONS) * SCRIPT.len());
        assert_eq!(own, theirs);
        let same = kernel.iter().zip(&ours).filter(|(one, other)| one == other).count();
        for number in 0..BACKENDS {
            let share = |met: &[Place]| {
                let here = met.iter().filter(|one| **one == case.backend(number)).count();
                here as f64 * 100.0 / f64::from(CONNECTIONS)
            };
            let (theirs, own) = (share(&kernel), share(&ours));
            println!("{}: backend {number}: kernel {theirs:.2} %, ours {own:.2} %", case.name);
            assert!((theirs - own).abs() < 2.0 && (own - 25.0).abs() < 2.0);
        }
        println!("{}: {own} packets each, {same} connections at the same backend", case.name);
    }
}

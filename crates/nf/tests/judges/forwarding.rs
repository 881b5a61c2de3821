//! The router beside the kernel's: the same packets through both. What goes on is the same frame byte by byte, and
//! whoever is told is told the same; of the header of an error, only what both choose freely is left out.

use crate::router::Router as Kernel;
use catena_nf::Function;
use catena_nf::carry_out;
use catena_nf::harness::traffic::{Random, Shape};
use catena_nf::outcome::{Outcomes, Verdict};
use catena_nf::packet::{Direction, Metadata, Packet, Time};
use catena_nf::router::Router;
use catena_wire::frame::FrameView;
use catena_wire::scalar::MacAddr;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const CONFIG: &str = include_str!("../../../../conformance/nf/router/two-nets.yaml");
const PACKETS: u16 = 20_000;
/// Packets that are sent before what came is taken: a socket holds few.
const AT_ONCE: usize = 80;
/// Where packets go that come in at the first interface, of which version; hosts of the other side.
const DESTINATIONS: [[&str; 9]; 2] = [
    [
        "10.2.0.1",
        "10.2.77.3",
        "10.2.9.7",
        "10.2.9.8",
        "10.2.10.1",
        "10.2.11.1",
        "172.16.0.1",
        "239.1.2.3",
        "10.2.255.255",
    ],
    [
        "2001:db8:2::1",
        "2001:db8:2:77::3",
        "2001:db8:2:8::1",
        "2001:db8:2:9::1",
        "2001:db8:2:a::1",
        "2001:db9::1",
        "ff0e::1",
        "2001:db8:2:ffff::1",
        "2001:db8:2::2",
    ],
];
const NOBODY: [&str; 2] = ["127.0.0.1", "::1"];

/// Lays the routes of the configuration in the kernel, and lets it say whatever it has to say.
fn kernel() -> Kernel {
    let kernel = Kernel::new("judge-router");
    let ip = |words: &str| kernel.run("ip", &words.split(' ').collect::<Vec<_>>(), "");
    for words in [
        "route del default table 100",
        "route del default table 101",
        "-6 route del default table 100",
        "-6 route del default table 101",
        "-6 route del 2001:db8::/32",
        "route add 10.2.0.0/16 via 192.0.2.102 dev two.in onlink table 100",
        "route add unreachable 10.2.9.0/24 table 100",
        "route add 10.2.9.7/32 via 192.0.2.102 dev two.in onlink table 100",
        "route add prohibit 10.2.10.0/24 table 100",
        "route add blackhole 10.2.11.0/24 table 100",
        "route add 10.1.0.0/16 via 192.0.2.101 dev one.in onlink table 101",
        "-6 route add 2001:db8:2::/48 via 2001:db8:ffff::102 dev two.in onlink table 100",
        "-6 route add prohibit 2001:db8:2:9::/64 table 100",
        "-6 route add unreachable 2001:db8:2:a::/64 table 100",
        "-6 route add 2001:db8:1::/48 via 2001:db8:ffff::101 dev one.in onlink table 101",
        // Its own messages to hosts of both sides.
        "-6 route add 2001:db8:1::/48 via 2001:db8:ffff::101 dev one.in onlink",
        "route add 10.2.0.0/16 via 192.0.2.102 dev two.in onlink",
        "-6 route add 2001:db8:2::/48 via 2001:db8:ffff::102 dev two.in onlink",
    ] {
        ip(words);
    }
    // No limit to messages.
    kernel.set("net/ipv4/icmp_ratemask", "0");
    kernel.set("net/ipv6/icmp/ratemask", "128");
    kernel
}

/// A packet by chance, which is known by its number; sometimes damaged, or in a frame for somebody else.
fn draw(random: &mut Random, number: u16) -> (Direction, Vec<u8>) {
    loop {
        let version = random.below(2);
        let direction = if random.below(3) == 0 { Direction::Backward } else { Direction::Forward };
        let pick = |random: &mut Random, from: &[&str]| {
            random.pick(from).and_then(|text| text.parse().ok()).expect("an address")
        };
        // The kernel tells each of few hosts a few times only (net.ipv4.route.error_burst): each packet has its own.
        let host: IpAddr = if version == 0 {
            Ipv4Addr::from_bits(0x0a01_0000 | u32::from(number)).into()
        } else {
            Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, number).into()
        };
        let ends = match direction {
            Direction::Forward => {
                let is_nobody = random.below(40) == 0;
                let from = if is_nobody { pick(random, &NOBODY[version..=version]) } else { host };
                (from, pick(random, &DESTINATIONS[version]))
            }
            Direction::Backward => (pick(random, &DESTINATIONS[version][..3]), host),
        };
        let drawn = Shape::draw(random);
        let is_icmp = |shape: &Shape| [1, 58].contains(&shape.protocol.0);
        if drawn.ends.0.is_ipv6() != (version == 1) {
            continue;
        }
        let mut macs = Kernel::macs(direction);
        if random.below(50) == 0 {
            macs.0 = MacAddr([2, 0, 0, 0, 9, 9]);
        }
        let shape = Shape {
            ends,
            ttl: random.pick(&[0, 1, 2, 64, 255]).expect("one"),
            identification: number,
            vlan: None,
            macs,
            ..drawn
        };
        // Redirects and neighbour discovery are the kernel's own affair.
        if is_icmp(&shape) && shape.ports.0 > 129 {
            continue;
        }
        let Some(mut frame) = shape.frame() else { continue };
        if version == 0 && random.below(50) == 0 {
            frame[24] ^= 1 << random.below(8);
        }
        return (direction, frame);
    }
}

/// What became of a packet: it, or the message about it.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Came {
    Itself(Direction, Vec<u8>),
    Told(Direction, Told),
}

/// A message, without what its sender chooses freely: traffic class, identification, «don't fragment», flow label.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Told {
    macs: (MacAddr, MacAddr),
    ends: String,
    hops: u8,
    message: Vec<u8>,
}

/// The number of a packet from its IP header on.
fn number(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 6 {
        u16::from_be_bytes([packet[2], packet[3]])
    } else {
        u16::from_be_bytes([packet[4], packet[5]])
    }
}

/// What a frame is, and the number of the packet that it is or is about.
fn read(direction: Direction, frame: &[u8]) -> Option<(u16, Came)> {
    let view = FrameView::parse(frame).ok()?;
    let (flow, l3) = (view.flow?, usize::from(view.l3_offset));
    let own = ["192.0.2.1", "192.0.2.2", "2001:db8:ffff::1", "2001:db8:ffff::2"];
    if !own.contains(&flow.source.to_string().as_str()) {
        let frame = frame[..view.end as usize].to_vec();
        return Some((number(&frame[l3..]), Came::Itself(direction, frame)));
    }
    let at = usize::from(view.l4_offset?);
    let message = frame[at..view.end as usize].to_vec();
    // What else it says of its own accord is about no packet.
    view.is_icmp_error().then_some(())?;
    let told = Told {
        macs: (view.destination, view.source),
        ends: format!("{} {}", flow.source, flow.destination),
        hops: frame[l3 + if flow.source.is_ipv6() { 7 } else { 8 }],
        message,
    };
    Some((number(&told.message[8..]), Came::Told(direction, told)))
}

/// The same packets through our router.
fn ours(
    router: &mut Router,
    (direction, frame): &(Direction, Vec<u8>),
) -> Vec<(Direction, Vec<u8>)> {
    let mut outcomes = Outcomes::default();
    let Ok(packet) = Packet::read(frame) else { return Vec::new() };
    router.process(Time(0), *direction, &[packet], &mut outcomes);
    let mut came = Vec::new();
    if outcomes.verdicts() == [Verdict::Pass] {
        let mut out = frame.clone();
        let parts = (&mut out[..], &packet.view);
        carry_out::apply(outcomes.patches_of(0), parts, packet.upper, &mut Metadata::default())
            .expect("they name what the packet has");
        came.push((*direction, out));
    }
    let made = outcomes.generated().iter();
    came.extend(
        made.map(|(_, made)| (made.direction, outcomes.bytes(made.frame.clone()).to_vec())),
    );
    came
}

#[test]
fn what_goes_on_and_what_is_told_is_what_the_kernel_does() {
    let kernel = kernel();
    let config = catena_rules::router::read(CONFIG, "two-nets.yaml").expect("a configuration");
    let mut router = Router::new(&config);
    let mut random = Random::new(17);
    let sent: Vec<(Direction, Vec<u8>)> =
        (1..=PACKETS).map(|number| draw(&mut random, number)).collect();
    let (mut forwarded, mut told) = (0, BTreeMap::new());
    for some in sent.chunks(AT_ONCE) {
        let own: Vec<_> = some.iter().flat_map(|packet| ours(&mut router, packet)).collect();
        some.iter().for_each(|(direction, frame)| kernel.send(*direction, frame));
        let mut came = Vec::new();
        kernel.collect(&mut came, own.len());
        let by_number = |all: &[(Direction, Vec<u8>)]| -> BTreeMap<u16, Came> {
            all.iter().filter_map(|(direction, frame)| read(*direction, frame)).collect()
        };
        let (theirs, own) = (by_number(&came), by_number(&own));
        for (direction, frame) in some {
            let number = number(&frame[14..]);
            let (theirs, own) = (theirs.get(&number), own.get(&number));
            assert_eq!(own, theirs, "{number} {direction:?} {frame:02x?}");
            match own {
                Some(Came::Itself(..)) => forwarded += 1,
                Some(Came::Told(_, message)) => {
                    let is_v6 = message.ends.contains(':');
                    let kind = (is_v6, message.message[0], message.message[1]);
                    *told.entry(kind).or_insert(0) += 1;
                }
                None => {}
            }
        }
    }
    let messages: usize = told.values().sum();
    let rest = usize::from(PACKETS) - forwarded - messages;
    println!("{PACKETS} packets: {forwarded} went on, {rest} ended, {told:?}");
    assert!(forwarded > 5_000 && rest > 1_000, "{forwarded} {rest}");
    let kinds = [
        (false, 3, 0),
        (false, 3, 1),
        (false, 3, 13),
        (false, 11, 0),
        (true, 1, 0),
        (true, 1, 1),
        (true, 3, 0),
    ];
    assert!(kinds.iter().all(|kind| told.get(kind).is_some_and(|count| *count > 100)), "{told:?}");
}

//! The NAT beside the kernel's: the same conversations through both. Which port a flow gets is each one's own
//! affair; everything else that a host or a server sees must be the same, byte by byte.
//!
//! Of fragments there is a judge of its own.

use crate::nat_configurations::{CONFIGURATIONS, Configuration, Place};
use crate::router::Router;
use catena_nf::Function;
use catena_nf::carry_out;
use catena_nf::harness::traffic::{Random, Shape};
use catena_nf::nat::{Nat, NatOptions};
use catena_nf::outcome::{Outcomes, Verdict};
use catena_nf::packet::{Direction, Metadata, Packet, Time};
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::frame::FrameView;
use catena_wire::icmp::error_message::{ErrorMessage, FRAME_BYTES_MAX, Said};
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};

/// Conversations of each configuration.
const CONVERSATIONS: usize = 240;
/// Packets that are sent before what came is taken: a socket holds few.
const AT_ONCE: usize = 40;
const ACK: TcpFlags = TcpFlags::ACK;
const SYN_ACK: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);

/// Who translates.
pub(crate) enum Engine<'r> {
    Kernel(&'r Router),
    Ours(Box<Nat>, Time),
}

impl Engine<'_> {
    /// Sends packets, and answers what comes out, by identification.
    fn pass(
        &mut self,
        packets: &[(Direction, Vec<u8>)],
        is_awaited: bool,
    ) -> BTreeMap<u16, (Direction, Vec<u8>)> {
        let came = self.frames(packets, is_awaited).into_iter();
        came.map(|(direction, frame)| {
            (read(&frame, Field::Identification) as u16, (direction, frame))
        })
        .collect()
    }

    /// Sends packets, and answers what comes out. Where ours comes out, a router has decremented the TTL.
    pub(crate) fn frames(
        &mut self,
        packets: &[(Direction, Vec<u8>)],
        is_awaited: bool,
    ) -> Vec<(Direction, Vec<u8>)> {
        let mut came = Vec::new();
        match self {
            Self::Kernel(router) => {
                for some in packets.chunks(AT_ONCE) {
                    let before = came.len();
                    some.iter().for_each(|(direction, frame)| router.send(*direction, frame));
                    let wanted = if is_awaited { some.len() } else { 0 };
                    router.collect(&mut came, before + wanted);
                }
            }
            Self::Ours(nat, now) => {
                let mut outcomes = Outcomes::default();
                for (direction, frame) in packets {
                    now.0 += 1_000_000;
                    let packet = Packet::read(frame).expect("a packet");
                    nat.process(*now, *direction, &[packet], &mut outcomes);
                    if outcomes.verdicts() != [Verdict::Pass] {
                        continue;
                    }
                    let mut out = frame.clone();
                    let patches = outcomes.patches_of(0);
                    let parts = (&mut out[..], &packet.view);
                    carry_out::apply(patches, parts, packet.upper, &mut Metadata::default())
                        .expect("they name what the packet has");
                    if let [(_, place)] = outcomes.replaced() {
                        out = outcomes.bytes(place.clone()).to_vec();
                    }
                    let ttl = read(&out, Field::Ttl) - 1;
                    write(&mut out, Field::Ttl, ttl);
                    came.push((*direction, out));
                }
            }
        }
        came.retain(|(_, frame)| {
            FrameView::parse(frame)
                .is_ok_and(|view| view.flow.is_some_and(|flow| flow.source.is_ipv4()))
        });
        came
    }
}

pub(crate) fn view(frame: &[u8]) -> FrameView {
    FrameView::parse(frame).expect("a packet")
}

pub(crate) fn read(frame: &[u8], field: Field) -> u128 {
    field.read(frame, &view(frame)).unwrap_or_else(|| panic!("it has {}", field.title()))
}

pub(crate) fn write(frame: &mut [u8], field: Field, value: u128) {
    let view = view(frame);
    field.write(frame, &view, (value, u128::MAX), UpperChecksum::Closed).expect("it has one");
}

/// The packet without its frame.
fn packet(frame: &[u8]) -> &[u8] {
    let view = view(frame);
    &frame[usize::from(view.l3_offset)..view.end as usize]
}

/// The packet that an error quotes.
fn quoted(frame: &[u8]) -> &[u8] {
    &frame[usize::from(view(frame).l4_offset.expect("it has one")) + 8..view(frame).end as usize]
}

/// Ports of a protocol; of ICMP the identifier, twice.
fn ports(protocol: IpProtocol) -> [Field; 2] {
    if protocol == IpProtocol::ICMP {
        [Field::IcmpIdentifier; 2]
    } else {
        [Field::SourcePort, Field::DestinationPort]
    }
}

fn source(frame: &[u8], protocol: IpProtocol) -> Place {
    let address = Ipv4Addr::from_bits(read(frame, Field::Source) as u32);
    (address, read(frame, ports(protocol)[0]) as u16)
}

/// One inside endpoint talks to one outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Talk {
    protocol: IpProtocol,
    inside: Place,
    remote: Place,
    /// The outside endpoint that is known before, where the one outside begins.
    open: Option<Place>,
}

/// Conversations that are all different.
fn talks(configuration: &Configuration, random: &mut Random) -> Vec<Talk> {
    let mut all = BTreeSet::new();
    while all.len() < CONVERSATIONS {
        let remote =
            (Ipv4Addr::new(198, 51, 100, 1 + random.below(6) as u8), 53 + random.below(9) as u16);
        let open = (random.below(3) == 0).then(|| random.pick(configuration.open)).flatten();
        let talk = match open {
            Some((outside, inside)) => {
                let protocol = if outside.1 == 6_004 { IpProtocol::UDP } else { IpProtocol::TCP };
                let remote = (remote.0, 1_000 + random.below(5_000) as u16);
                Talk { protocol, inside, remote, open: Some(outside) }
            }
            None => {
                let kinds = [IpProtocol::TCP, IpProtocol::UDP, IpProtocol::ICMP];
                let protocol = random.pick(&kinds).expect("some");
                // Few ports, so that hosts want the same ones.
                let port = random.pick(&[2_500, 40_000, 40_001]).expect("some");
                let inside = (Ipv4Addr::new(10, 0, 1, 20 + random.below(30) as u8), port);
                let remote = if protocol == IpProtocol::ICMP { (remote.0, port) } else { remote };
                Talk { protocol, inside, remote, open: None }
            }
        };
        all.insert(talk);
    }
    all.into_iter().collect()
}

/// A packet of somebody to somebody; `kind` is the type of a message of ICMP.
fn frame(
    talk: &Talk,
    (from, to): (Place, Place),
    (kind, flags): (u16, TcpFlags),
    count: (u16, usize),
) -> Vec<u8> {
    let is_icmp = talk.protocol == IpProtocol::ICMP;
    let is_out = from == talk.inside;
    let direction = if is_out { Direction::Forward } else { Direction::Backward };
    let ends = if is_icmp { ((from.0, kind), (to.0, 0)) } else { (from, to) };
    let mut frame = frame_of((talk.protocol, flags), ends, direction, count);
    if is_icmp {
        let identifier = if is_out { from.1 } else { to.1 };
        write(&mut frame, Field::IcmpIdentifier, identifier.into());
    }
    frame
}

/// A packet with this number and so many bytes of data.
pub(crate) fn frame_of(
    (protocol, flags): (IpProtocol, TcpFlags),
    (from, to): (Place, Place),
    direction: Direction,
    (number, bytes): (u16, usize),
) -> Vec<u8> {
    let shape = Shape {
        ends: (from.0.into(), to.0.into()),
        protocol,
        ports: (from.1, to.1),
        flags,
        options: Vec::new(),
        traffic_class: 0,
        ttl: 60,
        identification: number,
        payload: (0..bytes).map(|at| at as u8).collect(),
        vlan: None,
        is_later_fragment: false,
        macs: Router::macs(direction),
    };
    shape.frame().expect("a frame")
}

/// An error of `from` about a frame as it was received.
fn error(about: &[u8], from: Ipv4Addr, (direction, number): (Direction, u16)) -> Vec<u8> {
    let mut error = vec![0; FRAME_BYTES_MAX];
    let message = ErrorMessage::judge(about).expect("its sender may be told");
    let (to, own) = Router::macs(direction);
    let length =
        message.emit(Said::unreachable_v4(1), (own, to), &mut error).expect("there is room");
    error.truncate(length);
    write(&mut error, Field::Source, from.to_bits().into());
    write(&mut error, Field::Identification, number.into());
    error
}

/// What one engine makes of the conversations.
struct World<'r> {
    engine: Engine<'r>,
    /// Outside endpoints, as first seen.
    outside: BTreeMap<Talk, Place>,
    /// What was delivered, by identification: to hosts and servers, as if all ports had been kept.
    delivered: BTreeMap<u16, Vec<u8>>,
    sent: usize,
}

/// One of the two says something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Says {
    Inside(u16, TcpFlags, usize),
    Outside(u16, TcpFlags, usize),
}

impl World<'_> {
    /// All conversations go one step on. Whose outside endpoint is not known yet says nothing.
    fn step(&mut self, talks: &[Talk], number: &mut u16, says: impl Fn(&Talk) -> Says) {
        let mut sent = Vec::new();
        let mut of = BTreeMap::new();
        for talk in talks {
            *number += 1;
            let outside = self.outside.get(talk).copied().or(talk.open);
            let made = match (says(talk), outside) {
                (Says::Inside(kind, flags, bytes), _) => {
                    let parts = ((talk.inside, talk.remote), (kind, flags), (*number, bytes));
                    Some((Direction::Forward, frame(talk, parts.0, parts.1, parts.2)))
                }
                (Says::Outside(kind, flags, bytes), Some(outside)) => {
                    let parts = ((talk.remote, outside), (kind, flags), (*number, bytes));
                    Some((Direction::Backward, frame(talk, parts.0, parts.1, parts.2)))
                }
                (Says::Outside(..), None) => None,
            };
            if let Some(made) = made {
                sent.push(made);
                of.insert(*number, *talk);
            }
        }
        self.sent += sent.len();
        for (number, (direction, mut frame)) in self.engine.pass(&sent, true) {
            let Some(talk) = of.get(&number) else { continue };
            if direction == Direction::Forward {
                let outside = source(&frame, talk.protocol);
                let first = *self.outside.entry(*talk).or_insert(outside);
                assert_eq!(outside, first, "it is the same throughout {talk:?}");
                write(&mut frame, Field::Source, talk.inside.0.to_bits().into());
                write(&mut frame, ports(talk.protocol)[0], talk.inside.1.into());
            }
            self.delivered.insert(number, packet(&frame).to_vec());
        }
    }

    /// Errors of routers on both sides about a packet of each conversation.
    fn errors(&mut self, talks: &[Talk], number: &mut u16) {
        let router = Ipv4Addr::new(192, 0, 2, 200);
        let (mut sent, mut about) = (Vec::new(), BTreeMap::new());
        for talk in talks {
            let Some(outside) = self.outside.get(talk).copied().or(talk.open) else { continue };
            *number += 2;
            let (out, into) = (*number, *number - 1);
            // As it was seen outside, about what the host has sent; and the other way round.
            let data = (8, ACK);
            let mut own = frame(talk, (talk.inside, talk.remote), data, (7, 30));
            let host_own = packet(&own).to_vec();
            write(&mut own, Field::Source, outside.0.to_bits().into());
            write(&mut own, ports(talk.protocol)[0], outside.1.into());
            sent.push((Direction::Backward, error(&own, router, (Direction::Backward, into))));
            about.insert(into, (talk.inside.0, router, host_own));
            let mut theirs = frame(talk, (talk.remote, outside), (0, ACK), (7, 30));
            let remote_own = packet(&theirs).to_vec();
            write(&mut theirs, Field::Destination, talk.inside.0.to_bits().into());
            write(&mut theirs, ports(talk.protocol)[1], talk.inside.1.into());
            sent.push((
                Direction::Forward,
                error(&theirs, talk.inside.0, (Direction::Forward, out)),
            ));
            about.insert(out, (talk.remote.0, outside.0, remote_own));
        }
        self.sent += sent.len();
        let came = self.engine.pass(&sent, true);
        for (number, (to, from, sent)) in about {
            let (_, frame) =
                came.get(&number).unwrap_or_else(|| panic!("the error {number} arrives"));
            let addresses = [Field::Source, Field::Destination].map(|field| read(frame, field));
            assert_eq!(addresses, [from, to].map(|one| one.to_bits().into()), "error {number}");
            let about = quoted(frame);
            assert_eq!(about, &sent[..about.len()], "who gets it has sent what it is about");
            let flow = view(frame).flow.expect("it has one");
            assert!(flow.source == IpAddr::V4(from) && is_sound(frame));
        }
    }

    /// Strangers send to mapped endpoints: nobody inside hears of it.
    fn strangers(&mut self, talks: &[Talk], number: &mut u16) {
        let mut sent = Vec::new();
        for talk in talks.iter().filter(|talk| talk.open.is_none()) {
            let Some(outside) = self.outside.get(talk) else { continue };
            *number += 1;
            let stranger = (Ipv4Addr::new(198, 51, 100, 77), 999);
            let made = frame(talk, (stranger, *outside), (0, ACK), (*number, 10));
            sent.push((Direction::Backward, made));
        }
        self.sent += sent.len();
        for (_, (_, frame)) in self.engine.pass(&sent, false) {
            let to = Ipv4Addr::from_bits(read(&frame, Field::Destination) as u32);
            assert_ne!(to.octets()[0], 10, "it reaches nobody inside");
        }
    }

    /// Outside endpoints are what the configuration says, and lead to one place each.
    fn check(&self, configuration: &Configuration, is_ours: bool) {
        let mut owners = BTreeMap::new();
        let mut addresses = BTreeMap::new();
        for (talk, outside) in &self.outside {
            match talk.open {
                Some(open) => assert_eq!(*outside, open, "{talk:?}"),
                None => assert!(configuration.outside.contains(&outside.0), "{talk:?} {outside:?}"),
            }
            // Whoever is at the other end knows one host by it.
            let own = owners.entry((talk.protocol, *outside, talk.remote)).or_insert(talk.inside);
            assert_eq!(*own, talk.inside, "{outside:?}");
            let known = addresses.entry(talk.inside.0).or_insert(outside.0);
            assert!(talk.open.is_some() || *known == outside.0, "a host has one address");
        }
        if !is_ours {
            return;
        }
        // RFC 4787 REQ-1 asks for more than the kernel does.
        let (mut mappings, mut back) = (BTreeMap::new(), BTreeMap::new());
        for (talk, outside) in &self.outside {
            let one = mappings.entry((talk.protocol, talk.inside)).or_insert(*outside);
            assert_eq!(one, outside, "independent of whom it is sent to");
            let other = back.entry((talk.protocol, *outside)).or_insert(talk.inside);
            assert_eq!(*other, talk.inside, "no two have one");
        }
    }
}

fn is_sound(frame: &[u8]) -> bool {
    let l4 = usize::from(view(frame).l4_offset.expect("it has one"));
    let sum = |bytes: &[u8]| catena_wire::checksum::Sum::of(bytes).is_correct();
    sum(&frame[usize::from(view(frame).l3_offset)..l4]) && sum(&frame[l4..view(frame).end as usize])
}

/// What each side says in turn, by its protocol and by who has begun.
fn script(step: usize, talk: &Talk) -> Says {
    let begins_inside = talk.open.is_none();
    let is_first = step.is_multiple_of(2);
    let (kind, flags) = match (step, is_first) {
        (0, _) => (8, TcpFlags::SYN),
        (1, _) => (0, SYN_ACK),
        (6 | 7, true) => (8, TcpFlags::FIN.with(ACK)),
        (6 | 7, false) => (0, TcpFlags::FIN.with(ACK)),
        (_, true) => (8, ACK),
        (_, false) => (0, ACK),
    };
    let bytes = [0, 0, 0, 200, 1_000, 33, 0, 0][step];
    if is_first == begins_inside {
        Says::Inside(kind, flags, bytes)
    } else {
        Says::Outside(kind, flags, bytes)
    }
}

fn run(
    mut world: World<'_>,
    configuration: &Configuration,
    seed: u64,
) -> (BTreeMap<u16, Vec<u8>>, usize) {
    let talks = talks(configuration, &mut Random::new(seed));
    let mut number = 0;
    for step in 0..8 {
        world.step(&talks, &mut number, |talk| script(step, talk));
        if step == 5 {
            world.errors(&talks, &mut number);
            world.strangers(&talks, &mut number);
        }
    }
    world.check(configuration, matches!(world.engine, Engine::Ours(..)));
    (world.delivered, world.sent)
}

#[test]
fn hosts_and_servers_see_what_they_see_behind_the_kernels_nat() {
    let mut all = 0;
    for (seed, configuration) in (1..).zip(&CONFIGURATIONS) {
        let router = Router::new(&format!("judge-nat-{}", configuration.name));
        router.set("net/netfilter/nf_conntrack_tcp_be_liberal", "1");
        let (program, arguments) = configuration.program;
        router.run(program, arguments, configuration.kernel);
        let text = format!("{}filtering: address-and-port-dependent\n", configuration.ours);
        let config =
            catena_rules::nat::read(&text, "judged").unwrap_or_else(|error| panic!("{error}"));
        let options = NatOptions { seed, ..NatOptions::default() };
        let nat = Nat::new(&config, &options).unwrap_or_else(|error| panic!("{error}"));
        let world = |engine| World {
            engine,
            outside: BTreeMap::new(),
            delivered: BTreeMap::new(),
            sent: 0,
        };
        let ours = Engine::Ours(Box::new(nat), Time::seconds(1));
        let (ours, sent) = run(world(ours), configuration, seed);
        let (kernel, sent_too) = run(world(Engine::Kernel(&router)), configuration, seed);
        assert_eq!(sent, sent_too, "{}", configuration.name);
        assert_eq!(ours.len(), CONVERSATIONS * 8, "{}: all arrives", configuration.name);
        for (number, frame) in &kernel {
            assert_eq!(ours.get(number), Some(frame), "{}: packet {number}", configuration.name);
        }
        assert_eq!(kernel.len(), ours.len(), "{}", configuration.name);
        println!("{}: {sent} packets, {} arrived of each", configuration.name, ours.len());
        all += sent;
    }
    assert!(all >= 10_000, "{all}");
}

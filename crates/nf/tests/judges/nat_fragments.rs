//! Datagrams in fragments through our NAT and through the kernel's: put together again, each is what was sent, both
//! ways. The kernel puts them together itself, translates the whole and cuts it again; we translate each alone.

use crate::nat::{Engine, frame_of, read, view, write};
use crate::nat_configurations::{CONFIGURATIONS, Place};
use crate::router::Router;
use catena_nf::harness::traffic::Random;
use catena_nf::nat::{Nat, NatOptions};
use catena_nf::packet::{Direction, Time};
use catena_wire::field::Field;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;
use catena_wire::udp::UdpView;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// Source, destination, and what IP carries between them.
type Joined = (Ipv4Addr, Ipv4Addr, Vec<u8>);

/// Datagrams each way.
const DATAGRAMS: usize = 300;

/// A frame in two: the first so many bytes of what IP carries, and the rest.
fn split(frame: &[u8], bytes: usize) -> [Vec<u8>; 2] {
    let l4 = usize::from(view(frame).l4_offset.expect("it has one"));
    let header = l4 - usize::from(view(frame).l3_offset);
    let make = |carried: &[u8], flags: u128, offset: usize| {
        let mut part = [&frame[..l4], carried].concat();
        // Its view is that of the whole until it is a fragment: the length comes first.
        let whole = view(frame);
        for (field, value) in [
            (Field::Length, (header + carried.len()) as u128),
            (Field::FragmentFlags, flags),
            (Field::FragmentOffset, (offset / 8) as u128),
        ] {
            let upper = catena_wire::field::UpperChecksum::Closed;
            field.write(&mut part, &whole, (value, u128::MAX), upper).expect("it has one");
        }
        part
    };
    [make(&frame[l4..l4 + bytes], 1, 0), make(&frame[l4 + bytes..], 0, bytes)]
}

/// What fragments carry together, with their addresses; none: one is missing, or they differ.
fn join(parts: &[Vec<u8>]) -> Option<Joined> {
    let mut parts: Vec<_> =
        parts.iter().map(|part| (read(part, Field::FragmentOffset), part)).collect();
    parts.sort();
    let ends = |part: &[u8]| {
        [Field::Source, Field::Destination]
            .map(|field| Ipv4Addr::from_bits(read(part, field) as u32))
    };
    let mut all = Vec::new();
    for (offset, part) in &parts {
        let is_next = *offset as usize * 8 == all.len() && ends(part) == ends(parts.first()?.1);
        let start = usize::from(view(part).l4_offset?);
        all.extend(part.get(start..view(part).end as usize).filter(|_| is_next)?);
    }
    let [source, destination] = ends(parts.first()?.1);
    Some((source, destination, all))
}

/// Sends a datagram for each of these in fragments, and answers what came of each, put together.
fn pass(
    engine: &mut Engine<'_>,
    direction: Direction,
    datagrams: &[(Place, Place)],
    first: u16,
) -> BTreeMap<u16, (Vec<u8>, Joined)> {
    let mut random = Random::new(u64::from(first));
    let (mut sent, mut wholes) = (Vec::new(), BTreeMap::new());
    for (number, ends) in (first..).zip(datagrams) {
        let bytes = 600 + random.below(700);
        let whole =
            frame_of((IpProtocol::UDP, TcpFlags::default()), *ends, direction, (number, bytes));
        let at = 8 * (1 + random.below(bytes / 8 - 1));
        sent.extend(split(&whole, at).map(|part| (direction, part)));
        wholes.insert(number, whole);
    }
    let mut parts: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
    for (_, frame) in engine.frames(&sent, true) {
        parts.entry(read(&frame, Field::Identification) as u16).or_default().push(frame);
    }
    let joined = wholes.into_iter().map(|(number, whole)| {
        let parts = parts.get(&number).unwrap_or_else(|| panic!("datagram {number} arrives"));
        (number, (whole, join(parts).unwrap_or_else(|| panic!("datagram {number} is whole"))))
    });
    joined.collect()
}

/// What a frame carries behind IP.
fn carried(frame: &[u8]) -> &[u8] {
    &frame[usize::from(view(frame).l4_offset.expect("it has one"))..view(frame).end as usize]
}

fn exchange(mut engine: Engine<'_>) {
    let mut random = Random::new(9);
    let pool = CONFIGURATIONS[0].outside[0];
    let mut ends = Vec::new();
    for number in 0..DATAGRAMS {
        let host = Ipv4Addr::new(10, 0, 1, 20 + random.below(60) as u8);
        let remote = Ipv4Addr::new(198, 51, 100, 1 + (number % 200) as u8);
        ends.push((
            (host, 40_000 + random.below(3) as u16),
            (remote, 5_000 + (number / 200) as u16),
        ));
    }
    let mut back = Vec::new();
    for (number, (whole, (source, destination, all))) in
        pass(&mut engine, Direction::Forward, &ends, 1)
    {
        let (inside, remote) = ends[usize::from(number) - 1];
        assert_eq!((source, destination), (pool, remote.0));
        let datagram = UdpView::parse(&all).expect("a datagram");
        assert!(datagram.is_checksum_correct(source.into(), destination.into()));
        let outside = (source, datagram.source_port());
        // With the host's own endpoint it is what was sent.
        let mut seen =
            [&whole[..usize::from(view(&whole).l4_offset.expect("it has one"))], &all].concat();
        write_header(&mut seen, source);
        write(&mut seen, Field::Source, inside.0.to_bits().into());
        write(&mut seen, Field::SourcePort, inside.1.into());
        assert_eq!(carried(&seen), carried(&whole));
        back.push((remote, outside));
    }
    for (number, (whole, (source, destination, all))) in
        pass(&mut engine, Direction::Backward, &back, 1_001)
    {
        let (inside, remote) = ends[usize::from(number) - 1_001];
        assert_eq!((source, destination), (remote.0, inside.0));
        let datagram = UdpView::parse(&all).expect("a datagram");
        assert!(datagram.is_checksum_correct(source.into(), destination.into()));
        assert_eq!((datagram.source_port(), datagram.destination_port()), (remote.1, inside.1));
        assert_eq!(all.get(8..), carried(&whole).get(8..), "its data is what was sent");
    }
}

/// Sets the source of a header whose checksums are to follow later changes as they did in the packet that came.
fn write_header(frame: &mut [u8], source: Ipv4Addr) {
    let start = usize::from(view(frame).l3_offset) + 12;
    frame[start..start + 4].copy_from_slice(&source.octets());
}

#[test]
fn datagrams_in_fragments_arrive_whole_as_behind_the_kernels_nat() {
    let configuration = &CONFIGURATIONS[0];
    let router = Router::new("judge-nat-fragments");
    let (program, arguments) = configuration.program;
    router.run(program, arguments, configuration.kernel);
    exchange(Engine::Kernel(&router));
    let config = catena_rules::nat::read(configuration.ours, "judged").expect("a configuration");
    let nat = Nat::new(&config, &NatOptions::default()).expect("a NAT");
    exchange(Engine::Ours(Box::new(nat), Time::seconds(1)));
}

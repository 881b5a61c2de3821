//! Golden, exhaustive, property and damage tests of source routes.

use std::vec;
use std::vec::Vec;

use proptest::collection::vec as any_vec;
use proptest::prelude::*;

use super::classic::{ClassicHeader, ClassicView, Density, Reserved, capacity, labels_for};
use super::native::{Detour, NativeHeader, NativeView, PortWidth, TagKey};
use super::safe::SafeHeader;
use super::*;
use crate::ethernet::EthernetView;
use crate::golden::{each_bit_flip, each_truncation, hex};
use crate::mpls::LabelStackEntry;
use crate::scalar::{MacAddr, Spi};

macro_rules! golden {
    ($name:literal) => {
        hex(include_str!(concat!("../../../../conformance/source_route/", $name, ".hex")))
    };
}

const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const DESTINATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const KEY: TagKey = TagKey([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
const OTHER_KEY: TagKey = TagKey([0; 16]);

/// A frame in which a header is written, with a payload behind it that must stay.
fn written(
    bytes: usize,
    emit: impl FnOnce(&mut [u8]) -> Result<usize, SourceRouteError>,
) -> Vec<u8> {
    let mut frame = vec![0xa5; bytes + 2];
    frame[..6].copy_from_slice(&DESTINATION.0);
    frame[6..12].copy_from_slice(&SOURCE.0);
    assert_eq!(emit(&mut frame), Ok(bytes));
    assert_eq!(frame.split_off(bytes), [0xa5; 2], "more than the header was written");
    frame
}

fn classic(way: &[u8], density: Density) -> Vec<u8> {
    let header = ClassicHeader::new(way, density).unwrap();
    written(header.len_bytes(), |into| header.emit(into))
}

fn safe(way: &[u8]) -> Vec<u8> {
    written(safe::LEN, |into| SafeHeader::new(way).unwrap().emit(into))
}

/// A native header without detours and tag.
fn plain(way: &[u8], width: PortWidth) -> NativeHeader<'_> {
    let ether_type = EtherType::IPV4;
    NativeHeader { width, way, path: None, tag: None, detours: &[], ether_type }
}

fn native(header: &NativeHeader<'_>) -> Vec<u8> {
    written(header.len_bytes(), |into| header.emit(into))
}

/// The ports that nodes take from a frame, until its way is at its end.
fn walk(mut frame: Vec<u8>) -> Vec<u8> {
    let mut taken = Vec::new();
    loop {
        let seen = next(&frame, &[]);
        let stepped = advance(&mut frame, &[]);
        assert_eq!(seen, stepped, "who looks and who goes see the same");
        match stepped.unwrap() {
            Next::Port(port) => taken.push(port),
            Next::Pop(port) => {
                taken.push(port);
                frame.drain(..sr_mpls::PORT_BYTES);
            }
            Next::End => return taken,
        }
    }
}

/// Golden headers, what writes them, and the way.
fn goldens() -> Vec<(Vec<u8>, Vec<u8>, Vec<u8>)> {
    let ten: Vec<u8> = (11..=20).collect();
    let figure = vec![1, 3, 5, 2, 4, 6, 7];
    let most = vec![250, 251, 252, 253, 254, 255, 128, 64, 32, 16];
    let (twelve, seventeen): (Vec<u8>, Vec<u8>) = ((101..=112).collect(), (101..=117).collect());
    let (nine, all, three) = ((11..=19).collect::<Vec<u8>>(), vec![255; 9], vec![1, 3, 5]);
    let (thirteen, eight): (Vec<u8>, Vec<u8>) = ((1..=13).collect(), (1..=8).collect());
    let one = |golden, made, way: &[u8]| (golden, made, way.to_vec());
    let labels = |way: &[u8]| classic(way, Density::Labels);
    vec![
        one(golden!("classic_ten_ports"), labels(&ten), &ten),
        one(golden!("classic_paper_figure1_shape"), labels(&figure), &figure),
        one(golden!("classic_ten_ports_max_values"), labels(&most), &most),
        one(golden!("classic_2_labels"), labels(&twelve), &twelve),
        one(golden!("classic_4_labels"), labels(&seventeen), &seventeen),
        one(golden!("safe9_nine"), safe(&nine), &nine),
        one(golden!("safe9_all_255"), safe(&all), &all),
        one(golden!("safe9_three"), safe(&three), &three),
        one(golden!("native_w6"), native(&plain(&thirteen, PortWidth::Six)), &thirteen),
        one(golden!("native_w4"), native(&plain(&eight, PortWidth::Four)), &eight),
    ]
}

#[test]
fn golden_headers_are_written_and_walked_hop_by_hop() {
    for (golden, made, way) in goldens() {
        assert_eq!(made, golden, "{way:?}");
        assert_eq!(walk(golden), way);
    }
}

#[test]
fn a_step_writes_the_counter_and_nothing_else() {
    for (mut frame, _, way) in goldens() {
        let at = match profile(&frame).unwrap() {
            Profile::Native => 16,
            _ => 21,
        };
        for left in (0..way.len() as u8).rev() {
            let mut expected = frame.clone();
            expected[at] -= 1;
            assert!(matches!(advance(&mut frame, &[]), Ok(Next::Port(_))));
            assert_eq!(frame, expected);
            let counter = frame[at];
            assert_eq!(counter, left + u8::from(profile(&frame) == Some(Profile::Safe9)));
        }
        let end = frame.clone();
        assert_eq!((advance(&mut frame, &[]), frame), (Ok(Next::End), end));
    }
}

#[test]
fn labels_hold_as_many_ports_as_the_table_says() {
    let table = [10, 12, 15, 17, 20, 22, 25, 27, 30];
    for (labels, ports) in (1..).zip(table) {
        assert_eq!(capacity(labels, Density::Labels), ports);
        assert_eq!(labels_for(ports, Density::Labels), labels);
        assert_eq!(classic::len(labels), 14 + 4 + 4 * labels);
    }
    assert_eq!(labels_for(30, Density::Dense), 7);
    assert_eq!(classic::len(7) - 14, 32);
    assert_eq!(labels_for(PORTS_MAX, Density::Labels), classic::LABELS_MAX);
}

#[test]
fn the_reserved_cases_of_classic_80_are_named() {
    let cases: [(&[u8], &[Reserved]); 7] = [
        (&[1, 3, 5, 2, 4, 6, 7], &[Reserved::GroupAddress, Reserved::SpecialLabel]),
        (&[2, 4, 6, 8, 10, 12, 14, 16, 18, 3], &[Reserved::GroupAddress]),
        (&[255; 10], &[Reserved::GroupAddress, Reserved::Broadcast, Reserved::VlanId]),
        (&[9, 9, 9, 9, 0, 0, 0, 194, 128, 1], &[Reserved::GroupAddress, Reserved::BridgeGroup]),
        (&[20, 19, 18, 17, 16, 15, 14, 13, 12, 10], &[]),
        (&[4, 4], &[Reserved::PriorityTag, Reserved::SpecialLabel]),
        (&[1, 5, 8, 7, 6, 5, 4, 3, 2, 2], &[Reserved::LooksSafe]),
    ];
    for (way, expected) in cases {
        let found: Vec<_> = ClassicHeader::new(way, Density::Labels).unwrap().reserved().collect();
        assert_eq!(found, expected, "{way:?}");
    }
}

#[test]
fn all_parts_of_a_native_header_are_written_and_read() {
    let golden = golden!("native_all_parts");
    let detours = [Detour { counter: 2, rejoin: 1, ports: &[21, 22] }];
    let header = NativeHeader {
        width: PortWidth::Eight,
        way: &[11, 12, 13],
        path: Some(Spi::from_low_bits(0x12_3456)),
        tag: Some(&KEY),
        detours: &detours,
        ether_type: EtherType::IPV6,
    };
    assert_eq!(native(&header), golden);
    let view = NativeView::parse(&golden).unwrap();
    assert_eq!((view.path(), view.ether_type()), (header.path, header.ether_type));
    assert_eq!((view.check(&KEY), view.check(&OTHER_KEY)), (Ok(()), Err(SourceRouteError::Tag)));
    let read: Vec<_> =
        view.detours().map(|one| (one.counter, one.rejoin, one.ports().collect())).collect();
    assert_eq!(read, [(2, 1, vec![21, 22])]);
    assert_eq!(walk(golden.clone()), [11, 12, 13]);
}

#[test]
fn keys_of_a_domain_are_others_for_each_purpose_and_in_each_domain() {
    let (one, other) = (TagKey::of_domain(&KEY.0), TagKey::of_domain(&OTHER_KEY.0));
    assert!(one != other && one != KEY && other != OTHER_KEY);
    assert_ne!(one.0, key_for(b"hello", &KEY.0));
    let frame = native(&NativeHeader {
        path: Some(Spi::from_low_bits(7)),
        tag: Some(&one),
        ..plain(&[1, 2], PortWidth::Four)
    });
    let view = NativeView::parse(&frame).unwrap();
    assert!(view.has_tag() && super::native::has_tag(&frame));
    assert_eq!((view.check(&one), view.check(&other)), (Ok(()), Err(SourceRouteError::Tag)));
    assert!(!super::native::has_tag(&native(&plain(&[1, 2], PortWidth::Four))));
}

#[test]
fn a_detour_is_written_over_what_is_done_with() {
    let mut frame = golden!("native_all_parts");
    assert_eq!(advance(&mut frame, &[]), Ok(Next::Port(11)));
    let view = NativeView::parse(&frame).unwrap();
    let mut detoured = vec![0xa5; frame.len()];
    detoured[..12].copy_from_slice(&frame[..12]);
    let len = view.detour(Some(&KEY), &mut detoured).unwrap();
    detoured.truncate(len);
    assert_eq!(detoured, golden!("native_detoured"));
    assert_eq!(walk(detoured.clone()), [21, 22, 13]);
    let none = NativeView::parse(&detoured).unwrap().detour(Some(&KEY), &mut [0; 64]);
    assert_eq!(none, Err(SourceRouteError::NoDetour(3)));
    for key in [None, Some(&OTHER_KEY)] {
        let forged = NativeView::parse(&frame).unwrap().detour(key, &mut [0; 64]);
        assert_eq!(forged, Err(SourceRouteError::Tag), "nobody signs what nobody has signed");
    }
}

#[test]
fn headers_that_say_what_they_cannot_are_refused_by_name() {
    let native = golden!("native_all_parts");
    let (labels, nine) = (golden!("classic_4_labels"), golden!("safe9_nine"));
    let with = |golden: &[u8], at: usize, value: u8| {
        let mut frame = golden.to_vec();
        frame[at] = value;
        frame
    };
    let cases = [
        (with(&native, 12, 0x08), SourceRouteError::NoProfile),
        (with(&native, 14, 0x28), SourceRouteError::Version(2)),
        (with(&native, 14, 0x15), SourceRouteError::Width(5)),
        (with(&native, 15, 0), SourceRouteError::NoPorts),
        (with(&native, 16, 4), SourceRouteError::Counter { counter: 4, ports: 3 }),
        (with(&native, 17, 0x0f), SourceRouteError::Flags(0x0f)),
        (with(&native, 17, 0x01), SourceRouteError::TagWithoutPath),
        (with(&labels, 21, 18), SourceRouteError::Counter { counter: 18, ports: 17 }),
        (with(&nine, 21, 0), SourceRouteError::TtlExpired),
        (with(&nine, 21, 11), SourceRouteError::Counter { counter: 10, ports: 9 }),
        (with(&nine, 20, 0xb0), SourceRouteError::MoreLabels),
        (with(&labels, labels.len() - 2, 0), SourceRouteError::NoBottom),
    ];
    for (frame, expected) in cases {
        let mut stepped = frame.clone();
        assert_eq!(advance(&mut stepped, &[]), Err(expected));
        assert_eq!(stepped, frame, "a refused frame is left alone");
    }
    let have = native.len();
    let lies = [
        (26, 2, SourceRouteError::Truncated { need: 35, have }),
        (27, 4, SourceRouteError::Detour { counter: 4, rejoin: 1 }),
        (28, 2, SourceRouteError::Detour { counter: 2, rejoin: 2 }),
        (29, 0, SourceRouteError::Detour { counter: 2, rejoin: 1 }),
        (29, 255, SourceRouteError::Detour { counter: 2, rejoin: 1 }),
        (29, 9, SourceRouteError::Truncated { need: 39, have }),
    ];
    for (at, value, expected) in lies {
        assert_eq!(NativeView::parse(&with(&native, at, value)).err(), Some(expected), "{at}");
    }
}

#[test]
fn what_no_header_holds_is_not_written() {
    let mut room = [0; 600];
    let density = Density::Labels;
    assert_eq!(ClassicHeader::new(&[], density), Err(SourceRouteError::NoPorts));
    let ten = SafeHeader::new(&[1; 10]);
    assert_eq!(ten, Err(SourceRouteError::TooManyPorts { ports: 10, most: 9 }));
    let long = ClassicHeader::new(&[1; 256], density);
    assert_eq!(long, Err(SourceRouteError::TooManyPorts { ports: 256, most: 255 }));
    let wide = plain(&[1, 64], PortWidth::Six).emit(&mut room);
    assert_eq!(wide, Err(SourceRouteError::WidePort { port: 64, width: 6 }));
    let untold = NativeHeader { tag: Some(&KEY), ..plain(&[1], PortWidth::Four) };
    assert_eq!(untold.emit(&mut room), Err(SourceRouteError::TagWithoutPath));
    for (counter, rejoin, ports) in [(0, 0, &[1][..]), (3, 1, &[1]), (1, 1, &[1])] {
        let detours = [Detour { counter, rejoin, ports }];
        let back = NativeHeader { detours: &detours, ..plain(&[1, 2], PortWidth::Four) };
        assert_eq!(back.emit(&mut room), Err(SourceRouteError::Detour { counter, rejoin }));
    }
    for have in 0..safe::LEN {
        let truncated = Err(SourceRouteError::Truncated { need: safe::LEN, have });
        assert_eq!(SafeHeader::new(&[1]).unwrap().emit(&mut room[..have]), truncated);
        let header = ClassicHeader::new(&[1], density).unwrap();
        assert_eq!(header.emit(&mut room[..have]), truncated);
    }
    let native = plain(&[1], PortWidth::Four);
    for have in 0..native.len_bytes() {
        assert!(native.emit(&mut room[..have]).is_err());
    }
}

#[test]
fn damaged_goldens_are_refused_or_can_be_walked() {
    let all = goldens().into_iter().map(|(golden, ..)| golden);
    let all = all.chain([golden!("native_all_parts"), golden!("native_detoured")]);
    for golden in all {
        each_truncation(&golden, |cut| {
            let mut frame = cut.to_vec();
            if advance(&mut frame, &[]).is_err() {
                assert_eq!(frame, cut);
            }
            let is_native = profile(&golden) == Some(Profile::Native);
            let whole = if is_native {
                NativeView::parse(cut).is_ok()
            } else {
                ClassicView::parse(cut).is_ok() || SafeHeader::parse(cut).is_ok()
            };
            assert!(!whole, "{} of {} bytes are a whole header", cut.len(), golden.len());
        });
        each_bit_flip(&golden, |damaged| {
            let mut frame = damaged.to_vec();
            match advance(&mut frame, &[]) {
                Err(_) => assert_eq!(frame, damaged),
                Ok(_) => assert!(walk(frame).len() <= PORTS_MAX),
            }
            if let Ok(view) = NativeView::parse(damaged) {
                assert!(view.detours().all(|detour| detour.rejoin < detour.counter));
                let _ = view.detour(Some(&KEY), &mut [0; 1_024]);
            }
        });
    }
}

#[test]
fn only_ip_goes_on_where_no_ether_type_is_kept() {
    assert_eq!(ip_ether_type(&[0x45, 0]), Ok(EtherType::IPV4));
    assert_eq!(ip_ether_type(&[0x60]), Ok(EtherType::IPV6));
    for payload in [&[][..], &[0x00], &[0x50]] {
        assert_eq!(ip_ether_type(payload), Err(SourceRouteError::NotIp));
    }
}

fn widths() -> impl Strategy<Value = PortWidth> {
    prop_oneof![Just(PortWidth::Four), Just(PortWidth::Six), Just(PortWidth::Eight)]
}

/// A way whose ports have this width.
fn narrowed(way: &[u8], width: PortWidth) -> Vec<u8> {
    way.iter().map(|port| port & u8::MAX >> (8 - width.bits())).collect()
}

proptest! {
    #[test]
    fn safe_9_has_ordinary_values_whatever_the_way(way in any_vec(any::<u8>(), 1..=9)) {
        let mut frame = safe(&way);
        for port in &way {
            prop_assert_eq!(profile(&frame), Some(Profile::Safe9));
            prop_assert!(ClassicView::parse(&frame).is_err(), "it has one meaning");
            let view = EthernetView::parse(&frame).unwrap();
            prop_assert_eq!(view.destination().0[0] & 3, 2, "a local address of one station");
            let vlan = view.vlan().unwrap().id.get();
            prop_assert!((1..=2_048).contains(&vlan));
            let (entry, _) = LabelStackEntry::parse(view.payload()).unwrap();
            prop_assert!(entry.label.get() >= 16 && entry.is_bottom);
            prop_assert!((2..=10).contains(&entry.ttl));
            prop_assert_eq!(advance(&mut frame, &[]), Ok(Next::Port(*port)));
        }
        prop_assert_eq!(advance(&mut frame, &[]), Ok(Next::End));
    }

    #[test]
    fn classic_80_gives_every_way_back(
        way in any_vec(any::<u8>(), 1..=PORTS_MAX),
        is_dense in any::<bool>(),
    ) {
        let density = if is_dense { Density::Dense } else { Density::Labels };
        let header = ClassicHeader::new(&way, density).unwrap();
        if header.reserved().any(|reserved| reserved == Reserved::LooksSafe) {
            let written = header.emit(&mut vec![0; header.len_bytes()]);
            prop_assert_eq!(written, Err(SourceRouteError::LooksSafe));
            return Ok(());
        }
        let frame = classic(&way, density);
        let view = ClassicView::parse(&frame).unwrap();
        prop_assert_eq!(view.len_bytes(), frame.len());
        for (position, port) in (1..).zip(way.iter().rev()) {
            prop_assert_eq!(view.port(position), Some(*port));
        }
        prop_assert_eq!(profile(&frame), Some(Profile::Classic80));
        prop_assert_eq!(walk(frame), way);
    }

    #[test]
    fn native_gives_every_way_back(
        way in any_vec(any::<u8>(), 1..=PORTS_MAX),
        width in widths(),
        path in proptest::option::of(0..0xff_ffff_u32),
        is_tagged in any::<bool>(),
    ) {
        let way = narrowed(&way, width);
        let path = path.map(Spi::from_low_bits);
        let tag = path.and(is_tagged.then_some(&KEY));
        let header = NativeHeader { path, tag, ..plain(&way, width) };
        let frame = native(&header);
        let view = NativeView::parse(&frame).unwrap();
        prop_assert_eq!(view.path(), path);
        prop_assert_eq!(view.len_bytes(), frame.len());
        prop_assert_eq!(view.check(&KEY).is_ok(), tag.is_some());
        let mut taken = frame.clone();
        advance(&mut taken, &[]).unwrap();
        let later = NativeView::parse(&taken).unwrap();
        prop_assert_eq!(later.check(&KEY).is_ok(), tag.is_some(), "the counter is not in the tag");
        prop_assert_eq!(walk(frame), way);
    }

    #[test]
    fn a_detour_leads_to_where_it_rejoins(
        way in any_vec(any::<u8>(), 2..=40),
        around in any_vec(any::<u8>(), 1..=60),
        width in widths(),
        place in any::<proptest::sample::Index>(),
        back in any::<proptest::sample::Index>(),
    ) {
        let (way, around) = (narrowed(&way, width), narrowed(&around, width));
        let taken = place.index(way.len());
        let counter = (way.len() - taken) as u8;
        let rejoin = back.index(counter.into()) as u8;
        let later = Detour { counter: 1, rejoin: 0, ports: &way[..1] };
        let wanted = Detour { counter, rejoin, ports: &around };
        let detours = [later, wanted];
        let detours = if counter == 1 { &detours[1..] } else { &detours };
        let path = Some(Spi::from_low_bits(7));
        let header = NativeHeader { path, tag: Some(&KEY), detours, ..plain(&way, width) };
        let mut frame = native(&header);
        for port in &way[..taken] {
            prop_assert_eq!(advance(&mut frame, &[]), Ok(Next::Port(*port)));
        }
        let mut detoured = frame.clone();
        detoured.resize(frame.len() + around.len(), 0xa5);
        let len = NativeView::parse(&frame).unwrap().detour(Some(&KEY), &mut detoured).unwrap();
        prop_assert!(len <= frame.len(), "what fits a link goes on to fit");
        detoured.truncate(len);
        let view = NativeView::parse(&detoured).unwrap();
        prop_assert_eq!(view.check(&KEY), Ok(()));
        let kept: Vec<u8> = view.detours().map(|detour| detour.counter).collect();
        prop_assert_eq!(kept, if counter > 1 && rejoin >= 1 { vec![1] } else { vec![] });
        let rest = &way[way.len() - usize::from(rejoin)..];
        prop_assert_eq!(walk(detoured), [&around[..], rest].concat());
    }
}

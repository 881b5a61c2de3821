//! Frames that only pass: the kernel's program and the engine treat every one of them the same, and what the kernel
//! holds hangs on the links alone.

use crate::dice::Dice;
use crate::frames::{addresses_on_links, labelled, numbered, source_routed};
use crate::junction::{Fate, Junction, Left, with_junction};
use crate::scene::{PLAIN_PORT, packet, three_hosts, with_chain};
use crate::town::{Town, function_number};
use catena_fastpath::Event;
use catena_model::kernel::Declined;
use catena_model::resource::Encapsulation;
use catena_wire::scalar::{EtherType, Spi};
use catena_wire::source_route::classic::{ClassicHeader, Density};
use catena_wire::source_route::native::{Detour, NativeHeader, PortWidth, TagKey};
use catena_wire::source_route::safe::SafeHeader;
use catena_wire::source_route::{self, Next, Profile, sr_mpls};
use std::collections::BTreeMap;

/// Links and what they carry; the last takes longer frames than the others.
const LINKS: [(u8, u32); 6] =
    [(1, 1_500), (2, 1_500), (7, 1_500), (40, 1_500), (200, 1_500), (13, 2_400)];
/// Frames that both must treat the same; `CATENA_CASES` asks for another number.
const CASES: usize = 30_000;
/// How often each profile must have been carried, and each cause met.
const HITS_MIN: usize = 500;
const ROUTES: u32 = 1_000;
const NOBODYS: u8 = 9;

/// A host with functions, so that numbers of ports are met as well as those of links.
fn host() -> Town {
    let mut town = with_chain(Encapsulation::SourceRouteNative, &[&["v1"], &["v2"]]);
    town.cables = LINKS.iter().map(|(number, _)| [(0, *number), (99, *number)]).collect();
    town
}

fn switch() -> Town {
    let mut town = Town::new(1);
    town.cables = LINKS.iter().map(|(number, _)| [(0, *number), (99, *number)]).collect();
    town
}

/// Takes so many ports of a way.
fn advance(frame: &mut Vec<u8>, ports: usize) {
    for _ in 0..ports {
        if let Ok(Next::Pop(_)) = source_route::advance(frame, &[]) {
            frame.drain(..sr_mpls::PORT_BYTES);
        }
    }
}

/// Behind a header that has no room for what stood in front.
fn carried(way: &[u8], is_safe: bool, plain: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    bytes[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    let classic = ClassicHeader::new(way, Density::Labels).unwrap();
    let length = match classic.emit(&mut bytes) {
        Ok(length) if !is_safe => length,
        // No header of the one has the look of the other.
        _ => SafeHeader::new(&way[..way.len().min(9)]).unwrap().emit(&mut bytes).unwrap(),
    };
    bytes.truncate(length);
    bytes.extend(&plain[14..]);
    bytes
}

fn native(way: &[u8], dice: &mut Dice, plain: &[u8]) -> Vec<u8> {
    let widest = way.iter().copied().max().unwrap();
    let width = PortWidth::for_port(if dice.once_in(2) { widest.max(16) } else { 64.max(widest) });
    let round = [LINKS[dice.below(LINKS.len())].0, LINKS[dice.below(LINKS.len())].0];
    let round =
        if round.iter().any(|port| PortWidth::for_port(*port) > width) { [1, 2] } else { round };
    let count = way.len() as u8;
    let detours: Vec<Detour<'_>> = (1..=count)
        .filter(|_| dice.once_in(3))
        .map(|counter| Detour { counter, rejoin: counter - 1, ports: &round })
        .collect();
    let key = TagKey([dice.below(2) as u8; 16]);
    let path = Spi::new(100).ok().filter(|_| !dice.once_in(8));
    let tag = path.and_then(|_| dice.once_in(6).then_some(&key));
    let header =
        NativeHeader { width, way, path, tag, detours: &detours, ether_type: EtherType::IPV4 };
    let mut bytes = addresses_on_links(plain);
    bytes.resize(header.len_bytes(), 0);
    header.emit(&mut bytes).unwrap();
    bytes.extend(&plain[14..]);
    bytes
}

/// A frame of a random way whose next port is this one.
fn roll_route(port: u8, dice: &mut Dice) -> Vec<u8> {
    let mut spec = packet(&three_hosts(), PLAIN_PORT);
    spec.ports.0 = 10_000 + dice.below(1_000) as u16;
    let mut plain = spec.frame();
    if dice.once_in(10) {
        plain.resize(1_440 + dice.below(120), 7);
    }
    let profile = dice.below(5);
    let longest = if profile == 0 && dice.once_in(4) { 120 } else { 9 };
    let taken = dice.below(longest.min(5));
    let mut way: Vec<u8> =
        (0..taken + 1 + dice.below(longest - taken)).map(|_| 1 + dice.below(255) as u8).collect();
    if dice.once_in(2) {
        way.iter_mut().for_each(|port| *port = 1 + *port % 14);
    }
    let way = match profile {
        1 | 2 if way.len() > 9 => &mut way[..9],
        _ => &mut way[..],
    };
    let taken = taken.min(way.len() - 1);
    way[taken] = port;
    let mut frame = match profile {
        0 => native(way, dice, &plain),
        1 => carried(way, true, &plain),
        2 if dice.once_in(12) => carried(&[way, &[3; 9][..]].concat(), false, &plain),
        2 => carried(way, false, &plain),
        3 => labelled(way, 77, &plain),
        _ => {
            let nodes: Vec<(usize, u8)> = way[taken..].iter().copied().enumerate().collect();
            return numbered(&nodes, nodes.len() as u8, 77, &plain);
        }
    };
    advance(&mut frame, taken);
    frame
}

/// Which frames a link's socket takes: of our types, behind one tag or none.
fn is_ours(frame: &[u8]) -> bool {
    const OURS: [[u8; 2]; 3] = [[0x88, 0xb5], [0x88, 0xb6], [0x88, 0x47]];
    let type_at = |at: usize| frame.get(at..).and_then(|rest| rest.first_chunk::<2>());
    match type_at(12) {
        // The kernel has no tag of one that ends behind it.
        Some([0x81, 0x00] | [0x88, 0xa8]) => {
            frame.len() >= 20 && type_at(16).is_some_and(|one| OURS.contains(one))
        }
        Some(own) => OURS.contains(own),
        None => false,
    }
}

fn roll(dice: &mut Dice) -> Vec<u8> {
    let port = match dice.below(12) {
        0 => NOBODYS,
        1 => function_number(dice.below(4)),
        _ => LINKS[dice.below(LINKS.len())].0,
    };
    loop {
        let mut frame = roll_route(port, dice);
        if dice.once_in(30) {
            let tag = [[0x81, 0, 0x20, 5], [0x88, 0xa8, 0, 5]][dice.below(2)];
            frame.splice(12..12, tag);
        }
        if dice.once_in(4) {
            let at = dice.below(frame.len().min(40));
            frame[at] ^= 1 << dice.below(8);
        }
        if dice.once_in(12) {
            frame.truncate(14 + dice.below(40));
        }
        if is_ours(&frame) {
            return frame;
        }
    }
}

/// What may happen between frames.
fn happen(junction: &mut Junction, dice: &mut Dice) {
    match dice.below(4) {
        0 => {
            let dark: Vec<u8> =
                LINKS.iter().map(|(number, _)| *number).filter(|_| dice.once_in(4)).collect();
            junction.darken(&dark);
        }
        1 => {
            let all = junction.town.cables.clone();
            let gone = dice.below(all.len());
            junction.town.cables.remove(gone);
            junction.apply();
            junction.town.cables = all;
            junction.apply();
        }
        _ => junction.pass(1 + dice.below(120) as u64),
    }
}

fn play(junction: &mut Junction) {
    let asked = std::env::var("CATENA_CASES").ok().and_then(|text| text.parse().ok());
    let mut dice = Dice(11);
    let mut met: BTreeMap<String, usize> = BTreeMap::new();
    for case in 0..asked.unwrap_or(CASES) {
        if dice.once_in(150) {
            happen(junction, &mut dice);
        }
        let frame = roll(&mut dice);
        let longest = LINKS.iter().max_by_key(|(_, mtu)| mtu).unwrap();
        let any = LINKS[dice.below(LINKS.len())];
        let (came, _) = if frame.len() > 14 + any.1 as usize { *longest } else { any };
        let what = match junction.send(came, &frame).0 {
            Fate::Carried(..) => format!("carried {:?}", source_route::profile(&frame).unwrap()),
            Fate::Up(cause) => format!("up {}", cause.name()),
        };
        *met.entry(what).or_default() += 1;
        if case % 500 == 0 {
            junction.counters();
        }
    }
    let kernel = junction.counters().dataplane.kernel.unwrap();
    println!("{met:?} {:?} {:?}", kernel.declined, kernel.carried);
    for profile in Profile::ALL {
        let name = format!("carried {profile:?}");
        assert!(met.get(&name).is_some_and(|count| *count >= HITS_MIN), "{name}");
    }
    for cause in [Event::Miss, Event::Waiting, Event::Unkeyed] {
        let name = format!("up {}", cause.name());
        assert!(met.get(&name).is_some_and(|count| *count >= HITS_MIN), "{name}");
    }
    assert!(met.get("up unfit").is_some_and(|count| *count >= 20), "longer than the link takes");
    assert_eq!(kernel.carried.packets, junction.passed());
    let reasons = [Declined::RouteEnds, Declined::LinkUnsound, Declined::UnusualRoute];
    assert!(reasons.iter().all(|one| kernel.declined.get(one).is_some_and(|count| *count > 0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_and_the_engine_let_every_frame_pass_the_same() {
    let name = "the_kernel_and_the_engine_let_every_frame_pass_the_same";
    with_junction(name, host(), &LINKS, play).await;
}

/// One frame in a profile, from any link to any other.
fn frame(profile: Profile, port: u8, number: u32) -> Vec<u8> {
    let mut spec = packet(&three_hosts(), PLAIN_PORT);
    spec.ports.0 = 10_000 + number as u16;
    let plain = spec.frame();
    let way = [port, 1 + (number % 200) as u8, 1 + (number / 200) as u8];
    match profile {
        Profile::Native => source_routed(&way, 1 + number, &plain),
        Profile::Safe9 => carried(&way, true, &plain),
        Profile::Classic80 => carried(&way, false, &plain),
        Profile::SrMpls => labelled(&way, 16 + number, &plain),
        Profile::Polka => {
            let nodes: Vec<(usize, u8)> = way.into_iter().enumerate().collect();
            numbered(&nodes, 3, 1 + number, &plain)
        }
    }
}

fn compare_dumps(junction: &mut Junction) {
    junction.pass(200);
    let before = junction.dump();
    let mut carried = 0;
    for number in 0..ROUTES {
        let link = |number: u32| LINKS[number as usize % LINKS.len()].0;
        let profile = Profile::ALL[number as usize % 5];
        let bytes = frame(profile, link(number / 5), number);
        let (fate, _) = junction.send(link(number / 30), &bytes);
        assert!(matches!(fate, Fate::Carried(..)), "{fate:?} of {bytes:02x?}");
        carried += 1;
    }
    junction.pass(200);
    junction.counters();
    assert_eq!((junction.passed(), carried), (ROUTES.into(), ROUTES));
    assert_eq!(junction.dump(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_routes_leave_the_kernels_tables_of_a_switch_as_they_were() {
    let name = "a_thousand_routes_leave_the_kernels_tables_of_a_switch_as_they_were";
    with_junction(name, switch(), &LINKS, compare_dumps).await;
}

fn lose_a_link(junction: &mut Junction) {
    junction.pass(200);
    let plain = packet(&three_hosts(), PLAIN_PORT).frame();
    let detours = [Detour { counter: 3, rejoin: 2, ports: &[7, 5] }];
    let (width, path) = (PortWidth::Eight, Spi::new(100).ok());
    let ether_type = EtherType::IPV4;
    let header =
        NativeHeader { width, way: &[2, 3, 4], path, tag: None, detours: &detours, ether_type };
    let mut bytes = addresses_on_links(&plain);
    bytes.resize(header.len_bytes(), 0);
    header.emit(&mut bytes).unwrap();
    bytes.extend(&plain[14..]);
    let leaves = |left: &[Left], junction: &Junction| match left {
        [Left::Frame(slot, _)] => {
            LINKS.iter().map(|(number, _)| *number).find(|number| junction.slot(*number) == *slot)
        }
        _ => None,
    };
    let (fate, _) = junction.send(1, &bytes);
    assert!(matches!(fate, Fate::Carried(2, _)), "{fate:?}");
    junction.darken(&[2]);
    let (fate, left) = junction.send(1, &bytes);
    assert_eq!((fate, leaves(&left, junction)), (Fate::Up(Event::Miss), Some(7)));
    // What nobody goes round by that link is the kernel's as before.
    let other = frame(Profile::Native, 7, 1);
    assert!(matches!(junction.send(1, &other).0, Fate::Carried(7, _)));
    junction.darken(&[]);
    let (fate, left) = junction.send(1, &bytes);
    assert_eq!((fate, leaves(&left, junction)), (Fate::Up(Event::Waiting), Some(2)));
    assert!(matches!(junction.send(1, &bytes).0, Fate::Carried(2, _)));
    let kernel = junction.counters().dataplane.kernel.unwrap();
    assert_eq!(kernel.declined, BTreeMap::from([(Declined::LinkUnsound, 1)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_that_dies_is_gone_round_by_the_engine_and_comes_back_to_the_kernel() {
    let name = "a_link_that_dies_is_gone_round_by_the_engine_and_comes_back_to_the_kernel";
    with_junction(name, switch(), &LINKS, lose_a_link).await;
}

fn wait_for_others(junction: &mut Junction) {
    let bytes = frame(Profile::SrMpls, 2, 1);
    let up = |junction: &mut Junction| junction.take(1).0;
    // Three are on their way when the first has been sent on.
    (0..3).for_each(|_| junction.put(1, &bytes));
    assert_eq!(up(junction), Fate::Up(Event::Waiting));
    junction.put(1, &bytes);
    assert_eq!([up(junction), up(junction), up(junction)], [const { Fate::Up(Event::Waiting) }; 3]);
    junction.put(1, &bytes);
    assert!(matches!(up(junction), Fate::Carried(2, _)));
    // What is lost on its way up leaves the gate closed, until that is known.
    junction.darken(&[2]);
    junction.darken(&[]);
    junction.put(1, &bytes);
    junction.lose();
    for (wait_ms, cause) in [(500, Event::Waiting), (600, Event::Waiting), (1_100, Event::Miss)] {
        junction.put(1, &bytes);
        assert_eq!(up(junction), Fate::Up(cause));
        junction.pass(wait_ms);
    }
    junction.put(1, &bytes);
    assert_eq!(up(junction), Fate::Up(Event::Waiting));
    junction.put(1, &bytes);
    assert!(matches!(up(junction), Fate::Carried(2, _)));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_frame_passes_those_that_are_on_their_way_up() {
    let name = "no_frame_passes_those_that_are_on_their_way_up";
    with_junction(name, switch(), &LINKS, wait_for_others).await;
}

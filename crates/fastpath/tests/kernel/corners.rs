//! The ends of the tables, and ports that the program does not serve: slow packets, never wrong ones.

use crate::frames::{self, Dice};
use crate::scene::Host;
use crate::{SIZES, load, needs_privilege};
use catena_fastpath::{
    Event, Hook, Kind, Operation, Port, Program, PuntTag, PuntedFrom, Settings, Sight, Tables,
    Transform, Verdict,
};
use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::tc;
use catena_wire::scalar::MacAddr;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;
use std::process::Command;

const LOOPBACK: u32 = 1;
const PORT: u16 = 3;
const PUNT: u32 = 9;

pub(crate) fn flow(number: u32) -> Vec<u8> {
    let [_, a, b, c] = number.to_be_bytes();
    let ends = [Ipv4Addr::new(10, a, b, c), Ipv4Addr::new(10, 200, 0, 1)];
    let macs = [MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2])];
    frames::tcp_frame(macs, ends.map(|address| SocketAddrV4::new(address, 80)))
}

fn mac(number: u32) -> MacAddr {
    let [a, b, c, d] = number.to_be_bytes();
    MacAddr([2, 0, a, b, c, d])
}

pub(crate) fn in_namespace(work: impl FnOnce(&Program, &Tables) + Send) {
    let namespace = NetNamespace::create_unnamed("corners").unwrap();
    run_in(&namespace, || {
        let (program, tables) = load();
        tables.set_settings(Settings { punt_ifindex: PUNT, ..Settings::default() });
        tables.set_port(LOOPBACK, Port { number: PORT.into(), is_watched: 0, link: 0 }).unwrap();
        work(&program, &tables);
    })
    .unwrap();
}

fn verdict(program: &Program, frame: &[u8]) -> Verdict {
    program.rehearse(Hook::Port, LOOPBACK, frame, None, 1).unwrap().verdict
}

fn up(cause: Event) -> Verdict {
    Verdict::Punt(PUNT, PuntTag { from: PuntedFrom::Port(PORT), cause })
}

#[test]
fn a_full_table_makes_packets_slow_and_none_wrong() {
    needs_privilege!("a_full_table_makes_packets_slow_and_none_wrong");
    in_namespace(|program, tables| {
        let flows = SIZES.flows * 5;
        for number in 1..=flows {
            // Each has a MAC of its own to set: by that it is known again.
            let list = Transform::default().then(Operation::set_destination(mac(number))).unwrap();
            let list = list.then(Operation::transmit(1)).unwrap();
            let key = Sight::at_port(PORT, &flow(number), None).unwrap().key;
            tables.install(&key, &list, None).unwrap();
        }
        let mut hits = 0;
        for number in 1..=flows {
            let run = program.rehearse(Hook::Port, LOOPBACK, &flow(number), None, 1).unwrap();
            match run.verdict {
                Verdict::Leave(Kind::Transmit, 1) => {
                    assert_eq!(run.bytes[..6], mac(number).0, "the flow's own transform");
                    hits += 1;
                }
                other => assert_eq!(other, up(Event::Miss)),
            }
        }
        let mut held = 0;
        tables.walk(|_, _| held += 1).unwrap();
        println!("{hits} of {flows} flows are held by a table of {}; {held} walked", SIZES.flows);
        assert_eq!(hits, held);
        assert!(hits <= SIZES.flows && hits > SIZES.flows / 4);
    });
}

#[test]
fn a_flow_in_use_outlives_those_that_are_not() {
    needs_privilege!("a_flow_in_use_outlives_those_that_are_not");
    in_namespace(|program, tables| {
        let list = Transform::default().then(Operation::transmit(1)).unwrap();
        let install = |number| {
            let key = Sight::at_port(PORT, &flow(number), None).unwrap().key;
            tables.install(&key, &list, None).unwrap();
        };
        install(0);
        for number in 1..=SIZES.flows * 5 {
            install(number);
            assert_eq!(verdict(program, &flow(0)), Verdict::Leave(Kind::Transmit, 1));
        }
    });
}

#[test]
fn a_bump_ends_what_depends_on_the_slot_at_once_and_nothing_else() {
    needs_privilege!("a_bump_ends_what_depends_on_the_slot_at_once_and_nothing_else");
    in_namespace(|program, tables| {
        for number in 0..900 {
            let list = Transform::default().then(Operation::transmit(1)).unwrap();
            // Half of the flows depend on slot 5, all on others.
            let guarded = list.guarded_by(tables.guard(6 + number % 8)).unwrap();
            let guarded = match number % 2 {
                0 => guarded.guarded_by(tables.guard(5)).unwrap(),
                _ => guarded,
            };
            let key = Sight::at_port(PORT, &flow(number), None).unwrap().key;
            tables.install(&key, &guarded, None).unwrap();
        }
        tables.bump(5);
        for number in 0..900 {
            let valid = Verdict::Leave(Kind::Transmit, 1);
            let expected = if number % 2 == 0 { up(Event::Stale) } else { valid };
            assert_eq!(verdict(program, &flow(number)), expected);
        }
        let stale: Vec<u64> = (0..SIZES.slots).map(|slot| tables.stale(slot)).collect();
        assert_eq!(stale[5], 450);
        assert_eq!(stale.iter().sum::<u64>(), 450, "no other slot has moved");
        tables.bump(0);
        assert_eq!(tables.guard(0).epoch, 0, "slot 0 never changes");
        tables.bump_all();
        assert_eq!(verdict(program, &flow(1)), up(Event::Stale));
    });
}

#[test]
fn what_is_off_watched_or_no_port_is_not_forwarded() {
    needs_privilege!("what_is_off_watched_or_no_port_is_not_forwarded");
    in_namespace(|program, tables| {
        let list = Transform::default().then(Operation::transmit(1)).unwrap();
        let key = Sight::at_port(PORT, &flow(1), None).unwrap().key;
        tables.install(&key, &list, None).unwrap();
        let settings = tables.settings();
        tables.set_settings(Settings { is_off: 1, ..settings });
        assert_eq!(verdict(program, &flow(1)), up(Event::Watched));
        tables.set_settings(settings);
        tables.set_port(LOOPBACK, Port { number: PORT.into(), is_watched: 1, link: 0 }).unwrap();
        assert_eq!(verdict(program, &flow(1)), up(Event::Watched));
        tables.clear_port(LOOPBACK).unwrap();
        assert_eq!(verdict(program, &flow(1)), Verdict::End);
        tables.set_port(LOOPBACK, Port { number: PORT.into(), is_watched: 0, link: 0 }).unwrap();
        assert_eq!(verdict(program, &flow(1)), Verdict::Leave(Kind::Transmit, 1));
        tables.set_settings(Settings::default());
        assert_eq!(verdict(program, &flow(2)), Verdict::End, "no way up");
        assert_eq!(tables.events(Event::Swallowed), 2);
    });
}

#[test]
fn a_tunnel_packet_that_is_not_for_us_goes_on_to_the_stack() {
    needs_privilege!("a_tunnel_packet_that_is_not_for_us_goes_on_to_the_stack");
    in_namespace(|program, tables| {
        let mut dice = Dice(1);
        let frame = frames::in_tunnel(frames::Way::Nsh, &mut dice, &flow(1));
        let run = |frame: &[u8]| {
            program.rehearse(Hook::Underlay, LOOPBACK, frame, None, 1).unwrap().verdict
        };
        assert_eq!(run(&frame), Verdict::Stack, "no underlay address yet");
        let underlay_address = u32::from_ne_bytes(frames::OWN.octets());
        tables.set_settings(Settings { underlay_address, ..tables.settings() });
        let underlay = |from, cause| Verdict::Punt(PUNT, PuntTag { from, cause });
        let strange = underlay(PuntedFrom::STRANGERS, Event::Unkeyed);
        assert_eq!(run(&frame), strange, "an unknown sender is the engine's");
        tables.add_source(frames::OTHER.into(), 0).unwrap();
        assert_eq!(run(&frame), underlay(PuntedFrom::node(frames::OTHER.into()), Event::Miss));
        let mut summed = frame.clone();
        summed[40] = 1;
        assert_eq!(run(&summed), Verdict::Stack, "an engine has sent it: to the socket");
        assert_eq!(tables.events(Event::LeftToSocket), 1);
        let mut other_port = frame.clone();
        other_port[36] ^= 0x40;
        assert_eq!(run(&other_port), Verdict::Stack);
        // A switch floods what is for a router, and the interface is looked into by somebody.
        let mut others = frame;
        others[5] = 9;
        assert_eq!(run(&others), Verdict::Stack, "another's on this link");
    });
}

#[test]
fn what_one_node_may_send_is_not_repeated_for_another() {
    needs_privilege!("what_one_node_may_send_is_not_repeated_for_another");
    in_namespace(|program, tables| {
        let frame = frames::in_tunnel(frames::Way::Nsh, &mut Dice(1), &flow(1));
        let underlay_address = u32::from_ne_bytes(frames::OWN.octets());
        tables.set_settings(Settings { underlay_address, ..tables.settings() });
        let sight = Sight::at_underlay(frames::OWN, &frame, None).unwrap().sent_by(1);
        let list = Transform::default().then(Operation::transmit(LOOPBACK)).unwrap();
        tables.install(&sight.key, &list, None).unwrap();
        let missed = PuntTag { from: PuntedFrom::node(frames::OTHER.into()), cause: Event::Miss };
        let sent = Verdict::Leave(Kind::Transmit, LOOPBACK);
        for (number, expected) in [(1, sent), (2, Verdict::Punt(PUNT, missed)), (1, sent)] {
            tables.add_source(frames::OTHER.into(), number).unwrap();
            let run = program.rehearse(Hook::Underlay, LOOPBACK, &frame, None, 1).unwrap();
            assert_eq!(run.verdict, expected);
        }
    });
}

/// The interface is asked once in a tick of the clock, and for every longer frame at once.
#[test]
fn a_longer_frame_is_judged_at_once_and_a_smaller_mtu_within_a_tick() {
    needs_privilege!("a_longer_frame_is_judged_at_once_and_a_smaller_mtu_within_a_tick");
    const TICK: std::time::Duration = std::time::Duration::from_millis(20);
    let set_mtu = |mtu: &str| {
        let changed = Command::new("ip").args(["link", "set", "lo", "mtu", mtu]).status().unwrap();
        assert!(changed.success());
    };
    in_namespace(|program, tables| {
        set_mtu("1000");
        let of_bytes = |packet: u16| {
            let mut frame = flow(1);
            frame.resize(14 + usize::from(packet), 0);
            frame[16..18].copy_from_slice(&packet.to_be_bytes());
            verdict(program, &frame)
        };
        let list = Transform::default().then(Operation::transmit(LOOPBACK)).unwrap();
        let key = Sight::at_port(PORT, &flow(1), None).unwrap().key;
        tables.install(&key, &list, None).unwrap();
        let valid = Verdict::Leave(Kind::Transmit, LOOPBACK);
        for _ in 0..1_000 {
            assert_eq!(of_bytes(100), valid);
            assert_eq!(of_bytes(1_001), up(Event::Unfit));
            assert_eq!(of_bytes(1_000), valid);
        }
        set_mtu("500");
        std::thread::sleep(TICK);
        assert_eq!(of_bytes(600), up(Event::Unfit));
        assert_eq!(of_bytes(500), valid);
    });
}

#[tokio::test]
async fn a_filter_of_another_owner_stays_in_its_place() {
    needs_privilege!("a_filter_of_another_owner_stays_in_its_place");
    let (host, other) = (Host::new("theirs"), Host::new("other"));
    host.links.add_veth("p1", "e0", &other.namespace, 1_500, None, None).await.unwrap();
    let index = host.index("p1").await;
    let said = |arguments: &[&str]| {
        let output =
            run_in(&host.namespace, || Command::new("tc").args(arguments).output().unwrap());
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let place = ["dev", "p1", "ingress", "protocol", "all", "prio", "1", "handle", "1", "bpf"];
    let theirs = ["direct-action", "bytecode", "1,6 0 0 0"];
    said(&["qdisc", "add", "dev", "p1", "clsact"]);
    said(&[&["filter", "add"], &place[..], &theirs].concat());
    let shown = || said(&["filter", "show", "dev", "p1", "ingress"]);
    let theirs = shown();
    assert!(theirs.contains("bytecode '1,6 0 0 0'"), "{theirs}");
    let (program, _tables) = load();
    let steered = tc::steer_ingress(&host.links, index, program.for_port().as_fd()).await;
    let told = steered.unwrap_err().to_string();
    assert!(told.contains("a filter of another owner"), "{told}");
    assert!(tc::swallow_ingress(&host.links, index).await.is_err());
    assert_eq!(shown(), theirs);
    // Where it has gone the place is free, and who steers there may come again with another program.
    said(&["filter", "del", "dev", "p1", "ingress"]);
    tc::steer_ingress(&host.links, index, program.for_port().as_fd()).await.unwrap();
    tc::steer_ingress(&host.links, index, program.for_link().as_fd()).await.unwrap();
    assert!(shown().contains("catena-fastpath"));
}

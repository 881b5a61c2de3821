//! The profile, held against the code: packets of strangers, of hosts that are translated, and of those who
//! answer what comes out.

use super::fragments::fragments;
use super::*;
use crate::harness::traffic::{self, Random};
use crate::harness::{Input, Proof, verify};

/// Hosts of the harness's packets are in 10.0.0.0/22.
const BUSY: &str = "masquerade: [10.0.0.0/24, 10.0.1.0/24]\npool: [10.0.2.1, 10.0.2.2, 192.0.2.1]\n\
    snat: [{inside: 10.0.1.4/30, to: [192.0.2.2]}]\n\
    dnat: [{to: 10.0.2.1, protocol: tcp, port: 80, inside: 10.0.3.2, inside_port: 8080}]\n\
    static: [{inside: 10.0.3.1, outside: 10.0.2.9}]\n";

fn options(flows_max: usize) -> NatOptions {
    NatOptions { flows_max, seed: 3, ..NatOptions::default() }
}

/// Packets, and what those who get them send back, through a NAT like the one that is to be proven.
fn answered(nat: &mut Nat, seed: u64, packets: usize) -> Vec<Input> {
    let mut random = Random::new(seed);
    let mut inputs = Vec::new();
    let mut number = 0;
    for drawn in traffic::draw(seed, packets) {
        if inputs.len() >= packets {
            break;
        }
        let mut asked = vec![Input { at: Time(drawn.at.0 * 3), ..drawn }];
        if random.below(12) == 0 {
            number += 1;
            let host = (Ipv4Addr::new(10, 0, random.below(3) as u8, 1 + random.below(4) as u8), 53);
            let all = fragments(UDP, (host, SERVER), number % 40);
            let input = |frame: &Vec<u8>| Input { frame: frame.clone(), ..asked[0].clone() };
            asked.extend(all.iter().map(input).collect::<Vec<_>>());
        }
        for input in asked {
            let packet = Packet::read(&input.frame).unwrap();
            let came = show_packet(nat, input.at, input.direction, &packet);
            let (at, direction) = (Time(input.at.0 + 1), input.direction.reversed());
            inputs.push(input);
            let Came::Through(frame) = came else { continue };
            let reply = match random.below(6) {
                0..3 => answer(&frame),
                3 => ErrorMessage::judge(&frame).is_some().then(|| error_about(&frame, ROUTER)),
                _ => None,
            };
            let view = FrameView::parse(&frame).unwrap();
            if let Some(frame) = reply.filter(|_| view.network == catena_wire::frame::Network::Ipv4)
            {
                let packet = Packet::read(&frame).unwrap();
                show_packet(nat, at, direction, &packet);
                let metadata = Metadata::default();
                inputs.push(Input { at, direction, frame, metadata });
            }
        }
    }
    inputs
}

/// A packet that answers: ends changed, of TCP with SYN and ACK, of an echo the reply.
fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let (mut reply, view) = (frame.to_vec(), FrameView::parse(frame).ok()?);
    let turned = [
        (Field::Source, Field::Destination),
        (Field::Destination, Field::Source),
        (Field::SourcePort, Field::DestinationPort),
        (Field::DestinationPort, Field::SourcePort),
    ];
    for (field, other) in turned {
        let Some(value) = other.read(frame, &view) else { continue };
        field.write(&mut reply, &view, (value, u128::MAX), UpperChecksum::Closed).ok()?;
    }
    let set = match view.icmp_type {
        Some(8) => Some((Field::IcmpType, 0)),
        Some(_) => return None,
        None if view.protocol == Some(TCP) => Some((Field::TcpFlags, 0x12)),
        None => None,
    };
    if let Some((field, value)) = set {
        field.write(&mut reply, &view, (value, u128::MAX), UpperChecksum::Closed).ok()?;
    }
    Some(reply)
}

fn prove(text: &str, flows_max: usize, packets: usize) -> Proof {
    let config = config(text);
    let make = || Nat::new(&config, &options(flows_max)).unwrap();
    let inputs = answered(&mut make(), 11, packets);
    let mut counts = Vec::new();
    let proof = verify(make, &inputs, 5).unwrap_or_else(|wrong| panic!("{wrong}\n{text}"));
    let mut nat = make();
    let mut errors = 0;
    for input in &inputs {
        let packet = Packet::read(&input.frame).unwrap();
        let came = show_packet(&mut nat, input.at, input.direction, &packet);
        let Came::Through(frame) = came else { continue };
        if let Some(sight) = Sight::of(&Packet::read(&frame).unwrap(), input.direction) {
            // No inside address is seen outside, and nothing for an outside one comes in.
            let leaks = match input.direction {
                Direction::Forward => nat.rules.is_inside(sight.source()),
                Direction::Backward => nat.rules.is_outside(sight.destination()),
            };
            assert!(!leaks, "{:?}", sight.ends);
        }
        let is_translated = frame != input.frame;
        errors += usize::from(is_translated && packet.view.is_icmp_error());
    }
    assert!(errors > 20, "errors are translated: {errors}");
    nat.report(&mut counts);
    let words = |at: usize| nat.rule_in_words(at as u32).unwrap();
    let named: Vec<_> =
        counts.iter().enumerate().map(|(at, count)| (words(at), count.packets)).collect();
    println!("{proof:?} {named:?}");
    proof
}

#[test]
fn the_profile_is_true() {
    let filters = ["endpoint-independent", "address-dependent", "address-and-port-dependent"];
    for filtering in filters {
        let proof = prove(&format!("{BUSY}filtering: {filtering}\n"), 512, 12_000);
        assert!(
            proof.packets >= 12_000 && proof.patches > 3_000 && proof.generated > 20,
            "{proof:?}"
        );
        assert!(proof.dropped > 1_000, "{proof:?}");
    }
}

#[test]
fn it_is_true_where_room_and_ports_are_short() {
    let tight = "masquerade: [10.0.0.0/28]\npool: [10.0.2.1, 10.0.2.2]\nports: 40000-40063\nblock: 8\nipv6: block\n";
    let proof = prove(tight, 20, 12_000);
    assert!(proof.dropped > 3_000 && proof.patches > 500, "{proof:?}");
    let limited = format!("{BUSY}ports: 40000-40009\nflows_per_host: 4\n");
    let proof = prove(&limited, 512, 12_000);
    assert!(proof.dropped > 1_000 && proof.patches > 500, "{proof:?}");
}

/// A packet that is not read to its end, or damaged, harms nothing.
#[test]
fn any_bytes_are_answered_without_panic() {
    let mut nat = Nat::new(&config(BUSY), &options(64)).unwrap();
    let mut random = Random::new(2);
    let mut shown = 0;
    for input in answered(&mut nat.clone(), 4, 3_000) {
        for _ in 0..4 {
            let mut frame = input.frame.clone();
            frame.truncate(14 + random.below(frame.len()));
            let at = random.below(frame.len());
            frame[at] ^= 1 << random.below(8);
            let Ok(packet) = Packet::read(&frame) else { continue };
            show_packet(&mut nat, input.at, input.direction, &packet);
            shown += 1;
        }
    }
    assert!(shown > 1_000, "{shown}");
}

//! What is handed over, and what asking and wrong bytes do: nothing.

use super::bench::*;
use crate::function::{Function, StateEntry};
use crate::packet::{Direction, Packet};
use catena_wire::scalar::IpProtocol;

const TCP: (bool, IpProtocol) = (false, IpProtocol::TCP);

fn whole(bench: &Bench) -> Vec<StateEntry> {
    let (mut copy, mut entries) = (bench.balancer.clone(), Vec::new());
    copy.export(true, &mut entries);
    entries.sort_by(|one, other| one.key.cmp(&other.key));
    entries
}

#[test]
fn another_order_of_backends_is_the_same_by_content() {
    let before = text(TCP, 3, ("", "", ""));
    let mut bench = Bench::new(&before);
    let places: Vec<_> = (0..30).map(|one| bench.says(false, one, SYN).unwrap()).collect();
    let (one, three) = ("10.0.0.1'", "10.0.0.3'");
    let turned = before.replace(one, "X'").replace(three, one).replace("X'", three);
    assert_ne!(turned, before);
    let mut next = Bench::new(&turned);
    let mut entries = Vec::new();
    bench.balancer.export(true, &mut entries);
    assert_eq!(next.balancer.import(&entries), entries.len(), "all is taken");
    assert_eq!(whole(&next), whole(&bench));
    next.now = bench.now;
    for (one, place) in (0..).zip(places) {
        assert_eq!(next.says(false, one, ACK), Some(place));
    }
    // What has not changed is not told again, and one that ended is told as forgotten.
    let mut rest = Vec::new();
    bench.balancer.export(false, &mut rest);
    assert!(rest.iter().all(|entry| entry.key[0] != b's'), "{rest:?}");
    bench.says(false, 3, ACK);
    rest.clear();
    bench.balancer.export(false, &mut rest);
    assert_eq!(rest.iter().filter(|entry| entry.key[0] == b's').count(), 1);
    bench.elapse(31_000);
    rest.clear();
    bench.balancer.export(false, &mut rest);
    let gone = rest.iter().filter(|entry| entry.key[0] == b's' && entry.value.is_none());
    assert_eq!(gone.count(), 30);
}

#[test]
fn asking_changes_nothing() {
    let mut bench = Bench::new(&text(TCP, 3, ("", ", passive: {consecutive_failures: 1}", "")));
    let to = bench.says(false, 1, SYN).unwrap();
    let before = whole(&bench);
    for flags in [SYN, ACK, FIN, RST, SYN_ACK] {
        for (direction, from, towards) in [
            (Direction::Forward, client(false, 1), service(false)),
            (Direction::Forward, client(false, 2), service(false)),
            (Direction::Backward, to, client(false, 1)),
        ] {
            let sent = frame(IpProtocol::TCP, from, towards, flags);
            bench.balancer.ask(bench.now, direction, &Packet::read(&sent).unwrap());
        }
    }
    assert_eq!(whole(&bench), before);
}

#[test]
fn entries_that_are_cut_or_turned_are_taken_or_left() {
    let mut bench = Bench::new(&text((true, IpProtocol::TCP), 3, ("", "", "")));
    let [first, _] = fragments(&frame(IpProtocol::TCP, client(true, 1), service(true), SYN), 32);
    bench.forward(&first).out.unwrap();
    bench.says(true, 2, SYN);
    let mut tried = 0;
    for entry in whole(&bench) {
        let value = entry.value.clone().unwrap_or_default();
        for at in 0..value.len() * 8 {
            let mut turned = entry.clone();
            turned.value.as_mut().unwrap()[at / 8] ^= 1 << (at % 8);
            let cut = StateEntry { key: entry.key.clone(), value: Some(value[..at / 8].to_vec()) };
            for wrong in [turned, cut] {
                let mut next = Bench::new(&text((true, IpProtocol::TCP), 3, ("", "", "")));
                assert!(next.balancer.import(&[wrong]) <= 1);
                next.now = bench.now;
                assert!(next.says(true, 2, ACK).is_some());
                tried += 1;
            }
        }
    }
    assert!(tried > 1_000, "{tried}");
}

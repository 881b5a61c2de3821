//! What is made of words, in the order in which they come.

use super::*;
use crate::discovery::word::{Speaker, say, signature};
use catena_model::discovery::DiscoveryKey;
use catena_wire::lldp::{FRAME_MAX, Identifier};
use catena_wire::scalar::MacAddr;
use proptest::prelude::*;

const KEY: [u8; 16] = [7; 16];
const BOOT: u64 = 1_000;

struct Ear {
    neighbours: Neighbours,
    now: Instant,
}

impl Ear {
    fn new() -> Self {
        Self { neighbours: Neighbours::new("a".into(), BOOT), now: Instant::now() }
    }

    /// A word of a node by one of its ports comes in by a link.
    fn hear(
        &mut self,
        link: &str,
        node: &str,
        port: u8,
        (boot, sequence): (u64, u64),
        key: [u8; 16],
    ) {
        let speaker = Speaker { node, boot, sequence, key: DiscoveryKey::new(key) };
        let mut frame = [0; FRAME_MAX];
        let mac = MacAddr([2, 0, 0, 0, 0, port]);
        let number = PortNumber::new(port).unwrap();
        let length = say(&speaker, (&format!("eth{port}"), mac), number, &mut frame).unwrap();
        self.take(link, &frame[..length]);
    }

    fn take(&mut self, link: &str, frame: &[u8]) {
        let frame = LldpFrame::parse(frame).unwrap();
        let signature = signature(&frame, DiscoveryKey::new(KEY));
        self.neighbours.hear(link, &frame, signature, self.now);
    }

    /// A device that is no node.
    fn stranger(&mut self, link: &str, name: &str, seconds: u16) {
        let frame = LldpFrame {
            source: MacAddr([4; 6]),
            chassis: Identifier { subtype: Identifier::LOCAL, value: name.as_bytes() },
            port: Identifier { subtype: Identifier::LOCAL, value: b"1" },
            seconds,
            port_description: None,
            system_name: None,
            own: None,
            signed: &[],
        };
        let mut bytes = [0; FRAME_MAX];
        let length = frame.emit(&mut bytes, |_| [0; 16]).unwrap();
        self.take(link, &bytes[..length]);
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.neighbours.expire(self.now);
    }

    fn at(&self, link: &str) -> Vec<(String, Trust)> {
        self.neighbours
            .of(link)
            .map(|one| (format!("{}:{}", one.chassis, one.port), one.trust))
            .collect()
    }
}

fn one(name: &str, trust: Trust) -> (String, Trust) {
    (name.into(), trust)
}

#[test]
fn a_signed_and_fresh_word_is_ours_and_holds_for_its_time() {
    let mut ear = Ear::new();
    ear.hear("x", "b", 2, (5, 1), KEY);
    assert_eq!(ear.at("x"), [one("b:eth2", Trust::Ours)]);
    ear.pass(3);
    ear.hear("x", "b", 2, (5, 2), KEY);
    ear.pass(3);
    assert_eq!(ear.at("x"), [one("b:eth2", Trust::Ours)]);
    ear.pass(1);
    assert_eq!(ear.at("x"), [one("b:eth2", Trust::Stale)]);
    ear.pass(59);
    assert_eq!(ear.at("x").len(), 1);
    // It speaks again, or it goes.
    let mut silent = ear;
    silent.pass(2);
    assert_eq!(silent.at("x"), []);
    silent.hear("x", "b", 2, (6, 1), KEY);
    assert_eq!(silent.at("x"), [one("b:eth2", Trust::Ours)]);
    silent.neighbours.unplug("x");
    assert_eq!(silent.at("x"), []);
}

#[test]
fn foreign_words_are_told_by_what_is_wrong_with_them() {
    let mut ear = Ear::new();
    ear.stranger("x", "printer", 120);
    ear.hear("x", "b", 2, (5, 1), [8; 16]);
    assert_eq!(ear.at("x"), [one("b:eth2", Trust::Forged), one("printer:1", Trust::Unsigned)]);
    ear.hear("y", "a", 3, (BOOT, 1), KEY);
    ear.hear("z", "a", 4, (BOOT + 1, 1), KEY);
    ear.hear("w", "a", 4, (BOOT - 1, 1), KEY);
    assert_eq!(ear.at("y"), [one("a:eth3", Trust::Itself)]);
    assert_eq!(ear.at("z"), [one("a:eth4", Trust::SameName)]);
    assert_eq!(ear.at("w"), [one("a:eth4", Trust::Replayed)]);
    // Who takes his word back is not told of.
    ear.stranger("x", "printer", 0);
    assert_eq!(ear.at("x"), [one("b:eth2", Trust::Forged)]);
}

#[test]
fn a_replayed_word_is_foreign_at_every_link_and_takes_nothing_from_the_true_one() {
    let mut ear = Ear::new();
    ear.hear("x", "b", 2, (5, 7), KEY);
    for (boot, sequence) in [(5, 7), (5, 6), (4, 99)] {
        ear.hear("x", "b", 2, (boot, sequence), KEY);
        ear.hear("y", "b", 2, (boot, sequence), KEY);
    }
    assert_eq!(ear.at("x"), [one("b:eth2", Trust::Ours), one("b:eth2", Trust::Replayed)]);
    assert_eq!(ear.at("y"), [one("b:eth2", Trust::Replayed)]);
    // It gives no life to the true one either.
    ear.pass(3);
    ear.hear("x", "b", 2, (5, 7), KEY);
    ear.pass(1);
    assert_eq!(ear.at("x"), [one("b:eth2", Trust::Stale), one("b:eth2", Trust::Replayed)]);
    // Also behind an unplugged cable.
    ear.neighbours.unplug("x");
    ear.hear("x", "b", 2, (5, 7), KEY);
    assert_eq!(ear.at("x"), [one("b:eth2", Trust::Replayed)]);
}

#[test]
fn a_forged_word_takes_nothing_from_the_true_one() {
    let mut ear = Ear::new();
    ear.hear("x", "b", 2, (5, 1), KEY);
    ear.hear("x", "b", 2, (5, 99), [8; 16]);
    ear.hear("x", "b", 2, (5, 2), KEY);
    assert_eq!(ear.at("x"), [one("b:eth2", Trust::Ours), one("b:eth2", Trust::Forged)]);
}

#[test]
fn a_cable_that_is_moved_is_at_its_new_place_alone_and_two_nodes_on_a_link_are_both_told_of() {
    let mut ear = Ear::new();
    ear.hear("x", "b", 2, (5, 1), KEY);
    ear.hear("y", "b", 2, (5, 2), KEY);
    assert_eq!((ear.at("x").len(), ear.at("y")), (0, vec![one("b:eth2", Trust::Ours)]));
    ear.hear("y", "c", 1, (5, 1), KEY);
    assert_eq!(ear.at("y"), [one("b:eth2", Trust::Ours), one("c:eth1", Trust::Ours)]);
}

#[test]
fn a_full_table_refuses_strangers_and_lets_our_nodes_in() {
    let mut ear = Ear::new();
    for number in 0..LINK_NEIGHBOURS_MAX + 3 {
        ear.stranger("x", &format!("s{number}"), u16::MAX);
    }
    assert_eq!((ear.at("x").len(), ear.neighbours.refused("x")), (LINK_NEIGHBOURS_MAX, 3));
    ear.stranger("x", "s0", 100);
    assert_eq!(ear.neighbours.refused("x"), 3, "known ones are no more");
    ear.hear("x", "b", 2, (5, 1), KEY);
    assert_eq!(ear.at("x")[0], one("b:eth2", Trust::Ours));
    assert_eq!((ear.at("x").len(), ear.neighbours.refused("x")), (LINK_NEIGHBOURS_MAX, 4));
    for port in 1..=LINK_NEIGHBOURS_MAX as u8 {
        ear.hear("x", "c", port, (5, 1), KEY);
    }
    ear.stranger("x", "late", 100);
    assert_eq!(ear.at("x").len(), LINK_NEIGHBOURS_MAX);
    assert!(ear.at("x").iter().all(|(_, trust)| *trust == Trust::Ours));
    ear.neighbours.forget("x");
    assert_eq!((ear.at("x").len(), ear.neighbours.refused("x")), (0, 0));
}

proptest! {
    #[test]
    fn whatever_comes_tables_are_bounded_and_no_word_counts_twice(
        words in prop::collection::vec((0..3u8, 0..4u8, 1..12u8, 0..3u64, 0..5u64, 0..6u64), 1..300)
    ) {
        let mut ear = Ear::new();
        let mut taken = std::collections::BTreeSet::new();
        for (link, node, port, boot, sequence, pause) in words {
            let (link, node) = (format!("l{link}"), ["a", "b", "c", "forger"][usize::from(node)]);
            let key = if node == "forger" { [9; 16] } else { KEY };
            let before = ear.neighbours.last_words.get(&(node.to_owned(), port)).copied();
            ear.hear(&link, node, port, (boot, sequence), key);
            let after = ear.neighbours.last_words.get(&(node.to_owned(), port)).copied();
            let is_taken = before.map(|w| (w.boot, w.sequence)) != after.map(|w| (w.boot, w.sequence));
            if is_taken {
                prop_assert!(taken.insert((node, port, boot, sequence)), "twice");
                prop_assert!(node != "a" && node != "forger");
            }
            for link in ["l0", "l1", "l2"] {
                prop_assert!(ear.at(link).len() <= LINK_NEIGHBOURS_MAX);
            }
            ear.pass(pause);
        }
    }
}

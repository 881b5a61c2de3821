//! What another NAT takes over, with the same rules and with others.

use super::*;

fn exported(nat: &mut Nat, all: bool) -> Vec<StateEntry> {
    let mut entries = Vec::new();
    nat.export(all, &mut entries);
    entries
}

#[test]
fn another_rule_set_takes_over_what_it_would_say_itself() {
    let mut old = nat(SIMPLE);
    let kept = packet(UDP, HOST, SERVER, NONE);
    out(&mut old, 0, &packet(UDP, OTHER_HOST, SERVER, NONE));
    let seen = ends(&out(&mut old, 0, &kept)).0;
    let entries = exported(&mut old, true);
    // A host more: what was known goes on.
    let mut wider = nat("masquerade: [10.0.1.0/24, 10.0.5.0/24]\npool: [203.0.113.4]\n");
    wider.import(&entries);
    assert_eq!(ends(&back(&mut wider, 1, &packet(UDP, SERVER, seen, NONE))).1, HOST);
    assert_eq!(ends(&out(&mut wider, 1, &kept)).0, seen);
    // Other rules say otherwise, at the next packet.
    for (text, port) in [
        ("masquerade: [10.0.1.0/24]\npool: [203.0.113.99]\n", Some(40_000)),
        ("masquerade: [10.0.9.0/24]\npool: [203.0.113.4]\n", None),
    ] {
        let mut other = nat(text);
        other.import(&entries);
        let answer = packet(UDP, SERVER, seen, NONE);
        let came = show(&mut other, 1, Direction::Backward, &answer);
        let is_ours = text.contains("113.4]");
        let wanted = if is_ours { dropped("no mapping") } else { Came::Through(answer) };
        assert_eq!(came, wanted);
        let sent = out(&mut other, 1, &kept);
        assert_eq!(ends(&sent).0.1, port.unwrap_or(HOST.1));
        assert_eq!(sent == kept, port.is_none());
    }
    // A port that flows may not have any more is left.
    let mut other = nat(&format!("{SIMPLE}ports: 50000-50100\n"));
    other.import(&entries);
    assert!(ends(&out(&mut other, 1, &kept)).0.1 >= 50_000);
    // What is forwarded now is no flow's port.
    let forwards = "dnat: [{to: 203.0.113.4, protocol: udp, port: 40000, inside: 10.0.1.9}]\n";
    let mut other = nat(&format!("{SIMPLE}{forwards}"));
    other.import(&entries);
    let came = ends(&back(&mut other, 1, &packet(UDP, SERVER, (POOL, 40_000), NONE))).1;
    assert_eq!(came, at([10, 0, 1, 9], 40_000));
    let other_port = ends(&out(&mut other, 1, &packet(UDP, OTHER_HOST, SERVER, NONE))).0;
    assert_ne!(other_port, (POOL, 40_000));
}

#[test]
fn only_what_has_changed_is_told() {
    let mut nat = nat(SIMPLE);
    out(&mut nat, 0, &packet(UDP, HOST, SERVER, NONE));
    let first = exported(&mut nat, false);
    assert!(first.iter().any(|entry| entry.key == [b'n']), "the first time, all is told");
    assert!(exported(&mut nat, false).is_empty());
    out(&mut nat, 300, &packet(UDP, OTHER_HOST, SERVER, NONE));
    let second = exported(&mut nat, false);
    let gone = second.iter().filter(|entry| entry.value.is_none()).count();
    let flows = second.iter().filter(|entry| entry.key[0] == b'f').count();
    assert_eq!((gone, flows), (1, 2));
    // Whoever has followed has the port of the one that is gone for the other.
    let mut other = self::nat(SIMPLE);
    other.import(&first);
    other.import(&second);
    let answer = packet(UDP, SERVER, (POOL, 40_000), NONE);
    assert_eq!(ends(&back(&mut other, 301, &answer)).1, OTHER_HOST);
}

#[test]
fn what_was_taken_over_is_forgotten_when_it_is_due() {
    let mut old = nat(SIMPLE);
    let [one, two] = [HOST, OTHER_HOST].map(|host| packet(UDP, host, SERVER, NONE));
    out(&mut old, 0, &one);
    let seen = ends(&out(&mut old, 10, &two)).0;
    out(&mut old, 100, &one);
    let mut other = nat(SIMPLE);
    other.import(&exported(&mut old, true));
    let answer = packet(UDP, SERVER, seen, NONE);
    assert_eq!(show(&mut other, 310, Direction::Backward, &answer), dropped("no mapping"));
    back(&mut other, 310, &packet(UDP, SERVER, (POOL, 40_000), NONE));
}

#[test]
fn first_fragments_that_were_taken_over_give_way_in_their_order() {
    let part = |number: usize, at: usize| {
        super::fragments::fragments(UDP, (HOST, SERVER), number as u16)[at].clone()
    };
    let most = catena_model::limits::NAT_FRAGMENTS_MAX;
    let mut old = nat(SIMPLE);
    (0..=most).for_each(|number| drop(out(&mut old, 0, &part(number, 0))));
    let mut other = nat(SIMPLE);
    other.import(&exported(&mut old, true));
    out(&mut other, 0, &part(most + 1, 0));
    let came = show(&mut other, 0, Direction::Forward, &part(1, 1));
    assert_eq!(came, dropped("a fragment whose first one was not seen"));
    [2, most, most + 1].iter().for_each(|number| drop(out(&mut other, 0, &part(*number, 1))));
}

/// Entries that are cut or damaged are taken or left, and do no harm.
#[test]
fn damaged_entries_do_no_harm() {
    let mut nat = nat(SIMPLE);
    out(&mut nat, 0, &packet(TCP, HOST, SERVER, SYN));
    out(&mut nat, 0, &super::fragments::fragments(UDP, (HOST, SERVER), 3)[0]);
    let entries = exported(&mut nat, true);
    assert!(entries.len() > 3);
    let mut taken = [0; 2];
    for entry in entries.iter().filter(|entry| entry.key[0] != b'r') {
        let value = entry.value.clone().unwrap();
        for bit in 0..8 * (entry.key.len() + value.len()) {
            let mut damaged = StateEntry { value: Some(value.clone()), ..entry.clone() };
            let own = 8 * entry.key.len();
            match bit.checked_sub(own) {
                None => damaged.key[bit / 8] ^= 1 << (bit % 8),
                Some(bit) => damaged.value.as_mut().unwrap()[bit / 8] ^= 1 << (bit % 8),
            }
            let mut other = self::nat(SIMPLE);
            taken[other.import(&[damaged])] += 1;
            show(&mut other, 0, Direction::Forward, &packet(TCP, HOST, SERVER, SYN));
        }
        for cut in 0..value.len() {
            let cut_off = StateEntry { key: entry.key.clone(), value: Some(value[..cut].to_vec()) };
            assert_eq!(self::nat(SIMPLE).import(&[cut_off]), 0);
        }
        for cut in 0..entry.key.len() {
            let cut_off = StateEntry { key: entry.key[..cut].to_vec(), value: Some(value.clone()) };
            assert_eq!(self::nat(SIMPLE).import(&[cut_off]), 0);
        }
    }
    assert!(taken[0] > 100 && taken[1] > 100, "{taken:?}");
}

/// The bound of flows itself: all have an endpoint of their own, one more has none, and all are taken over.
#[test]
fn as_many_flows_as_there_may_be_are_kept_and_taken_over() {
    let text = "masquerade: [10.0.0.0/16]\npool: [203.0.113.4/30]\n";
    let make = || Nat::new(&config(text), &NatOptions::default()).unwrap();
    let sent = |number: u32| {
        let host = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + number % 1_000);
        packet(UDP, (host, 1_000 + (number / 1_000) as u16), SERVER, NONE)
    };
    let mut full = make();
    let mut seen = std::collections::BTreeSet::new();
    let most = u32::try_from(FUNCTION_FLOWS_MAX).unwrap();
    for number in 0..most {
        assert!(seen.insert(ends(&out(&mut full, 0, &sent(number))).0), "{number}");
    }
    assert_eq!(show(&mut full, 0, Direction::Forward, &sent(most)), Came::Full);
    let mut other = make();
    other.import(&exported(&mut full, true));
    assert_eq!(show(&mut other, 0, Direction::Forward, &sent(most)), Came::Full);
    for number in (0..most).step_by(97) {
        assert_eq!(out(&mut other, 1, &sent(number)), out(&mut full, 1, &sent(number)));
    }
    // All that is due goes at once.
    out(&mut other, 302, &sent(most));
    let flows = exported(&mut other, true).iter().filter(|entry| entry.key[0] == b'f').count();
    assert_eq!(flows, 1);
}

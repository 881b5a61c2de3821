//! RFC 4787 REQ-9 and RFC 5508 REQ-7: hosts inside reach one another by their outside endpoints.

use super::*;

/// RFC 4787 REQ-9: with external source address and port.
#[test]
fn hosts_inside_reach_one_another_by_their_outside_endpoints() {
    let mut nat = nat(SIMPLE);
    out(&mut nat, 0, &packet(UDP, OTHER_HOST, SERVER, NONE));
    let sent = packet(UDP, HOST, (POOL, 40_000), NONE);
    let Came::Back(made) = show(&mut nat, 1, Direction::Forward, &sent) else {
        panic!("it returns")
    };
    let [frame] = &made[..] else { panic!("one packet") };
    let (from, to) = ends(frame);
    assert!(from.0 == POOL && from.1 != 40_000 && to == OTHER_HOST);
    assert_eq!((&frame[..6], &frame[6..12]), (&sent[6..12], &sent[..6]));
    // It counts once in a rule that speaks of both.
    let mut counts = Vec::new();
    nat.report(&mut counts);
    let masquerade = counts[0].packets;
    assert_eq!(masquerade, 2, "{:?}", nat.rule_in_words(0));
    // The answer goes the same way, and so does an error about it.
    let answer = packet(UDP, OTHER_HOST, from, NONE);
    let Came::Back(made) = show(&mut nat, 2, Direction::Forward, &answer) else {
        panic!("it returns")
    };
    assert_eq!(ends(&made[0]), ((POOL, 40_000), HOST));
    let error = error_about(frame, OTHER_HOST.0);
    let Came::Back(made) = show(&mut nat, 3, Direction::Forward, &error) else {
        panic!("it returns")
    };
    assert!(is_sound(&made[0]));
    assert_eq!((ends(&made[0]).0.0, ends(&made[0]).1.0), (POOL, HOST.0));
    let about = quoted(&made[0]);
    assert_eq!(about, front(&sent, about.len()), "it is about what the host has sent");
    let nobody = packet(UDP, HOST, (POOL, 5), NONE);
    assert_eq!(show(&mut nat, 3, Direction::Forward, &nobody), dropped("no mapping"));
}

fn returned(nat: &mut Nat, frame: &[u8]) -> Vec<u8> {
    match show(nat, 1, Direction::Forward, frame) {
        Came::Back(mut made) if made.len() == 1 => made.remove(0),
        other => panic!("it goes back: {other:?}"),
    }
}

#[test]
fn connections_and_pings_go_back_both_ways() {
    let mut nat = nat(ALL);
    let (client, web, door) =
        (at([10, 0, 1, 20], 5_000), at([10, 0, 1, 7], 80), at([203, 0, 113, 4], 8_080));
    // Where a port is forwarded, both see the other's outside endpoint, filtering or not.
    let asks = returned(&mut nat, &packet(TCP, client, door, SYN));
    let (seen, to) = ends(&asks);
    assert!(to == web && seen.1 == 5_000 && seen.0 != client.0, "{seen:?}");
    let answers = returned(&mut nat, &packet(TCP, web, seen, SYN_ACK));
    assert_eq!(ends(&answers), (door, client));
    // The connection is open then, and kept as long.
    let inside = End { protocol: TCP, address: client.0, port: client.1 };
    let seen = nat.flows.session(&end::Flow { inside, remote: door }).unwrap();
    assert_eq!(seen.wait(TCP), session::Wait::Established);
    // An identifier has no side: it is translated once each way.
    let other = message(8, 7, at([10, 0, 1, 21], 0).0, SERVER.0);
    out(&mut nat, 1, &other);
    let own = Ipv4Addr::new(203, 0, 113, 9);
    for last in 20..30 {
        let host = Ipv4Addr::new(10, 0, 1, last);
        let asks = returned(&mut nat, &message(8, 7, host, own));
        let (from, to) = ends(&asks);
        assert_eq!(to, (Ipv4Addr::new(10, 0, 3, 9), from.1));
        let answers = returned(&mut nat, &message(0, from.1, to.0, from.0));
        assert_eq!(ends(&answers), ((own, 7), (host, 7)));
    }
    // Who has no rule keeps its address, and still comes back.
    let strange = at([192, 168, 0, 1], 9);
    assert_eq!(ends(&returned(&mut nat, &packet(TCP, strange, door, SYN))), (strange, web));
}

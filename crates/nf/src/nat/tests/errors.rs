//! RFC 5508 section 4: errors are about the packet that their receiver has sent.

use super::*;

/// RFC 5508 REQ-4 and REQ-5: the host sees the error about its own packet, checksums of what is quoted included.
#[test]
fn errors_are_about_the_packet_that_was_sent() {
    for protocol in [UDP, TCP] {
        let mut nat = nat(SIMPLE);
        out(&mut nat, 0, &packet(protocol, OTHER_HOST, SERVER, SYN));
        let sent = packet(protocol, HOST, SERVER, SYN);
        let seen = out(&mut nat, 0, &sent);
        assert_ne!(ends(&seen).0.1, HOST.1, "another host has this port");
        let error = error_about(&seen, ROUTER);
        let got = back(&mut nat, 1, &error);
        assert!(is_sound(&got));
        assert_eq!((ends(&got).0.0, ends(&got).1.0), (ROUTER, HOST.0));
        let about = quoted(&got);
        assert_eq!(about, front(&sent, about.len()), "{protocol:?}");
        // About what was never sent.
        let foreign = error_about(&packet(protocol, (POOL, 5), SERVER, SYN), ROUTER);
        let came = show(&mut nat, 1, Direction::Backward, &foreign);
        assert_eq!(came, dropped("no mapping"));
        // The other way: a host refuses what came in.
        let answer = packet(protocol, SERVER, ends(&seen).0, ACK);
        let inward = back(&mut nat, 1, &answer);
        let refused = out(&mut nat, 1, &error_about(&inward, HOST.0));
        assert!(is_sound(&refused));
        assert_eq!((ends(&refused).0.0, ends(&refused).1.0), (POOL, SERVER.0));
        assert_eq!(quoted(&refused), front(&answer, quoted(&refused).len()));
        // A router between the host and the NAT has no address outside.
        let router = out(&mut nat, 1, &error_about(&inward, Ipv4Addr::new(10, 9, 9, 9)));
        assert_eq!(ends(&router).0.0, POOL);
    }
}

/// Each cut of what an error quotes is translated or dropped, and its checksum stays right.
#[test]
fn errors_that_quote_little_are_translated_or_dropped() {
    let mut nat = nat(SIMPLE);
    let seen = out(&mut nat, 0, &packet(TCP, HOST, SERVER, SYN));
    let error = error_about(&seen, ROUTER);
    let view = FrameView::parse(&error).unwrap();
    let l4 = usize::from(view.l4_offset.unwrap());
    let mut translated = 0;
    for end in l4 + 8..view.end as usize {
        let mut cut = error[..end].to_vec();
        let length = ((end - usize::from(view.l3_offset)) as u128, u128::MAX);
        Field::Length.write(&mut cut, &view, length, UpperChecksum::Closed).unwrap();
        cut[l4 + 2..l4 + 4].fill(0);
        let sum = catena_wire::checksum::Sum::of(&cut[l4..]).checksum();
        cut[l4 + 2..l4 + 4].copy_from_slice(&sum.to_be_bytes());
        match show(&mut nat, 0, Direction::Backward, &cut) {
            Came::Through(frame) => {
                assert!(is_sound(&frame) && ends(&frame).1.0 == HOST.0);
                translated += 1;
            }
            other => assert_eq!(other, dropped("no mapping")),
        }
    }
    // What has the ports is enough (RFC 792).
    assert!(translated >= 20, "{translated}");
}

/// RFC 5508 REQ-3.
#[test]
fn damaged_errors_are_dropped() {
    let mut nat = nat(SIMPLE);
    let seen = out(&mut nat, 0, &packet(TCP, HOST, SERVER, SYN));
    let error = error_about(&seen, ROUTER);
    let start = usize::from(FrameView::parse(&error).unwrap().l4_offset.unwrap());
    back(&mut nat, 0, &error);
    for at in [start + 2, start + 5, start + 8 + 40] {
        let mut damaged = error.clone();
        damaged[at] ^= 1;
        let came = show(&mut nat, 0, Direction::Backward, &damaged);
        assert_eq!(came, dropped("an ICMP error with a wrong checksum"));
    }
    // What it quotes was damaged before the error was written.
    let mut quoting = error;
    quoting[start + 8 + 1] ^= 1;
    quoting[start + 2..start + 4].fill(0);
    let sum = catena_wire::checksum::Sum::of(&quoting[start..]).checksum();
    quoting[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
    let came = show(&mut nat, 0, Direction::Backward, &quoting);
    assert_eq!(came, dropped("an ICMP error with a wrong checksum"));
}

//! RFC 4787 REQ-14: fragments follow their first one.

use super::*;
use catena_model::limits::{NAT_FRAGMENT_S, NAT_FRAGMENTS_MAX};

/// The first fragment of a packet with this number, and one behind it.
pub(super) fn fragments(
    protocol: IpProtocol,
    (from, to): (Place, Place),
    identification: u16,
) -> [Vec<u8>; 2] {
    let whole = Shape { identification, ..shape(protocol, from, to, SYN) };
    let mut first = whole.frame().unwrap();
    let view = FrameView::parse(&first).unwrap();
    // More fragments.
    let flags = (1, u128::MAX);
    Field::FragmentFlags.write(&mut first, &view, flags, UpperChecksum::Closed).unwrap();
    let later = Shape { is_later_fragment: true, ..whole };
    [first, later.frame().unwrap()]
}

#[test]
fn they_follow_their_first_one_both_ways() {
    let mut nat = nat(SIMPLE);
    let [first, later] = fragments(UDP, (HOST, SERVER), 9);
    let unknown = dropped("a fragment whose first one was not seen");
    assert_eq!(show(&mut nat, 0, Direction::Forward, &later), unknown);
    out(&mut nat, 0, &packet(UDP, OTHER_HOST, SERVER, NONE));
    let seen = ends(&out(&mut nat, 0, &first)).0;
    assert!(seen.0 == POOL && seen.1 != HOST.1);
    for _ in 0..3 {
        let (from, to) = ends(&out(&mut nat, 0, &later));
        assert_eq!((from.0, to.0), (POOL, SERVER.0));
    }
    let [first, later] = fragments(UDP, (SERVER, seen), 9);
    assert_eq!(show(&mut nat, 0, Direction::Backward, &later), unknown);
    assert_eq!(ends(&back(&mut nat, 0, &first)).1, HOST);
    assert_eq!(ends(&back(&mut nat, 0, &later)).1.0, HOST.0);
    // Another packet's do not, nor do late ones.
    let [_, other] = fragments(UDP, (SERVER, seen), 10);
    assert_eq!(show(&mut nat, 0, Direction::Backward, &other), unknown);
    assert_eq!(show(&mut nat, NAT_FRAGMENT_S, Direction::Backward, &later), unknown);
    // A first one that was dropped is followed by none.
    let [first, later] = fragments(UDP, (SERVER, (POOL, 7)), 11);
    assert_eq!(show(&mut nat, 0, Direction::Backward, &first), dropped("no mapping"));
    assert_eq!(show(&mut nat, 0, Direction::Backward, &later), unknown);
}

#[test]
fn those_of_hosts_with_an_address_of_their_own_need_no_first_one() {
    let mut nat = nat(ALL);
    let (host, outside) = (at([10, 0, 3, 9], 5), at([203, 0, 113, 9], 5));
    let [_, later] = fragments(UDP, (host, SERVER), 1);
    assert_eq!(ends(&out(&mut nat, 0, &later)).0.0, outside.0);
    let [_, later] = fragments(UDP, (SERVER, outside), 1);
    assert_eq!(ends(&back(&mut nat, 0, &later)).1.0, host.0);
    // What no rule speaks of passes, fragments as well.
    let [_, strange] = fragments(UDP, (at([192, 168, 0, 1], 5), SERVER), 1);
    assert_eq!(out(&mut nat, 0, &strange), strange);
}

#[test]
fn those_that_go_back_inside_do_so_together() {
    let mut nat = nat(SIMPLE);
    out(&mut nat, 0, &packet(UDP, OTHER_HOST, SERVER, NONE));
    for frame in fragments(UDP, (HOST, (POOL, 40_000)), 4) {
        let Came::Back(made) = show(&mut nat, 0, Direction::Forward, &frame) else {
            panic!("back")
        };
        let (from, to) = ends(&made[0]);
        assert_eq!((from.0, to.0), (POOL, OTHER_HOST.0));
    }
}

#[test]
fn those_seen_longest_ago_give_way() {
    let mut nat = nat(SIMPLE);
    for number in 0..=NAT_FRAGMENTS_MAX {
        let [first, _] = fragments(UDP, (HOST, SERVER), number as u16);
        out(&mut nat, 0, &first);
    }
    let later = |number| fragments(UDP, (HOST, SERVER), number)[1].clone();
    let unknown = dropped("a fragment whose first one was not seen");
    assert_eq!(show(&mut nat, 0, Direction::Forward, &later(0)), unknown);
    out(&mut nat, 0, &later(1));
}

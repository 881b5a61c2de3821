//! Which backend serves whom, for how long, and what becomes of those whose backend serves no more.

use super::bench::*;
use crate::function::Function;
use crate::outcome::{DropCause, GeneratedKind};
use crate::packet::{Direction, Time};
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;

const TCP: (bool, IpProtocol) = (false, IpProtocol::TCP);

/// Hands everything over to a balancer of another configuration.
fn hand_over(from: &mut Bench, text: &str) -> Bench {
    let mut next = Bench::new(text);
    let mut entries = Vec::new();
    from.balancer.export(true, &mut entries);
    next.balancer.import(&entries);
    next.now = from.now;
    next
}

#[test]
fn a_session_stays_where_it_is_when_backends_change() {
    let mut bench = Bench::new(&text(TCP, 3, ("", "", "")));
    let places: Vec<_> = (0..50).map(|one| bench.says(false, one, SYN).unwrap()).collect();
    for (one, from) in (0..).zip(&places) {
        bench.answers(*from, one, SYN_ACK);
    }
    assert!((1..=3).all(|one| places.contains(&backend(false, one))));
    // More backends, and another one drains.
    let mut next = hand_over(&mut bench, &text(TCP, 6, ("", "", "")));
    let mut drained = hand_over(&mut bench, &text(TCP, 3, (", drain: true", "", "")));
    let mut fresh = Bench::new(&text(TCP, 6, ("", "", "")));
    let mut moved = 0;
    for (one, place) in (0..).zip(&places) {
        assert_eq!(next.says(false, one, ACK), Some(*place));
        assert_eq!(drained.says(false, one, ACK), Some(*place));
        moved += usize::from(fresh.says(false, one, ACK) != Some(*place));
    }
    assert!(moved > 10, "{moved} would be elsewhere without sessions");
    let new: Vec<_> = (100..113).map(|one| drained.says(false, one, SYN).unwrap()).collect();
    assert!(!new.contains(&backend(false, 3)), "it takes no new ones");
    // Without the backend, its sessions go elsewhere and the others stay.
    let mut less = hand_over(&mut bench, &text(TCP, 2, ("", "", "")));
    for (one, place) in (0..).zip(&places) {
        let at = less.says(false, one, ACK).unwrap();
        assert_eq!(at == *place, *place != backend(false, 3));
    }
}

#[test]
fn all_of_a_client_goes_to_one_backend_where_clients_stick() {
    let mut bench = Bench::new(&text(TCP, 5, ("", ", sticky: client", "")));
    let first = bench.says(false, 0, SYN).unwrap();
    for one in 1..40 {
        assert_eq!(bench.says(false, one, SYN), Some(first));
        let back = bench.answers(first, one, SYN_ACK);
        assert_eq!(ends(&back), (service(false), client(false, one)));
    }
    assert_eq!(bench.balancer.sessions(), 1);
}

#[test]
fn sessions_end_when_their_time_is_over() {
    let times = "timeouts: {asked_s: 3, established_s: 60, closed_s: 2}\n";
    let mut bench = Bench::new(&text(TCP, 3, ("", "", times)));
    let places: Vec<_> = (0..3).map(|one| bench.says(false, one, SYN).unwrap()).collect();
    bench.answers(places[1], 1, SYN_ACK);
    bench.answers(places[2], 2, SYN_ACK);
    bench.says(false, 2, FIN);
    bench.answers(places[2], 2, FIN);
    assert_eq!(bench.balancer.sessions(), 3);
    bench.elapse(2_000);
    assert_eq!(bench.balancer.sessions(), 2, "the closed one is over");
    bench.elapse(1_000);
    assert_eq!(bench.balancer.sessions(), 1, "the one without an answer is over");
    bench.elapse(56_000);
    assert_eq!(bench.balancer.sessions(), 1);
    bench.elapse(2_000);
    assert_eq!(bench.balancer.sessions(), 0);
}

#[test]
fn without_room_it_does_what_is_declared() {
    for (policy, passes) in [("drop", false), ("pass", true)] {
        let all = format!("when_full: {policy}\n");
        let mut bench = Bench::new(&text(TCP, 3, ("", "", &all)).replace("max: 64", "max: 4"));
        let first: Vec<_> = (0..4).map(|one| bench.says(false, one, SYN).unwrap()).collect();
        let sent = frame(IpProtocol::TCP, client(false, 9), service(false), SYN);
        let came = bench.forward(&sent);
        assert_eq!(bench.balancer.sessions(), 4);
        for (one, place) in (0..).zip(&first) {
            assert_eq!(bench.says(false, one, ACK), Some(*place), "others go on");
        }
        if passes {
            let to = ends(&came.out.unwrap()).1;
            assert_eq!(bench.says(false, 9, ACK), Some(to), "the table says the same each time");
            let back = bench.answers(to, 9, SYN_ACK);
            assert_eq!(ends(&back), (service(false), client(false, 9)));
            assert_eq!(bench.counted("no room"), 3);
        } else {
            assert_eq!(came.out, Err(DropCause::Full));
        }
        // One that is over gives way.
        bench.elapse(0);
        bench.now.0 += 31_000_000_000;
        assert!(bench.says(false, 9, SYN).is_some());
        assert_eq!(bench.balancer.sessions(), 4);
    }
}

#[test]
fn a_reset_of_no_session_begins_none() {
    let mut bench = Bench::new(&text(TCP, 3, ("", "", "")));
    assert!(bench.says(false, 1, RST).is_some());
    assert_eq!(bench.balancer.sessions(), 0);
}

/// A service whose last backend dies after one failed check.
fn dying(when: &str, is_v6: bool) -> Bench {
    let from = if is_v6 { "2001:db8:9::9" } else { "203.0.113.9" };
    let health = format!(
        ", when_dead: {when}, health: {{kind: tcp, from: '{from}', fall: 1, mac: '02:00:00:00:00:09'}}"
    );
    let mac = ", mac: '02:00:00:00:00:08'";
    Bench::new(&text((is_v6, IpProtocol::TCP), 2, (mac, &health, "")))
}

#[test]
fn sessions_of_a_dead_backend_are_reset_move_or_stay() {
    for (when, is_v6) in [("reset", false), ("reset", true), ("move", false), ("keep", true)] {
        let mut bench = dying(when, is_v6);
        let places: Vec<_> = (0..20).map(|one| bench.says(is_v6, one, SYN).unwrap()).collect();
        for (one, from) in (0..).zip(&places) {
            bench.answers(*from, one, SYN_ACK);
        }
        let dead = backend(is_v6, 2);
        assert!(places.contains(&dead) && places.contains(&backend(is_v6, 1)));
        // Both are asked; the first answers, with what its SYN says.
        let asked = bench.elapse(10);
        assert_eq!(asked.len(), 2, "{when}");
        for ask in asked.iter().filter(|ask| ends(ask).1 == backend(is_v6, 1)) {
            bench.backward(&super::checked::answer(ask, SYN_ACK, b""));
        }
        bench.elapse(2_100);
        let up: Vec<bool> =
            bench.balancer.backends(bench.now).iter().map(|one| one.is_up).collect();
        assert_eq!(up, [true, false], "{when}");
        for (one, place) in (0..).zip(&places) {
            let sent = frame(IpProtocol::TCP, client(is_v6, one), service(is_v6), ACK);
            let came = bench.forward(&sent);
            if *place != dead || when == "keep" {
                assert_eq!(ends(&came.out.unwrap()).1, *place);
            } else if when == "move" {
                assert_eq!(ends(&came.out.unwrap()).1, backend(is_v6, 1));
            } else {
                assert!(bench.why(&came).contains("dead"), "{}", bench.why(&came));
                let [(Direction::Backward, GeneratedKind::TcpReset, reset)] = &came.made[..] else {
                    panic!("{came:?}")
                };
                assert_eq!(ends(reset), (service(is_v6), client(is_v6, one)));
                let flags = read(reset, catena_wire::field::Field::TcpFlags) as u8;
                assert!(flags & TcpFlags::RST.0 != 0 && super::translated::is_sound(reset));
                // Who asks again meets the other one.
                assert_eq!(bench.says(is_v6, one, SYN), Some(backend(is_v6, 1)));
            }
        }
        let new: Vec<_> = (100..110).map(|one| bench.says(is_v6, one, SYN)).collect();
        assert!(new.iter().all(|one| *one == Some(backend(is_v6, 1))));
    }
}

#[test]
fn backends_that_fail_clients_are_ejected_no_more_than_may_be() {
    let passive = ", passive: {consecutive_failures: 2, base_ejection_ms: 1000, \
                   max_ejection_ms: 2500, max_ejection_percent: 50}";
    let mut bench = Bench::new(&text(TCP, 4, ("", passive, "")));
    // All resets all.
    for one in 0..60 {
        let to = bench.says(false, one, SYN).unwrap();
        bench.answers(to, one, RST);
    }
    let ejected = |bench: &Bench| {
        bench.balancer.backends(bench.now).iter().filter(|one| one.is_ejected).count()
    };
    assert_eq!(ejected(&bench), 2, "half of four");
    bench.elapse(1_000);
    assert_eq!(ejected(&bench), 0, "they come back");
    // One alone fails: it is ejected for 1 s more each time, 2.5 s at most; an answer begins anew.
    let mut bench = Bench::new(&text(TCP, 4, ("", passive, "")));
    let bad = backend(false, 2);
    for (round, long) in [1_000, 2_000, 2_500, 2_500].into_iter().enumerate() {
        let (mut one, mut at) = (1_000 * round as u16, bench.now);
        while ejected(&bench) == 0 {
            let to = bench.says(false, one, SYN).unwrap();
            bench.answers(to, one, if to == bad { RST } else { SYN_ACK });
            at = bench.now;
            bench.says(false, one, RST);
            bench.elapse(0);
            one += 1;
            assert!(one < 1_000 * (round as u16 + 1), "it is ejected in round {round}");
        }
        for more in one..one + 20 {
            assert_ne!(bench.says(false, more, SYN), Some(bad));
            bench.says(false, more, RST);
        }
        bench.now = Time(at.0 + long * 1_000_000 - 1);
        assert_eq!(ejected(&bench), 1, "round {round}");
        bench.now.0 += 1;
        assert_eq!(ejected(&bench), 0, "round {round}");
        // Sessions of the past are none of the next round's.
        bench.now.0 += 11_000_000_000;
        bench.elapse(0);
    }
}

#[test]
fn who_gives_up_before_an_answer_is_due_says_nothing_of_the_backend() {
    let passive = ", passive: {consecutive_failures: 1, answer_ms: 500, max_ejection_percent: 100}";
    for (waits, is_ejected) in [(100, false), (600, true)] {
        let mut bench = Bench::new(&text(TCP, 2, ("", passive, "")));
        bench.says(false, 1, SYN).unwrap();
        bench.elapse(waits);
        bench.says(false, 1, RST).unwrap();
        bench.elapse(11_000);
        assert_eq!(bench.balancer.sessions(), 0);
        let standing = bench.balancer.backends(bench.now);
        assert_eq!(standing.iter().any(|one| one.is_ejected), is_ejected, "{waits}");
    }
    // Nobody answers, and the client asks again; or it does not, and its session ends.
    for again in [true, false] {
        let mut bench = Bench::new(&text(TCP, 2, ("", passive, "")));
        let to = bench.says(false, 1, SYN).unwrap();
        bench.elapse(if again { 600 } else { 30_000 });
        if again {
            bench.says(false, 1, SYN).unwrap();
            // The next time it meets the other one.
            assert_ne!(bench.says(false, 1, SYN), Some(to));
        }
        let standing = bench.balancer.backends(bench.now);
        assert_eq!(standing.iter().filter(|one| one.is_ejected).count(), 1);
    }
}

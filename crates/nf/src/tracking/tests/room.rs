//! Tables that are full, and connections that another takes over.

use super::*;

#[test]
fn a_full_table_gives_way_to_what_is_new_where_it_may() {
    let mut talk = Talk::new(&small(4));
    for port in 1..=4 {
        assert_eq!(talk.say(&udp(CLIENT, port)), New);
    }
    // Nothing of it is assured.
    assert_eq!(talk.say(&udp(CLIENT, 5)), New);
    assert_eq!(talk.connections(), 4);
    let mut talk = Talk::new(&small(4));
    for port in 1..=4 {
        talk.all(&[udp(CLIENT, port), udp(SERVER, port)]);
    }
    talk.wait(3);
    for port in 1..=4 {
        assert_eq!(talk.say(&udp(CLIENT, port)), Established);
    }
    let look = talk.look(&udp(CLIENT, 5));
    assert!(look.is_full());
    talk.tracking.settle(&look, true);
    assert_eq!(talk.say(&udp(SERVER, 4)), Established, "what is assured stays");
    talk.wait(120);
    assert_eq!(talk.say(&udp(CLIENT, 5)), New, "what has expired gives way");
    assert_eq!(talk.connections(), 4);
    // Whoever drops what is new makes no room for it.
    let mut talk = Talk::new(&small(1));
    talk.say(&udp(CLIENT, 1));
    let look = talk.look(&udp(CLIENT, 2));
    talk.tracking.settle(&look, false);
    assert_eq!(talk.say(&udp(SERVER, 1)), Established);
}

#[test]
fn connections_go_on_where_they_were_taken_over() {
    let frames = whole();
    for at in 0..frames.len() {
        let mut first = Talk::new(&small(8));
        let mut second = Talk::new(&small(16));
        let mut entries = Vec::new();
        for frame in &frames[..at] {
            first.say(frame);
            first.tracking.export(false, &mut entries);
        }
        for entry in &entries {
            assert!(second.tracking.take_over(entry).is_some());
        }
        entries.clear();
        first.tracking.export(false, &mut entries);
        assert!(entries.is_empty(), "nothing has changed since");
        for frame in &frames[at..] {
            assert_eq!(first.look(frame), second.look(frame), "from frame {at}");
            first.say(frame);
            second.say(frame);
        }
    }
    // What ended is told once.
    let mut talk = Talk::new(&small(8));
    let mut entries = Vec::new();
    talk.say(&tcp(CLIENT, "S", (1_000, 0), 0));
    talk.tracking.export(false, &mut Vec::new());
    talk.say(&tcp(CLIENT, "R", (1_001, 0), 0));
    talk.tracking.export(false, &mut entries);
    assert!(matches!(entries.as_slice(), [StateEntry { value: None, .. }]), "{entries:?}");
    // Bytes that say no connection are left.
    let other = StateEntry { key: vec![b'c', 5], value: Some(vec![1]) };
    assert_eq!(talk.tracking.take_over(&other), None);
}

#[test]
fn whatever_is_taken_over_can_be_followed() {
    let mut random = traffic::Random::new(8);
    let inputs = traffic::draw(8, 4_000);
    let mut talk = Talk::new(&small(64));
    let mut entries = Vec::new();
    for (at, input) in inputs.iter().enumerate() {
        talk.now = input.at;
        let packet = Packet::read(&input.frame).unwrap();
        if let Some(look) = talk.tracking.look(talk.now, &packet) {
            talk.tracking.settle(&look, random.below(4) > 0);
        }
        talk.tracking.elapse(talk.now);
        if at % 40 > 0 {
            continue;
        }
        talk.tracking.export(random.below(2) == 0, &mut entries);
        // Some of its bytes are others now.
        for mut entry in entries.drain(..) {
            let bytes = entry.value.as_mut().filter(|_| random.below(2) == 0);
            let bytes = bytes.unwrap_or(&mut entry.key);
            let place = random.below(bytes.len());
            bytes[place] = random.number() as u8;
            let _ = talk.tracking.take_over(&entry);
        }
        assert!(talk.connections() <= 64);
    }
}

//! The table of states row by row, and what is read of a segment.

use super::step::are_possible;
use super::window::{after, before};
use super::*;
use catena_wire::tcp::TcpFlags;

/// The rows of Linux (net/netfilter/nf_conntrack_proto_tcp.c, 6.18), by the names it gives to states: `IG`
/// stays, `IV` is invalid.
const ROWS: [(Way, Kind, &str); 12] = [
    (Way::Original, Kind::Syn, "SS SS IG IG IG IG IG SS SS S2"),
    (Way::Original, Kind::SynAck, "IV IV SR IV IV IV IV IV IV SR"),
    (Way::Original, Kind::Fin, "IV IV FW FW LA LA LA TW CL IV"),
    (Way::Original, Kind::Ack, "ES IV ES ES CW CW TW TW CL IV"),
    (Way::Original, Kind::Reset, "IV CL CL CL CL CL CL CL CL CL"),
    (Way::Original, Kind::None, "IV IV IV IV IV IV IV IV IV IV"),
    (Way::Reply, Kind::Syn, "IV S2 IV IV IV IV IV SS IV S2"),
    (Way::Reply, Kind::SynAck, "IV SR IG IG IG IG IG IG IG SR"),
    (Way::Reply, Kind::Fin, "IV IV FW FW LA LA LA TW CL IV"),
    (Way::Reply, Kind::Ack, "IV IG SR ES CW CW TW TW CL IG"),
    (Way::Reply, Kind::Reset, "IV CL CL CL CL CL CL CL CL CL"),
    (Way::Reply, Kind::None, "IV IV IV IV IV IV IV IV IV IV"),
];

#[test]
fn the_table_is_that_of_linux() {
    let names = ["NO", "SS", "SR", "ES", "FW", "CW", "LA", "TW", "CL", "S2"];
    for (way, kind, row) in ROWS {
        let row: Vec<&str> = row.split(' ').collect();
        assert_eq!(row.len(), State::ALL.len());
        for (state, wanted) in State::ALL.into_iter().zip(row) {
            let found = match step(way, kind, state) {
                Step::To(next) => names[next as usize],
                Step::Stay => "IG",
                Step::Never => "IV",
            };
            assert_eq!(found, wanted, "{way:?} {kind:?} in {state:?}");
        }
    }
    for (at, state) in State::ALL.into_iter().enumerate() {
        assert_eq!(state as usize, at);
    }
    for (at, kind) in Kind::ALL.into_iter().enumerate() {
        assert_eq!(kind as usize, at);
    }
}

#[test]
fn flags_say_what_a_segment_is_for_and_some_never_stand_together() {
    let kinds = [
        (0x02, Kind::Syn),
        (0x12, Kind::SynAck),
        (0x11, Kind::Fin),
        (0x10, Kind::Ack),
        (0x14, Kind::Reset),
        (0x04, Kind::Reset),
        (0x08, Kind::None),
    ];
    for (flags, kind) in kinds {
        assert_eq!(Kind::of(TcpFlags(flags)), kind, "{flags:#x}");
    }
    let possible = [0x02, 0x22, 0x12, 0x04, 0x14, 0x11, 0x31, 0x10, 0x30];
    for flags in 0..=u8::MAX {
        let counted = flags & !(0x08 | 0x40 | 0x80);
        assert_eq!(are_possible(TcpFlags(flags)), possible.contains(&counted), "{flags:#x}");
    }
}

#[test]
fn numbers_are_compared_around_their_end() {
    assert!(before(1, 2) && before(u32::MAX, 0) && before(0xffff_0000, 5));
    assert!(!before(2, 2) && !before(2, 1) && !before(5, 0xffff_0000));
    assert!(after(2, 1) && after(0, u32::MAX) && !after(7, 7));
}

//! What is read, and what is refused in which words.

use super::*;
use crate::condition::{Range, Subject, Test};
use catena_model::limits::{FUNCTION_HELD_BYTES_MAX, QOS_MATCHES_MAX};
use catena_wire::field::Field;
use proptest::prelude::*;
use std::fmt::Write;

const OFFICE: &str = include_str!("../../../../conformance/nf/marker/office.yaml");
const EDGE: &str = include_str!("../../../../conformance/nf/policer/edge.yaml");
const UPLINK: &str = include_str!("../../../../conformance/nf/shaper/uplink.yaml");
const WRITTEN: [(&str, QosKind); 6] = [
    (OFFICE, QosKind::Marker),
    (include_str!("../../../../conformance/nf/marker/all.json"), QosKind::Marker),
    (EDGE, QosKind::Policer),
    (include_str!("../../../../conformance/nf/policer/six.json"), QosKind::Policer),
    (UPLINK, QosKind::Shaper),
    (include_str!("../../../../conformance/nf/shaper/slow.json"), QosKind::Shaper),
];

fn dscp(number: u8) -> Dscp {
    Dscp::new(number).unwrap()
}

/// Does a packet with these values fall into a class?
fn takes(class: &QosClass, values: &[(Subject, u128)]) -> bool {
    let value = |subject| values.iter().find(|(of, _)| *of == subject).map(|(_, value)| *value);
    class.rows.iter().any(|row| row.iter().all(|condition| condition.takes(value)))
}

#[test]
fn what_is_written_is_read_as_it_says() {
    let [office, all, edge, six, uplink, slow] =
        WRITTEN.map(|(text, kind)| read(text, "file", kind).unwrap_or_else(|e| panic!("{e}")));
    let marks = [46, 34, 0, 11].map(|number| Treatment::Mark(dscp(number)));
    assert_eq!(
        office.classes.iter().map(|c| &c.treatment).collect::<Vec<_>>(),
        marks.iter().collect::<Vec<_>>()
    );
    assert!(all.classes[0].takes_all() && !office.classes.iter().any(QosClass::takes_all));
    assert_eq!(all.classes[0].exactness(), Exactness::Exact);
    let Treatment::Police(gold) = &edge.classes[0].treatment else { panic!("{edge:?}") };
    let (cir, pir) = (Rate(4_000_000), Rate(8_000_000));
    assert_eq!(gold.meter, Meter::TwoRate { cir, cbs: 6_000, pir, pbs: 12_000 });
    let aware = Precolours { yellow: vec![dscp(12)], red: vec![dscp(14), dscp(8)] };
    assert_eq!(gold.aware, Some(aware));
    assert_eq!(gold.actions, [10, 12, 14].map(|number| ColourAction::Mark(dscp(number))));
    let Treatment::Police(bulk) = &edge.classes[1].treatment else { panic!("{edge:?}") };
    let rest = [ColourAction::Pass, ColourAction::Mark(dscp(1)), ColourAction::Drop];
    assert_eq!((bulk.aware.as_ref(), bulk.actions), (None, rest));
    assert_eq!(edge.classes[1].exactness(), Exactness::Wider);
    let Treatment::Police(six) = &six.classes[0].treatment else { panic!("{six:?}") };
    assert_eq!(six.meter, Meter::SingleRate { cir: Rate(80_000), cbs: 0, ebs: 1_500 });
    let shaping = |rate, burst, queue| Treatment::Shape(Shaping { rate: Rate(rate), burst, queue });
    assert_eq!(uplink.classes[1].treatment, shaping(10_000_000, 15_000, 100_000));
    assert_eq!(slow.classes[0].treatment, shaping(8_000, 1_500, 4_000));
}

#[test]
fn a_class_takes_the_packets_that_one_of_its_matches_describes() {
    let classes = read(OFFICE, "file", QosKind::Marker).unwrap().classes;
    let field = Subject::Field;
    let udp = |source, destination| {
        [
            (field(Field::Protocol), 17),
            (field(Field::SourcePort), source),
            (field(Field::DestinationPort), destination),
        ]
    };
    for (source, destination, is_taken) in
        [(9, 5_004, true), (5_005, 9, true), (5_006, 9, false), (9, 5_003, false)]
    {
        assert_eq!(takes(&classes[0], &udp(source, destination)), is_taken);
    }
    let video = |version: u128, source: u128| {
        takes(
            &classes[1],
            &[
                (Subject::Version, version),
                (field(Field::Source), source),
                (field(Field::Protocol), 6),
                (field(Field::DestinationPort), 443),
            ],
        )
    };
    let (v4, v6) = (0x0a00_02ff, 0x2001_0db8_0002_u128 << 80 | 7);
    assert!(video(4, v4) && video(6, v6));
    // The same number as an address of the other version is another address.
    assert!(!video(6, v4) && !video(4, v6) && !video(4, 0x0a00_0300));
    let direction = |came| [(Subject::Version, 6), (Subject::CameIn, came)];
    assert!(takes(&classes[3], &direction(1)) && !takes(&classes[3], &direction(0)));
    let code_points = classes[2].rows[0].last().unwrap();
    let both = vec![Range::one(46), Range::one(48)];
    assert_eq!(code_points.test, Test::In(both), "a code point may be named and numbered");
}

#[test]
fn what_is_wrong_is_told_with_its_line_and_what_to_do() {
    let (marker, policer, shaper) = (QosKind::Marker, QosKind::Policer, QosKind::Shaper);
    let gold = "4mbit, cbs: 6000, pir: 8mbit, pbs: 12000";
    let cases = [
        (OFFICE, marker, "mark: ef", "mark: efg", 6, "'efg' is not a code point"),
        (OFFICE, marker, "mark: af41", "mark: 64", 9, "'64' is not a code point"),
        (
            OFFICE,
            marker,
            "mark: af41",
            "mark: [1, 2]",
            9,
            "invalid type: sequence, expected a code point",
        ),
        (OFFICE, marker, "mark: af41", "marks: 1", 9, "unknown field `marks`"),
        (OFFICE, marker, "    mark: af41\n", "", 7, "class video: it says neither 'mark'"),
        (OFFICE, marker, "name: video", "name: ''", 7, "1 to 63 printable bytes"),
        (OFFICE, marker, "name: video", "name: voice", 0, "two classes are called voice"),
        (OFFICE, marker, "5004-5005", "5005-5004", 4, "'5005-5004' is not a port"),
        (OFFICE, marker, "[5004, 5005]", "0", 5, "'0' is not a port"),
        (OFFICE, marker, "[5004, 5005]", "[]", 5, "the list is empty"),
        (OFFICE, marker, "[tcp, udp]", "[tcp, icmp]", 7, "ports are those of tcp and udp"),
        (OFFICE, marker, "[tcp, udp]", "256", 8, "'256' is not a protocol"),
        (OFFICE, marker, "10.0.2.0/24", "10.0.2.1/24", 8, "say 10.0.2.0/24 for all of it"),
        (OFFICE, marker, "10.0.2.0/24", "nowhere", 8, "'nowhere' is no address"),
        (OFFICE, marker, "direction: backward", "direction: up", 11, "unknown variant `up`"),
        (OFFICE, marker, "version: 6", "version: 5", 11, "no IP version 5"),
        (OFFICE, marker, "version: 6", "version: 6, source: 10.0.0.1", 11, "different"),
        (
            OFFICE,
            marker,
            "match: {source: 10.0.3.0/24, dscp: [ef, cs6, 46]}, ",
            "",
            0,
            "no packet meets class from outside, as class guests",
        ),
        (EDGE, marker, "", "", 0, "says 'police', which a policer does; a marker wants 'mark'"),
        (
            EDGE,
            policer,
            gold,
            "9mbit, cbs: 1, pir: 8mbit, pbs: 1",
            2,
            "pir 8mbit is below cir 9mbit",
        ),
        (EDGE, policer, gold, "1mbit, cbs: 0, pir: 8mbit, pbs: 1", 2, "cbs is 0 bytes"),
        (EDGE, policer, gold, "1mbit, cbs: 1, pir: 8mbit, pbs: 4294967296", 2, "pbs is 4294967296"),
        (EDGE, policer, "cbs: 3000, ebs: 6000", "cbs: 0, ebs: 0", 10, "both 0"),
        (EDGE, policer, "srtcm: {", "trtcm: {", 13, "unknown field `ebs`"),
        (EDGE, policer, "      srtcm: {cir: 800kbit, cbs: 3000, ebs: 6000}\n", "", 10, "one meter"),
        (EDGE, policer, "800kbit", "800kib", 13, "'800kib' is not a rate"),
        (EDGE, policer, "800kbit", "0", 13, "'0' is not a rate"),
        (EDGE, policer, "800kbit", "1001gbit", 13, "'1001gbit' is not a rate"),
        (EDGE, policer, "yellow: le", "yellow: fly", 14, "'fly' is not pass, drop, or"),
        (EDGE, policer, "[af13, cs1]", "[af13, af12]", 2, "af12 both yellow and red"),
        (UPLINK, shaper, "burst: 3000", "burst: 0", 2, "burst is 0 bytes"),
        (UPLINK, shaper, "queue: 6000", "queue: 99999999999", 2, "queue is 99999999999"),
        (UPLINK, shaper, "rate: 2mbit, ", "", 4, "missing field `rate`"),
        ("classes: []\n", shaper, "", "", 0, "there are 0 classes; write 1 to 256"),
    ];
    for (text, kind, one, other, line, part) in cases {
        let wrong = text.replacen(one, other, 1);
        assert!(one.is_empty() || wrong != text, "{one}");
        let error = read(&wrong, "qos.yaml", kind).expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
        assert!(!error.advice.is_empty() && error.to_string().starts_with("qos.yaml"), "{error}");
        assert_eq!(error.line, line, "{error}");
    }
}

#[test]
fn there_are_bounds() {
    let many = |count: usize| {
        (0..count).fold("classes:\n".to_owned(), |mut text, at| {
            writeln!(text, "  - {{name: c{at}, match: {{dscp: 1}}, mark: 2}}").unwrap();
            text
        })
    };
    assert_eq!(read(&many(QOS_CLASSES_MAX), "f", QosKind::Marker).unwrap().classes.len(), 256);
    let error = read(&many(QOS_CLASSES_MAX + 1), "f", QosKind::Marker).unwrap_err();
    assert!(error.what.contains("257 classes"), "{error}");
    let matches = |count| {
        let list = vec!["{dscp: 1}"; count].join(", ");
        format!("classes: [{{name: one, match: [{list}], mark: 2}}]")
    };
    assert!(read(&matches(QOS_MATCHES_MAX), "f", QosKind::Marker).is_ok());
    for count in [0, QOS_MATCHES_MAX + 1] {
        let error = read(&matches(count), "f", QosKind::Marker).unwrap_err();
        assert!(error.what.contains(&format!("{count} matches")), "{error}");
    }
    let queue = |bytes: usize| {
        let shape = format!("{{rate: 1gbit, burst: 1, queue: {bytes}}}");
        read(&format!("classes: [{{name: one, shape: {shape}}}]"), "f", QosKind::Shaper)
    };
    assert!(queue(FUNCTION_HELD_BYTES_MAX).is_ok() && queue(FUNCTION_HELD_BYTES_MAX + 1).is_err());
}

#[test]
fn every_cut_and_every_flip_is_read_or_refused() {
    let (mut good, mut bad) = (0, 0);
    for (text, kind) in WRITTEN {
        let mut judge = |bytes: &[u8]| {
            let Ok(text) = std::str::from_utf8(bytes) else { return };
            match read(text, "file", kind) {
                Ok(config) => {
                    good += 1;
                    assert!(check(&config.classes, kind).is_ok());
                }
                Err(wrong) => {
                    bad += 1;
                    assert!(!wrong.what.is_empty() && !wrong.advice.is_empty(), "{wrong:?}");
                    assert!(wrong.line as usize <= text.lines().count() + 1, "{wrong}");
                }
            }
        };
        for at in 0..text.len() {
            judge(&text.as_bytes()[..at]);
            for bit in 0..8 {
                let mut turned = text.as_bytes().to_vec();
                turned[at] ^= 1 << bit;
                judge(&turned);
            }
        }
    }
    println!("{good} read, {bad} refused");
    assert!(good > 500 && bad > 5_000, "{good} {bad}");
}

#[test]
fn code_points_and_rates_are_told_as_they_are_written() {
    for (bits, words) in [(8_000, "8kbit"), (1_500, "1500bit"), (2_000_000_000, "2gbit")] {
        assert_eq!(Rate(bits).to_string(), words);
    }
    for number in 0..64 {
        let text = dscp(number).to_string();
        let class = format!("classes: [{{name: one, mark: {text}}}]");
        let config = read(&class, "f", QosKind::Marker).unwrap();
        assert_eq!(config.classes[0].treatment, Treatment::Mark(dscp(number)), "{text}");
    }
    assert_eq!(Dscp::new(64), None);
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = read(&text, "file", QosKind::Policer);
        let _ = read(&format!("classes:\n  - name: {text}\n"), "file", QosKind::Marker);
    }
}

//! Ways by which attacks are hidden from who watches (Ptacek, Newsham: Insertion, Evasion, and Denial of
//! Service, 1998), each caught, or named as not in the book.

use super::tests::{Talk, ids, told};
use crate::harness::Input;
use catena_wire::frame::FrameView;

const RULE: &str = "alert tcp any any -> any 80 (msg:\"a\"; flow:established,to_server; content:\"attack\"; sid:1;)";
const REQUEST: &str = "alert http any any -> any any \
    (msg:\"u\"; flow:to_server; http.uri; content:\"/cgi-bin/evil\"; sid:2;)";

/// The same packet in fragments of so many bytes.
pub(super) fn in_fragments(input: &Input, bytes: usize, identification: u32) -> Vec<Input> {
    let view = FrameView::parse(&input.frame).unwrap();
    let is_v6 = input.frame[12] == 0x86;
    let data_at = usize::from(view.l4_offset.unwrap());
    let data = &input.frame[data_at..view.end as usize];
    let pieces: Vec<(usize, &[u8])> = (0..).step_by(bytes).zip(data.chunks(bytes)).collect();
    if pieces.len() == 1 {
        return vec![input.clone()];
    }
    let last = pieces.len() - 1;
    let fragments = pieces.iter().enumerate().map(|(number, (at, piece))| {
        fragment(input, (*at, number != last, identification), piece, is_v6)
    });
    fragments.collect()
}

/// One fragment of a packet.
fn fragment(
    input: &Input,
    (at, has_more, identification): (usize, bool, u32),
    piece: &[u8],
    is_v6: bool,
) -> Input {
    let word = ((at / 8) as u16) << 3;
    let mut frame = if is_v6 {
        let mut frame = input.frame[..54].to_vec();
        let next = std::mem::replace(&mut frame[20], 44);
        frame[18..20].copy_from_slice(&(piece.len() as u16 + 8).to_be_bytes());
        frame.extend([next, 0]);
        frame.extend((word | u16::from(has_more)).to_be_bytes());
        frame.extend(identification.to_be_bytes());
        frame
    } else {
        let mut frame = input.frame[..34].to_vec();
        frame[16..18].copy_from_slice(&(piece.len() as u16 + 20).to_be_bytes());
        frame[18..20].copy_from_slice(&(identification as u16).to_be_bytes());
        frame[20..22].copy_from_slice(&(word >> 3 | u16::from(has_more) << 13).to_be_bytes());
        catena_wire::ipv4::refresh_checksum(&mut frame[14..]).unwrap();
        frame
    };
    frame.extend(piece);
    Input { frame, ..input.clone() }
}

/// How often the rule tells of a talk of these segments.
fn alerts(rule: &str, say: impl Fn(&mut Talk) -> Vec<Input>) -> usize {
    let counts = [false, true].map(|is_v6| {
        let mut ids = ids(rule, false);
        let mut talk = Talk::new(5_000, is_v6);
        let mut inputs = talk.handshake();
        inputs.extend(say(&mut talk));
        told(&mut ids, &inputs).0.len()
    });
    assert_eq!(counts[0], counts[1], "both versions of IP are the same");
    counts[0]
}

#[test]
fn a_pattern_split_in_segments_is_caught() {
    for cut in 1..6 {
        let told = alerts(RULE, |talk| {
            let (first, rest) = b"attack".split_at(cut);
            vec![talk.segment(true, 0x18, 0, first), talk.segment(true, 0x18, cut as i64, rest)]
        });
        assert_eq!(told, 1);
    }
}

#[test]
fn a_number_or_a_length_that_comes_behind_its_pattern_is_caught() {
    for test in
        ["byte_test:2,>,99,0,relative", "isdataat:2,relative", "byte_test:2,>,99,7", "isdataat:8"]
    {
        let rule = format!(
            "alert tcp any any -> any 80 (msg:\"a\"; content:\"attack\"; offset:1; {test}; sid:1;)"
        );
        let told = alerts(&rule, |talk| {
            let pieces = [(0, &b"!attack"[..]), (7, b"\0"), (8, b"d"), (9, b"and more")];
            let segment = |(at, piece): (i64, &[u8])| talk.segment(true, 0x18, at, piece);
            pieces.map(segment).to_vec()
        });
        assert_eq!(told, 1, "{test}");
    }
}

#[test]
fn a_pattern_that_overlaps_itself_is_caught_where_the_rest_follows() {
    let rule =
        "alert tcp any any -> any 80 (msg:\"a\"; pcre:\"/aXa/\"; content:\"!\"; within:1; sid:1;)";
    let told = |text: &'static [u8]| alerts(rule, |talk| vec![talk.segment(true, 0x18, 0, text)]);
    assert_eq!((told(b"-aXaXa!"), told(b"-aXaXa-!")), (1, 0));
}

#[test]
fn segments_of_one_byte_are_caught() {
    let told = alerts(RULE, |talk| {
        (0..).zip(b"xxattackxx").map(|(at, byte)| talk.segment(true, 0x18, at, &[*byte])).collect()
    });
    assert_eq!(told, 1);
}

#[test]
fn segments_out_of_order_are_caught() {
    let told = alerts(RULE, |talk| {
        let mut pieces: Vec<Input> =
            (0..).zip(b"attack").map(|(at, byte)| talk.segment(true, 0x18, at, &[*byte])).collect();
        pieces.reverse();
        pieces
    });
    assert_eq!(told, 1);
}

#[test]
fn of_segments_that_overlap_the_first_bytes_count() {
    let overlapping = |first: &'static [u8], second: &'static [u8]| {
        alerts(RULE, move |talk| {
            vec![
                talk.segment(true, 0x18, 4, first),
                talk.segment(true, 0x18, 4, second),
                talk.segment(true, 0x18, 0, b"atta"),
            ]
        })
    };
    assert_eq!(overlapping(b"ck", b"xx"), 1);
    assert_eq!(overlapping(b"xx", b"ck"), 0, "hosts take what came first");
    // What is sent again whole is looked at as a packet, whatever the host makes of it.
    let again = alerts(RULE, |talk| {
        vec![talk.segment(true, 0x18, 0, b"______"), talk.segment(true, 0x18, 0, b"attack")]
    });
    assert_eq!(again, 1);
}

#[test]
fn segments_that_overlap_in_part_are_caught() {
    let told = alerts(RULE, |talk| {
        vec![
            talk.segment(true, 0x18, 0, b"att"),
            talk.segment(true, 0x18, 5, b"kyy"),
            talk.segment(true, 0x18, 1, b"##ack##"),
        ]
    });
    assert_eq!(told, 1);
}

#[test]
fn a_wrong_checksum_hides_nothing() {
    let told = alerts(RULE, |talk| {
        let mut bad = talk.segment(true, 0x18, 0, b"xxx");
        let length = bad.frame.len();
        bad.frame[length - 1] ^= 0xff;
        vec![bad, talk.segment(true, 0x18, 0, b"att"), talk.segment(true, 0x18, 3, b"ack")]
    });
    assert_eq!(told, 1);
}

#[test]
fn packets_that_end_before_the_host_hide_nothing_where_their_hops_are_known() {
    let say = |talk: &mut Talk| {
        let mut low = talk.segment(true, 0x18, 0, b"xxx");
        if low.frame[12] == 0x86 {
            low.frame[21] = 2;
        } else {
            low.frame[22] = 2;
            catena_wire::ipv4::refresh_checksum(&mut low.frame[14..]).unwrap();
        }
        vec![low, talk.segment(true, 0x18, 0, b"att"), talk.segment(true, 0x18, 3, b"ack")]
    };
    assert_eq!(alerts(RULE, say), 0, "named in the book: without ttl_min it is not caught");
    let config = super::IdsConfig { ttl_min: 5, ..super::tests::config(false) };
    let mut ids = super::Ids::new(super::tests::rules(RULE), config).unwrap();
    let mut talk = Talk::new(5_000, false);
    let mut inputs = talk.handshake();
    inputs.extend(say(&mut talk));
    assert_eq!(told(&mut ids, &inputs).0.len(), 1);
    assert_eq!(ids.statistics().low_ttl, 1);
}

#[test]
fn an_early_reset_hides_nothing() {
    for place in [0, 3, 50_000] {
        let told = alerts(RULE, |talk| {
            vec![
                talk.segment(true, 0x18, 0, b"att"),
                talk.segment(true, 0x04, place, b""),
                talk.segment(true, 0x18, 3, b"ack"),
            ]
        });
        assert_eq!(told, 1, "a reset at {place}");
    }
}

#[test]
fn an_early_end_hides_nothing() {
    let told = alerts(RULE, |talk| {
        vec![
            talk.segment(true, 0x18, 0, b"att"),
            talk.segment(true, 0x11, 90, b""),
            talk.segment(true, 0x18, 3, b"ack"),
        ]
    });
    assert_eq!(told, 1);
}

#[test]
fn a_second_handshake_hides_nothing() {
    let told = alerts(RULE, |talk| {
        vec![
            talk.segment(true, 0x18, 0, b"att"),
            talk.segment(true, 0x02, 77_777, b""),
            talk.segment(false, 0x12, 77_777, b""),
            talk.segment(true, 0x18, 3, b"ack"),
        ]
    });
    assert_eq!(told, 1);
}

#[test]
fn bytes_far_ahead_hide_nothing() {
    let told = alerts(RULE, |talk| {
        vec![
            talk.segment(true, 0x18, 0, b"att"),
            talk.segment(true, 0x18, 30_000, b"far away"),
            talk.segment(true, 0x18, 3, b"ack"),
        ]
    });
    assert_eq!(told, 1);
}

#[test]
fn fragments_are_put_together_in_any_order() {
    let payload: &[u8] = b"________________________attack__________";
    for reverse in [false, true] {
        let told = alerts(RULE, |talk| {
            let whole = talk.segment(true, 0x18, 0, payload);
            let mut fragments = in_fragments(&whole, 24, 7);
            assert!(fragments.len() > 2);
            if reverse {
                fragments.reverse();
            }
            // One that comes twice makes no difference.
            fragments.insert(1, fragments[0].clone());
            fragments
        });
        assert_eq!(told, 1);
    }
}

#[test]
fn fragments_that_overlap_make_no_packet() {
    let told = alerts(RULE, |talk| {
        let whole = talk.segment(true, 0x18, 0, b"____attack__________________");
        let is_v6 = whole.frame[12] == 0x86;
        let start = if is_v6 { 54 } else { 34 };
        let data = whole.frame[start..].to_vec();
        vec![
            fragment(&whole, (0, true, 9), &data[..24], is_v6),
            fragment(&whole, (16, true, 9), &data[16..32], is_v6),
            fragment(&whole, (24, false, 9), &data[24..], is_v6),
        ]
    });
    assert_eq!(told, 0, "Linux takes none of it (RFC 5722)");
}

#[test]
fn escapes_and_steps_in_a_uri_hide_nothing() {
    for path in [
        "/cgi-bin/evil",
        "/%63gi-bin/%65%76il",
        "/cgi-bin//evil",
        "/cgi-bin/./evil",
        "/x/../cgi-bin/evil",
        "http://shop.example/cgi-bin/evil",
        "/cgi-bin/y/../evil?x",
        "/../cgi-bin/evil",
    ] {
        let told = alerts(REQUEST, |talk| {
            let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            let bytes = request.as_bytes();
            let cut = bytes.len() / 2;
            vec![
                talk.segment(true, 0x18, 0, &bytes[..cut]),
                talk.segment(true, 0x18, cut as i64, &bytes[cut..]),
            ]
        });
        assert_eq!(told, 1, "{path}");
    }
    // Escapes are undone once, as servers do.
    let twice = alerts(REQUEST, |talk| {
        vec![talk.segment(true, 0x18, 0, b"GET /%2563gi-bin/evil HTTP/1.1\r\nHost: a\r\n\r\n")]
    });
    assert_eq!(twice, 0);
}

#[test]
fn a_request_behind_others_is_caught() {
    let first: [&[u8]; 3] = [
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcde",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ];
    for request in first {
        let told = alerts(REQUEST, |talk| {
            let all = [request, b"GET /cgi-bin/evil HTTP/1.1\r\nHost: a\r\n\r\n"].concat();
            let pieces = (0..).step_by(7).zip(all.chunks(7));
            pieces.map(|(at, piece)| talk.segment(true, 0x18, at, piece)).collect()
        });
        assert_eq!(told, 1, "{}", String::from_utf8_lossy(request));
    }
}

//! Golden, poison, exhaustive and damage tests of GTP-U.

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};
use std::vec::Vec;

fn goldens() -> [Vec<u8>; 5] {
    [
        include_str!("../../../../conformance/gtp_u/g_pdu.hex"),
        include_str!("../../../../conformance/gtp_u/pdu_session.hex"),
        include_str!("../../../../conformance/gtp_u/sequence.hex"),
        include_str!("../../../../conformance/gtp_u/two_extensions.hex"),
        include_str!("../../../../conformance/gtp_u/end_marker.hex"),
    ]
    .map(hex)
}

fn session(pdu_type: u8, qfi: u32) -> Option<PduSession> {
    Some(PduSession { pdu_type, qfi: Qfi::new(qfi).unwrap() })
}

fn meaning(view: &GtpUView<'_>) -> GtpUHeader {
    GtpUHeader {
        message: view.message(),
        teid: view.teid(),
        sequence: view.sequence(),
        pdu_session: view.pdu_session(),
        payload_bytes: u16::try_from(view.payload().len()).unwrap(),
    }
}

#[test]
fn the_goldens_are_read() {
    let [plain, pdu_session, sequence, two, end] = goldens();
    let header = |message, teid, sequence, pdu_session, payload_bytes| GtpUHeader {
        message,
        teid: Teid(teid),
        sequence,
        pdu_session,
        payload_bytes,
    };
    let g_pdu = GtpUMessage::G_PDU;
    let expected = [
        (plain, header(g_pdu, 0x0102_0304, None, None, 6)),
        (pdu_session, header(g_pdu, 0x0102_0304, None, session(1, 9), 2)),
        (sequence, header(g_pdu, 7, Some(0x1234), None, 2)),
        (two, header(g_pdu, u32::MAX, Some(1), session(0, 63), 0)),
        (end, header(GtpUMessage::END_MARKER, 5, None, None, 0)),
    ];
    for (bytes, expected) in expected {
        assert_eq!(meaning(&GtpUView::parse(&bytes).unwrap()), expected);
        let beyond = [&bytes[..], &[0xee; 5]].concat();
        assert_eq!(meaning(&GtpUView::parse(&beyond).unwrap()), expected, "what follows is none");
    }
}

#[test]
fn headers_are_written_over_poison_and_nothing_after_them() {
    // The golden with two extensions has one that we do not write.
    for bytes in goldens().into_iter().filter(|bytes| bytes[0] != 0x36) {
        let view = GtpUView::parse(&bytes).unwrap();
        let header = meaning(&view);
        let mut into = [0xa5; 64];
        assert_eq!(header.emit(&mut into), Ok(header.len_bytes()));
        assert_eq!(into[..header.len_bytes()], bytes[..bytes.len() - view.payload().len()]);
        assert_eq!(into[header.len_bytes()], 0xa5);
        for have in 0..header.len_bytes() {
            let mut into = std::vec![0xa5; have];
            let need = header.len_bytes();
            assert_eq!(header.emit(&mut into), Err(GtpUError::Truncated { need, have }));
            assert!(into.iter().all(|&byte| byte == 0xa5), "a refused buffer is left alone");
        }
    }
}

#[test]
fn every_value_of_the_small_fields_goes_through() {
    for pdu_type in 0..16 {
        for qfi in 0..=Qfi::MAX {
            let header = GtpUHeader {
                message: GtpUMessage::G_PDU,
                teid: Teid(1),
                sequence: None,
                pdu_session: session(pdu_type, qfi),
                payload_bytes: 0,
            };
            let mut into = [0xa5; 16];
            header.emit(&mut into).unwrap();
            assert_eq!(meaning(&GtpUView::parse(&into).unwrap()), header);
        }
    }
    for flags in 0..=0xff_u8 {
        let parsed = GtpUView::parse(&[flags, 255, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0]).map(|_| ());
        let is_gtp_u = flags >> 5 == 1 && flags & 0x10 != 0;
        assert_eq!(parsed, if is_gtp_u { Ok(()) } else { Err(GtpUError::Version { flags }) });
    }
}

#[test]
fn lengths_that_lie_are_refused_by_name() {
    let parse = |bytes: &[u8]| GtpUView::parse(bytes).map(|_| ()).unwrap_err();
    assert_eq!(
        parse(&[0x30, 255, 0, 3, 0, 0, 0, 1, 0, 0]),
        GtpUError::Length { field: 3, have: 2 }
    );
    let short = [0x34, 255, 0, 3, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(parse(&short), GtpUError::OptionalTruncated { have: 3 });
    let extension = |words: u8, length: u8| {
        parse(&[0x34, 255, 0, length, 0, 0, 0, 1, 0, 0, 0, 0x85, words, 0x10, 9, 0x85])
    };
    let wrong = |words| GtpUError::Extension { kind: 0x85, words };
    assert_eq!(extension(0, 8), wrong(0), "an extension that never ends");
    assert_eq!(extension(2, 8), wrong(2));
    assert_eq!(extension(1, 8), wrong(0), "the next one is not there");
    assert_eq!(extension(1, 4), wrong(0));
    let mut chain = std::vec![0x34, 255, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x40];
    for _ in 0..=EXTENSION_HEADERS_MAX {
        chain.extend([1, 0, 0, 0x40]);
    }
    chain[3] = u8::try_from(chain.len() - HEADER_BYTES).unwrap();
    assert_eq!(parse(&chain), GtpUError::TooManyExtensions);
}

#[test]
fn a_fragment_shows_what_it_has_of_a_message() {
    let bytes = &goldens()[1];
    for have in HEADER_BYTES + OPTIONAL_BYTES + 4..bytes.len() {
        assert!(GtpUView::parse(&bytes[..have]).is_err());
        let view = GtpUView::parse_cut(&bytes[..have]).unwrap();
        assert_eq!((view.teid(), view.pdu_session()), (Teid(0x0102_0304), session(1, 9)));
    }
    assert!(GtpUView::parse_cut(&bytes[..14]).is_err(), "an extension header is whole or none");
}

#[test]
fn damaged_goldens_are_refused_or_mean_something_that_can_be_sent() {
    for golden in goldens() {
        each_truncation(&golden, |cut| assert!(GtpUView::parse(cut).is_err()));
        each_bit_flip(&golden, |bytes| {
            let Ok(view) = GtpUView::parse(bytes) else { return };
            let header = meaning(&view);
            let mut again = std::vec![0xa5; header.len_bytes()];
            header.emit(&mut again).unwrap();
            again.extend(view.payload());
            assert_eq!(meaning(&GtpUView::parse(&again).unwrap()), header);
        });
    }
}

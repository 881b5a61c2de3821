//! Golden, poison, rule and damage tests of neighbour discovery.

use std::vec::Vec;

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};

const SOLICITATION: &str = include_str!("../../../../conformance/neighbour/solicitation.hex");
const ADDRESS_CHECK: &str = include_str!("../../../../conformance/neighbour/address_check.hex");
const ADVERTISEMENT: &str =
    include_str!("../../../../conformance/neighbour/advertisement_frame.hex");
const TO_ALL: &str =
    include_str!("../../../../conformance/neighbour/advertisement_to_all_frame.hex");
const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const OWNER: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xff]);
const SOURCE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const TARGET: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const GROUP: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00, 2);

fn asked() -> NeighbourSolicitation {
    NeighbourSolicitation { source: SOURCE, target: TARGET, source_link_layer: Some(ASKER) }
}

/// A message with a correct checksum, whatever else is wrong with it.
fn summed(mut message: Vec<u8>, source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    message[field::CHECKSUM].fill(0);
    let checksum = v6_sum(&message, source, destination).checksum();
    message[field::CHECKSUM].copy_from_slice(&checksum.to_be_bytes());
    message
}

fn parse(message: &[u8]) -> Result<NeighbourSolicitation, NeighbourError> {
    NeighbourSolicitation::parse(message, SOURCE, GROUP, HOP_LIMIT)
}

#[test]
fn golden_solicitations_are_read() {
    assert_eq!(parse(&hex(SOLICITATION)), Ok(asked()));
    let nobody = Ipv6Addr::UNSPECIFIED;
    let check = NeighbourSolicitation::parse(&hex(ADDRESS_CHECK), nobody, GROUP, HOP_LIMIT);
    let expected = NeighbourSolicitation { source: nobody, source_link_layer: None, ..asked() };
    assert_eq!(check, Ok(expected));
}

#[test]
fn the_answers_to_the_golden_solicitations_are_the_golden_frames() {
    let check =
        NeighbourSolicitation { source: Ipv6Addr::UNSPECIFIED, source_link_layer: None, ..asked() };
    for (solicitation, golden) in [(asked(), ADVERTISEMENT), (check, TO_ALL)] {
        let mut into = [0xa5; ADVERTISEMENT_FRAME_LEN + 1];
        let other = MacAddr([2, 0, 0, 0, 0, 0x77]);
        let length = emit_neighbour_advertisement(&solicitation, other, OWNER, &mut into).unwrap();
        assert_eq!(into[..length], hex(golden));
        assert_eq!(into[length..], [0xa5]);
    }
}

#[test]
fn an_asker_without_the_option_is_answered_where_its_frame_came_from() {
    let solicitation = NeighbourSolicitation { source_link_layer: None, ..asked() };
    let mut into = [0xa5; ADVERTISEMENT_FRAME_LEN];
    emit_neighbour_advertisement(&solicitation, ASKER, OWNER, &mut into).unwrap();
    assert_eq!(into, *hex(ADVERTISEMENT));
}

#[test]
fn an_advertisement_fits_no_shorter_buffer() {
    for have in 0..ADVERTISEMENT_FRAME_LEN {
        let mut into = std::vec![0xa5; have];
        let error = emit_neighbour_advertisement(&asked(), ASKER, OWNER, &mut into).unwrap_err();
        assert_eq!(error, NeighbourError::Truncated { need: ADVERTISEMENT_FRAME_LEN, have });
        assert!(into.iter().all(|&byte| byte == 0xa5), "a refused buffer is left alone");
    }
}

#[test]
fn a_routed_solicitation_is_refused() {
    for hop_limit in 0..HOP_LIMIT {
        let parsed = NeighbourSolicitation::parse(&hex(SOLICITATION), SOURCE, GROUP, hop_limit);
        assert_eq!(parsed, Err(NeighbourError::HopLimit(hop_limit)));
    }
}

#[test]
fn only_type_135_and_code_0_is_a_solicitation() {
    for value in 0..=255 {
        let mut message = hex(SOLICITATION);
        message[0] = value;
        if value != 135 {
            let expected = Err(NeighbourError::NotASolicitation(IcmpV6Type(value)));
            assert_eq!(parse(&summed(message.clone(), SOURCE, GROUP)), expected);
        }
        message[..2].copy_from_slice(&[135, value]);
        let expected = if value == 0 { Ok(asked()) } else { Err(NeighbourError::Code(value)) };
        assert_eq!(parse(&summed(message, SOURCE, GROUP)), expected);
    }
}

#[test]
fn a_group_is_no_target() {
    let mut message = hex(SOLICITATION);
    message[field::TARGET].copy_from_slice(&GROUP.octets());
    let message = summed(message, SOURCE, GROUP);
    assert_eq!(parse(&message), Err(NeighbourError::MulticastTarget));
}

#[test]
fn an_asker_without_address_asks_the_right_group_and_names_no_link_layer_address() {
    let nobody = Ipv6Addr::UNSPECIFIED;
    for (message, destination) in [(hex(SOLICITATION), GROUP), (hex(ADDRESS_CHECK), TARGET)] {
        let message = summed(message, nobody, destination);
        let parsed = NeighbourSolicitation::parse(&message, nobody, destination, HOP_LIMIT);
        assert_eq!(parsed, Err(NeighbourError::UnspecifiedSource));
    }
}

#[test]
fn other_options_are_skipped_and_broken_ones_named() {
    let with = |options: &[u8]| {
        let mut message = hex(ADDRESS_CHECK);
        message.extend(options);
        parse(&summed(message, SOURCE, GROUP)).map(|read| read.source_link_layer)
    };
    let nonce = [14, 1, 9, 9, 9, 9, 9, 9];
    let address = [1, 1, 2, 0, 0, 0, 0, 1];
    assert_eq!(with(&[nonce, address].concat()), Ok(Some(ASKER)));
    assert_eq!(with(&nonce), Ok(None));
    assert_eq!(with(&[nonce, [1, 0, 2, 0, 0, 0, 0, 1]].concat()), Err(option(32)));
    assert_eq!(with(&[1, 2, 2, 0, 0, 0, 0, 1]), Err(option(24)));
    assert_eq!(with(&address[..7]), Err(option(24)));
    assert_eq!(with(&[address; OPTIONS_MAX].concat()), Ok(Some(ASKER)));
    let too_many = [address; OPTIONS_MAX + 1].concat();
    assert_eq!(with(&too_many), Err(NeighbourError::TooManyOptions));
}

fn option(offset: usize) -> NeighbourError {
    NeighbourError::Option { offset }
}

#[test]
fn a_damaged_solicitation_is_never_believed() {
    each_truncation(&hex(SOLICITATION), |cut| {
        let expected = if cut.len() < 24 {
            NeighbourError::Truncated { need: 24, have: cut.len() }
        } else {
            NeighbourError::Checksum
        };
        assert_eq!(parse(cut), Err(expected));
    });
    each_bit_flip(&hex(SOLICITATION), |bytes| {
        assert!(parse(bytes).is_err());
        // With a sum made right again, what is read is refused or can be answered.
        if let Ok(read) = parse(&summed(bytes.to_vec(), SOURCE, GROUP)) {
            let mut into = [0xa5; ADVERTISEMENT_FRAME_LEN];
            emit_neighbour_advertisement(&read, ASKER, OWNER, &mut into).unwrap();
            assert_eq!(into[ADVERTISEMENT_FRAME_LEN - 6..], OWNER.0);
        }
    });
}

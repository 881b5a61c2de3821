//! Ethernet against golden frames.

use std::vec;
use std::vec::Vec;

use super::*;
use crate::golden;

const DESTINATION: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const SOURCE: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);

fn untagged() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/ethernet/untagged.hex"))
}

fn vlan() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/ethernet/vlan.hex"))
}

fn service_vlan() -> Vec<u8> {
    golden::hex(include_str!("../../../../conformance/ethernet/service_vlan.hex"))
}

fn tag(tag_type: EtherType, priority: u8, is_drop_eligible: bool, id: u32) -> VlanTag {
    VlanTag { tag_type, priority, is_drop_eligible, id: VlanId::new(id).unwrap() }
}

fn vlan_header() -> EthernetHeader {
    EthernetHeader {
        tags: [Some(tag(EtherType::VLAN, 5, true, 291)), None],
        ..EthernetHeader::untagged(DESTINATION, SOURCE, EtherType::IPV4)
    }
}

fn service_vlan_header() -> EthernetHeader {
    let tags = [tag(EtherType::SERVICE_VLAN, 0, false, 100), tag(EtherType::VLAN, 7, false, 4094)];
    EthernetHeader {
        tags: tags.map(Some),
        ..EthernetHeader::untagged(DESTINATION, SOURCE, EtherType::IPV6)
    }
}

#[test]
fn deconstruct() {
    let bytes = untagged();
    let view = EthernetView::parse(&bytes).unwrap();
    assert_eq!(view.destination(), DESTINATION);
    assert_eq!(view.source(), SOURCE);
    assert_eq!(view.ethertype(), EtherType(0x88b5));
    assert_eq!(view.vlan(), None);
    assert_eq!(view.header_len(), 14);
    assert_eq!(view.payload(), [1, 2, 3, 4]);
}

#[test]
fn construct() {
    let mut bytes = vec![0xa5; untagged().len()];
    EthernetHeader::untagged(SOURCE, SOURCE, EtherType(0x88b5)).emit(&mut bytes).unwrap();
    set_destination(&mut bytes, DESTINATION).unwrap();
    bytes[HEADER_BYTES..].copy_from_slice(&[1, 2, 3, 4]);
    assert_eq!(bytes, untagged());
}

#[test]
fn parse() {
    let (bytes, double) = (vlan(), service_vlan());
    let view = EthernetView::parse(&bytes).unwrap();
    assert_eq!(view.header(), vlan_header());
    assert_eq!((view.header_len(), view.payload()), (18, &[0x45][..]));
    let view = EthernetView::parse(&double).unwrap();
    assert_eq!(view.header(), service_vlan_header());
    assert_eq!(view.vlan(), service_vlan_header().tags[0]);
    assert_eq!((view.header_len(), view.payload()), (22, &[][..]));
}

#[test]
fn emit() {
    let mut bytes = [0xa5; 30];
    assert_eq!(vlan_header().emit(&mut bytes), Ok(18));
    assert_eq!(bytes[..18], vlan()[..18]);
    assert!(bytes[18..].iter().all(|&byte| byte == 0xa5));
    assert_eq!(service_vlan_header().emit(&mut bytes), Ok(22));
    assert_eq!(bytes[..22], service_vlan());
}

#[test]
fn a_third_tag_is_payload() {
    let mut bytes = service_vlan();
    bytes[20..22].copy_from_slice(&[0x81, 0x00]);
    let view = EthernetView::parse(&bytes).unwrap();
    assert_eq!(view.ethertype(), EtherType::VLAN);
    assert_eq!(view.header_len(), 22);
}

#[test]
fn every_value_of_every_field_survives() {
    let mut bytes = [0xa5; 22];
    for value in 0..=u16::MAX {
        let tag_value = VlanTag::read(EtherType::VLAN, value);
        assert_eq!(tag_value.bytes()[2..], value.to_be_bytes());
        let header = EthernetHeader {
            tags: [Some(tag_value), Some(tag_value)],
            ethertype: EtherType(value),
            ..vlan_header()
        };
        header.emit(&mut bytes).unwrap();
        assert_eq!(EthernetView::parse(&bytes).unwrap().header(), header);
    }
}

#[test]
fn a_header_cut_short_says_how_much_it_needs() {
    let needs = |bytes: &[u8]| match EthernetView::parse(bytes) {
        Err(EthernetError::Truncated { need, have }) => {
            assert_eq!(have, bytes.len());
            Some(need)
        }
        Ok(_) => None,
    };
    golden::each_truncation(&service_vlan(), |cut| {
        let expected = match cut.len() {
            0..14 => 14,
            14..18 => 18,
            _ => 22,
        };
        assert_eq!(needs(cut), Some(expected));
    });
    assert_eq!(needs(&service_vlan()), None);
}

#[test]
fn a_buffer_too_short_is_left_alone() {
    let mut bytes = [0xa5; 21];
    let error = EthernetError::Truncated { need: 22, have: 21 };
    assert_eq!(service_vlan_header().emit(&mut bytes), Err(error));
    assert_eq!(set_destination(&mut bytes[..13], SOURCE).map_err(|_| ()), Err(()));
    assert_eq!(bytes, [0xa5; 21]);
}

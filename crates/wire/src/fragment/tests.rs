//! Places of fragments, read from emitted and from damaged packets.

use std::vec::Vec;

use super::*;
use crate::golden;

fn place(frame: &[u8]) -> Option<FragmentPlace> {
    FragmentPlace::read(frame, &FrameView::parse(frame).ok()?)
}

/// IPv6 with a fragment header, eight bytes of destination options and a UDP header.
fn ipv6(offset_units: u16, more: bool, data: &[u8]) -> Vec<u8> {
    let mut frame = std::vec![2; 12];
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
    frame.extend(u16::try_from(8 + data.len()).unwrap().to_be_bytes());
    frame.extend([44, 64]);
    frame.extend([0x20; 32]);
    frame.extend([60, 0]);
    frame.extend((offset_units << 3 | u16::from(more)).to_be_bytes());
    frame.extend([0, 0, 0, 7]);
    frame.extend(data);
    frame
}

#[test]
fn the_transport_header_is_found_behind_what_is_cut_with_it() {
    let mut data = std::vec![17, 0, 1, 4, 0, 0, 0, 0];
    data.extend([0, 1, 0, 2, 0, 40, 0, 0]);
    data.extend([9; 9]);
    let first = place(&ipv6(0, true, &data)).unwrap();
    assert_eq!((first.identification, first.start, first.header_end), (7, 0, 16));
    assert_eq!((first.end, first.is_last), (24, false), "whole units of what is not the last");
    let last = place(&ipv6(3, false, &[1; 5])).unwrap();
    assert_eq!((last.start, last.end, last.is_last, last.head), (24, 29, true, 0));
    assert_eq!(place(&ipv6(0, false, &data)), None, "a whole packet");
}

#[test]
fn two_first_fragments_that_begin_otherwise_differ() {
    let frame = golden::hex(include_str!("../../../../conformance/frame/first_fragment.hex"));
    let first = place(&frame).unwrap();
    let at = usize::from(FrameView::parse(&frame).unwrap().l4_offset.unwrap());
    let mut other = frame.clone();
    other[at + 1] ^= 1;
    assert_ne!(place(&other).unwrap().head, first.head);
    other = frame;
    other[8] ^= 1;
    assert_eq!(place(&other).unwrap(), first, "its time to live is no part of it");
}

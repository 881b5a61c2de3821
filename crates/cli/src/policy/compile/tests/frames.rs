//! Frames that rules tell apart: those of the harness of functions, and of each some that are cut, tagged or have
//! headers between. Knows bytes of headers; refuses to know rules.

use catena_nf::harness::traffic::{Random, shapes};
use catena_nf::packet::Direction;
use catena_wire::frame::{FrameView, Network};

/// So many frames that follow from a seed, most of them of a version of IP if one is said, each with the side where it
/// comes in.
pub(super) fn frames(seed: u64, count: usize, is_v6: Option<bool>) -> Vec<(Vec<u8>, Direction)> {
    let mut random = Random::new(seed);
    let shapes = shapes(seed, 6 * count).into_iter();
    let frames = shapes.filter_map(|(shape, direction)| Some((shape.frame()?, direction)));
    let changed = frames.filter_map(|(frame, direction)| {
        let network = FrameView::parse(&frame).unwrap().network;
        let is_wanted = is_v6.is_none_or(|is_v6| (network == Network::Ipv6) == is_v6);
        if !is_wanted && random.below(20) > 0 {
            return None;
        }
        let changed = change(frame.clone(), &mut random);
        // What is no frame any more, or cuts the header of its first fragment, is left as it was.
        let is_frame = FrameView::parse(&changed).is_ok();
        Some((if is_frame { changed } else { frame }, direction))
    });
    changed.take(count).collect()
}

fn change(mut frame: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let view = FrameView::parse(&frame).unwrap();
    let ip = usize::from(view.l3_offset);
    match (view.network, random.below(16)) {
        // The first fragment of more.
        (Network::Ipv4, 0) => frame[ip + 6] = 0x20,
        (Network::Ipv6, 0..=2) => {
            // Whole (RFC 6946), first, or later.
            let offset = random.pick(&[0_u16, 1, 1 << 3, 100 << 3 | 1]).unwrap();
            let [high, low] = offset.to_be_bytes();
            insert(&mut frame, ip, 44, [0, 0, high, low, 0, 0, 0, 9]);
        }
        (Network::Ipv6, 3) => insert(&mut frame, ip, 0, [0, 0, 1, 4, 0, 0, 0, 0]),
        (Network::Ipv6, 4) => insert(&mut frame, ip, 60, [0, 0, 1, 4, 0, 0, 0, 0]),
        (_, 14) => {
            frame.splice(12..12, [0x88, 0xa8, 0, 5]);
        }
        // No IP.
        (_, 15) if ip == 14 => frame[12..14].copy_from_slice(&[0x90, 0]),
        _ => {}
    }
    frame
}

/// Puts a header behind that of IPv6.
fn insert(frame: &mut Vec<u8>, ip: usize, number: u8, mut header: [u8; 8]) {
    header[0] = std::mem::replace(&mut frame[ip + 6], number);
    let length = u16::from_be_bytes([frame[ip + 4], frame[ip + 5]]) + 8;
    frame[ip + 4..ip + 6].copy_from_slice(&length.to_be_bytes());
    frame.splice(ip + 40..ip + 40, header);
}

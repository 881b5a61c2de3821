//! The addresses of frames on links. Knows where they stand; refuses to know what is behind them.

use super::{Headed, HeaderSide};
use crate::engine::packet::trim_front;
use catena_io::Buffer;
use catena_model::DropReason;
use catena_wire::ethernet::{ADDRESSES_BYTES, HEADER_BYTES};

/// The octet of a frame whose bit says whether a source address is administered locally (IEEE 802 section 8).
const SOURCE_OCTET: usize = 6;
const LOCAL_BIT: u8 = 0x02;

/// The addresses of a frame as they are on links: bridges learn sources and send nothing back to where they have
/// learned a destination, but frames on source routes turn round behind them. So no source is anybody's destination.
pub(super) fn on_links(addresses: &[u8]) -> [u8; ADDRESSES_BYTES] {
    let mut turned = [0; ADDRESSES_BYTES];
    turned.copy_from_slice(addresses);
    off_links(&mut turned);
    turned
}

/// Gives a frame the source that it had before it was on links.
pub(super) fn off_links(frame: &mut [u8]) {
    if let Some(octet) = frame.get_mut(SOURCE_OCTET) {
        *octet ^= LOCAL_BIT;
    }
}

/// Takes the header of each frame that was located out from behind its addresses.
pub(super) fn restore(side: HeaderSide, frames: &mut dyn Iterator<Item = Headed<'_>>) {
    for frame in frames {
        let Ok(located) = *frame.located else { continue };
        if !take_out(frame.buffer, located.header_bytes) {
            *frame.located = Err(DropReason::MalformedSourceRoute);
        } else if side == HeaderSide::Tunnel {
            off_links(frame.buffer.bytes_mut());
        }
    }
}

fn take_out(buffer: &mut Buffer, bytes: usize) -> bool {
    let frame = buffer.bytes_mut();
    if frame.len() < HEADER_BYTES + bytes {
        return false;
    }
    frame.copy_within(..ADDRESSES_BYTES, bytes);
    trim_front(buffer, bytes)
}

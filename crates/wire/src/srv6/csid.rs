//! NEXT-CSID, RFC 9800 section 4: several identifiers in one address.
//!
//! Knows containers of a block of 32 bits and identifiers of 16, and the step within one. Refuses to know whose
//! identifiers they are, and containers that are laid out otherwise.
//!
//! ```text
//! |      block (32)       | active (16) |  argument: the next ones (80)  |
//! ```

use core::net::Ipv6Addr;

use super::{Srv6Error, endpoint};
use crate::ipv6::{self, Ipv6Header};

/// Bytes of the block, which all identifiers of a domain have in common.
pub const BLOCK_BYTES: usize = 4;
/// Identifiers of one container, the active one among them.
pub const CSIDS_MAX: usize = (16 - BLOCK_BYTES) / CSID_BYTES;
/// Bytes of an identifier.
pub const CSID_BYTES: usize = 2;
const BLOCK_BITS: u32 = 8 * BLOCK_BYTES as u32;
const CSID_BITS: u32 = 8 * CSID_BYTES as u32;
/// The bits behind the block, and those of the argument.
const BEHIND_BLOCK: u128 = u128::MAX >> BLOCK_BITS;
const ARGUMENT: u128 = BEHIND_BLOCK >> CSID_BITS;

/// The address that visits these identifiers one after the other.
///
/// # Errors
/// When there is none, more than [`CSIDS_MAX`], or one is 0.
pub fn container(block: [u8; BLOCK_BYTES], csids: &[u16]) -> Result<Ipv6Addr, Srv6Error> {
    let segments = csids.len();
    if segments == 0 {
        return Err(Srv6Error::NoSegments);
    }
    if segments > CSIDS_MAX {
        return Err(Srv6Error::TooManySegments { segments, most: CSIDS_MAX });
    }
    if csids.contains(&0) {
        return Err(Srv6Error::ZeroCsid);
    }
    let block = u128::from(u32::from_be_bytes(block)) << BEHIND_BLOCK.count_ones();
    let mut shift = BEHIND_BLOCK.count_ones();
    let address = csids.iter().fold(block, |address, csid| {
        shift -= CSID_BITS;
        address | u128::from(*csid) << shift
    });
    Ok(Ipv6Addr::from(address))
}

/// End with NEXT-CSID (section 4.1.1): the next identifier of the destination becomes the active one, with a hop less;
/// where none is left, as [`super::end`]. Answers the new destination.
///
/// # Errors
/// When the packet is no IPv6, has no hops left, or as [`super::end`]. It is left as it was.
pub fn next_csid(packet: &mut [u8]) -> Result<Ipv6Addr, Srv6Error> {
    let (header, _) = Ipv6Header::parse(packet).map_err(Srv6Error::Ip)?;
    let address = u128::from(header.destination);
    let argument = address & ARGUMENT;
    if argument == 0 {
        return endpoint::end(packet);
    }
    let hop_limit = endpoint::hop(&header)?;
    let next = Ipv6Addr::from(address & !BEHIND_BLOCK | argument << CSID_BITS);
    ipv6::set_destination(packet, next).map_err(Srv6Error::Ip)?;
    ipv6::set_hop_limit(packet, hop_limit).map_err(Srv6Error::Ip)?;
    Ok(next)
}

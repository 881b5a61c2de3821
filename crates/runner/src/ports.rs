//! Rings on packet sockets that somebody with the right to has opened. Refuses to open any itself.

use crate::error::RunError;
use catena_io::{PacketRing, RingConfig, drop_privileges};
use std::os::fd::OwnedFd;

/// The ports of packet sockets that are bound to their interfaces. Slots take super-frames: a veth brings
/// them whatever its MTU is.
///
/// # Errors
/// The kernel's refusal.
pub fn open(sockets: [OwnedFd; 2]) -> Result<[PacketRing; 2], RunError> {
    let [at_in, at_out] = sockets.map(|socket| PacketRing::map(socket, RingConfig::default()));
    Ok([at_in?, at_out?])
}

/// Gives up every right of this process: what is open stays open, and strangers' bytes are read without any.
/// To be called while there is one thread.
///
/// # Errors
/// The kernel's refusal.
pub fn confine() -> Result<(), RunError> {
    Ok(drop_privileges(None)?)
}

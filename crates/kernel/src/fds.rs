//! Descriptors over Unix sockets (`SCM_RIGHTS`).
//! It refuses to know what the bytes beside them mean; framing is the caller's.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use crate::{KernelError, Result};

/// Most descriptors one message may carry.
pub const DESCRIPTORS_MAX: usize = 32;

const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX));

/// Sends bytes with descriptors attached to the first of them; returns how many bytes went out
/// (fewer than given on a full stream socket: send the rest without descriptors).
///
/// Linux drops descriptors that ride on no byte, so with descriptors `bytes` must not be empty.
///
/// # Errors
/// Too many descriptors, no bytes to carry them, or the socket refuses (`WouldBlock` included).
pub fn send_with_fds(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<usize> {
    if descriptors.len() > DESCRIPTORS_MAX {
        return Err(KernelError::invalid(
            format!("{} descriptors in one message", descriptors.len()),
            "too many",
        ));
    }
    if bytes.is_empty() && !descriptors.is_empty() {
        return Err(KernelError::invalid("descriptors without a byte", "nothing carries them"));
    }
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(KernelError::invalid("descriptors of one message", "too many"));
    }
    rustix::io::retry_on_intr(|| {
        rustix::net::sendmsg(
            socket.as_fd(),
            &[IoSlice::new(bytes)],
            &mut control,
            SendFlags::NOSIGNAL,
        )
    })
    .map_err(|e| KernelError::system("send descriptors over", "a Unix socket", e))
}

/// Receives bytes and the descriptors that came with them; 0 bytes mean the peer closed.
/// The descriptors are closed on exec.
///
/// # Errors
/// The socket refuses (`WouldBlock` included), or more than [`DESCRIPTORS_MAX`] came (those that
/// fitted are closed).
pub fn receive_with_fds(socket: impl AsFd, bytes: &mut [u8]) -> Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        rustix::net::recvmsg(
            socket.as_fd(),
            &mut [IoSliceMut::new(bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )
    })
    .map_err(|e| KernelError::system("receive descriptors over", "a Unix socket", e))?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) {
        return Err(KernelError::invalid("descriptors of one message", "too many came"));
    }
    Ok((received.bytes, descriptors))
}

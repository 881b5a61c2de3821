//! Descriptors that travel from one process to another beside the bytes of a Unix stream socket.
//! Knows `SCM_RIGHTS` (unix(7)); refuses to know what the descriptors are and where messages end.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::error::IoError;

/// Most descriptors in one message.
pub const PASSED_FDS_MAX: usize = 16;

const CONTROL_BYTES: usize = rustix::cmsg_space!(ScmRights(PASSED_FDS_MAX));

/// Receives bytes and the descriptors that came with them; the latter close on exec. Zero bytes
/// mean the end of the stream. One call never returns bytes beyond those that were sent together
/// with its descriptors.
///
/// # Errors
/// The kernel's refusal, or more than [`PASSED_FDS_MAX`] descriptors (all are closed).
pub fn receive_with_fds(
    stream: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> Result<(usize, Vec<OwnedFd>), IoError> {
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let message = retry_on_intr(|| recvmsg(stream, &mut parts, &mut control, flags))
        .map_err(IoError::system("receiving a message with descriptors"))?;
    let mut fds = Vec::new();
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = part {
            fds.extend(passed);
        }
    }
    if message.flags.contains(ReturnFlags::CTRUNC) {
        return Err(IoError::DescriptorsTruncated { max: PASSED_FDS_MAX });
    }
    Ok((message.bytes, fds))
}

/// Sends the first of `bytes`, at least one, and all of `fds` with it; tells how many bytes.
/// The rest of the bytes is sent without the descriptors.
///
/// # Errors
/// The kernel's refusal, or more than [`PASSED_FDS_MAX`] descriptors.
pub fn send_with_fds(
    stream: BorrowedFd<'_>,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<usize, IoError> {
    IoError::check_range("passed descriptors", fds.len(), 0, PASSED_FDS_MAX)?;
    IoError::check_range("bytes sent with descriptors", bytes.len(), 1, usize::MAX)?;
    let mut space = [MaybeUninit::uninit(); CONTROL_BYTES];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(fds));
        debug_assert!(fits, "the space holds the most descriptors allowed");
    }
    let parts = [IoSlice::new(bytes)];
    retry_on_intr(|| sendmsg(stream, &parts, &mut control, SendFlags::NOSIGNAL))
        .map_err(IoError::system("sending a message with descriptors"))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_passed_descriptor_opens_the_same_file() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"content").unwrap();
        file.rewind().unwrap();
        let sent = send_with_fds(ours.as_fd(), b"port", &[file.as_fd(), ours.as_fd()]).unwrap();
        assert_eq!(sent, 4);
        drop(file);

        let mut bytes = [0; 16];
        let (count, mut fds) = receive_with_fds(theirs.as_fd(), &mut bytes).unwrap();
        assert_eq!((&bytes[..count], fds.len()), (&b"port"[..], 2));
        let mut content = String::new();
        File::from(fds.swap_remove(0)).read_to_string(&mut content).unwrap();
        assert_eq!(content, "content");
    }

    #[test]
    fn bytes_without_descriptors_and_the_end_of_the_stream_arrive_too() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        send_with_fds(ours.as_fd(), b"ab", &[]).unwrap();
        drop(ours);
        let mut bytes = [0; 16];
        let (count, fds) = receive_with_fds(theirs.as_fd(), &mut bytes).unwrap();
        assert_eq!((count, fds.len()), (2, 0));
        assert_eq!(receive_with_fds(theirs.as_fd(), &mut bytes).unwrap().0, 0);
    }

    #[test]
    fn the_most_descriptors_pass_and_one_more_is_refused() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let many = [ours.as_fd(); PASSED_FDS_MAX + 1];
        assert!(matches!(
            send_with_fds(ours.as_fd(), b"x", &many),
            Err(IoError::OutOfRange { value: 17, .. })
        ));
        assert!(send_with_fds(ours.as_fd(), b"", &many[..1]).is_err());
        send_with_fds(ours.as_fd(), b"x", &many[1..]).unwrap();
        let mut bytes = [0; 4];
        assert_eq!(receive_with_fds(theirs.as_fd(), &mut bytes).unwrap().1.len(), PASSED_FDS_MAX);
    }
}

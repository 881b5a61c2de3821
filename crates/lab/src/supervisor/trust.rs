//! Who may speak over a lab's abstract socket. Such a name has no permissions: anybody may take
//! it, and anybody may call. So both sides look who the other one is.

use crate::error::Result;
use catena_kernel::abstract_socket;
use std::os::unix::net::UnixStream;

/// The user at the other end, unless that is root or this process's own.
pub(crate) fn stranger_at(socket: &UnixStream) -> Result<Option<u32>> {
    let user = abstract_socket::peer_uid(socket)?;
    Ok((!is_trusted(user, rustix::process::geteuid().as_raw())).then_some(user))
}

fn is_trusted(user: u32, own: u32) -> bool {
    user == 0 || user == own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_oneself_are_trusted() {
        assert!(is_trusted(0, 1_000) && is_trusted(1_000, 1_000));
        assert!(!is_trusted(1_001, 1_000) && !is_trusted(1_000, 0));
        // What the kernel says of a peer that it knows nothing of.
        assert!(!is_trusted(u32::MAX, 0));
    }
}

//! Errors of the kernel doors: the object by its name, the operation, and the kernel's reason.
//! It refuses to decide what the caller should do, except to tell «not there» from the rest.

use std::io;

/// Answer of every door of this crate.
pub type Result<T> = std::result::Result<T, KernelError>;

/// Why the kernel did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A system call or a netlink request was refused.
    #[error("cannot {operation} {object}: {source}")]
    System {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On which object, by the name a person knows it by.
        object: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The object is missing now; it may appear later.
    #[error("{object} does not exist yet")]
    NotFoundYet {
        /// The missing object.
        object: String,
    },
    /// The interface has no peer: it is no veth.
    #[error("interface {interface} is a {kind}, not a veth: it has no peer to take packets from")]
    NotVeth {
        /// The interface that was named.
        interface: String,
        /// Its kind as the kernel tells it.
        kind: String,
    },
    /// The interface is a veth, but its other end lives in another namespace.
    #[error("the peer of interface {interface} is not in {expected}")]
    PeerElsewhere {
        /// The interface that was named.
        interface: String,
        /// The namespace where its peer was expected.
        expected: String,
    },
    /// A name or value can never be accepted, whatever the state of the machine.
    #[error("{object} is not valid: {reason}")]
    Invalid {
        /// The refused value.
        object: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The kernel answered something that does not answer the request.
    #[error("cannot {operation} {object}: unexpected answer: {answer}")]
    Answer {
        /// What was tried, as a verb.
        operation: &'static str,
        /// On which object.
        object: String,
        /// What came back.
        answer: String,
    },
}

impl KernelError {
    /// A refused system call.
    pub fn system(
        operation: &'static str,
        object: impl Into<String>,
        source: impl Into<io::Error>,
    ) -> Self {
        Self::System { operation, object: object.into(), source: source.into() }
    }

    /// An object that may appear later.
    pub fn not_found_yet(object: impl Into<String>) -> Self {
        Self::NotFoundYet { object: object.into() }
    }

    /// A value that can never be accepted.
    pub fn invalid(object: impl Into<String>, reason: &'static str) -> Self {
        Self::Invalid { object: object.into(), reason }
    }

    /// A refused netlink request.
    #[cfg(feature = "netlink")]
    pub(crate) fn netlink(
        operation: &'static str,
        object: impl Into<String>,
        error: &rtnetlink::Error,
    ) -> Self {
        match error {
            rtnetlink::Error::NetlinkError(message) => {
                Self::system(operation, object, message.to_io())
            }
            other => Self::Answer { operation, object: object.into(), answer: other.to_string() },
        }
    }

    /// The kernel's error number, where there is one.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::System { source, .. } => source.raw_os_error(),
            _ => None,
        }
    }

    /// Whether the object is simply not there (and may appear later).
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFoundYet { .. })
            || matches!(self.errno(), Some(libc::ENOENT | libc::ENODEV | libc::ESRCH | libc::ENXIO))
    }

    /// Whether the object was there before.
    pub fn is_already_there(&self) -> bool {
        self.errno() == Some(libc::EEXIST)
    }
}

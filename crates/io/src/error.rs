//! What can go wrong when a port is opened or used. Knows system calls and limits; refuses to know
//! what a port is for.

/// Why a port, a socket or a descriptor could not be used.
#[derive(Debug, thiserror::Error)]
pub enum IoError {
    /// The kernel refused a system call.
    #[error("{operation} failed: {source}")]
    System {
        /// What was asked of the kernel.
        operation: &'static str,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// A size or count lies outside its limits.
    #[error("{quantity} must be from {min} to {max}, not {value}")]
    OutOfRange {
        /// Which size or count, with its unit.
        quantity: &'static str,
        /// What was asked for.
        value: usize,
        /// The smallest that is taken.
        min: usize,
        /// The largest that is taken.
        max: usize,
    },
    /// A ring slot does not fill whole pages, so slots would not lie one after the other.
    #[error("a ring slot of {value} bytes is not a multiple of the page size {page_bytes}")]
    SlotAlignment {
        /// The slot size asked for, in bytes.
        value: usize,
        /// The size of a page of memory, in bytes.
        page_bytes: usize,
    },
    /// More descriptors were passed in one message than fit; the kernel closed the rest.
    #[error("more than {max} descriptors came in one message")]
    DescriptorsTruncated {
        /// How many one message may carry.
        max: usize,
    },
    /// Sockets that need rights are opened ahead, and all of these are in use.
    #[error("no {sockets} is left of those that were opened ahead")]
    ReserveEmpty {
        /// What kind of socket.
        sockets: &'static str,
    },
}

impl IoError {
    /// An adapter for `map_err`: names the call that failed.
    pub(crate) fn system<E: Into<std::io::Error>>(
        operation: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::System { operation, source: source.into() }
    }

    /// Checks a count or size against its limits.
    pub(crate) fn check_range(
        quantity: &'static str,
        value: usize,
        min: usize,
        max: usize,
    ) -> Result<(), Self> {
        if (min..=max).contains(&value) {
            Ok(())
        } else {
            Err(Self::OutOfRange { quantity, value, min, max })
        }
    }
}

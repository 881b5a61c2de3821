//! Why a function cannot run, or cannot go on.

use catena_io::IoError;
use catena_kernel::KernelError;
use catena_nf::carry_out::PatchError;
use catena_nf::check::Fault;

/// Why a function cannot run, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A port or the wait for it.
    #[error(transparent)]
    Io(#[from] IoError),
    /// The function did what its profile does not say.
    #[error(
        "the function broke its profile: {0}; it is stopped, as nothing that it says can be relied on; \
         this is a fault of the function, not of its rules: report it with them"
    )]
    Fault(Fault),
    /// A patch names what the packet does not have.
    #[error(
        "the function asked for a change that its packet cannot have ({0:?}); it is stopped; this is a \
         fault of the function, not of its rules: report it with them"
    )]
    Patch(PatchError),
    /// The socket to the collector.
    #[error("the socket to the collector cannot be made one that does not wait: {0}")]
    Collector(#[source] std::io::Error),
    /// The descriptor by which an account is asked for.
    #[error("whoever asks for an account cannot be heard: {0}")]
    Asking(#[source] std::io::Error),
    /// Both sides are one interface.
    #[error(
        "--in and --out are both {0}: a function stands between two interfaces, name another for one of them"
    )]
    OneInterface(String),
    /// An interface.
    #[error("interface {name} cannot be opened: {error}; {advice}")]
    Interface {
        /// Its name.
        name: String,
        /// The kernel's refusal.
        error: KernelError,
        /// What to do.
        advice: &'static str,
    },
    /// Something else of the kernel's.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// Random numbers.
    #[error("the kernel has no random numbers: {0}")]
    Seed(#[source] std::io::Error),
}

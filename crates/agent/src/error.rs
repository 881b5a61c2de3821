//! What can stop an agent, each in three parts: what happened, why, what to do next.

use std::path::PathBuf;

/// Why an agent cannot run.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// A certificate or key file is not there.
    #[error(
        "the TLS file {path} cannot be read: {source}; an agent and its controller know each other \
         by certificates: name the files that the controller issued for this node"
    )]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// Nothing to start a data plane with.
    #[error(
        "no data plane command is configured: the agent must be able to start one; give the path \
         of the catena binary"
    )]
    NoCommand,
    /// The kernel path and a kind of port that goes past it.
    #[error(
        "--port-io afpacket is the only one with the kernel path: AF_XDP takes frames before the \
         kernel's program sees them, and a TAP has no place for it: add --no-fastpath, or leave \
         --port-io away"
    )]
    PortsPastTheFastPath,
    /// No access to the node's interfaces.
    #[error(
        "the interfaces of this node are out of reach: {0}; the agent attaches ports with the \
         rights CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN: run it as root"
    )]
    Interfaces(#[source] catena_kernel::KernelError),
    /// The runtime could not listen to signals.
    #[error(
        "signals cannot be received: {0}; without them the agent could not be stopped cleanly: \
         look for an exhausted limit of open files"
    )]
    Signals(#[source] std::io::Error),
}

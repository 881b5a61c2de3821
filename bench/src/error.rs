//! Why a benchmark cannot go on.

use std::path::PathBuf;

/// Why a benchmark cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A program that is measured cannot be started.
    #[error("cannot start {what}: {reason}; build it with `cargo build --release` and try again")]
    Start {
        /// Which program.
        what: String,
        /// The system's or its own reason.
        reason: String,
    },
    /// A server did not answer as it must.
    #[error("{method} {url} was answered {status}: {body}; the figures would mean nothing")]
    Answer {
        /// The request.
        method: &'static str,
        /// Where to.
        url: String,
        /// What came.
        status: u16,
        /// Why.
        body: String,
    },
    /// The connection failed.
    #[error("the connection to {address} failed: {reason}; look at the server's log")]
    Connection {
        /// The server.
        address: String,
        /// The system's reason.
        reason: String,
    },
    /// What is measured does not do its work.
    #[error("{what} does not do what is measured: {reason}; the figures would mean nothing")]
    Wrong {
        /// Who.
        what: &'static str,
        /// What it does.
        reason: String,
    },
    /// Figures for the record would name a commit that does not hold what is measured.
    #[error(
        "no commit holds what would be measured; commit it first, or measure with --quick:\n{changed}"
    )]
    Uncommitted {
        /// As git tells them, one a line.
        changed: String,
    },
    /// Our own client was refused.
    #[error("{0}; the figures would mean nothing")]
    Client(#[from] catena_client::ClientError),
    /// A lab does not let us in.
    #[error("{0}; the figures would mean nothing")]
    Lab(#[from] catena_lab::LabError),
    /// A result cannot be written.
    #[error("cannot write {path}: {reason}; make room or choose another folder")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// An end of a measured connection failed.
    #[error("the measured connection failed: {0}")]
    Socket(#[from] std::io::Error),
}

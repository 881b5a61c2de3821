//! Why a controller cannot start or go on: what failed, why, and what to do next.

use catena_store::StoreError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why a controller cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// An address cannot be listened at.
    #[error("cannot listen at {address}: {source}; choose an address of this host that is free")]
    Listen {
        /// The address.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// A listener broke down.
    #[error("the {which} listener stopped: {reason}; start the controller again")]
    Serve {
        /// Northbound or southbound.
        which: &'static str,
        /// The reason.
        reason: String,
    },
    /// An open API would be reachable from other hosts.
    #[error(
        "authentication 'none' is refused on {0}: everybody who reaches that address could change \
         the network; listen on a loopback address or use 'token'"
    )]
    OpenApi(SocketAddr),
    /// Tokens would travel in the clear.
    #[error(
        "plain HTTP is refused on {0}: tokens would travel in the clear; listen on a loopback \
         address and put a server that speaks TLS in front of it"
    )]
    PlainHttp(SocketAddr),
    /// The admin token could not be shown, so it was not kept.
    #[error("the admin token cannot be printed: {0}; start the controller with a working output")]
    TokenUnseen(#[source] io::Error),
    /// The given Keystone cannot be asked.
    #[error("Keystone at '{url}' cannot be asked: {reason}; correct --keystone-url")]
    Keystone {
        /// Its URL as it was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The given collector of OpenTelemetry cannot be told.
    #[error("the collector at '{endpoint}' cannot be told: {reason}; correct --otlp-endpoint")]
    Otlp {
        /// Its URL.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A domain cannot begin without a number that nobody knows.
    #[error("the system gives no random numbers: {0}; start the controller again")]
    Randomness(#[source] io::Error),
    /// The admin token could not be made.
    #[error("the admin token cannot be made: {0}")]
    TokenUnmade(String),
    /// A file or directory cannot be used.
    #[error("cannot use '{path}': {source}; check that it exists and belongs to this user")]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A certificate cannot be made or read.
    #[error(
        "cannot make certificates with '{path}': {reason}; restore the directory or remove it and enroll all nodes again"
    )]
    Certificate {
        /// The authority's directory.
        path: PathBuf,
        /// The library's reason.
        reason: String,
    },
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A part of the controller ended by itself.
    #[error("the {0} ended unexpectedly; start the controller again and report this")]
    Ended(&'static str),
}

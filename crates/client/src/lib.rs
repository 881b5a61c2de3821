//! Typed client of the controller's HTTP API, used by CLI, labs and tests.
//!
//! Knows routes, envelopes and how errors are worded. Refuses to know servers and chains' insides.
#![forbid(unsafe_code)]

pub mod capture;
mod client;
pub mod deploy;
mod draft;
mod error;
mod native;
mod rule_sets;
mod slices;

pub use client::{API_PORT, Client, Kind};
pub use draft::Draft;
pub use error::ClientError;
pub use native::ChainChange;
pub use slices::Made;

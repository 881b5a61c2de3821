//! protocol
#![forbid(unsafe_code)]

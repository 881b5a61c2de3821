//! agent
#![forbid(unsafe_code)]

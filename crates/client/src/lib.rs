//! client
#![forbid(unsafe_code)]

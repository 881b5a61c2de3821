//! model
#![forbid(unsafe_code)]

//! io
#![forbid(unsafe_code)]

//! dataplane
#![forbid(unsafe_code)]

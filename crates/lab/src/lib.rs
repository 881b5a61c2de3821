//! lab
#![forbid(unsafe_code)]

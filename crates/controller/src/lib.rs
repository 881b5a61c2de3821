//! controller
#![forbid(unsafe_code)]

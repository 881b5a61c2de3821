//! The one binary `catena`.
#![forbid(unsafe_code)]

fn main() {}

//! The contract of network functions, and the functions that come with Catena.
#![forbid(unsafe_code)]

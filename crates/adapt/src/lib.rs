//! What paths measure of themselves.
//!
//! Pure: time comes as an argument, reports as values. Knows what may be believed, what follows from it, and how far;
//! refuses to know sockets, clocks, threads and headers, and to act on anything.
#![forbid(unsafe_code)]

pub mod observe;

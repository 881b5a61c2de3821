//! Tenants: who may do what, our own tokens, and those of a real Keystone.
#![allow(clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

mod bindings;
mod ends;
mod keystone;
mod matrix;
mod references;
mod tokens;

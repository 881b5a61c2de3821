//! Tenants: who may do what, our own tokens, and those of a real Keystone.

mod bindings;
mod ends;
mod keystone;
mod matrix;
mod numbers;
mod placing;
mod references;
mod tokens;
mod via;

//! The controller as its clients and nodes meet it, over real HTTP and mutual TLS. One binary, because
//! each costs a link of the whole controller.
#![allow(clippy::unwrap_used)]

mod acceptance;
mod former;
mod northbound;
mod support;
mod survival;
mod tenants;

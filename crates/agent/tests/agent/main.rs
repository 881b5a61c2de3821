//! The agent between a controller and a data plane that the tests play, or a real data plane.
#![allow(missing_docs, clippy::unwrap_used)]

mod authority;
mod controller;
mod dataplane;
mod large;
mod leaving;
mod locks;
mod machine;
mod port_kinds;
mod programs;
mod punt;
mod setups;
mod southbound;
mod whole;

/// The generated gRPC server.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod stubs {
    include!(concat!(env!("OUT_DIR"), "/server/catena.v1.rs"));
}

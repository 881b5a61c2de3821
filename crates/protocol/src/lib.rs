//! Messages between controller, agent and data plane, their framing, and the session of one node
//! with its controller as a state machine.
//!
//! Knows no socket, no clock and no async. The gRPC stubs live in `controller` and `agent`.
#![forbid(unsafe_code)]

pub mod delta;
pub mod former;
pub mod frame;
pub mod offers;
pub mod session;
pub mod setup;
pub mod telemetry;
mod told_place;
pub mod waiting_ends;

/// The generated messages; their documentation is in `proto/catena.proto`.
#[allow(missing_docs, clippy::all, unreachable_pub)]
pub mod message {
    include!(concat!(env!("OUT_DIR"), "/catena.v1.rs"));
}

/// Version of this protocol; controller and agent speak the lower of their two.
pub const PROTOCOL_VERSION: u32 = 20;

#[cfg(test)]
mod tests {
    use super::PROTOCOL_VERSION;
    use catena_model::resource::Encapsulation;

    #[test]
    fn whoever_speaks_this_version_knows_every_encapsulation() {
        for one in Encapsulation::ALL {
            let since = one.capabilities().since_protocol;
            assert!(since <= PROTOCOL_VERSION, "{}: {since}", one.name());
        }
    }
}

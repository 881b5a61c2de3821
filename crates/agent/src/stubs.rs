//! The generated gRPC client, and the server that tests put in the controller's place.
#![allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::pedantic)]

tonic::include_proto!("catena.v1");

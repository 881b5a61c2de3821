//! The generated gRPC server, and the client that tests put in an agent's place.
#![allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::pedantic)]

tonic::include_proto!("catena.v1");

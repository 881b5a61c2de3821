//! The collector beside a world that knows the truth.

mod believed;
mod lies;
mod loss;
mod routers;
mod world;

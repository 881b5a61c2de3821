//! The kernel's path against the engine: two engines get the same programs and the same packets, one
//! of them with the real program of the kernel before it. What leaves and what is counted must be
//! the same, whoever has done it.

#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../engine/frames.rs"]
mod frames;
#[allow(dead_code)]
#[path = "../engine/passing.rs"]
mod passing;
#[allow(dead_code)]
#[path = "../engine/scene.rs"]
mod scene;
#[allow(dead_code)]
#[path = "../engine/town.rs"]
mod town;

mod dice;
mod differential;
mod following;
mod goldens;
mod junction;
mod lending;
mod losses;
mod neighbours;
mod packets;
mod shares;
mod side;
mod streets;
mod transit;
mod twin;
mod watch;
mod ways;

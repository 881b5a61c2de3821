//! What is told of packets to people: which checks and followers are on, what the stages' notes mean in the
//! names that people gave, and why a packet took no path. Refuses to decide anything.

pub(crate) mod checks;
pub(crate) mod describe;
pub(crate) mod follows;
pub(crate) mod render;
pub(crate) mod why_not;

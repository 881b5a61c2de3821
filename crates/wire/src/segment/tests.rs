//! Super-frames.

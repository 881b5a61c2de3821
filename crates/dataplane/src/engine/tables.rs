//! (compiled tables; API only, being written)

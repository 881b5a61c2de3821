//! The doors to Linux: namespaces, netlink, packet sockets, process supervision.
//!
//! It knows the kernel's objects and how to ask for them, and says which object and which
//! operation failed. It refuses to know anything of chains, ports or programs of Catena.
//! What asks by netlink, and what waits, may be left out (`netlink`): packet sockets and signals need neither.
//! With `io` it is the only crate that may hold `unsafe`, and only in the files that say so.

pub mod abstract_socket;
#[cfg(feature = "netlink")]
pub mod attach;
pub mod capabilities;
pub mod cgroup;
pub mod confinement;
mod error;
pub mod ethtool;
pub mod fds;
pub mod heaps;
#[cfg(feature = "netlink")]
pub mod lldp_socket;
pub mod machine;
pub mod mounts;
pub mod namespace;
#[cfg(feature = "netlink")]
pub mod netlink;
pub mod packet;
pub mod process;
pub mod signals;
pub mod sysctl;
pub mod tap;
#[cfg(feature = "netlink")]
pub mod tc;
pub mod xdp;

pub use error::{KernelError, Result};

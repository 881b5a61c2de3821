//! The data plane's process against the real kernel: endpoints and a kernel-routing function in
//! namespaces of their own, and a test in the place of the agent.
#![allow(missing_docs, clippy::unwrap_used)]

mod agent;
mod control;
mod deltas;
mod former;
mod large;
mod links;
mod node;
mod setups;
mod traffic;

use catena_kernel::capabilities;

/// Leaves the test, saying so, where the kernel would refuse all of it.
fn is_privileged(test: &str) -> bool {
    let enough = capabilities::effective_has_net_admin() && capabilities::effective_has_sys_admin();
    if !enough {
        println!("SKIPPED: {test}: CAP_NET_ADMIN and CAP_SYS_ADMIN are missing");
    }
    enough
}

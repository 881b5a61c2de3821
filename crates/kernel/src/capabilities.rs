//! What this thread may do. It only looks; dropping privileges is the process's own affair.

use rustix::thread::CapabilitySet;

/// Whether links, routes and filters of the current network namespace may be changed.
pub fn effective_has_net_admin() -> bool {
    effective_has(CapabilitySet::NET_ADMIN)
}

/// Whether namespaces may be made and entered.
pub fn effective_has_sys_admin() -> bool {
    effective_has(CapabilitySet::SYS_ADMIN)
}

/// Whether this process belongs to the superuser.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn effective_has(wanted: CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(wanted))
}

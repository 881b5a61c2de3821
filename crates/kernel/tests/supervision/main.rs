//! Processes against the real kernel: who dies with whom, and what is left.
//!
//! The binary starts itself in small roles (see `roles`). It has its own `main`, because a role
//! must be a process of one thread.

// The roles are there to be killed: what they start is never waited for.
#![allow(clippy::unwrap_used, clippy::zombie_processes)]

mod roles;
mod scenarios;

use std::panic::{self, AssertUnwindSafe};

use catena_kernel::capabilities;

/// A name that is a sentence, and what proves it.
type Scenario = (&'static str, fn());

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == roles::MARK) {
        arguments.remove(0);
        roles::play(&arguments);
        return;
    }
    let filters: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    let mut failed = 0;
    for (name, scenario) in scenarios::ALL {
        if !filters.is_empty() && !filters.iter().any(|f| name.contains(f.as_str())) {
            continue;
        }
        if !capabilities::effective_has_net_admin() || !capabilities::effective_has_sys_admin() {
            println!("SKIPPED: {name}: CAP_NET_ADMIN and CAP_SYS_ADMIN are missing");
            continue;
        }
        let outcome = panic::catch_unwind(AssertUnwindSafe(scenario));
        println!("test {name} ... {}", if outcome.is_ok() { "ok" } else { "FAILED" });
        failed += i32::from(outcome.is_err());
    }
    std::process::exit(failed.min(1));
}

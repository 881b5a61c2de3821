//! The program in the running kernel, alone: rehearsed frame by frame against the interpreter, and
//! live between namespaces that the tests make.

#![allow(clippy::unwrap_used)]

mod corners;
mod differential;
mod doors;
mod frames;
mod live;
mod scene;
mod shares;
mod streams;
mod tunnels;
mod wires;

use catena_fastpath::{Program, Sizes, Tables};

/// Leaves the test, saying so, where the kernel would refuse all of it.
macro_rules! needs_privilege {
    ($test:literal) => {
        if !catena_kernel::capabilities::effective_has_net_admin()
            || !catena_kernel::capabilities::effective_has_sys_admin()
        {
            println!("SKIPPED: {}: CAP_NET_ADMIN and CAP_SYS_ADMIN are missing", $test);
            return;
        }
    };
}
pub(crate) use needs_privilege;

/// Small tables, so that their ends are met.
const SIZES: Sizes = Sizes { flows: 1_024, slots: 64, gates: 16, accounts: 64, places: 8 };

fn load() -> (Program, Tables) {
    let program = Program::load(SIZES).unwrap();
    let tables = open(&program);
    (program, tables)
}

fn open(program: &Program) -> Tables {
    let fds = program.tables().map(|fd| fd.try_clone_to_owned().unwrap()).collect();
    Tables::open(fds).unwrap()
}

//! Network namespaces for tests: each lives as long as the thread that made it.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;
use std::thread;

use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Runs `test` on a thread of its own in a new network namespace, where only loopback exists.
/// Without root it says so and passes.
pub(crate) fn in_new_namespace(name: &str, test: impl FnOnce() + Send + 'static) {
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: {name}: making a network namespace needs root");
        return;
    }
    let outcome = thread::spawn(move || {
        enter_new_namespace();
        test();
    })
    .join();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

/// Moves the calling thread to a new network namespace and brings its loopback up.
pub(crate) fn enter_new_namespace() {
    // SAFETY: the table of descriptors stays shared; only the network namespace becomes another.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
    ip("link set lo up");
}

/// Runs `ip` with these arguments in the namespace of the calling thread.
#[track_caller]
pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments}: {complaint}");
}

/// Keeps the kernel of this namespace from sending frames of its own on new interfaces.
#[allow(dead_code, reason = "each test file is a program of its own and uses its share")]
pub(crate) fn silence_ipv6() {
    for scope in ["all", "default"] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1").unwrap();
    }
}

/// A raw packet socket that sees every frame of `interface`, as the agent passes it.
#[allow(dead_code, reason = "each test file is a program of its own and uses its share")]
pub(crate) fn packet_socket(interface: &str) -> OwnedFd {
    let every_protocol = (libc::ETH_P_ALL as u16).to_be();
    let protocol = Protocol::from_raw(u32::from(every_protocol).try_into().unwrap());
    let flags = SocketFlags::CLOEXEC;
    let socket =
        socket_with(AddressFamily::PACKET, SocketType::RAW, flags, Some(protocol)).unwrap();
    // SAFETY: zero is a valid value of each field of this structure of integers.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = every_protocol;
    address.sll_ifindex = name_to_index(&socket, interface).unwrap() as i32;
    // SAFETY: the pointer and the length describe `address`, which the kernel only reads.
    let outcome = unsafe {
        let length = size_of_val(&address) as u32;
        libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length)
    };
    assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
    socket
}

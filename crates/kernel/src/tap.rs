//! TAP interfaces: opened by the privileged side, used by one that needs no privilege. It refuses
//! to read frames; that is the data plane's (`io`).
#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use crate::namespace::{NetNamespace, run_in};
use crate::{KernelError, Result};

const DEVICE: &str = "/dev/net/tun";
/// Bytes of an interface's name, its terminating zero among them.
const NAME_BYTES: usize = libc::IFNAMSIZ;
/// Length of the offload words before each frame (`virtio_net_hdr`), in bytes.
const OFFLOAD_WORDS_BYTES: libc::c_int = 10;
/// What the reader can finish for the sender: checksums, TCP segments of both families, with ECN.
const OFFLOADS: u32 = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;

/// What TUNSETIFF takes (`struct ifreq`): a name, flags, and room that it leaves alone.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    flags: libc::c_short,
    room: [u8; 22],
}

/// Opens the TAP of this name inside `namespace` and makes it if it is missing: without packet
/// information, with offload words before each frame, not blocking. One that was made here is gone
/// with the last descriptor of it.
///
/// # Errors
/// A name too long, or the kernel's refusal (`CAP_NET_ADMIN` in that namespace is needed).
pub fn open_tap(namespace: &NetNamespace, interface: &str) -> Result<OwnedFd> {
    let object = format!("TAP {interface} in network namespace {}", namespace.name());
    run_in(namespace, || open_here(interface))?.map_err(|e| KernelError::system("open", object, e))
}

fn open_here(interface: &str) -> io::Result<OwnedFd> {
    let bytes = interface.as_bytes();
    if bytes.len() >= NAME_BYTES {
        return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
    }
    let mut name = [0; NAME_BYTES];
    name[..bytes.len()].copy_from_slice(bytes);
    let mut open = OpenOptions::new();
    open.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC);
    let file = OwnedFd::from(open.open(DEVICE)?);
    let flags = (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
    let request = Request { name, flags, room: [0; 22] };
    // SAFETY: the pointer is to a live structure as large as the kernel's `ifreq`, which it reads
    // and to which it may write the name.
    told(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF as _, &raw const request) })?;
    // SAFETY: the pointer is to a live integer, which the kernel reads.
    told(unsafe {
        let words = OFFLOAD_WORDS_BYTES;
        libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ as _, &raw const words)
    })?;
    // SAFETY: the argument is a number, no pointer.
    told(unsafe {
        libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD as _, libc::c_ulong::from(OFFLOADS))
    })?;
    Ok(file)
}

fn told(answer: libc::c_int) -> io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

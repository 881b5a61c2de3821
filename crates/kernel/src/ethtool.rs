//! What is asked of an interface's driver by SIOCETHTOOL (ethtool(8)): who finishes checksums, how
//! many queues there are, and how fast it is. It refuses to know why anybody wants it otherwise.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::namespace::{NetNamespace, run_in};
use crate::{KernelError, Result};

const SIOCETHTOOL: u32 = 0x8946;
/// Commands (Linux `ethtool.h`).
const GET_SETTINGS: u32 = 0x01;
const GET_TRANSMIT_CHECKSUMS: u32 = 0x16;
const SET_TRANSMIT_CHECKSUMS: u32 = 0x17;
const GET_CHANNELS: u32 = 0x3c;
/// Places of the numbers in `struct ethtool_channels` that say how many are in use, in words.
const RECEIVING_CHANNELS: usize = 5;
const COMBINED_CHANNELS: usize = 8;
/// Words of `struct ethtool_cmd` that begin with the lower and the upper half of the speed.
const SPEED: usize = 3;
const SPEED_UPPER: usize = 7;
/// As long as the longest command's structure, in words.
const WORDS: usize = 11;

/// What SIOCETHTOOL takes (`struct ifreq`): a name, a pointer, and room that it leaves alone.
#[repr(C)]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    data: *mut u32,
    room: [u8; 16],
}

/// Whether senders leave the checksums of what goes out of an interface to it, which a virtual one
/// passes on unfinished.
///
/// # Errors
/// The interface is missing.
pub fn leaves_checksums(namespace: &NetNamespace, interface: &str) -> Result<bool> {
    let words = asked(namespace, interface, &[GET_TRANSMIT_CHECKSUMS])?;
    Ok(words[1] != 0)
}

/// Says whether senders may leave checksums to an interface.
///
/// # Errors
/// The interface is missing, or it cannot be otherwise.
pub fn leave_checksums(namespace: &NetNamespace, interface: &str, may: bool) -> Result<()> {
    asked(namespace, interface, &[SET_TRANSMIT_CHECKSUMS, u32::from(may)]).map(|_| ())
}

/// The speed of an interface in Mbit/s; none: its driver does not say.
///
/// # Errors
/// The interface is missing.
pub fn speed_mbits(namespace: &NetNamespace, interface: &str) -> Result<Option<u32>> {
    let half = |word: u32| {
        let [first, second, ..] = word.to_ne_bytes();
        u32::from(u16::from_ne_bytes([first, second]))
    };
    match asked(namespace, interface, &[GET_SETTINGS]) {
        Ok(words) => {
            let speed = half(words[SPEED_UPPER]) << 16 | half(words[SPEED]);
            Ok(Some(speed).filter(|speed| *speed != 0 && *speed != u32::MAX))
        }
        Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Queues by which an interface receives; one, if its driver does not say.
///
/// # Errors
/// The interface is missing.
pub fn receive_queues(namespace: &NetNamespace, interface: &str) -> Result<u32> {
    match asked(namespace, interface, &[GET_CHANNELS]) {
        Ok(words) => Ok((words[RECEIVING_CHANNELS] + words[COMBINED_CHANNELS]).max(1)),
        Err(error) if error.errno() == Some(libc::EOPNOTSUPP) => Ok(1),
        Err(error) => Err(error),
    }
}

fn asked(namespace: &NetNamespace, interface: &str, command: &[u32]) -> Result<[u32; WORDS]> {
    let object = format!("interface {interface} in network namespace {}", namespace.name());
    run_in(namespace, || ask_here(interface, command))?.map_err(|e| match e.raw_os_error() {
        Some(libc::ENODEV) => KernelError::not_found_yet(object),
        _ => KernelError::system("ask by ethtool", object, e),
    })
}

fn ask_here(interface: &str, command: &[u32]) -> io::Result<[u32; WORDS]> {
    let bytes = interface.as_bytes();
    if bytes.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    let mut name = [0; libc::IFNAMSIZ];
    name[..bytes.len()].copy_from_slice(bytes);
    let mut words = [0; WORDS];
    words[..command.len()].copy_from_slice(command);
    let asking = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let request = Request { name, data: words.as_mut_ptr(), room: [0; 16] };
    // SAFETY: the pointer is to a live structure as large as the kernel's `ifreq`; `data` in it is
    // to live words, as many as the longest of the three commands reads or writes, and nobody else
    // looks at them meanwhile.
    let answer = unsafe {
        libc::ioctl(asking.as_raw_fd(), libc::c_ulong::from(SIOCETHTOOL), &raw const request)
    };
    if answer == 0 { Ok(words) } else { Err(io::Error::last_os_error()) }
}

//! Packet sockets: opened by the privileged side, used by one that needs no privilege.
//! It refuses to map rings or read frames; that is the data plane's (`io`).
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice};

use crate::namespace::{NetNamespace, run_in};
use crate::{KernelError, Result};

/// Opens a raw packet socket inside `namespace`, bound to `interface`, for every EtherType.
///
/// Set on it: promiscuous membership, `PACKET_IGNORE_OUTGOING` (what we send does not come back)
/// and `PACKET_VNET_HDR` (super-frames and open checksums are described; the kernel refuses this
/// once a ring exists, so it is done here). Not set: `PACKET_QDISC_BYPASS`, which drops a
/// super-frame that the device cannot segment itself, where the ordinary path segments it; a veth
/// has no queue to bypass.
///
/// The receiver of the descriptor sets up and maps the ring. The kernel unhooks the socket while
/// it does so and throws away what was queued before: the first frame read from the ring is the
/// first of the ring's life, none is left over in the socket's own queue. The kernel's drop
/// counters (`PACKET_STATISTICS`) may already have moved by then; read them once to reset them.
///
/// # Errors
/// [`KernelError::NotFoundYet`] if the interface is missing; otherwise what the kernel refuses
/// (`CAP_NET_RAW` in that namespace is needed).
pub fn open_packet_socket(namespace: &NetNamespace, interface: &str) -> Result<OwnedFd> {
    open(namespace, interface, Takes::All)
}

/// The same in the namespace of the calling thread, which needs no right to enter any.
///
/// # Errors
/// As [`open_packet_socket`].
pub fn open_packet_socket_here(interface: &str) -> Result<OwnedFd> {
    open_here(interface, Takes::All).map_err(|e| match e.raw_os_error() {
        Some(libc::ENODEV) => KernelError::not_found_yet(format!("interface {interface}")),
        _ => KernelError::system("open", format!("packet socket on {interface}"), e),
    })
}

/// The same for a socket that only sends: it takes no frame, and is told all the same when its
/// interface goes.
///
/// # Errors
/// As [`open_packet_socket`].
pub fn open_sending_socket(namespace: &NetNamespace, interface: &str) -> Result<OwnedFd> {
    open(namespace, interface, Takes::Nothing)
}

/// The same for a link between nodes: it takes what may be on a source route, and nothing else. Whatever else comes
/// by the interface is the host's stack's alone.
///
/// # Errors
/// As [`open_packet_socket`].
pub fn open_link_socket(namespace: &NetNamespace, interface: &str) -> Result<OwnedFd> {
    open(namespace, interface, Takes::SourceRoutes)
}

/// Which frames a socket takes.
///
/// Every socket is bound for every EtherType: one of its own would be that of what it sends, and
/// the kernel would neither segment nor complete checksums; without one it would not be told of its
/// interface's end. So a filter refuses what one does not take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    All,
    Nothing,
    SourceRoutes,
}

fn open(namespace: &NetNamespace, interface: &str, takes: Takes) -> Result<OwnedFd> {
    let object = format!("packet socket on {interface} in network namespace {}", namespace.name());
    run_in(namespace, || open_here(interface, takes))?.map_err(|e| match e.raw_os_error() {
        Some(libc::ENODEV) => KernelError::not_found_yet(format!(
            "interface {interface} in network namespace {}",
            namespace.name()
        )),
        _ => KernelError::system("open", object, e),
    })
}

fn open_here(interface: &str, takes: Takes) -> io::Result<OwnedFd> {
    // Without a protocol the socket receives nothing until it is bound to its interface;
    // with one it would first collect the frames of all of them.
    let socket = rustix::net::socket_with(
        AddressFamily::PACKET,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let index = i32::try_from(netdevice::name_to_index(&socket, interface)?)
        .map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    let on: libc::c_int = 1;
    set_packet_option(&socket, libc::PACKET_IGNORE_OUTGOING, &on)?;
    set_packet_option(&socket, libc::PACKET_VNET_HDR, &on)?;
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_packet_option(&socket, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
    match takes {
        Takes::All => {}
        Takes::Nothing => filter(&socket, &mut [NOTHING])?,
        Takes::SourceRoutes => filter(&socket, &mut { SOURCE_ROUTES })?,
    }
    bind_to(&socket, index, libc::ETH_P_ALL as u16)?;
    Ok(socket)
}

/// No byte of a frame is wanted.
const NOTHING: libc::sock_filter = instruction(libc::BPF_RET | libc::BPF_K, (0, 0), 0);
/// All of it is.
const WHOLE: libc::sock_filter = instruction(libc::BPF_RET | libc::BPF_K, (0, 0), u32::MAX);

/// The EtherTypes of source routes: two of their own, and that of labels.
const OWN_TYPES: [u32; 2] = [0x88b5, 0x88b6];
const LABELS_TYPE: u32 = 0x8847;
/// Where a frame says its type. The kernel takes the outermost tag out before anybody looks.
const TYPE_AT: u32 = 12;

/// Takes frames of our own types, and labels, behind a tag or none.
const SOURCE_ROUTES: [libc::sock_filter; 6] = {
    let is = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    [
        instruction(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, (0, 0), TYPE_AT),
        instruction(is, (3, 0), OWN_TYPES[0]),
        instruction(is, (2, 0), OWN_TYPES[1]),
        instruction(is, (1, 0), LABELS_TYPE),
        NOTHING,
        WHOLE,
    ]
};

/// `jumps`: so many instructions to leave out where a comparison holds, and where it does not.
const fn instruction(code: u32, (jt, jf): (u8, u8), k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

/// Lets a socket take what a program says.
fn filter(socket: &OwnedFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    set_option(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

pub(crate) fn set_packet_option<T: Copy>(
    socket: &OwnedFd,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    set_option(socket, libc::SOL_PACKET, option, value)
}

fn set_option<T: Copy>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: `value` points to a live `T` and the length given is exactly its size; the kernel
    // only reads it, and what it points to lives as long as the call.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            mem::size_of::<T>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Frames that a socket has lost for want of room since this was asked last.
#[cfg(feature = "netlink")]
pub(crate) fn take_drops(socket: &OwnedFd) -> io::Result<u32> {
    let mut counted = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut length = mem::size_of::<libc::tpacket_stats>() as libc::socklen_t;
    // SAFETY: `counted` is a live structure of the length given, which the kernel fills.
    let answer = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            std::ptr::from_mut(&mut counted).cast(),
            &raw mut length,
        )
    };
    if answer == 0 { Ok(counted.tp_drops) } else { Err(io::Error::last_os_error()) }
}

/// Lets a socket take the frames of one EtherType at an interface.
pub(crate) fn bind_to(socket: &OwnedFd, index: i32, ethertype: u16) -> io::Result<()> {
    let address = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as libc::c_ushort,
        sll_protocol: ethertype.to_be(),
        sll_ifindex: index,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    // SAFETY: `address` is a live, fully set `sockaddr_ll` and the length given is exactly its
    // size; the kernel only reads it.
    let answer = unsafe {
        libc::bind(
            socket.as_fd().as_raw_fd(),
            std::ptr::from_ref(&address).cast(),
            mem::size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

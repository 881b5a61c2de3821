//! A socket for the frames of LLDP at one interface, and for no others.
//! It refuses to read or write what is in them.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, sockopt,
};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::namespace::{NetNamespace, run_in};
use crate::packet::{bind_to, set_packet_option, take_drops};
use crate::{KernelError, Result};

/// The EtherType (IEEE 802.1AB-2016 section 7.2).
const ETHERTYPE: u16 = 0x88cc;
/// Where its frames go: to the nearest bridge and no further (section 7.1).
const NEAREST_BRIDGE: [u8; 8] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e, 0, 0];
const MAC_BYTES: libc::c_ushort = 6;
/// Room for frames that wait to be read, in bytes: a storm ends here, and is counted.
const ROOM_BYTES: usize = 64 << 10;

/// The socket.
#[derive(Debug)]
pub struct LldpSocket(AsyncFd<OwnedFd>);

impl LldpSocket {
    /// Opens it inside a namespace, in the runtime of the calling task. What the host sends itself does not come
    /// back.
    ///
    /// # Errors
    /// [`KernelError::NotFoundYet`] if the interface is missing; otherwise what the kernel refuses
    /// (`CAP_NET_RAW` in that namespace is needed).
    pub fn open(namespace: &NetNamespace, interface: &str) -> Result<Self> {
        let here = format!("{interface} in network namespace {}", namespace.name());
        let opened = run_in(namespace, || open_here(interface))?.and_then(register);
        opened.map(Self).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV) => KernelError::not_found_yet(format!("interface {here}")),
            _ => KernelError::system("open", format!("LLDP socket on {here}"), e),
        })
    }

    /// Waits for a frame and reads it; answers how long it is. What is longer than the buffer is cut.
    ///
    /// # Errors
    /// The interface is down or gone; it may come back.
    pub async fn receive(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut ready = self.0.readable().await?;
            let read = ready.try_io(|socket| {
                Ok(rustix::net::recv(socket.get_ref(), &mut *into, RecvFlags::DONTWAIT)?.0)
            });
            // It was not so ready as it seemed.
            if let Ok(read) = read {
                return read;
            }
        }
    }

    /// Sends a frame, as it is, if there is room for it now.
    ///
    /// # Errors
    /// There is no room, or the interface is down or gone.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        rustix::net::send(self.0.get_ref(), frame, SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Frames that were lost, since this was asked last, because they were not read in time.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn take_drops(&self) -> io::Result<u32> {
        take_drops(self.0.get_ref())
    }
}

fn register(socket: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` is one open descriptor as long as it lives, and it lives as long as the `AsyncFd`, which
    // owns it and hands nobody the right to close it.
    Ok(unsafe { AsyncFd::register_with_interest(socket, Interest::READABLE) }?)
}

fn open_here(interface: &str) -> io::Result<OwnedFd> {
    // Without a protocol it takes nothing until it is bound to its interface.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
    let index = i32::try_from(netdevice::name_to_index(&socket, interface)?)
        .map_err(|_| io::Error::from_raw_os_error(libc::ENODEV))?;
    sockopt::set_socket_recv_buffer_size(&socket, ROOM_BYTES)?;
    let on: libc::c_int = 1;
    set_packet_option(&socket, libc::PACKET_IGNORE_OUTGOING, &on)?;
    let membership = libc::packet_mreq {
        mr_ifindex: index,
        mr_type: libc::PACKET_MR_MULTICAST as libc::c_ushort,
        mr_alen: MAC_BYTES,
        mr_address: NEAREST_BRIDGE,
    };
    set_packet_option(&socket, libc::PACKET_ADD_MEMBERSHIP, &membership)?;
    bind_to(&socket, index, ETHERTYPE)?;
    Ok(socket)
}

//! The doors to Linux against the real kernel: links, routes, filters, packet sockets, ports; and the kernel's segment
//! routing against ours.
//! Everything happens in namespaces the tests make; the machine's own interfaces are not touched.

#![allow(clippy::unwrap_used)]

mod attachment;
mod confinement;
mod links;
mod namespaces;
mod seg6;
mod swallow;
mod visitors;
mod ways;

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::netlink::Netlink;
use catena_kernel::{capabilities, sysctl};

/// Long enough for a loaded machine; only a failing test ever waits for it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Leaves the test, saying so, where the kernel would refuse all of it.
macro_rules! needs_privilege {
    ($test:literal) => {
        if !crate::is_privileged($test) {
            return;
        }
    };
}
pub(crate) use needs_privilege;

fn is_privileged(test: &str) -> bool {
    let enough = capabilities::effective_has_net_admin() && capabilities::effective_has_sys_admin();
    if !enough {
        println!("SKIPPED: {test}: CAP_NET_ADMIN and CAP_SYS_ADMIN are missing");
    }
    enough
}

/// A namespace with its links, gone when dropped.
struct Node {
    namespace: NetNamespace,
    links: Netlink,
}

impl Node {
    fn new(name: &str) -> Self {
        let namespace = NetNamespace::create_unnamed(name).unwrap();
        // A new namespace may inherit the host's reverse path filter.
        for interface in ["all", "default"] {
            let key = format!("net.ipv4.conf.{interface}.rp_filter");
            sysctl::write_in(&namespace, &key, "0").unwrap();
        }
        let links = Netlink::open(&namespace).unwrap();
        Self { namespace, links }
    }

    /// A pair between `self.near` and `other.far`, both up.
    async fn connect(&self, near: &str, other: &Self, far: &str) {
        self.links.add_veth(near, far, &other.namespace, 1500, None, None).await.unwrap();
        self.links.set_up(near).await.unwrap();
        other.links.set_up(far).await.unwrap();
    }

    async fn address(&self, link: &str, address: &str, prefix_len: u8) {
        self.links.add_address(link, address.parse().unwrap(), prefix_len).await.unwrap();
    }

    async fn default_route(&self, via: &str, dev: &str) {
        let any = ("0.0.0.0".parse().unwrap(), 0);
        self.links.add_route(any, Some(via.parse().unwrap()), dev, None).await.unwrap();
    }

    fn udp(&self, address: &str, port: u16) -> UdpSocket {
        let address: IpAddr = address.parse().unwrap();
        let socket = run_in(&self.namespace, || UdpSocket::bind(SocketAddr::new(address, port)))
            .unwrap()
            .unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }
}

fn receive(socket: &UdpSocket) -> String {
    let mut bytes = [0; 2048];
    let (length, _) = socket.recv_from(&mut bytes).unwrap();
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

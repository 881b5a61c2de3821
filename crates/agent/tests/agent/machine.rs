//! A node in a namespace of its own, and the agent on it.

use crate::programs;
use catena_agent::{AgentError, Config, DataplanePaths, Exports, InstancePaths, PortIo, TlsPaths};
use catena_kernel::namespace::{NamespaceId, NetNamespace, enter, run_in};
use catena_kernel::netlink::Netlink;
use catena_kernel::{capabilities, sysctl};
use catena_model::NodeName;
use catena_model::resource::{Attachment, InterfaceRef, NamespaceRef};
use catena_model::topology::NodeRole;
use catena_protocol::message::InterfacePlace;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use tokio::sync::oneshot;

pub(crate) const UNDERLAY: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// Leaves the test, saying so, where the kernel would refuse all of it.
pub(crate) fn is_privileged(test: &str) -> bool {
    let enough = capabilities::effective_has_net_admin() && capabilities::effective_has_sys_admin();
    if !enough {
        println!("SKIPPED: {test}: CAP_NET_ADMIN and CAP_SYS_ADMIN are missing");
    }
    enough
}

/// The node, the namespaces of two endpoints, and a directory.
pub(crate) struct Machine {
    pub(crate) namespace: NetNamespace,
    pub(crate) links: Netlink,
    pub(crate) endpoints: [NetNamespace; 2],
    pub(crate) dir: tempfile::TempDir,
}

impl Machine {
    pub(crate) async fn new() -> Self {
        let namespace = NetNamespace::create_unnamed("node").unwrap();
        let links = Netlink::open(&namespace).unwrap();
        links.set_up("lo").await.unwrap();
        links.add_address("lo", UNDERLAY, 32).await.unwrap();
        let endpoints = ["S", "D"].map(|name| NetNamespace::create_unnamed(name).unwrap());
        for place in endpoints.iter().chain([&namespace]) {
            sysctl::write_in(place, "net.ipv6.conf.default.disable_ipv6", "1").unwrap();
        }
        Self { namespace, links, endpoints, dir: tempfile::tempdir().unwrap() }
    }

    /// Where port 1 or 2 leads to.
    pub(crate) fn endpoint(&self, number: u8) -> &NetNamespace {
        &self.endpoints[usize::from(number) - 1]
    }

    /// The interface of port 1 or 2: one end on the node, one with its address beyond.
    pub(crate) async fn plug(&self, number: u8) {
        self.plug_as(number, &programs::interface(number)).await;
    }

    /// The same under another name.
    pub(crate) async fn plug_as(&self, number: u8, name: &str) {
        let far = format!("{name}-far");
        let mac = Some(programs::mac(number).0);
        let there = self.endpoint(number);
        self.links.add_veth(name, &far, there, 1_400, None, mac).await.unwrap();
        let links = Netlink::open(there).unwrap();
        links.add_address(&far, programs::address(number).into(), 24).await.unwrap();
        links.set_up(&far).await.unwrap();
    }

    /// Where an interface of that name is found by who looks from the node.
    pub(crate) fn beyond(&self, number: u8, interface: &str) -> Attachment {
        let fd = self.endpoint(number).as_fd().as_raw_fd();
        let path = format!("/proc/{}/fd/{fd}", std::process::id());
        InterfaceRef { namespace: Some(NamespaceRef::Netns(path)), interface: interface.into() }
            .into()
    }

    /// What an agent calls an interface of the node.
    pub(crate) async fn place(&self, interface: &str) -> InterfacePlace {
        let NamespaceId { device, inode } = self.namespace.id().unwrap();
        let interface = self.links.existing(interface).await.unwrap().index;
        InterfacePlace { namespace_device: device, namespace_inode: inode, interface }
    }

    /// A controller's socket on the node's loopback.
    pub(crate) fn listener(&self) -> TcpListener {
        run_in(&self.namespace, crate::controller::listener).unwrap()
    }

    pub(crate) fn listener_at(&self, address: SocketAddr) -> TcpListener {
        let listener = run_in(&self.namespace, || TcpListener::bind(address)).unwrap().unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    }

    pub(crate) fn start(
        &self,
        controller: SocketAddr,
        tls: &TlsPaths,
        dataplane: &DataplanePaths,
    ) -> RunningAgent {
        self.start_as(self.config(controller, tls, dataplane))
    }

    pub(crate) fn config(
        &self,
        controller: SocketAddr,
        tls: &TlsPaths,
        dataplane: &DataplanePaths,
    ) -> Config {
        Config {
            node: NodeName::new("host1").unwrap(),
            controller: controller.to_string(),
            tls: tls.clone(),
            underlay_address: UNDERLAY,
            underlay_devices: Vec::new(),
            segments: None,
            underlay_mtu: 1_500,
            role: NodeRole::Host,
            links: Vec::new(),
            uses_fast_path: false,
            port_io: PortIo::PacketRing,
            exports: Exports::default(),
            dataplane: dataplane.clone(),
            instances: InstancePaths {
                home: self.dir.path().join("instances"),
                binary: PathBuf::from("/nonexistent/catena"),
                cgroups: PathBuf::from(catena_kernel::cgroup::ROOT),
                cgroup_journal: self.dir.path().join("cgroups"),
            },
        }
    }

    /// An agent on this node.
    pub(crate) fn start_as(&self, config: Config) -> RunningAgent {
        let namespace = self.namespace.clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            enter(namespace.as_fd()).unwrap();
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::select! {
                    ended = catena_agent::run(config) => ended,
                    _ = stopped => Ok(()),
                }
            })
        });
        RunningAgent { stop: Some(stop), thread: Some(thread) }
    }
}

/// An agent; it is killed when dropped.
pub(crate) struct RunningAgent {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<Result<(), AgentError>>>,
}

impl RunningAgent {
    /// How it ended by itself.
    pub(crate) fn end(mut self) -> Result<(), AgentError> {
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for RunningAgent {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

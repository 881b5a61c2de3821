//! Both ends of a stream: a packet socket at the sender and one at the receiver. Knows ports and
//! namespaces; refuses to know what is between them.

use super::frames::Ends;
use super::stream;
use crate::error::{LabError, Result};
use crate::supervisor::Doorway;
use crate::vocabulary::{Lab, Users};
use crate::wiring::{PortPlan, WiringPlan};
use catena_io::StampedSocket;
use catena_kernel::namespace::{NetNamespace, run_in};
use catena_wire::ports;
use catena_wire::scalar::MacAddr;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// Where an end is.
pub(super) enum Room {
    /// At a node of the lab.
    Lab(Doorway),
    /// In a namespace of this process.
    Own(NetNamespace),
}

impl Room {
    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T> {
        match self {
            Self::Lab(doorway) => doorway.inside(work),
            Self::Own(namespace) => Ok(run_in(namespace, work)?),
        }
    }
}

/// The ends of a stream.
pub(super) struct Link {
    pub(super) ends: Ends,
    pub(super) sender: StampedSocket,
    pub(super) receiver: StampedSocket,
    /// Takes the datagrams at the receiver, so that its kernel refuses none.
    _sinks: Vec<UdpSocket>,
}

impl Link {
    /// Opens both ends on the network that sender and receiver share.
    pub(super) fn open(
        lab: &Lab,
        wiring: &WiringPlan,
        users: &Users,
        rooms: &[Room; 2],
    ) -> Result<Self> {
        let [from, to] = shared_ports(lab, wiring, users)?;
        let addresses = v4(&from.addresses)
            .zip(v4(&to.addresses))
            .ok_or_else(|| refused(lab, "users are on IPv4: give the network such a prefix"))?;
        let [sender, receiver] = rooms;
        let sinks = || {
            let all = [Some(ports::VXLAN), users.plain.as_ref().map(|plain| plain.port)];
            let bind = |port: u16| UdpSocket::bind((addresses.1, port));
            all.into_iter().flatten().map(bind).collect::<std::io::Result<Vec<_>>>()
        };
        let sinks = receiver
            .inside(sinks)?
            .map_err(|error| LabError::io("open", "a socket of the receiver", error))?;
        Ok(Self {
            ends: Ends { macs: (MacAddr(from.mac), MacAddr(to.mac)), addresses },
            sender: open(lab, sender, &from.network)?,
            receiver: open(lab, receiver, &to.network)?,
            _sinks: sinks,
        })
    }
}

/// A packet socket on an interface.
pub(super) fn open(lab: &Lab, room: &Room, interface: &str) -> Result<StampedSocket> {
    let open = || StampedSocket::open(interface, stream::RECEIVE_BYTES, stream::LOOK);
    room.inside(open)?.map_err(|error| refused(lab, &error.to_string()))
}

/// The ports of sender and receiver on a network that both are on.
pub(super) fn shared_ports<'w>(
    lab: &Lab,
    wiring: &'w WiringPlan,
    users: &Users,
) -> Result<[&'w PortPlan; 2]> {
    let of = |device: &str, network: &str| {
        wiring.ports.iter().find(|port| port.device == device && port.network == network)
    };
    let theirs = lab.networks_of(&users.to);
    let network = lab.networks_of(&users.from).iter().find(|name| theirs.contains(name));
    let network = network.ok_or_else(|| refused(lab, "sender and receiver share no network"))?;
    match (of(&users.from, network), of(&users.to, network)) {
        (Some(from), Some(to)) => Ok([from, to]),
        _ => Err(refused(lab, "sender or receiver has no port")),
    }
}

fn v4(addresses: &[IpAddr]) -> Option<Ipv4Addr> {
    addresses.iter().find_map(|address| match address {
        IpAddr::V4(v4) => Some(*v4),
        IpAddr::V6(_) => None,
    })
}

pub(super) fn refused(lab: &Lab, reason: &str) -> LabError {
    LabError::Refused { lab: lab.name.clone(), reason: reason.to_owned() }
}

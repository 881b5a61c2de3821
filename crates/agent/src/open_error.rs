//! Why a port does not get its interface, in words for its status: what, why, what to do.

use crate::needed::LOOPBACK;
use catena_kernel::KernelError;
use std::net::IpAddr;

/// Why an interface is not taken.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OpenError {
    #[error(transparent)]
    Kernel(#[from] KernelError),
    #[error("'{LOOPBACK}' is the loopback interface of the node itself")]
    Loopback,
    #[error(
        "interface '{interface}' carries the node's own address {address}, and a port takes an \
         interface away from the node: name the function's namespace (netns or pid) and its \
         interface there, or remove the address"
    )]
    OfTheNode { interface: String, address: IpAddr },
    #[error("interface '{interface}' is Catena's own ({what}): name another one")]
    Own { interface: String, what: &'static str },
    #[error(
        "interface '{interface}' is a link between nodes (--link): name another one, or start the agent without it \
         among its links"
    )]
    Link { interface: String },
    #[error("interface '{interface}' is no link of this node: its agent names others (--link)")]
    NoLink { interface: String },
    #[error(
        "interface '{interface}' is a member of '{master}', which would lose it: take it out of \
         there first (`ip link set {interface} nomaster`), or name another one"
    )]
    Member { interface: String, master: String },
    #[error(
        "interface '{interface}' is that of another port, and an interface has one: name another \
         one; this port gets it when the other one goes"
    )]
    Taken { interface: String },
    #[error(
        "interface '{interface}' receives by {queues} queues, and AF_XDP takes the frames of one: \
         `ethtool -L {interface} rx 1`, or `combined 1`"
    )]
    Queues { interface: String, queues: u32 },
    #[error(
        "interface '{interface}' is one end of a veth, and by AF_XDP its other end must finish \
         checksums: name the function's namespace (netns or pid) and its interface there"
    )]
    FarEnd { interface: String },
    #[error("TAP '{interface}' would lead to the node itself: name the namespace that it is for")]
    TapOfTheNode { interface: String },
    #[error("interface '{interface}' is a {kind} and no TAP: name one that is not there yet")]
    NoTap { interface: String, kind: String },
}

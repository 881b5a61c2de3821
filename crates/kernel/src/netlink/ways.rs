//! By which way an address is reached now. It refuses to keep the answer, and to know who wants to go there.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteVia,
};

use super::Netlink;
use crate::{KernelError, Result};

/// The first step towards an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// Index of the interface by which packets leave; that of the loopback for an address of this host.
    pub interface: u32,
    /// The router that they are given to; none: the address itself is on the link.
    pub gateway: Option<IpAddr>,
    /// The largest packet that may leave, in bytes: what the link takes, or less where the route says so
    /// or a router further on has said so.
    pub mtu: u32,
    /// It takes all that its link takes, and puts no header in front.
    pub is_plain: bool,
}

impl Netlink {
    /// By which way a packet to an address leaves; none: no route leads there, or only one that says that
    /// nothing gets there.
    ///
    /// # Errors
    /// The request is refused.
    pub async fn way_to(&self, address: IpAddr) -> Result<Option<Way>> {
        let object = self.here(&format!("way to {address}"));
        let question = RouteNetlinkMessage::GetRoute(question(address));
        let answers = match self.request("find", &object, question, 0).await {
            // Blackholes and prohibitions are told as what a sender would get.
            Err(error)
                if matches!(
                    error.errno(),
                    Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EINVAL | libc::EACCES)
                ) =>
            {
                return Ok(None);
            }
            outcome => outcome?,
        };
        let found = answers.iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewRoute(route) => Some(route),
            _ => None,
        });
        let attributes = found.map_or(&[][..], |route| &route.attributes);
        let interface = attributes.iter().find_map(|attribute| match attribute {
            RouteAttribute::Oif(index) => Some(*index),
            _ => None,
        });
        let Some(interface) = interface else {
            let answer = format!("{found:?}");
            return Err(KernelError::Answer { operation: "find", object, answer });
        };
        let Some(link) = self.link_at(interface).await? else { return Ok(None) };
        let mtu = mtu_of_route(attributes).map_or(link.mtu, |mtu| mtu.min(link.mtu));
        let is_wrapped = attributes
            .iter()
            .any(|it| matches!(it, RouteAttribute::Encap(_) | RouteAttribute::EncapType(_)));
        let is_plain = mtu == link.mtu && !is_wrapped;
        Ok(Some(Way { interface, gateway: attributes.iter().find_map(gateway), mtu, is_plain }))
    }
}

fn question(address: IpAddr) -> RouteMessage {
    match address {
        IpAddr::V4(address) => RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(address, Ipv4Addr::BITS as u8)
            .build(),
        IpAddr::V6(address) => RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(address, Ipv6Addr::BITS as u8)
            .build(),
    }
}

fn gateway(attribute: &RouteAttribute) -> Option<IpAddr> {
    match attribute {
        RouteAttribute::Gateway(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Gateway(RouteAddress::Inet6(address))
        | RouteAttribute::Via(RouteVia::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

fn mtu_of_route(attributes: &[RouteAttribute]) -> Option<u32> {
    attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Metrics(metrics) => metrics.iter().find_map(|metric| match metric {
            RouteMetric::Mtu(bytes) if *bytes > 0 => Some(*bytes),
            _ => None,
        }),
        _ => None,
    })
}

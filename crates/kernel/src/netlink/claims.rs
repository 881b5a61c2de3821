//! Prefixes that this node answers for past the host's stack: what goes to them is dropped without a word
//! where the stack would take it, forward it or complain. It refuses to know who takes it instead.

use std::net::{IpAddr, Ipv6Addr};

use rtnetlink::RouteMessageBuilder;
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteType,
};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};

use super::Netlink;
use super::routes::check_prefix;
use crate::Result;

/// Whose routes these are, among those of a host. The number is nobody's in `rt_protos` of iproute2.
const CLAIM_PROTOCOL: RouteProtocol = RouteProtocol::Other(95);
/// Before every other route to the same prefix, also that of an address with this prefix length.
const CLAIM_METRIC: u32 = 1;

impl Netlink {
    /// Keeps what goes to a prefix (its address and length) away from the host's stack, whether it forwards
    /// or not: neither is it delivered, nor forwarded, nor answered by ICMPv6. A packet socket sees it all the
    /// same. Routes to longer prefixes and the host's own addresses within are stronger. A claim that is
    /// there already stays.
    ///
    /// # Errors
    /// The prefix is too long, or somebody else has a route of this metric to it.
    pub async fn claim_prefix(&self, prefix: (Ipv6Addr, u8)) -> Result<()> {
        let (object, message) = self.claim(prefix)?;
        let message = RouteNetlinkMessage::NewRoute(message);
        match self.change("claim", &object, message, NLM_F_CREATE | NLM_F_EXCL).await {
            Err(error)
                if error.is_already_there()
                    && self.claimed_prefixes().await?.contains(&without_host_bits(prefix)) =>
            {
                Ok(())
            }
            outcome => outcome,
        }
    }

    /// Gives a prefix back; nothing happens to one that is not claimed.
    ///
    /// # Errors
    /// The prefix is too long, or the request is refused.
    pub async fn release_prefix(&self, prefix: (Ipv6Addr, u8)) -> Result<()> {
        let (object, message) = self.claim(prefix)?;
        match self.change("release", &object, RouteNetlinkMessage::DelRoute(message), 0).await {
            Err(error) if error.is_not_found() => Ok(()),
            outcome => outcome,
        }
    }

    /// The prefixes that are claimed, whoever did it: a process that died leaves its claims behind.
    ///
    /// # Errors
    /// The request is refused.
    pub async fn claimed_prefixes(&self) -> Result<Vec<(Ipv6Addr, u8)>> {
        let mut question = RouteMessage::default();
        question.header.address_family = AddressFamily::Inet6;
        let question = RouteNetlinkMessage::GetRoute(question);
        let answers = self.list("list", &self.here("IPv6 routes"), question).await?;
        Ok(answers.iter().filter_map(claimed).collect())
    }

    fn claim(&self, prefix: (Ipv6Addr, u8)) -> Result<(String, RouteMessage)> {
        let (address, length) = without_host_bits(prefix);
        check_prefix(IpAddr::V6(address), length)?;
        let message = RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(address, length)
            .kind(RouteType::BlackHole)
            .protocol(CLAIM_PROTOCOL)
            .priority(CLAIM_METRIC)
            .build();
        Ok((self.here(&format!("prefix {address}/{length}")), message))
    }
}

fn claimed(answer: &RouteNetlinkMessage) -> Option<(Ipv6Addr, u8)> {
    let RouteNetlinkMessage::NewRoute(route) = answer else { return None };
    let is_claim =
        route.header.protocol == CLAIM_PROTOCOL && route.header.kind == RouteType::BlackHole;
    let destination = route.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(*address),
        _ => None,
    });
    is_claim.then_some((destination?, route.header.destination_prefix_length))
}

/// The kernel keeps none of them.
fn without_host_bits((address, length): (Ipv6Addr, u8)) -> (Ipv6Addr, u8) {
    let host_bits = u128::MAX.checked_shr(length.into()).unwrap_or(0);
    (Ipv6Addr::from_bits(address.to_bits() & !host_bits), length)
}

//! Links: finding, making, changing and deleting them.
//! It refuses to know why a link is wanted.

use std::os::fd::{AsFd, AsRawFd};

use futures::TryStreamExt;
use rtnetlink::packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkInfo as Information, LinkMessage,
};
use rtnetlink::{LinkMessageBuilder, LinkUnspec};

use super::{LinkInfo, MacBytes, Netlink};
use crate::namespace::NetNamespace;
use crate::{KernelError, Result};

/// Longest interface name, in bytes (`IFNAMSIZ` without its closing zero).
pub const INTERFACE_NAME_BYTES_MAX: usize = 15;

impl Netlink {
    /// The link of this name, if it is there now.
    ///
    /// # Errors
    /// The name is malformed or the request is refused.
    pub async fn link(&self, name: &str) -> Result<Option<LinkInfo>> {
        check_interface_name(name)?;
        let request = self.handle.link().get().match_name(name.to_owned());
        self.one_link(name, request).await
    }

    /// The link of this index, if it is there now.
    ///
    /// # Errors
    /// The request is refused.
    pub async fn link_at(&self, index: u32) -> Result<Option<LinkInfo>> {
        let request = self.handle.link().get().match_index(index);
        self.one_link(&format!("link {index}"), request).await
    }

    /// The link of this index in the namespace that this one knows as `netns_id`.
    ///
    /// # Errors
    /// The number is unknown, or `CAP_NET_ADMIN` over that namespace is missing.
    pub async fn link_in(&self, netns_id: i32, index: u32) -> Result<Option<LinkInfo>> {
        let mut request = self.handle.link().get().match_index(index);
        request.message_mut().attributes.push(LinkAttribute::IfNetnsId(netns_id));
        self.one_link(&format!("link {index} of namespace number {netns_id}"), request).await
    }

    async fn one_link(
        &self,
        object: &str,
        request: rtnetlink::LinkGetRequest,
    ) -> Result<Option<LinkInfo>> {
        let mut answers = std::pin::pin!(request.execute());
        match answers.try_next().await {
            Ok(answer) => Ok(answer.as_ref().map(LinkInfo::from_message)),
            Err(error) => match self.failed("find", object, &error) {
                missing if missing.errno() == Some(libc::ENODEV) => Ok(None),
                other => Err(other),
            },
        }
    }

    /// All links of the namespace.
    ///
    /// # Errors
    /// The request is refused.
    pub async fn links(&self) -> Result<Vec<LinkInfo>> {
        let question = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.list("list", &self.here("links"), question).await?;
        let link = |answer: &RouteNetlinkMessage| match answer {
            RouteNetlinkMessage::NewLink(message) => Some(LinkInfo::from_message(message)),
            _ => None,
        };
        Ok(answers.iter().filter_map(link).collect())
    }

    /// Makes a veth pair: `name_a` here, `name_b` in `peer_ns`, both down. Without a MAC the
    /// kernel takes a random one.
    ///
    /// # Errors
    /// A name is malformed or taken.
    pub async fn add_veth(
        &self,
        name_a: &str,
        name_b: &str,
        peer_ns: &NetNamespace,
        mtu: u32,
        mac_a: Option<MacBytes>,
        mac_b: Option<MacBytes>,
    ) -> Result<()> {
        check_interface_name(name_a)?;
        check_interface_name(name_b)?;
        let mut far = end_of_pair(name_b, mtu, mac_b);
        far.attributes.push(LinkAttribute::NetNsFd(peer_ns.as_fd().as_raw_fd()));
        let mut near = end_of_pair(name_a, mtu, mac_a);
        near.attributes.push(LinkAttribute::LinkInfo(vec![
            Information::Kind(InfoKind::Veth),
            Information::Data(InfoData::Veth(InfoVeth::Peer(far))),
        ]));
        let object = format!("{name_a} with peer {name_b} in {}", peer_ns.name());
        self.create_link("create veth", &object, near).await
    }

    /// Makes a bridge, down, without spanning tree; groups it floods. `passes`: those of the addresses
    /// 01:80:c2:00:00:0X that no bridge passes on unless it is told to, by the bit of X (`group_fwd_mask` of
    /// ip-link(8)).
    ///
    /// # Errors
    /// The name is malformed or taken.
    pub async fn add_bridge(&self, name: &str, passes: u16) -> Result<()> {
        check_interface_name(name)?;
        let mut bridge = LinkMessage::default();
        bridge.attributes.push(LinkAttribute::IfName(name.to_owned()));
        // A bridge that listens for groups sends reports of its own into every port.
        let settings = vec![InfoBridge::MulticastSnooping(0), InfoBridge::GroupFwdMask(passes)];
        let settings = Information::Data(InfoData::Bridge(settings));
        let information = vec![Information::Kind(InfoKind::Bridge), settings];
        bridge.attributes.push(LinkAttribute::LinkInfo(information));
        self.create_link("create bridge", name, bridge).await
    }

    async fn create_link(
        &self,
        operation: &'static str,
        object: &str,
        message: LinkMessage,
    ) -> Result<()> {
        let message = RouteNetlinkMessage::NewLink(message);
        self.change(operation, &self.here(object), message, NLM_F_CREATE | NLM_F_EXCL).await
    }

    /// Makes `link` a port of `bridge`.
    ///
    /// # Errors
    /// Either is missing.
    pub async fn set_master(&self, link: &str, bridge: &str) -> Result<()> {
        let bridge_index = self.existing(bridge).await?.index;
        self.set("set master of", link, |m| m.controller(bridge_index)).await
    }

    /// Sets a link up.
    ///
    /// # Errors
    /// The link is missing.
    pub async fn set_up(&self, name: &str) -> Result<()> {
        self.set("set up", name, LinkMessageBuilder::up).await
    }

    /// Sets a link down: nothing comes in by it any more.
    ///
    /// # Errors
    /// The link is missing.
    pub async fn set_down(&self, name: &str) -> Result<()> {
        self.set("set down", name, LinkMessageBuilder::down).await
    }

    /// Gives a link a MAC and the largest payload that it takes, in bytes.
    ///
    /// # Errors
    /// The link is missing, or its driver refuses either.
    pub async fn set_mac_and_mtu(&self, name: &str, mac: MacBytes, mtu: u32) -> Result<()> {
        self.set("set MAC and MTU of", name, |m| m.address(mac.to_vec()).mtu(mtu)).await
    }

    /// Deletes a link (of a veth, both ends).
    ///
    /// # Errors
    /// The link is missing or cannot be deleted.
    pub async fn delete_link(&self, name: &str) -> Result<()> {
        check_interface_name(name)?;
        let message = LinkUnspec::new_with_name(name).build();
        let message = RouteNetlinkMessage::DelLink(message);
        self.change("delete link", &self.here(name), message, 0).await
    }

    /// The link of this name, or the error that it is not there yet.
    pub async fn existing(&self, name: &str) -> Result<LinkInfo> {
        self.link(name)
            .await?
            .ok_or_else(|| KernelError::not_found_yet(self.here(&format!("interface {name}"))))
    }

    async fn set(
        &self,
        operation: &'static str,
        name: &str,
        edit: impl FnOnce(LinkMessageBuilder<LinkUnspec>) -> LinkMessageBuilder<LinkUnspec>,
    ) -> Result<()> {
        check_interface_name(name)?;
        let message = edit(LinkUnspec::new_with_name(name)).build();
        let message = RouteNetlinkMessage::SetLink(message);
        self.change(operation, &self.here(name), message, 0).await
    }

    /// An object of this namespace, for messages.
    pub(super) fn here(&self, object: &str) -> String {
        format!("{object} in network namespace {}", self.namespace().name())
    }

    fn failed(
        &self,
        operation: &'static str,
        object: &str,
        error: &rtnetlink::Error,
    ) -> KernelError {
        KernelError::netlink(operation, self.here(object), error)
    }
}

fn end_of_pair(name: &str, mtu: u32, mac: Option<MacBytes>) -> LinkMessage {
    let builder = LinkUnspec::new_with_name(name).mtu(mtu);
    match mac {
        Some(mac) => builder.address(mac.to_vec()).build(),
        None => builder.build(),
    }
}

fn check_interface_name(name: &str) -> Result<()> {
    let refused = |reason| KernelError::invalid(format!("interface name {name:?}"), reason);
    if name.is_empty() || name.len() > INTERFACE_NAME_BYTES_MAX {
        return Err(refused("it must have 1 to 15 bytes"));
    }
    let forbidden = |c: char| c == '/' || c == ':' || c == '\0' || c.is_whitespace();
    if name == "." || name == ".." || name.contains(forbidden) {
        return Err(refused("it must not hold a slash, a colon, a zero byte or white space"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_names_follow_the_kernels_rule() {
        for name in ["eth0", "a", "v1-in.100", "0123456789abcde"] {
            assert!(check_interface_name(name).is_ok(), "{name}");
        }
        for name in ["", "0123456789abcdef", "a b", "a/b", "a:1", ".", "..", "a\0"] {
            assert!(check_interface_name(name).is_err(), "{name:?}");
        }
    }
}

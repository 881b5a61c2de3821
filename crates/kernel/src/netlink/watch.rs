//! Changes of links as they happen, so that a late port is noticed.
//! It keeps no state: after a gap the watcher looks at the links again.

use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::sys::protocols::NETLINK_ROUTE;
use rtnetlink::sys::{AsyncSocket, AsyncSocketExt, SocketAddr, TokioSocket};

use super::{LinkInfo, Netlink, current_runtime};
use crate::namespace::run_in;
use crate::{KernelError, Result};

/// Multicast group of link changes (`RTNLGRP_LINK`).
const LINK_GROUP: u32 = 1;

/// Room for changes that wait to be read, in bytes: some thousand links appearing at once.
const PENDING_BYTES: libc::c_int = 4 << 20;

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkChange {
    /// A link appeared, or something about it changed.
    Present(LinkInfo),
    /// A link went away (or into another namespace).
    Gone {
        /// Its index.
        index: u32,
        /// Its name.
        name: String,
    },
    /// Changes came faster than they were read and some are lost: look at all links again.
    Missed,
}

/// The stream of changes of one namespace, from the moment it was opened.
pub struct LinkWatch {
    socket: TokioSocket,
    object: String,
    pending: std::collections::VecDeque<LinkChange>,
}

impl std::fmt::Debug for LinkWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LinkWatch").field("object", &self.object).finish_non_exhaustive()
    }
}

impl Netlink {
    /// Starts watching. Open the watch first and then look at the links: no gap remains.
    ///
    /// # Errors
    /// The socket cannot be opened in the namespace.
    pub fn watch_links(&self) -> Result<LinkWatch> {
        let object = self.here("link changes");
        let runtime = current_runtime()?;
        let socket = run_in(self.namespace(), || {
            let _entered = runtime.enter();
            let mut socket = TokioSocket::new(NETLINK_ROUTE)?;
            socket.socket_mut().bind(&SocketAddr::new(0, 0))?;
            socket.socket_ref().set_rx_buf_sz(PENDING_BYTES)?;
            socket.socket_ref().add_membership(LINK_GROUP)?;
            Ok(socket)
        })?
        .map_err(|e: std::io::Error| KernelError::system("watch", object.clone(), e))?;
        Ok(LinkWatch { socket, object, pending: std::collections::VecDeque::new() })
    }
}

impl LinkWatch {
    /// The next change. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The socket fails; open a new watch.
    pub async fn next(&mut self) -> Result<LinkChange> {
        loop {
            if let Some(change) = self.pending.pop_front() {
                return Ok(change);
            }
            match self.socket.recv_from_full().await {
                Ok((datagram, _)) => self.pending.extend(changes_in(&datagram)),
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => return Ok(LinkChange::Missed),
                Err(e) => return Err(KernelError::system("watch", self.object.clone(), e)),
            }
        }
    }
}

/// A datagram holds one message after the other, each padded to four bytes. What cannot be read
/// is reported as missed rather than passed over.
fn changes_in(datagram: &[u8]) -> Vec<LinkChange> {
    const ALIGNMENT: usize = 4;
    let mut changes = Vec::new();
    let mut rest = datagram;
    while !rest.is_empty() {
        let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest) else {
            changes.push(LinkChange::Missed);
            break;
        };
        match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                changes.push(LinkChange::Present(LinkInfo::from_message(&link)));
            }
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(link)) => {
                let LinkInfo { index, name, .. } = LinkInfo::from_message(&link);
                changes.push(LinkChange::Gone { index, name });
            }
            _ => {}
        }
        let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
        let Some(after) = rest.get(length.next_multiple_of(ALIGNMENT)..) else { break };
        if length == 0 {
            break;
        }
        rest = after;
    }
    changes
}

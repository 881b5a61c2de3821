//! Netlink of one network namespace: the connection, and what all requests share.
//! It refuses to keep any picture of the namespace: each question goes to the kernel.

mod change;
mod claims;
mod describe;
mod routes;
mod watch;
mod ways;

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use rtnetlink::packet_core::{
    NLM_F_ACK, NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::nsid::{NsidAttribute, NsidMessage};
use tokio::runtime;
use tokio::sync::Mutex;

use crate::namespace::{NetNamespace, run_in};
use crate::{KernelError, Result};

pub use change::INTERFACE_NAME_BYTES_MAX;
pub use describe::{LinkInfo, LinkStatistics, MacBytes};
pub use routes::IpFamily;
pub use watch::{LinkChange, LinkWatch};
pub use ways::Way;

/// How often a list is asked for while the kernel still makes one that nobody waits for any more.
const LIST_ATTEMPTS_MAX: u32 = 200;
/// How long such a list is given each time.
const LIST_RETRY: Duration = Duration::from_millis(5);

/// A netlink connection inside one namespace, usable from any thread. The socket keeps belonging
/// to the namespace it was opened in. Clones share the connection.
#[derive(Debug, Clone)]
pub struct Netlink {
    handle: rtnetlink::Handle,
    namespace: NetNamespace,
    /// Held while a list is made: the kernel makes one at a time per connection.
    listing: Arc<Mutex<()>>,
}

impl Netlink {
    /// Opens a connection inside `namespace`. A task of the current tokio runtime carries it and
    /// ends when the last clone is dropped.
    ///
    /// # Errors
    /// Not called within a tokio runtime, or the namespace cannot be entered.
    pub fn open(namespace: &NetNamespace) -> Result<Self> {
        let object = || format!("netlink in network namespace {}", namespace.name());
        let runtime = current_runtime()?;
        let (mut connection, handle, _unsolicited) = run_in(namespace, || {
            let _entered = runtime.enter();
            rtnetlink::new_connection()
        })?
        .map_err(|e| KernelError::system("open", object(), e))?;
        // Without them the end of a broken connection looks like success.
        connection.set_forward_ack(true);
        runtime.spawn(connection);
        Ok(Self { handle, namespace: namespace.clone(), listing: Arc::default() })
    }

    /// The namespace this connection works in.
    pub fn namespace(&self) -> &NetNamespace {
        &self.namespace
    }

    /// The number under which this namespace knows `other`, if the kernel ever had to give one.
    /// Numbers are relative: two namespaces may know one another under different numbers.
    ///
    /// # Errors
    /// The request is refused.
    pub async fn id_of(&self, other: &NetNamespace) -> Result<Option<i32>> {
        const OPERATION: &str = "ask for the number of";
        let descriptor = u32::try_from(other.as_fd().as_raw_fd()).map_err(|_| {
            KernelError::invalid(format!("descriptor of {}", other.name()), "negative")
        })?;
        let mut question = NsidMessage::default();
        question.attributes.push(NsidAttribute::Fd(descriptor));
        let answers = self
            .request(OPERATION, other.name(), RouteNetlinkMessage::GetNsId(question), 0)
            .await?;
        for answer in answers {
            if let RouteNetlinkMessage::NewNsId(found) = answer {
                // A negative number means: none given so far.
                return Ok(found.attributes.iter().find_map(|attribute| match attribute {
                    NsidAttribute::Id(id) if *id >= 0 => Some(*id),
                    _ => None,
                }));
            }
        }
        Ok(None)
    }

    /// Sends one question and collects what is answered.
    pub(crate) async fn request(
        &self,
        operation: &'static str,
        object: &str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        let mut stream = std::pin::pin!(self.send(operation, object, message, flags)?);
        let mut answers = Vec::new();
        while let Some(answer) = stream.next().await {
            match answer.payload {
                NetlinkPayload::InnerMessage(inner) => answers.push(inner),
                NetlinkPayload::Error(error) if error.code.is_some() => {
                    return Err(KernelError::system(operation, object, error.to_io()));
                }
                _ => {}
            }
        }
        Ok(answers)
    }

    /// Asks for a list. Lists that are asked for at once are made one after the other.
    pub(crate) async fn list(
        &self,
        operation: &'static str,
        object: &str,
        message: RouteNetlinkMessage,
    ) -> Result<Vec<RouteNetlinkMessage>> {
        let _turn = self.listing.lock().await;
        let mut attempt = 1;
        loop {
            match self.request(operation, object, message.clone(), NLM_F_DUMP).await {
                // Whoever asked before gave up in the middle; the list is made to its end all the
                // same.
                Err(error) if error.errno() == Some(libc::EBUSY) && attempt < LIST_ATTEMPTS_MAX => {
                    attempt += 1;
                    tokio::time::sleep(LIST_RETRY).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Sends one change and waits until the kernel says that it is made.
    pub(crate) async fn change(
        &self,
        operation: &'static str,
        object: &str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<()> {
        let stream = self.send(operation, object, message, flags | NLM_F_ACK)?;
        let mut stream = std::pin::pin!(stream);
        while let Some(answer) = stream.next().await {
            if let NetlinkPayload::Error(outcome) = answer.payload {
                return match outcome.code {
                    None => Ok(()),
                    Some(_) => Err(KernelError::system(operation, object, outcome.to_io())),
                };
            }
        }
        let closed = io::Error::from(io::ErrorKind::ConnectionAborted);
        Err(KernelError::system(operation, object, closed))
    }

    fn send(
        &self,
        operation: &'static str,
        object: &str,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> Result<impl Stream<Item = NetlinkMessage<RouteNetlinkMessage>> + use<>> {
        let mut request = NetlinkMessage::from(message);
        request.header.flags = NLM_F_REQUEST | flags;
        let mut handle = self.handle.clone();
        handle.request(request).map_err(|e| KernelError::netlink(operation, object, &e))
    }
}

fn current_runtime() -> Result<runtime::Handle> {
    runtime::Handle::try_current().map_err(|e| {
        KernelError::system("open netlink outside of", "a tokio runtime", io::Error::other(e))
    })
}

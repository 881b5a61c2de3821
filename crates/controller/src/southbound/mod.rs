//! The server that agents dial: gRPC over mutual TLS. A node is who its certificate says it is.

pub(crate) mod collector;
pub(crate) mod fleet;
mod identity;
pub(crate) mod instances;
pub(crate) mod links;
pub(crate) mod pki;
mod session;
mod setups;
pub(crate) mod telemetry;
mod tls;

use crate::connections::{Door, Seated, Tally};
use crate::error::ControllerError;
use crate::reconcile::Signals;
use crate::stubs::southbound_server::{Southbound, SouthboundServer};
use catena_model::NodeName;
use catena_protocol::frame::FRAME_BYTES_MAX;
use catena_protocol::message::{FromAgent, ToAgent};
use fleet::Fleet;
use pki::Authority;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Server;
use tonic::transport::server::{TcpConnectInfo, TlsConnectInfo};
use tonic::{Request, Response, Status, Streaming};

/// A silent agent is asked this often; with the timeout a cut link shows within 3 s.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a peer may take to shake hands.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests that one connection may have at a time; a session is one.
const STREAMS_OF_NODE_MAX: u32 = 8;
/// Connections that have shaken hands and wait to be served.
const HANDS_SHAKEN_MAX: usize = 16;
/// Messages that may wait for one agent.
const OUTGOING_MAX: usize = 16;

/// Serves agents; without a listener it only waits.
pub(crate) async fn serve(
    listener: Option<TcpListener>,
    door: &Arc<Door>,
    authority: Authority,
    fleet: Arc<Fleet>,
    signals: Signals,
) -> Result<(), ControllerError> {
    let Some(listener) = listener else { return std::future::pending().await };
    let stopped = |reason: String| ControllerError::Serve { which: "southbound", reason };
    let acceptor = TlsAcceptor::from(tls::server_config(authority)?);
    let (shaken, incoming) = mpsc::channel(HANDS_SHAKEN_MAX);
    let service = SouthboundServer::new(SouthboundService { fleet, signals })
        .max_decoding_message_size(FRAME_BYTES_MAX)
        .max_encoding_message_size(FRAME_BYTES_MAX);
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .max_concurrent_streams(STREAMS_OF_NODE_MAX)
        .add_service(service)
        .serve_with_incoming(ReceiverStream::new(incoming).map(Ok::<_, std::io::Error>));
    tokio::select! {
        ended = server => ended.map_err(|e| stopped(e.to_string()))?,
        () = shake_hands(&listener, door, &acceptor, shaken) => {}
    }
    Err(ControllerError::Ended("southbound server"))
}

/// Takes connections, each in its own time: who is slow keeps nobody waiting.
async fn shake_hands(
    listener: &TcpListener,
    door: &Arc<Door>,
    acceptor: &TlsAcceptor,
    shaken: mpsc::Sender<TlsStream<Seated>>,
) {
    let failed = Tally::new();
    loop {
        let (seated, peer) = door.accept(listener).await;
        let (acceptor, shaken, failed) = (acceptor.clone(), shaken.clone(), failed.clone());
        tokio::spawn(async move {
            let seat = Arc::clone(seated.seat());
            let reason = match timeout(HANDSHAKE_TIMEOUT, acceptor.accept(seated)).await {
                Ok(Ok(stream)) => {
                    // From here on it belongs to a node.
                    let certificates = stream.get_ref().1.peer_certificates();
                    let node = certificates.and_then(|all| identity::node_of(all.first()?));
                    seat.belongs_to(node.as_ref().map_or("nobody", NodeName::as_str));
                    let busy = seat.busy();
                    let _ = shaken.send(stream).await;
                    // The seat keeps it, and counts it as used, until the connection is over.
                    busy.for_good();
                    return;
                }
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("nothing in {} s", HANDSHAKE_TIMEOUT.as_secs()),
            };
            failed.note(|count| {
                format!("southbound: {count} handshakes failed, the last from {peer}: {reason}")
            });
        });
    }
}

struct SouthboundService {
    fleet: Arc<Fleet>,
    signals: Signals,
}

#[tonic::async_trait]
impl Southbound for SouthboundService {
    type SessionStream = ReceiverStream<Result<ToAgent, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<FromAgent>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let node = certified_node(&request)?;
        let (outgoing, stream) = mpsc::channel(OUTGOING_MAX);
        let (fleet, signals) = (Arc::clone(&self.fleet), self.signals.clone());
        tokio::spawn(session::converse(node, request.into_inner(), outgoing, fleet, signals));
        Ok(Response::new(ReceiverStream::new(stream)))
    }
}

fn certified_node<T>(request: &Request<T>) -> Result<NodeName, Status> {
    request
        .extensions()
        .get::<TlsConnectInfo<TcpConnectInfo>>()
        .and_then(TlsConnectInfo::peer_certs)
        .and_then(|certificates| identity::node_of(certificates.first()?))
        .ok_or_else(|| {
            Status::unauthenticated(
                "the certificate names no node; make one with 'catena node enroll'",
            )
        })
}

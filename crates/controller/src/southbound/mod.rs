//! The server that agents dial: gRPC over mutual TLS. A node is who its certificate says it is.

pub(crate) mod fleet;
mod identity;
pub(crate) mod pki;
mod session;
mod wanted;

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
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{TcpConnectInfo, TcpIncoming, TlsConnectInfo};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

/// A silent agent is asked this often; with the timeout a cut link shows within 3 s.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a peer may take to shake hands.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Messages that may wait for one agent.
const OUTGOING_MAX: usize = 16;

/// Serves agents; without a listener it only waits.
pub(crate) async fn serve(
    listener: Option<TcpListener>,
    authority: &Authority,
    fleet: Arc<Fleet>,
    signals: Signals,
) -> Result<(), ControllerError> {
    let Some(listener) = listener else { return std::future::pending().await };
    let stopped = |reason: String| ControllerError::Serve { which: "southbound", reason };
    let issued = authority.issue_controller()?;
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(issued.certificate, issued.key))
        .client_ca_root(Certificate::from_pem(authority.certificate()))
        .timeout(HANDSHAKE_TIMEOUT);
    let service = SouthboundServer::new(SouthboundService { fleet, signals })
        .max_decoding_message_size(FRAME_BYTES_MAX)
        .max_encoding_message_size(FRAME_BYTES_MAX);
    Server::builder()
        .tls_config(tls)
        .map_err(|e| stopped(e.to_string()))?
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .add_service(service)
        .serve_with_incoming(TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await
        .map_err(|e| stopped(e.to_string()))?;
    Err(ControllerError::Ended("southbound server"))
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

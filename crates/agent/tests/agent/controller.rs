//! The test in the place of a controller.

use crate::authority::Authority;
use crate::programs::change;
use crate::stubs::southbound_server::{Southbound, SouthboundServer};
use catena_model::NodeCounters;
use catena_model::entry::Program;
use catena_protocol::PROTOCOL_VERSION;
use catena_protocol::message::{
    Delta, FromAgent, Hello, PortStates, ProgramResult, Question, ToAgent, Welcome, from_agent,
    to_agent,
};
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Response, Status, Streaming};

/// Long enough for a loaded machine; only a failing test ever waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Listens; each session of an agent comes out of it.
pub(crate) struct TestController {
    pub(crate) address: SocketAddr,
    sessions: mpsc::Receiver<Dialled>,
    server: tokio::task::JoinHandle<()>,
}

struct Dialled {
    from_agent: Streaming<FromAgent>,
    to_agent: mpsc::Sender<Result<ToAgent, Status>>,
}

struct Door(mpsc::Sender<Dialled>);

#[tonic::async_trait]
impl Southbound for Door {
    type SessionStream = ReceiverStream<Result<ToAgent, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<FromAgent>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (to_agent, answers) = mpsc::channel(16);
        let dialled = Dialled { from_agent: request.into_inner(), to_agent };
        self.0.send(dialled).await.map_err(|_| Status::unavailable("stopped"))?;
        Ok(Response::new(ReceiverStream::new(answers)))
    }
}

/// The loopback socket of a controller in the calling thread's namespace.
pub(crate) fn listener() -> TcpListener {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    listener
}

impl TestController {
    /// With mutual TLS, or in plain text.
    pub(crate) fn start(listener: TcpListener, authority: Option<&Authority>) -> Self {
        let address = listener.local_addr().unwrap();
        let (opened, sessions) = mpsc::channel(4);
        let mut server = Server::builder();
        if let Some(authority) = authority {
            let (certificate, key) = authority.issue("controller");
            let tls = ServerTlsConfig::new()
                .identity(Identity::from_pem(certificate, key))
                .client_ca_root(Certificate::from_pem(&authority.pem));
            server = server.tls_config(tls).unwrap();
        }
        let router = server.add_service(SouthboundServer::new(Door(opened)));
        let incoming = TcpListenerStream::new(tokio::net::TcpListener::from_std(listener).unwrap());
        let server = tokio::spawn(async move {
            router.serve_with_incoming(incoming).await.unwrap();
        });
        Self { address, sessions, server }
    }

    /// Listens no more.
    pub(crate) async fn stop(self) {
        self.server.abort();
        self.server.await.ok();
    }

    /// The next session, welcomed.
    pub(crate) async fn welcome(&mut self) -> (TestSession, Hello) {
        let dialled = tokio::time::timeout(PATIENCE, self.sessions.recv()).await.unwrap().unwrap();
        let mut session = TestSession { dialled };
        let hello = match session.hear().await {
            from_agent::Message::Hello(hello) => hello,
            other => panic!("not introduced but {other:?}"),
        };
        session
            .tell(to_agent::Message::Welcome(Welcome {
                protocol_version: PROTOCOL_VERSION,
                software_version: "test".into(),
            }))
            .await;
        (session, hello)
    }

    /// Nobody gets in for this long.
    pub(crate) async fn stays_alone(&mut self, wait: Duration) -> bool {
        tokio::time::timeout(wait, self.sessions.recv()).await.is_err()
    }
}

pub(crate) struct TestSession {
    dialled: Dialled,
}

impl TestSession {
    pub(crate) async fn tell(&mut self, message: to_agent::Message) {
        self.dialled.to_agent.send(Ok(ToAgent { message: Some(message) })).await.unwrap();
    }

    pub(crate) async fn hear(&mut self) -> from_agent::Message {
        let next = self.dialled.from_agent.message();
        tokio::time::timeout(PATIENCE, next).await.unwrap().unwrap().unwrap().message.unwrap()
    }

    /// The agent ended the session.
    pub(crate) async fn is_over(&mut self) -> bool {
        loop {
            match tokio::time::timeout(PATIENCE, self.dialled.from_agent.message()).await.unwrap() {
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return true,
            }
        }
    }

    /// Sends a whole program; answers the result and the port states that came before it.
    pub(crate) async fn send(&mut self, program: Program) -> (ProgramResult, Option<PortStates>) {
        self.deliver(change(&Program::default(), &program)).await
    }

    /// The same for a part of a change.
    pub(crate) async fn deliver(&mut self, delta: Delta) -> (ProgramResult, Option<PortStates>) {
        self.tell(to_agent::Message::Delta(delta)).await;
        let mut states = None;
        loop {
            match self.hear().await {
                from_agent::Message::ProgramResult(result) => {
                    assert!(result.ports.is_empty(), "ports are between data plane and agent");
                    return (result, states);
                }
                from_agent::Message::PortStates(newer) => states = Some(newer),
                from_agent::Message::LinkStates(_) => {}
                other => panic!("no result but {other:?}"),
            }
        }
    }

    /// The next result, whatever ports do meanwhile.
    pub(crate) async fn result(&mut self) -> ProgramResult {
        loop {
            if let from_agent::Message::ProgramResult(result) = self.hear().await {
                return result;
            }
        }
    }

    /// Waits until the ports are as wanted; the states are reason by identity.
    pub(crate) async fn until(&mut self, is_wanted: impl Fn(&BTreeMap<String, String>) -> bool) {
        loop {
            if let from_agent::Message::PortStates(states) = self.hear().await
                && is_wanted(&reasons(&states))
            {
                return;
            }
        }
    }

    pub(crate) async fn counters(&mut self, request: u64) -> NodeCounters {
        let asked = catena_model::Question::Counters { with_interfaces: true, of: None };
        let body = serde_json::to_vec(&asked).unwrap();
        self.tell(to_agent::Message::Question(Question { request, body })).await;
        loop {
            if let from_agent::Message::Answer(answer) = self.hear().await {
                assert_eq!(answer.request, request);
                let answer = serde_json::from_slice(&answer.body).unwrap();
                let catena_model::Answer::Counters(counters) = answer else { panic!("{answer:?}") };
                return *counters;
            }
        }
    }
}

pub(crate) fn reasons(states: &PortStates) -> BTreeMap<String, String> {
    states.ports.iter().map(|port| (port.port_id.clone(), port.reason.clone())).collect()
}

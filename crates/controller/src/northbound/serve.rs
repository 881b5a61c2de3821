//! How connections of the API are served: each for as long as it is used, within bounds of time. Knows
//! connections; refuses to know what is asked over them.

use super::app::App;
use super::call::Peer;
use super::gate;
use crate::connections::{Busy, Door, Seated};
use crate::error::ControllerError;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::Request;
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;

/// How long a connection may take to ask for something: from its beginning, or from the last answer,
/// to the end of the headers.
const HEADERS_WAIT: Duration = Duration::from_secs(30);

/// Serves until it is dropped.
pub(crate) async fn serve(
    listener: TcpListener,
    door: &Arc<Door>,
    app: Arc<App>,
) -> Result<(), ControllerError> {
    let router = TowerToHyperService::new(gate::router(app));
    loop {
        let (seated, peer) = door.accept(&listener).await;
        tokio::spawn(attend(seated, peer.ip(), router.clone(), HEADERS_WAIT));
    }
}

async fn attend(
    seated: Seated,
    peer: IpAddr,
    router: TowerToHyperService<Router>,
    headers_wait: Duration,
) {
    let seat = Arc::clone(seated.seat());
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        let busy = seat.busy();
        request.extensions_mut().insert(Peer(peer));
        let answered = router.call(request);
        async move {
            Ok::<_, std::convert::Infallible>(
                answered.await?.map(|body| Kept { body, _busy: busy }),
            )
        }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(headers_wait);
    // Whatever ends it is the peer's affair.
    let _ = server.serve_connection(TokioIo::new(seated), service).await;
}

/// An answer that keeps its connection from being idle until it is sent.
struct Kept {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Kept {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connections::doors;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn who_sends_no_whole_headers_in_time_is_cut_off_also_after_an_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (door, _) = doors();
        tokio::spawn(async move {
            let router = TowerToHyperService::new(Router::new().fallback(async || "answered"));
            loop {
                let (seated, peer) = door.accept(&listener).await;
                tokio::spawn(attend(seated, peer.ip(), router.clone(), Duration::from_millis(50)));
            }
        });
        let whole = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
        for (sent, answers) in [("", 0), ("GET / HTTP/1.1\r\nHost: loc", 0), (whole, 1)] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(sent.as_bytes()).await.unwrap();
            // It ends by itself: with an end that is told, or without.
            let mut said = Vec::new();
            let _ = stream.read_to_end(&mut said).await;
            let said = String::from_utf8(said).unwrap();
            assert_eq!(said.matches("answered").count(), answers, "{sent:?}: {said}");
        }
    }
}

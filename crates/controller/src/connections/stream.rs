//! A connection on its seat: ends when its seat is needed, and when its peer does not take what is
//! sent. Knows bytes alone.

use super::Seat;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::Sleep;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// How long a peer may leave what is sent to it untaken.
const UNTAKEN_MAX: Duration = Duration::from_secs(30);

/// A connection on its seat.
pub(crate) struct Seated {
    stream: TcpStream,
    seat: Arc<Seat>,
    /// None: it was told to leave.
    leave: Option<oneshot::Receiver<()>>,
    /// Runs while something cannot be sent.
    untaken: Option<Pin<Box<Sleep>>>,
    untaken_max: Duration,
}

impl Seated {
    pub(super) fn new(stream: TcpStream, seat: Arc<Seat>, leave: oneshot::Receiver<()>) -> Self {
        let untaken_max = UNTAKEN_MAX;
        Self { stream, seat, leave: Some(leave), untaken: None, untaken_max }
    }

    pub(crate) fn seat(&self) -> &Arc<Seat> {
        &self.seat
    }

    /// Lets what was tried pass, unless it could not be done for too long.
    fn bounded(
        &mut self,
        tried: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(done) = tried {
            self.untaken = None;
            return Poll::Ready(done);
        }
        let end = || Box::pin(tokio::time::sleep(self.untaken_max));
        let end = self.untaken.get_or_insert_with(end);
        end.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Seated {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Also asked when bytes are there: its waker must stand.
        if self.leave.as_mut().is_none_or(|leave| Pin::new(leave).poll(cx).is_ready()) {
            self.leave = None;
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

impl AsyncWrite for Seated {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write(cx, from);
        self.bounded(tried, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let tried = Pin::new(&mut self.stream).poll_write_vectored(cx, from);
        self.bounded(tried, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl Connected for Seated {
    type ConnectInfo = TcpConnectInfo;

    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use super::super::doors;
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    async fn pair() -> (Seated, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (doors().0.accept(&listener).await.0, peer)
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (mut seated, mut peer) = pair().await;
        seated.untaken_max = Duration::from_millis(50);
        seated.write_all(b"taken").await.unwrap();
        peer.read_exact(&mut [0; 5]).await.unwrap();
        let endless = async {
            loop {
                seated.write_all(&[0; 65_536]).await?;
            }
            #[allow(unreachable_code, reason = "it says what the errors are")]
            Ok::<(), io::Error>(())
        };
        assert_eq!(endless.await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_connection_ends_when_its_seat_is_gone() {
        let (mut seated, _peer) = pair().await;
        seated.seat.door.seats().taken.clear();
        for _ in 0..2 {
            let ended = seated.read(&mut [0; 1]).await.unwrap_err();
            assert_eq!(ended.kind(), io::ErrorKind::ConnectionAborted);
        }
    }
}

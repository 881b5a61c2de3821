//! The body of a request, read whole within bounds of size and time. Refuses to know what is in it.

use axum::body::{Body, Bytes};
use std::time::Duration;
use tokio_stream::StreamExt;

/// Largest request body, in bytes, where a route says nothing else.
pub(super) const BODY_BYTES_MAX: usize = 1024 * 1024;
/// How long a body may take.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// Why there is no body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It is larger than so many bytes.
    TooLarge(usize),
    /// It breaks off, or is no HTTP.
    Malformed,
    /// It takes longer than it may.
    Slow,
}

impl Broken {
    /// What to tell the sender.
    pub(crate) fn advice(self) -> String {
        match self {
            Self::TooLarge(max) => {
                format!("A body has at most {max} bytes here; send less at once.")
            }
            Self::Malformed => "The body broke off or is no HTTP; send it again.".into(),
            Self::Slow => "The body took too long; send it at once.".into(),
        }
    }
}

/// Reads a body of at most so many bytes whole.
pub(super) async fn read(body: Body, bytes_max: usize) -> Result<Bytes, Broken> {
    read_within(BODY_WAIT, body, bytes_max).await
}

async fn read_within(wait: Duration, body: Body, bytes_max: usize) -> Result<Bytes, Broken> {
    tokio::time::timeout(wait, gather(body, bytes_max)).await.unwrap_or(Err(Broken::Slow))
}

async fn gather(body: Body, bytes_max: usize) -> Result<Bytes, Broken> {
    let mut chunks = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|_| Broken::Malformed)?;
        if whole.len() + chunk.len() > bytes_max {
            return Err(Broken::TooLarge(bytes_max));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never() -> Body {
        Body::from_stream(tokio_stream::pending::<Result<Bytes, std::io::Error>>())
    }

    #[tokio::test]
    async fn a_body_is_as_large_as_it_may_be_and_no_larger_and_comes_in_time() {
        let of = |bytes: usize| read(Body::from(vec![b' '; bytes]), BODY_BYTES_MAX);
        assert_eq!(of(BODY_BYTES_MAX).await.map(|body| body.len()), Ok(BODY_BYTES_MAX));
        assert_eq!(of(BODY_BYTES_MAX + 1).await, Err(Broken::TooLarge(BODY_BYTES_MAX)));
        assert_eq!(read_within(Duration::from_millis(1), never(), 1).await, Err(Broken::Slow));
    }
}

//! Listens at one link for LLDP, no faster than a link may speak: what comes above that waits in the kernel until
//! it is lost, and is counted there. Refuses to know what is said.

use catena_kernel::lldp_socket::LldpSocket;
use catena_model::limits::LINK_LLDP_FRAMES_PER_SECOND;
use catena_wire::lldp::FRAME_MAX;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Octets of a frame that are read: others may say more than we do.
const READ_BYTES: usize = 1_518;
/// How long an interface rests that cannot be read, down or gone.
const REST: Duration = Duration::from_millis(200);

const _: () = assert!(READ_BYTES >= FRAME_MAX);

/// A frame and the link by which it came.
pub(crate) struct Heard {
    pub(crate) link: Arc<str>,
    pub(crate) frame: Vec<u8>,
}

/// An open socket and who listens at it. It is closed when this is dropped.
#[derive(Debug)]
pub(crate) struct Ear {
    socket: Arc<LldpSocket>,
    task: JoinHandle<()>,
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Ear {
    /// Listens from now on.
    pub(crate) fn new(socket: LldpSocket, link: Arc<str>, heard: mpsc::Sender<Heard>) -> Self {
        let socket = Arc::new(socket);
        let task = tokio::spawn(listen(Arc::clone(&socket), link, heard));
        Self { socket, task }
    }

    /// Says something at the link, if there is room for it now.
    ///
    /// # Errors
    /// What the interface answers.
    pub(crate) fn say(&self, frame: &[u8]) -> io::Result<()> {
        self.socket.send(frame)
    }

    /// Frames that were lost since this was asked last.
    pub(crate) fn take_flooded(&self) -> u64 {
        self.socket.take_drops().map(u64::from).unwrap_or_default()
    }
}

async fn listen(socket: Arc<LldpSocket>, link: Arc<str>, heard: mpsc::Sender<Heard>) {
    let mut bucket = Bucket::full(Instant::now());
    let mut buffer = [0; READ_BYTES];
    loop {
        match socket.receive(&mut buffer).await {
            // An interface that is down says so once for each time that it is asked.
            Err(_) => tokio::time::sleep(REST).await,
            Ok(length) => {
                let frame = buffer.get(..length).unwrap_or_default().to_vec();
                if heard.send(Heard { link: Arc::clone(&link), frame }).await.is_err() {
                    return;
                }
            }
        }
        if let Some(pause) = bucket.take(Instant::now()) {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Frames that may be read: as many at once as in a second.
struct Bucket {
    /// Parts of frames, a thousand each.
    level: u64,
    at: Instant,
}

impl Bucket {
    const FULL: u64 = 1_000 * LINK_LLDP_FRAMES_PER_SECOND as u64;

    const fn full(now: Instant) -> Self {
        Self { level: Self::FULL, at: now }
    }

    /// Takes one; how long to wait before the next, if at all.
    fn take(&mut self, now: Instant) -> Option<Duration> {
        let passed = u64::try_from((now - self.at).as_millis()).unwrap_or(u64::MAX);
        let came = passed.saturating_mul(u64::from(LINK_LLDP_FRAMES_PER_SECOND));
        if came > 0 {
            (self.level, self.at) = ((self.level.saturating_add(came)).min(Self::FULL), now);
        }
        self.level = self.level.saturating_sub(1_000);
        let missing = 1_000_u64.saturating_sub(self.level);
        (missing > 0).then(|| {
            Duration::from_millis(missing.div_ceil(u64::from(LINK_LLDP_FRAMES_PER_SECOND)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_no_faster_than_it_may_speak() {
        let start = Instant::now();
        let (mut bucket, mut now, mut read) = (Bucket::full(start), start, 0_u32);
        while now - start < Duration::from_secs(10) {
            read += 1;
            now += bucket.take(now).unwrap_or_default();
        }
        let most = 11 * LINK_LLDP_FRAMES_PER_SECOND;
        assert!((most - 20..=most + 1).contains(&read), "{read}");
        // Who spoke slowly never waits.
        now += Duration::from_secs(5);
        for _ in 0..LINK_LLDP_FRAMES_PER_SECOND - 1 {
            assert_eq!(bucket.take(now), None);
        }
        assert!(bucket.take(now).is_some());
    }
}

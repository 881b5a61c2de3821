//! Processor time of one thread, as the scheduler counts it: what a packet costs follows from it
//! even where strangers share the machine.

use super::{SENT_SHARE_MIN, Unavailable};

/// The thread whose name begins so.
pub(super) struct ThreadClock {
    path: String,
}

impl ThreadClock {
    pub(super) fn of(pid: u32, name: &str) -> Result<Self, Unavailable> {
        let tasks = format!("/proc/{pid}/task");
        let threads = std::fs::read_dir(&tasks).map_err(|e| Unavailable::new(&tasks, e))?;
        for thread in threads.flatten() {
            let said = std::fs::read_to_string(thread.path().join("comm")).unwrap_or_default();
            if said.starts_with(name) {
                let path = thread.path().join("schedstat").to_string_lossy().into_owned();
                return Ok(Self { path });
            }
        }
        Err(Unavailable::new(name, "there is no such thread"))
    }

    /// Nanoseconds on a processor so far.
    pub(super) fn ns(&self) -> Result<u64, Unavailable> {
        let text = std::fs::read_to_string(&self.path);
        let text = text.map_err(|error| Unavailable::new(&self.path, error))?;
        let first = text.split(' ').next().and_then(|word| word.parse().ok());
        first.ok_or_else(|| Unavailable::new(&self.path, "it holds no number"))
    }
}

/// Nanoseconds per packet between two readings of clock and counter.
#[allow(clippy::cast_precision_loss)]
pub(super) fn per_packet(ns: (u64, u64), packets: (u64, u64)) -> Result<f64, Unavailable> {
    let moved = packets.1.saturating_sub(packets.0);
    if moved == 0 {
        return Err(Unavailable("no packet was forwarded in a window".into()));
    }
    Ok(ns.1.saturating_sub(ns.0) as f64 / moved as f64)
}

/// Whether nearly all that came in went out too: a figure of packets that are lost means nothing.
#[allow(clippy::cast_precision_loss)]
pub(super) fn check_sent(what: &str, sent: u64, received: u64) -> Result<(), Unavailable> {
    if (sent as f64) < received as f64 * SENT_SHARE_MIN {
        return Err(Unavailable::new(what, format!("it sent {sent} of {received} packets")));
    }
    Ok(())
}

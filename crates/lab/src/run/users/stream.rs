//! One stream of frames: sent at a pace while it is compared. Knows sockets and frames; refuses to
//! know slices.

use super::comparing::{Comparing, Comparison, UNKNOWN};
use super::frames::{Mark, Template};
use catena_io::{STAMPED_ROW_MAX, StampedSocket};
use std::io;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// Room of a receiving socket: what its thread does not read in time must not look lost.
pub(crate) const RECEIVE_BYTES: usize = 64 * 1024 * 1024;
/// How long a receiver waits for a frame before it looks up.
pub(crate) const LOOK: Duration = Duration::from_millis(20);
/// Shortest sleep between two rows; what is due within it leaves together.
const PAUSE: Duration = Duration::from_micros(50);
/// Frames of each side that are kept as captures.
pub(crate) const CAPTURED_MAX: usize = 2_000;

/// What is to be sent.
pub(crate) struct Plan<'p> {
    /// Tells the stream's frames from all others.
    pub(crate) run: u32,
    /// The users' frames, sent in turns.
    pub(crate) users: &'p [Flow],
    /// Whose turn it is first.
    pub(crate) first: u64,
    pub(crate) per_second: f64,
    pub(crate) duration: Duration,
}

/// The frames of one user.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    /// What its frames look like: a user that moves has another form after each move.
    pub(crate) forms: Vec<Template>,
    /// Routers that they pass on their chain.
    pub(crate) routers: u8,
}

/// Frames as they were seen, with their times in nanoseconds.
#[derive(Default)]
pub(crate) struct CapturedStream(pub(crate) Vec<(u64, Vec<u8>)>);

impl CapturedStream {
    pub(super) fn note(&mut self, at_ns: u64, frame: &[u8]) {
        if self.0.len() < CAPTURED_MAX {
            self.0.push((at_ns, frame.to_vec()));
        }
    }
}

/// A stream that was sent and compared.
pub(crate) struct Streamed {
    pub(crate) comparison: Comparison,
    pub(crate) sent: CapturedStream,
    pub(crate) received: CapturedStream,
}

/// Sends a stream and compares what comes. `form`: which form of each user's frames leaves now;
/// whoever moves the users raises it meanwhile.
pub(crate) fn stream(
    plan: &Plan<'_>,
    sender: &StampedSocket,
    receiver: &mut StampedSocket,
    form: &AtomicU32,
) -> io::Result<Streamed> {
    let sent = AtomicU64::new(UNKNOWN);
    std::thread::scope(|scope| {
        let comparing = scope.spawn(|| Comparing::new(plan).run(receiver, &sent));
        let outcome = send(plan, sender, form);
        sent.store(outcome.as_ref().map_or(0, |(count, ..)| *count), Ordering::Relaxed);
        let comparing = comparing.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let ((count, per_second, captured), mut comparing) = (outcome?, comparing?);
        Ok(Streamed {
            comparison: comparing.judge(count, per_second),
            received: comparing.captured,
            sent: captured,
        })
    })
}

fn now_ns() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_nanos()).unwrap_or(u64::MAX)
}

/// How many left, how many a second, and the first of them.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "frames of a stream are far below 2^52, and not negative"
)]
fn send(
    plan: &Plan<'_>,
    socket: &StampedSocket,
    form: &AtomicU32,
) -> io::Result<(u64, f64, CapturedStream)> {
    let mut row: Vec<Vec<u8>> = vec![Vec::new(); STAMPED_ROW_MAX];
    let mut captured = CapturedStream::default();
    let start = Instant::now();
    let all = (plan.per_second * plan.duration.as_secs_f64()).round().max(1.0) as u64;
    let mut left = 0_u64;
    while left < all {
        let due = ((start.elapsed().as_secs_f64() * plan.per_second) as u64 + 1).min(all);
        if due <= left {
            std::thread::sleep(PAUSE);
            continue;
        }
        let form = form.load(Ordering::Acquire);
        let count = usize::try_from(due - left).unwrap_or(usize::MAX).min(STAMPED_ROW_MAX);
        let sent_ns = now_ns();
        for (number, frame) in (left..due).zip(row.iter_mut()).take(count) {
            plan.write(number, form, sent_ns, frame);
            captured.note(sent_ns, frame);
        }
        let frames: Vec<&[u8]> = row.iter().take(count).map(Vec::as_slice).collect();
        let mut done = 0;
        while done < frames.len() {
            done += socket.send(frames.get(done..).unwrap_or_default())?;
        }
        left += count as u64;
    }
    let per_second = left as f64 / start.elapsed().as_secs_f64().max(f64::EPSILON);
    Ok((left, per_second, captured))
}

impl Plan<'_> {
    pub(super) fn mark(&self, number: u64, form: u32, sent_ns: u64) -> Mark {
        let user = self.first.wrapping_add(number) % (self.users.len() as u64).max(1);
        let word = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        Mark { run: self.run, user: word(user), form, number: word(number), sent_ns }
    }

    /// Writes a frame of the stream.
    pub(super) fn write(&self, number: u64, form: u32, sent_ns: u64, into: &mut Vec<u8>) {
        let mark = self.mark(number, form, sent_ns);
        if let Some((_, template)) = self.flow(&mark) {
            template.write(&mark, into);
        }
    }

    /// Whose frame a mark is on, and what it looks like.
    pub(super) fn flow(&self, mark: &Mark) -> Option<(&Flow, &Template)> {
        let flow = self.users.get(mark.user as usize)?;
        Some((flow, flow.forms.get(mark.form as usize)?))
    }
}

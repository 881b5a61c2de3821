//! The comparison of what was sent with what comes, frame by frame. Knows marks and templates;
//! refuses to know sockets but for their frames.

use super::delays::{Delays, Jitter};
use super::frames::{mark_of, routers_passed};
use super::stream::{CapturedStream, LOOK, Plan};
use catena_io::{StampedFrame, StampedSocket};
use serde::Serialize;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Silence after which what is missing is lost.
const SILENCE: Duration = Duration::from_millis(400);
/// The count of a stream that is still being sent.
pub(super) const UNKNOWN: u64 = u64::MAX;

/// What became of a stream.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Comparison {
    /// Frames sent.
    pub sent: u64,
    /// Of them, never seen at the receiver.
    pub lost: u64,
    /// Seen again.
    pub twice: u64,
    /// Come with other bytes than they left with, beyond what routers change.
    pub altered: u64,
    /// Come by another number of functions than their chain has.
    pub astray: u64,
    /// Come after a later one of the same user.
    pub reordered: u64,
    /// Frames that the receiving socket had no room for; they are among the lost.
    pub unread: u64,
    /// Frames a second that were sent.
    pub per_second: f64,
    /// From the sender's stamp to the receiver's interface.
    pub delay: Delays,
}

impl Comparison {
    /// Did each frame come once, whole, in order, by its chain?
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.sent > 0
            && [self.lost, self.twice, self.altered, self.astray, self.reordered] == [0; 5]
    }
}

/// Compares frames as they come.
pub(super) struct Comparing<'p> {
    plan: &'p Plan<'p>,
    seen: Vec<u8>,
    last: Vec<Option<u32>>,
    jitter: Vec<Jitter>,
    /// Frames of this stream, also those that came again.
    came: u64,
    distinct: u64,
    found: Comparison,
    delays_ns: Vec<u64>,
    pub(super) captured: CapturedStream,
}

impl<'p> Comparing<'p> {
    pub(super) fn new(plan: &'p Plan<'p>) -> Self {
        Self {
            plan,
            seen: Vec::new(),
            last: vec![None; plan.users.len()],
            jitter: vec![Jitter::default(); plan.users.len()],
            came: 0,
            distinct: 0,
            found: Comparison::default(),
            delays_ns: Vec::new(),
            captured: CapturedStream::default(),
        }
    }

    /// Takes frames until all have come and no more do, or too long none does. Only frames of this
    /// stream count: others may come without end.
    pub(super) fn run(mut self, socket: &mut StampedSocket, sent: &AtomicU64) -> io::Result<Self> {
        let mut last = Instant::now();
        loop {
            let before = self.came;
            socket.receive(|frame| self.take(&frame))?;
            let count = sent.load(Ordering::Relaxed);
            if self.came > before || count == UNKNOWN {
                last = Instant::now();
            }
            let silence = if self.distinct >= count { LOOK } else { SILENCE };
            if last.elapsed() > silence {
                self.found.unread = socket.lost();
                return Ok(self);
            }
        }
    }

    fn take(&mut self, frame: &StampedFrame<'_>) {
        let Some(mark) = mark_of(frame.bytes).filter(|mark| mark.run == self.plan.run) else {
            return;
        };
        self.came += 1;
        self.captured.note(frame.arrived_ns, frame.bytes);
        let Some((flow, template)) = self.plan.flow(&mark) else {
            self.found.altered += 1;
            return;
        };
        let index = mark.number as usize;
        if self.seen.len() <= index {
            self.seen.resize(index + 1, 0);
        }
        let Some(seen) = self.seen.get_mut(index) else { return };
        *seen = seen.saturating_add(1);
        if *seen > 1 {
            self.found.twice += 1;
            return;
        }
        self.distinct += 1;
        self.found.altered += u64::from(!template.is_whole_in(frame.bytes));
        self.found.astray += u64::from(routers_passed(frame.bytes) != Some(flow.routers));
        if let Some(last) = self.last.get_mut(mark.user as usize) {
            self.found.reordered += u64::from(last.is_some_and(|last| mark.number < last));
            *last = Some(mark.number.max(last.unwrap_or(0)));
        }
        let delay_ns = frame.arrived_ns.saturating_sub(mark.sent_ns);
        self.delays_ns.push(delay_ns);
        if let Some(jitter) = self.jitter.get_mut(mark.user as usize) {
            jitter.note(delay_ns);
        }
    }

    pub(super) fn judge(&mut self, sent: u64, per_second: f64) -> Comparison {
        let lost = sent.saturating_sub(self.distinct);
        let late_ns = u64::try_from(SILENCE.as_nanos()).unwrap_or(u64::MAX);
        Comparison {
            sent,
            lost,
            per_second,
            delay: Delays::of(&mut self.delays_ns, &self.jitter, (lost, late_ns)),
            ..std::mem::take(&mut self.found)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{Content, Ends, Template};
    use super::super::stream::Flow;
    use super::*;
    use catena_wire::scalar::MacAddr;
    use std::net::Ipv4Addr;

    fn flows() -> Vec<Flow> {
        let addresses = (Ipv4Addr::new(10, 1, 0, 1), Ipv4Addr::new(10, 1, 0, 2));
        let ends = Ends { macs: (MacAddr([2; 6]), MacAddr([4; 6])), addresses };
        let template = Template::new(&ends, &Content::Plain { port: 9 }, 100).unwrap();
        vec![Flow { forms: vec![template], routers: 0 }; 2]
    }

    #[test]
    fn each_fault_of_a_stream_is_found_and_a_clean_one_has_none() {
        let users = flows();
        let plan = Plan {
            run: 7,
            users: &users,
            first: 0,
            per_second: 1.0,
            duration: Duration::from_secs(1),
        };
        let frame = |number: u64| {
            let mut frame = Vec::new();
            let mark = plan.mark(number, 0, 1_000);
            plan.flow(&mark).unwrap().1.write(&mark, &mut frame);
            frame
        };
        let judged = |frames: &[Vec<u8>]| {
            let mut comparing = Comparing::new(&plan);
            for bytes in frames {
                comparing.take(&StampedFrame { bytes, arrived_ns: 1_500 });
            }
            comparing.judge(4, 4.0)
        };
        let all: Vec<Vec<u8>> = (0..4).map(frame).collect();
        let clean = judged(&all);
        assert!(clean.is_clean());
        assert_eq!((clean.delay.p50_ns, clean.delay.max_ns), (500, 500));
        let faults = |frames: &[Vec<u8>]| {
            let Comparison { lost, twice, altered, astray, reordered, .. } = judged(frames);
            [lost, twice, altered, astray, reordered]
        };
        assert_eq!(faults(&all[1..]), [1, 0, 0, 0, 0]);
        assert_eq!(faults(&[all.clone(), vec![frame(2)]].concat()), [0, 1, 0, 0, 0]);
        let mut altered = all.clone();
        altered[3][50] ^= 1;
        assert_eq!(faults(&altered), [0, 0, 1, 0, 0]);
        let mut astray = all.clone();
        let ttl_at = 14 + 8;
        astray[3][ttl_at] -= 1;
        // The checksum goes with it, as a router does it.
        astray[3][14 + 10] = astray[3][14 + 10].wrapping_add(1);
        assert_eq!(faults(&astray), [0, 0, 0, 1, 0]);
        let swapped = [all[2].clone(), all[1].clone(), all[0].clone(), all[3].clone()];
        assert_eq!(faults(&swapped), [0, 0, 0, 0, 1]);
        assert!(!judged(&[]).is_clean());
    }
}

//! Follows a real packet (`catena explain --real`): what the stages decide about the packets that fit
//! a filter is written down, under the digest by which each is known again at every node. Knows who
//! asked and which packets came last; refuses to stop, change or count a packet.
//!
//! While nobody asks, a vector costs one branch. While somebody does, each packet that fits passes the
//! stages alone, with somebody listening.

use super::describe;
use crate::engine::packet::digests::Digests;
use crate::engine::packet::{Origin, Packet};
use crate::engine::state::capture::matches;
use catena_model::check::Sighting;
use catena_model::explain::{ExplainAction, PacketFilter};
use catena_wire::digest;
use catena_wire::frame::FrameView;
use std::collections::VecDeque;

/// Askers at one time.
const FOLLOWS_MAX: usize = 4;
/// How long one lives without asking, in nanoseconds.
const IDLE_NS: u64 = 5_000_000_000;
/// Passes of packets through this engine that are remembered for one asker: the time from a packet
/// to the question for it, at a rate that one engine can have.
const PASSES_MAX: usize = 2_048;

/// One passage of one packet.
#[derive(Debug)]
struct Pass {
    digest: u64,
    /// Where it came from, with which headers before it: another packet of the same bytes comes the
    /// same way, the packet itself does not come twice.
    origin: Origin,
    headers: Vec<u8>,
    actions: Vec<ExplainAction>,
}

#[derive(Debug)]
struct Follow {
    seal: u64,
    asked_ns: u64,
    filter: PacketFilter,
    /// The one packet that is looked for; none yet: all that fit.
    digest: Option<u64>,
    passes: VecDeque<Pass>,
}

impl Follow {
    fn wants(&self, view: &FrameView, digest: u64) -> bool {
        match self.digest {
            Some(wanted) => wanted == digest,
            None => matches(&self.filter, view),
        }
    }
}

/// All who follow packets at an engine.
#[derive(Debug, Default)]
pub(crate) struct Follows {
    all: Vec<Follow>,
    digests: Digests,
}

/// A packet that somebody follows, before it passes.
pub(crate) struct Sought {
    digest: u64,
    pub(crate) inner_offset: usize,
}

impl Follows {
    /// Begins or goes on; answers what was seen of the packet with a digest.
    ///
    /// # Errors
    /// Too many others follow packets; for people.
    pub(crate) fn ask(
        &mut self,
        seal: u64,
        filter: &PacketFilter,
        digest: Option<u64>,
        now_ns: u64,
    ) -> Result<Vec<Sighting>, String> {
        self.forget_idle(now_ns);
        let known = self.all.iter().position(|follow| follow.seal == seal);
        if known.is_none() && self.all.len() >= FOLLOWS_MAX {
            return Err(format!("{FOLLOWS_MAX} others follow packets at this node; try again"));
        }
        let place = known.unwrap_or_else(|| {
            let (asked_ns, filter, passes) = (now_ns, filter.clone(), VecDeque::new());
            self.all.push(Follow { seal, asked_ns, filter, digest: None, passes });
            self.all.len() - 1
        });
        let follow = &mut self.all[place];
        follow.asked_ns = now_ns;
        let Some(digest) = digest else { return Ok(Vec::new()) };
        follow.digest = Some(digest);
        follow.passes.retain(|pass| pass.digest == digest);
        let actions = follow.passes.iter().flat_map(|pass| &pass.actions);
        let sighting =
            |action: &ExplainAction| Sighting { probe: digest, at: None, action: action.clone() };
        Ok(actions.map(sighting).collect())
    }

    fn forget_idle(&mut self, now_ns: u64) {
        self.all.retain(|follow| now_ns.saturating_sub(follow.asked_ns) <= IDLE_NS);
    }

    /// Nobody need ask for the end.
    #[inline]
    pub(crate) fn are_on(&mut self, now_ns: u64) -> bool {
        if self.all.is_empty() {
            return false;
        }
        self.forget_idle(now_ns);
        !self.all.is_empty()
    }

    /// Of so many packets: how many pass before the first that is followed, or that one alone.
    pub(crate) fn until_sought(
        &mut self,
        input: &[Packet],
        count: usize,
    ) -> (usize, Option<Sought>) {
        for (place, packet) in input.iter().take(count).enumerate() {
            match self.sought(packet) {
                Some(sought) if place == 0 => return (1, Some(sought)),
                Some(_) => return (place, None),
                None => {}
            }
        }
        (count, None)
    }

    fn sought(&mut self, packet: &Packet) -> Option<Sought> {
        let bytes = packet.buffer.bytes();
        let (inner, view) = describe::inner(packet.origin, bytes)?;
        let inner_offset = bytes.len() - inner.len();
        let digest = match packet.buffer.offload.segmentation {
            // Known by its first wire packet, which is what was caught of it.
            Some(_) if inner_offset == 0 => *self.digests.of(&packet.buffer, &view).first()?,
            _ => digest::kept(&view, inner),
        };
        let is_wanted = self.all.iter().any(|follow| follow.wants(&view, digest));
        is_wanted.then_some(Sought { digest, inner_offset })
    }

    pub(crate) fn saw(
        &mut self,
        sought: &Sought,
        origin: Origin,
        headers: &[u8],
        actions: &[ExplainAction],
    ) {
        let Sought { digest, .. } = *sought;
        let is_same =
            |pass: &Pass| pass.digest == digest && pass.origin == origin && pass.headers == headers;
        for follow in &mut self.all {
            let is_other = follow.digest.is_some_and(|wanted| wanted != digest);
            if is_other || follow.passes.iter().any(is_same) {
                continue;
            }
            if follow.passes.len() >= PASSES_MAX {
                follow.passes.pop_front();
            }
            let (headers, actions) = (headers.to_vec(), actions.to_vec());
            follow.passes.push_back(Pass { digest, origin, headers, actions });
        }
    }
}

//! The bench of the experiment: sender and receiver at ours and, if asked for, at Open vSwitch; the
//! frames of users, and streams of them. Knows how one case is measured; refuses to know which are.

use super::comparing::Comparison;
use super::frames::{Content, Template};
use super::link::{Link, Room, refused};
use super::open_vswitch::OpenVswitch;
use super::slices::Declared;
use super::stream::{self, Flow, Plan, Streamed};
use super::{BESIDE, captures, slices};
use crate::error::{LabError, Result};
use crate::up::RunningLab;
use crate::vocabulary::Users;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// What the search begins with, in frames a second.
pub(super) const SEARCH_FIRST: f64 = 2_000.0;
/// How it goes on while nothing is lost.
const SEARCH_FACTOR: f64 = 1.5;
/// No host here sends more.
const SEARCH_LAST: f64 = 2_000_000.0;
/// Halvings between the last rate without loss and the first with it.
const SEARCH_HALVINGS: u32 = 3;
/// Streams in a row that a rate must be kept in, before it is called the no-drop rate.
const SEARCH_PROOFS: u32 = 3;
/// What is left of a rate when one of them is not clean.
pub(super) const SEARCH_MARGIN: f64 = 0.8;
/// A sender that is slower than this share of what it was asked for has found its own limit.
const SEARCH_KEPT: f64 = 0.95;
/// Mean delay, as a share of a stream's length, beyond which it was not carried but stored: rings
/// hold the whole of a short one.
const SEARCH_STORED: f64 = 0.1;

/// The switch that a stream goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Ours,
    OpenVswitch,
}

/// Streams to be measured.
pub(super) struct Case {
    pub(super) content: &'static str,
    pub(super) by: By,
    pub(super) flows: Vec<Flow>,
}

/// The ends of all streams.
pub(super) struct Bench<'b> {
    pub(super) running: &'b RunningLab,
    pub(super) users: &'b Users,
    link: Link,
    beside: Option<OpenVswitch>,
    run: u32,
    /// The user with whom the next stream goes on: short ones together still meet every slice.
    first: u64,
    folder: PathBuf,
}

impl<'b> Bench<'b> {
    pub(super) fn set_up(running: &'b RunningLab, users: &'b Users, folder: &Path) -> Result<Self> {
        let rooms =
            [Room::Lab(running.doorway(&users.from)?), Room::Lab(running.doorway(&users.to)?)];
        let link = Link::open(&running.lab, &running.plan, users, &rooms)?;
        let folder = folder.to_path_buf();
        Ok(Self { running, users, link, beside: None, run: 0, first: 0, folder })
    }

    /// Starts Open vSwitch if it is asked for: what it is, or why it is not measured.
    pub(super) fn start_open_vswitch(&mut self) -> Option<String> {
        if !self.users.open_vswitch {
            return None;
        }
        match OpenVswitch::start(&self.running.lab, &self.running.plan, self.users) {
            Ok(started) => self.beside = started,
            Err(error) => return Some(format!("not measured: {error}")),
        }
        self.beside.as_ref().map(|beside| beside.version.clone())
    }

    /// Ends it: what is measured later shares the processors with nothing that is not measured.
    pub(super) fn end_open_vswitch(&mut self) {
        self.beside = None;
    }

    /// Sends one stream of users through ours.
    pub(super) fn stream(
        &mut self,
        flows: &[Flow],
        per_second: f64,
        seconds: f64,
        form: &AtomicU32,
    ) -> Result<Streamed> {
        self.stream_by(By::Ours, flows, per_second, seconds, form)
    }

    fn stream_by(
        &mut self,
        by: By,
        flows: &[Flow],
        per_second: f64,
        seconds: f64,
        form: &AtomicU32,
    ) -> Result<Streamed> {
        self.run += 1;
        let duration = Duration::from_secs_f64(seconds);
        let plan = Plan { run: self.run, users: flows, first: self.first, per_second, duration };
        let link = match (by, &mut self.beside) {
            (By::OpenVswitch, Some(beside)) => &mut beside.link,
            _ => &mut self.link,
        };
        let streamed = stream::stream(&plan, &link.sender, &mut link.receiver, form)
            .map_err(|error| LabError::io("send", "frames of 5G users", error))?;
        self.first = self.first.wrapping_add(streamed.comparison.sent);
        Ok(streamed)
    }

    /// Frames of one size: those of all declared users, and plain ones by each switch.
    pub(super) fn cases(&self, declared: &Declared<'_>, size: u32) -> Result<Vec<Case>> {
        let mut cases = Vec::new();
        if !self.users.tenants.is_empty() {
            let flows = self.flows(declared, size)?;
            cases.push(Case { content: "users", by: By::Ours, flows });
        }
        if let Some(plain) = &self.users.plain {
            let routers = slices::routers_of(self.running, &plain.chain);
            let flow = self.flow(&[Content::Plain { port: plain.port }], size, routers)?;
            if self.beside.is_some() {
                let flows = vec![flow.clone()];
                cases.push(Case { content: BESIDE, by: By::OpenVswitch, flows });
            }
            cases.push(Case { content: "plain", by: By::Ours, flows: vec![flow] });
        }
        Ok(cases)
    }

    /// The frames of all declared users, in an order that has nothing to do with theirs.
    pub(super) fn flows(&self, declared: &Declared<'_>, size: u32) -> Result<Vec<Flow>> {
        let users = declared.users();
        let all = users
            .into_iter()
            .map(|(user, routers)| self.flow(&[Content::User(user)], size, routers));
        all.collect()
    }

    /// The frames of a user in all forms.
    pub(super) fn flow(&self, forms: &[Content], size: u32, routers: u8) -> Result<Flow> {
        let template = |content: &Content| Template::new(&self.link.ends, content, size as usize);
        let forms: Option<Vec<Template>> = forms.iter().map(template).collect();
        let reason = || format!("no frame can be made of {size} bytes");
        let forms = forms.ok_or_else(|| refused(&self.running.lab, &reason()))?;
        Ok(Flow { forms, routers })
    }

    /// One stream of a case; its captures are kept under the name.
    pub(super) fn measured(
        &mut self,
        case: &Case,
        rate: f64,
        capture: Option<&str>,
    ) -> Result<Comparison> {
        let streamed = self.once(case, rate)?;
        if let Some(name) = capture {
            captures::write(&streamed.sent, &self.folder.join(format!("{name}-sent.pcap")))?;
            captures::write(
                &streamed.received,
                &self.folder.join(format!("{name}-received.pcap")),
            )?;
        }
        Ok(streamed.comparison)
    }

    fn once(&mut self, case: &Case, rate: f64) -> Result<Streamed> {
        let seconds = self.users.seconds.0;
        self.stream_by(case.by, &case.flows, rate, seconds, &AtomicU32::new(0))
    }

    /// Did the case come clean at this rate?
    fn keeps(&mut self, case: &Case, rate: f64) -> Result<bool> {
        let found = self.once(case, rate)?.comparison;
        let is_carried = found.delay.mean_ns / 1e9 <= self.users.seconds.0 * SEARCH_STORED;
        Ok(found.is_clean() && is_carried && found.per_second >= rate * SEARCH_KEPT)
    }

    /// The highest rate found at which several streams in a row are clean, in frames a second.
    pub(super) fn no_drop_rate(&mut self, case: &Case) -> Result<f64> {
        if let Some(rate) = self.users.packets_per_second {
            return Ok(f64::from(rate));
        }
        // Functions learn addresses, and nobody is measured meanwhile.
        self.once(case, SEARCH_FIRST)?;
        let (mut low, mut high) = (0.0, SEARCH_FIRST);
        while high < SEARCH_LAST && self.keeps(case, high)? {
            (low, high) = (high, high * SEARCH_FACTOR);
        }
        for _ in 0..SEARCH_HALVINGS {
            let middle = f64::midpoint(low, high);
            if self.keeps(case, middle)? {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut rate = low.max(1.0) * SEARCH_MARGIN;
        let mut proofs = 0;
        while proofs < SEARCH_PROOFS && rate > 1.0 {
            if self.keeps(case, rate)? {
                proofs += 1;
            } else {
                (proofs, rate) = (0, rate * SEARCH_MARGIN);
            }
        }
        Ok(rate)
    }
}

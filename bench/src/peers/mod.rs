//! Peers that move packets: Open vSwitch (its user-space datapath, the DPDK build) and
//! `dpdk-testpmd`, fed in their own forwarding thread from a looping capture in memory that holds
//! the very frames which ours gets.
//!
//! Knows how each peer is started, fed, observed and ended. Refuses to know what is compared: the
//! caller brings frames and rules. A peer that cannot run answers why, and the row goes without.
//!
//! The cost of the source (a copy out of a preloaded ring) and of the sink is inside every figure:
//! `testpmd` in mode `io` is the floor that says how much.

mod capture;
mod daemon;
mod folder;
mod frames;
mod hugepages;
pub(crate) mod program;
mod report;
pub(crate) mod rules;
mod switch;
mod testpmd;
mod thread_clock;

pub(crate) use daemon::Daemon;
pub(crate) use folder::Folder;
pub(crate) use report::{Options, run};
pub(crate) use switch::{Caches, Switch, Tunnel};
pub(crate) use testpmd::{Mode, testpmd};

use std::collections::BTreeMap;
use std::time::Duration;

/// The core of a peer's forwarding thread; its helpers have core 0.
const FORWARDING_CORE: u32 = 1;
/// Frames in a looping source, at least: a shorter list is repeated.
const SOURCE_FRAMES_MIN: usize = 1_024;
/// Share of the received packets that must have been sent for a figure to mean anything.
const SENT_SHARE_MIN: f64 = 0.98;

/// Why a peer was not measured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unavailable(pub(crate) String);

impl Unavailable {
    pub(crate) fn new(what: &str, reason: impl std::fmt::Display) -> Self {
        Self(format!("{what}: {reason}"))
    }
}

/// How long a peer is observed: one sample for each window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    pub(crate) count: usize,
    pub(crate) length: Duration,
}

impl Default for Windows {
    fn default() -> Self {
        Self { count: 5, length: Duration::from_millis(300) }
    }
}

/// Name and version of each peer that is installed, for the result's `versions`.
pub(crate) fn versions() -> BTreeMap<String, String> {
    let packages = [("testpmd", "dpdk-dev"), ("open-vswitch", "openvswitch-switch-dpdk")];
    let version = |(name, package): (&str, &str)| {
        Some((name.to_owned(), format!("{package} {}", program::version(package)?)))
    };
    packages.into_iter().filter_map(version).collect()
}

/// The command lines of the peers, for the result's `options`.
pub(crate) fn options() -> BTreeMap<String, String> {
    [
        ("testpmd".to_owned(), testpmd::described()),
        ("open-vswitch".to_owned(), switch::described()),
        ("hugepages".to_owned(), format!("{} of 2 MiB while a peer runs", hugepages::PAGES)),
    ]
    .into()
}

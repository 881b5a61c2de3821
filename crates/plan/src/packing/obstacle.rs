//! Why an instance does not fit at a host, and what is missing there, in the words of people.

use super::{Misfit, Problem};
use catena_model::capacity::Room;
use std::fmt;

/// Hosts that a refusal tells of: those where least is missing.
const HOSTS_TOLD_MAX: usize = 4;

/// What is in the way at a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// It has less left than is needed.
    Short { free: Room, total: Room, missing: Room },
    /// The link of this host, it or that of a neighbour, has less left than is needed, in Mbit/s.
    Link { at: usize, free: u64, missing: u64 },
    /// A neighbour on this host is too far: so long, of at most so long, in µs.
    Delay { to: usize, delay_us: u64, delay_us_max: u64 },
    /// Nobody knows how far the neighbour on this host is.
    UnknownDelay { to: usize },
    /// It has not said what it has.
    Untold,
    /// It is away.
    Away,
}

impl Obstacle {
    /// Those where least is missing come first.
    fn rank(self) -> (u8, u64, u64) {
        match self {
            Self::Short { missing, .. } => (0, missing.cpu_milli, missing.memory_mib),
            Self::Link { missing, .. } => (1, missing, 0),
            Self::Delay { delay_us, delay_us_max, .. } => (2, delay_us - delay_us_max, 0),
            Self::UnknownDelay { .. } => (3, 0, 0),
            Self::Untold => (4, 0, 0),
            Self::Away => (5, 0, 0),
        }
    }

    fn text(self, problem: &Problem, host: usize) -> String {
        let name = |host: usize| format!("host '{}'", problem.hosts[host].name);
        let here = name(host);
        match self {
            Self::Short { free, total, missing } => {
                let of = |what: &str, free: u64, total: u64, missing: u64| {
                    format!("{free} of {total} {what} free, {missing} more are needed")
                };
                let cpu = (missing.cpu_milli > 0).then(|| {
                    of("thousandths of a core", free.cpu_milli, total.cpu_milli, missing.cpu_milli)
                });
                let memory = (missing.memory_mib > 0)
                    .then(|| of("MiB", free.memory_mib, total.memory_mib, missing.memory_mib));
                let both: Vec<String> = cpu.into_iter().chain(memory).collect();
                format!("{here} has {}", both.join(", and "))
            }
            Self::Link { at, free, missing } => {
                let at = name(at);
                format!(
                    "at {here}: the link of {at} has {free} Mbit/s free, {missing} more are needed"
                )
            }
            Self::Delay { to, delay_us, delay_us_max } => format!(
                "from {here} to its neighbour at {} it is {delay_us} µs, of at most {delay_us_max}",
                name(to)
            ),
            Self::UnknownDelay { to } => format!(
                "nobody knows how long it is from {here} to its neighbour at {}, and it has a bound",
                name(to)
            ),
            Self::Untold => format!("{here} does not say what it has"),
            Self::Away => format!("{here} is away"),
        }
    }
}

/// Why an instance has no host.
pub(super) fn why(problem: &Problem, misfit: &Misfit) -> String {
    let mut obstacles = misfit.obstacles.clone();
    if obstacles.is_empty() {
        return "no host has ever connected".into();
    }
    obstacles.sort_by_key(|(host, obstacle)| (obstacle.rank(), *host));
    let more = obstacles.len().saturating_sub(HOSTS_TOLD_MAX);
    let told = obstacles.iter().take(HOSTS_TOLD_MAX);
    let mut parts: Vec<String> =
        told.map(|(host, obstacle)| obstacle.text(problem, *host)).collect();
    if more > 0 {
        parts.push(format!("and {more} hosts more have no room either"));
    }
    parts.join("; ")
}

/// Instances that must be placed and have no room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// Each by name, with what it needs and why it has no host.
    pub instances: Vec<(String, Room, String)>,
    /// Has every choice of hosts been looked at?
    pub is_sure: bool,
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no host for ")?;
        for (place, (name, needs, why)) in self.instances.iter().enumerate() {
            let before = if place > 0 { "; nor for " } else { "" };
            write!(f, "{before}instance '{name}'")?;
            if !needs.is_none() {
                write!(f, ", which needs {needs}")?;
            }
            write!(f, ": {why}")?;
        }
        if !self.is_sure {
            f.write_str("; of so many not every choice was looked at")?;
        }
        f.write_str(
            ". Ask for less or for fewer, connect another host, name hosts by 'on', or say by 'priority' what may go \
             without",
        )
    }
}

impl std::error::Error for Unplaced {}

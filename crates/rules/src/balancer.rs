//! The configuration of the balancer: virtual services, their backends, and how both are watched.
//!
//! Knows keys, defaults and bounds. Refuses to know packets, and to read files: text comes in, a
//! [`BalancerConfig`] that holds together or a [`RuleError`] goes out.

mod check;
#[cfg(test)]
mod tests;

use crate::RuleError;
use catena_model::limits::{FUNCTION_CONFIG_BYTES_MAX, FUNCTION_FLOWS_MAX};
use catena_wire::scalar::{IpProtocol, MacAddr};
use serde::Deserialize;
use std::net::IpAddr;

/// The configuration of a balancer.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BalancerConfig {
    /// The virtual services.
    pub services: Vec<ServiceConfig>,
    /// Sessions at once.
    #[serde(default = "default::sessions_max")]
    pub sessions_max: usize,
    /// What becomes of packets for whose session there is no room.
    #[serde(default)]
    pub when_full: WhenFull,
    /// How long sessions are remembered.
    #[serde(default)]
    pub timeouts: SessionTimeouts,
    /// Decides with a client's end which backend it meets: the same at all workers and instances that share
    /// clients, and unknown to clients.
    #[serde(default)]
    pub seed: u64,
}

/// What becomes of packets for whose session there is no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// They are dropped.
    #[default]
    Drop,
    /// They go to the backend that the lookup table names, and nothing is remembered; answers without a
    /// session are translated where their sender is the backend of one service only.
    Pass,
}

/// How long sessions are remembered of which nothing is seen, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SessionTimeouts {
    /// TCP: asked, and not answered.
    pub asked_s: u32,
    /// TCP: answered.
    pub established_s: u32,
    /// TCP: closed by both sides, or reset.
    pub closed_s: u32,
    /// UDP.
    pub udp_s: u32,
    /// A client, where sessions are of clients.
    pub client_s: u32,
}

impl Default for SessionTimeouts {
    fn default() -> Self {
        Self { asked_s: 30, established_s: 7_200, closed_s: 10, udp_s: 120, client_s: 600 }
    }
}

/// A virtual service.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceConfig {
    /// Its name in messages and counters.
    pub name: String,
    /// The virtual address.
    pub address: IpAddr,
    /// The protocol.
    pub protocol: ServiceProtocol,
    /// The virtual port.
    pub port: u16,
    /// Who serves.
    pub backends: Vec<BackendConfig>,
    /// Slots of the lookup table, a prime; none: by the number of backends.
    #[serde(default)]
    pub table_size: Option<u32>,
    /// What stays with its backend.
    #[serde(default)]
    pub sticky: Sticky,
    /// What becomes of sessions whose backend an active check has found dead.
    #[serde(default)]
    pub when_dead: WhenDead,
    /// How backends are asked; none: they are not.
    #[serde(default)]
    pub health: Option<HealthConfig>,
    /// How backends are judged by their answers to clients; none: they are not.
    #[serde(default)]
    pub passive: Option<PassiveConfig>,
}

/// What services speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ServiceProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl ServiceProtocol {
    /// Its number in IP headers.
    #[must_use]
    pub const fn number(self) -> IpProtocol {
        match self {
            Self::Tcp => IpProtocol::TCP,
            Self::Udp => IpProtocol::UDP,
        }
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// What stays with its backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sticky {
    /// A connection: address and port of the client.
    #[default]
    Connection,
    /// All connections of a client's address.
    Client,
}

/// What becomes of sessions whose backend is dead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenDead {
    /// Connections of TCP are reset at the client's next packet; other sessions move.
    #[default]
    Reset,
    /// They move to another backend with the client's next packet.
    Move,
    /// They stay.
    Keep,
}

/// A backend.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendConfig {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// Its share among the others.
    #[serde(default = "default::weight")]
    pub weight: u32,
    /// Does it keep its sessions, and take no new ones?
    #[serde(default)]
    pub drain: bool,
    /// Where frames to it go; none: where they went.
    #[serde(default)]
    pub mac: Option<MacAddr>,
}

/// How backends are asked.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealthConfig {
    /// What is asked.
    pub kind: HealthKind,
    /// What HTTP is asked for.
    #[serde(default = "default::path")]
    pub path: String,
    /// The port that is asked; none: that of the backend.
    #[serde(default)]
    pub port: Option<u16>,
    /// From one question to the next, milliseconds.
    #[serde(default = "default::interval_ms")]
    pub interval_ms: u32,
    /// How long an answer may take, milliseconds.
    #[serde(default = "default::timeout_ms")]
    pub timeout_ms: u32,
    /// Good answers in a row that bring a backend back.
    #[serde(default = "default::rise")]
    pub rise: u8,
    /// Bad ones in a row that make it dead.
    #[serde(default = "default::fall")]
    pub fall: u8,
    /// Who asks: an address that is the balancer's own. Whatever comes back to it ends at the balancer.
    pub from: IpAddr,
    /// Where frames that ask come from; none: what is learnt.
    #[serde(default)]
    pub mac: Option<MacAddr>,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HealthKind {
    /// Whether a connection of TCP is taken.
    Tcp,
    /// Whether GET is answered with a status from 200 to 399.
    Http,
}

/// How backends are judged by their answers to clients (the words are those of Envoy's outlier detection).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PassiveConfig {
    /// Connections in a row that are reset or not answered, behind which a backend is ejected.
    pub consecutive_failures: u16,
    /// How long an answer may take, milliseconds.
    pub answer_ms: u32,
    /// How long it is ejected the first time, milliseconds; each further time in a row so much more.
    pub base_ejection_ms: u32,
    /// How long it is ejected at most, milliseconds.
    pub max_ejection_ms: u32,
    /// Of a service's backends, how many in a hundred may be ejected at once.
    pub max_ejection_percent: u8,
}

impl Default for PassiveConfig {
    fn default() -> Self {
        Self {
            consecutive_failures: 5,
            answer_ms: 1_000,
            base_ejection_ms: 30_000,
            max_ejection_ms: 300_000,
            max_ejection_percent: 50,
        }
    }
}

/// What holds where nothing is said.
mod default {
    pub(super) const fn sessions_max() -> usize {
        super::FUNCTION_FLOWS_MAX
    }
    pub(super) const fn weight() -> u32 {
        1
    }
    pub(super) fn path() -> String {
        "/".to_owned()
    }
    pub(super) const fn interval_ms() -> u32 {
        5_000
    }
    pub(super) const fn timeout_ms() -> u32 {
        2_000
    }
    pub(super) const fn rise() -> u8 {
        2
    }
    pub(super) const fn fall() -> u8 {
        3
    }
}

/// Slots of a lookup table of few backends: a change moves at most 1.1 times the least number of new
/// sessions with up to 12 of them (Eisenbud et al., NSDI 2016, section 3.4, give this size, too).
pub const TABLE_SLOTS_FEW: u32 = 65_537;
/// The same for more than 12 backends: up to 32 of them; with 48, a removal moved 1.106 times the least.
pub const TABLE_SLOTS_MANY: u32 = 655_373;
/// Slots of a lookup table at least: shares are within 2 of 100 with up to 16 backends.
pub const TABLE_SLOTS_MIN: u32 = 251;
/// Backends from which on a table is large.
const MANY_BACKENDS: usize = 13;

impl ServiceConfig {
    /// Slots of its lookup table.
    #[must_use]
    pub fn slots(&self) -> u32 {
        let is_large = self.backends.len() >= MANY_BACKENDS;
        self.table_size.unwrap_or(if is_large { TABLE_SLOTS_MANY } else { TABLE_SLOTS_FEW })
    }
}

/// Reads a configuration: JSON, where it begins with `{`, or YAML. `file` is what messages call it.
///
/// # Errors
/// When it is no document, a key is unknown or missing, a number is out of its bounds, or two parts
/// contradict each other: the first thing that is wrong, with its line where the document's reader knows it.
pub fn read(text: &str, file: &str) -> Result<BalancerConfig, RuleError> {
    let error = |line: usize, what: String, advice: &str| RuleError {
        file: file.to_owned(),
        line: u32::try_from(line).unwrap_or(0),
        what,
        advice: advice.to_owned(),
        may_be_skipped: false,
    };
    if text.len() > FUNCTION_CONFIG_BYTES_MAX {
        let what = format!("the configuration has {} bytes", text.len());
        return Err(error(0, what, &format!("{FUNCTION_CONFIG_BYTES_MAX} are the most")));
    }
    const ADVICE: &str = "see the book's page of the balancer for its keys";
    let config: BalancerConfig = if text.trim_start().starts_with('{') {
        serde_json::from_str(text)
            .map_err(|wrong| error(wrong.line(), wrong.to_string(), ADVICE))?
    } else {
        serde_norway::from_str(text).map_err(|wrong| {
            let line = wrong.location().map_or(0, |location| location.line());
            error(line, wrong.to_string(), ADVICE)
        })?
    };
    config.check().map_err(|wrong| error(wrong.line(text), wrong.what, &wrong.advice))?;
    Ok(config)
}

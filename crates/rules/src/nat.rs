//! The configuration of network address translation: which addresses are translated into which, and how.
//!
//! Knows what may stand in it and what of it contradicts itself. Refuses to translate, and to read files: text
//! in YAML or JSON comes in, a [`NatConfig`] or a [`RuleError`] goes out. Words are those of RFC 2663 and RFC 4787.

mod contradictions;
#[cfg(test)]
mod tests;
mod words;

use crate::check;
use crate::error::RuleError;
use crate::options::ReadOptions;
use crate::refusal::Refusal;
use catena_wire::scalar::{IpProtocol, PortRange};
use ipnet::Ipv4Net;
use serde::Deserialize;
use std::net::Ipv4Addr;

/// How addresses are translated. What it does not name passes as it is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NatConfig {
    /// Inside prefixes whose hosts are translated into the addresses of `pool`.
    #[serde(deserialize_with = "words::prefixes")]
    pub masquerade: Vec<Ipv4Net>,
    /// Outside addresses that may be shared.
    #[serde(deserialize_with = "words::prefixes")]
    pub pool: Vec<Ipv4Net>,
    /// Outside ports, and identifiers of ICMP queries, that may be given to flows.
    #[serde(deserialize_with = "words::ports")]
    pub ports: PortRange,
    /// Inside prefixes that are translated into addresses of their own.
    pub snat: Vec<SourceRule>,
    /// Outside ports that lead to hosts inside.
    pub dnat: Vec<PortForward>,
    /// Hosts that have an outside address each.
    #[serde(rename = "static")]
    pub one_to_one: Vec<StaticMapping>,
    /// What becomes of packets of IPv6.
    pub ipv6: Ipv6Policy,
    /// When a flow of a host gets another outside port.
    pub mapping: MappingBehaviour,
    /// Whose packets from outside reach a mapped port.
    pub filtering: FilteringBehaviour,
    /// Each host gets so many outside ports, and which they are follows from its address alone (RFC 7422).
    pub block: Option<u16>,
    /// Flows of one host at once (RFC 6888 REQ-3 and REQ-4).
    pub flows_per_host: Option<u32>,
    /// How long mappings are kept.
    pub timeouts: NatTimeouts,
}

impl Default for NatConfig {
    fn default() -> Self {
        Self {
            masquerade: Vec::new(),
            pool: Vec::new(),
            ports: words::unprivileged(),
            snat: Vec::new(),
            dnat: Vec::new(),
            one_to_one: Vec::new(),
            ipv6: Ipv6Policy::default(),
            mapping: MappingBehaviour::default(),
            filtering: FilteringBehaviour::default(),
            block: None,
            flows_per_host: None,
            timeouts: NatTimeouts::default(),
        }
    }
}

/// An inside prefix with the outside addresses that it is translated into.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceRule {
    /// Whose sources are translated.
    #[serde(deserialize_with = "words::prefix")]
    pub inside: Ipv4Net,
    /// Into which addresses; they need not be in `pool`.
    #[serde(deserialize_with = "words::prefixes")]
    pub to: Vec<Ipv4Net>,
}

/// Ports of an outside address that lead to a host inside.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortForward {
    /// The outside address.
    pub to: Ipv4Addr,
    /// Of which protocol.
    pub protocol: PortProtocol,
    /// Its ports.
    #[serde(deserialize_with = "words::ports")]
    pub port: PortRange,
    /// The host inside.
    pub inside: Ipv4Addr,
    /// The host's ports, as many; none: the same ones.
    #[serde(default, deserialize_with = "words::optional_ports")]
    pub inside_port: Option<PortRange>,
}

impl PortForward {
    /// The host's ports.
    #[must_use]
    pub fn inside_ports(&self) -> PortRange {
        self.inside_port.unwrap_or(self.port)
    }
}

/// Protocols whose ports may be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PortProtocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl PortProtocol {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> IpProtocol {
        match self {
            Self::Tcp => IpProtocol::TCP,
            Self::Udp => IpProtocol::UDP,
        }
    }

    /// Its name, as configurations write it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

/// A host with an outside address of its own: all protocols, ports as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaticMapping {
    /// The host's address.
    pub inside: Ipv4Addr,
    /// Its address outside.
    pub outside: Ipv4Addr,
}

/// What becomes of packets of IPv6, which is not translated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ipv6Policy {
    /// They pass as they are.
    #[default]
    Pass,
    /// They are dropped.
    Block,
}

/// Which flows of an inside endpoint share an outside one (RFC 4787 section 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MappingBehaviour {
    /// All of them, to whomever they go (RFC 4787 REQ-1).
    #[default]
    EndpointIndependent,
}

/// Whose packets from outside reach a mapped endpoint (RFC 4787 section 5). Ports that are forwarded, and static
/// mappings, are open to everybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilteringBehaviour {
    /// Everybody's.
    #[default]
    EndpointIndependent,
    /// Those of addresses that the endpoint has sent to.
    AddressDependent,
    /// Those of addresses and ports that the endpoint has sent to.
    AddressAndPortDependent,
}

/// How long mappings are kept of which nothing more is seen, seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NatTimeouts {
    /// UDP (RFC 4787 REQ-5).
    pub udp_s: u64,
    /// TCP while it is open (RFC 5382 REQ-5).
    pub tcp_established_s: u64,
    /// TCP before and after (RFC 5382 REQ-5).
    pub tcp_transitory_s: u64,
    /// Queries of ICMP (RFC 5508 REQ-2).
    pub icmp_s: u64,
}

impl Default for NatTimeouts {
    fn default() -> Self {
        Self { udp_s: 300, tcp_established_s: 7_440, tcp_transitory_s: 240, icmp_s: 60 }
    }
}

/// Reads a configuration in YAML or JSON; `file` is what messages call it.
///
/// # Errors
/// When it is malformed, with its line; or when it contradicts itself, with the entries that do.
pub fn read(text: &str, file: &str) -> Result<NatConfig, RuleError> {
    let config: NatConfig = check::document(text, file, "NAT")?;
    config.check(file)?;
    Ok(config)
}

impl NatConfig {
    /// Holds it against itself.
    ///
    /// # Errors
    /// The first contradiction.
    pub fn check(&self, file: &str) -> Result<(), RuleError> {
        let options = ReadOptions { file: file.to_owned(), ..ReadOptions::default() };
        let blocks = || self.check_blocks_in(self.ports);
        contradictions::find(self).and_then(|()| blocks()).map_err(|one| one.at(0, &options))
    }

    /// Refuses blocks of ports of which there are too few in such a range of ports for all hosts.
    ///
    /// # Errors
    /// When a host would have no block.
    pub fn check_blocks(&self, ports: PortRange, file: &str) -> Result<(), RuleError> {
        let options = ReadOptions { file: file.to_owned(), ..ReadOptions::default() };
        self.check_blocks_in(ports).map_err(|one| one.at(0, &options))
    }

    fn check_blocks_in(&self, ports: PortRange) -> Result<(), Refusal> {
        contradictions::blocks(self, ports)
    }

    /// The inside prefixes, each with the addresses that it is translated into: first those of `snat`, in
    /// their order, then those of `masquerade`.
    pub fn sources(&self) -> impl Iterator<Item = (Ipv4Net, &[Ipv4Net])> {
        let snat = self.snat.iter().map(|rule| (rule.inside, rule.to.as_slice()));
        snat.chain(self.masquerade.iter().map(|prefix| (*prefix, self.pool.as_slice())))
    }

    /// The outside addresses that flows may share: those of `pool` and of `snat`, each once, in their order.
    ///
    /// There may be very many of them where the configuration was not checked.
    #[must_use]
    pub fn shared_addresses(&self) -> Vec<Ipv4Addr> {
        let prefixes = self.pool.iter().chain(self.snat.iter().flat_map(|rule| &rule.to));
        let mut all: Vec<Ipv4Addr> = prefixes.flat_map(all_of).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// All addresses of a prefix, the first and the last among them.
pub fn all_of(prefix: &Ipv4Net) -> impl Iterator<Item = Ipv4Addr> + use<> {
    (prefix.network().to_bits()..=prefix.broadcast().to_bits()).map(Ipv4Addr::from_bits)
}

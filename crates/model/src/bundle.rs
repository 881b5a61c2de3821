//! Functions that come with Catena, as programs name them: of which kind one is, what it is made of, and at
//! which hop of a path it stands. Knows their configuration as text; refuses to know what it means.

use crate::id::{InstanceId, PathId, PortId};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::Arc;

/// Behind what is told to a function with a process of its own: no JSON ends so.
const BESIDE: &[u8] = b"\0beside";

/// What a bundled function is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    /// Which function it is, such as `firewall`.
    pub kind: String,
    /// What it is told, as a JSON object, rule sets included.
    pub config: String,
    /// Has it a process of its own beside the data plane, which asks it there?
    #[serde(default)]
    pub is_beside: bool,
}

impl Configuration {
    /// That of a function of this kind, which is told this, within the data plane.
    #[must_use]
    pub fn new(kind: impl Into<String>, config: impl Into<String>) -> Self {
        Self { kind: kind.into(), config: config.into(), is_beside: false }
    }

    /// The same in a process of its own.
    #[must_use]
    pub fn beside(self) -> Self {
        Self { is_beside: true, ..self }
    }

    /// By what it is known.
    #[must_use]
    pub fn id(&self) -> ConfigurationId {
        let mut hash = Sha256::new();
        // No kind has a byte of zero.
        hash.update(self.kind.as_bytes());
        hash.update([0]);
        hash.update(self.config.as_bytes());
        if self.is_beside {
            hash.update(BESIDE);
        }
        ConfigurationId(hash.finalize().into())
    }
}

/// By what a configuration is known: its SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigurationId(pub [u8; 32]);

impl fmt::Display for ConfigurationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

/// Writes a sum as hexadecimal digits.
pub(crate) fn hex(sum: &[u8; 32], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    sum.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// A sum of 64 hexadecimal digits; none: they are none.
pub(crate) fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut sum = [0; 32];
    if text.len() != 2 * sum.len() || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (place, byte) in sum.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(sum)
}

impl fmt::Debug for ConfigurationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for ConfigurationId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            serializer.collect_str(self)
        } else {
            self.0.serialize(serializer)
        }
    }
}

impl<'de> Deserialize<'de> for ConfigurationId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            return <[u8; 32]>::deserialize(deserializer).map(Self);
        }
        let text = String::deserialize(deserializer)?;
        let wrong = || D::Error::custom("a configuration is known by 64 hexadecimal digits");
        unhex(&text).map(Self).ok_or_else(wrong)
    }
}

/// What functions of a node are made of: sent once, whatever paths name it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigurationEntry {
    /// It.
    pub configuration: Configuration,
}

/// By what a member is known: its path, the hop, and its place among the functions of that hop.
pub type MemberKey = (PathId, u16, u8);

/// A bundled function at a hop of a path: its instances run this configuration. Functions that stand at one hop are
/// asked one behind the other, those whose instances stand at one place of their lists.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberEntry {
    /// The path.
    pub path: PathId,
    /// The hop, counted from 0.
    pub hop: u16,
    /// Its place among the functions of that hop, counted from 0 as packets come by.
    pub member: u8,
    /// Its name for people.
    pub function: String,
    /// Does the path lead through it against the order in which chains list their functions?
    pub is_backward: bool,
    /// What it is made of.
    pub configuration: ConfigurationId,
    /// One for each instance of the hop, in their order and on their nodes.
    pub instances: Vec<MemberInstance>,
}

/// An instance of a bundled function at a hop.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberInstance {
    /// The instance.
    pub id: InstanceId,
    /// Its name for people.
    pub name: String,
    /// The port towards it, on this way.
    pub ingress: PortId,
    /// The port it sends from.
    pub egress: PortId,
}

impl MemberEntry {
    /// By what it is known.
    #[must_use]
    pub const fn key(&self) -> MemberKey {
        (self.path, self.hop, self.member)
    }
}

/// A bundled function of a path, as the planner remembers it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// The hop at which it stands.
    pub hop: u16,
    /// Its place among the functions of that hop.
    #[serde(default)]
    pub member: u8,
    /// Its name for people.
    #[serde(default)]
    pub function: String,
    /// By what that is known of which it is made.
    pub id: ConfigurationId,
    /// It.
    pub configuration: Arc<Configuration>,
    /// One for each instance of the hop.
    #[serde(default)]
    pub instances: Vec<MemberInstance>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_known_by_all_of_it() {
        let configuration = |kind: &str, config: &str| Configuration::new(kind, config).id();
        let known = configuration("firewall", "{}");
        // `printf 'firewall\0{}' | sha256sum`
        let told = "d1b7d593a3bc7954f661644e5532b61b0cd3c94acaf259bf09204ad2435f5a36";
        assert_eq!(known.to_string(), told);
        assert_eq!(serde_json::to_string(&known).unwrap(), format!("\"{told}\""));
        assert_eq!(serde_json::from_str::<ConfigurationId>(&format!("\"{told}\"")).unwrap(), known);
        assert_ne!(known, configuration("firewall{", "}"));
        assert_ne!(known, Configuration::new("firewall", "{}").beside().id());
        for wrong in ["\"\"", "\"zz\"", &format!("\"{}\"", "é".repeat(32)), "7"] {
            assert!(serde_json::from_str::<ConfigurationId>(wrong).is_err(), "{wrong}");
        }
    }
}

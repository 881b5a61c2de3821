//! What nodes find at the ends of their cables. Knows the words for it; refuses to know how it is found, and
//! which ends belong together.

use crate::id::NodeName;
use crate::topology::PortNumber;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use utoipa::ToSchema;

/// Octets of the key.
const KEY_BYTES: usize = 16;
/// What stands in its place for people.
const HIDDEN: &str = "(secret)";

/// By what the nodes of a domain know each other at the ends of cables. It is shown to nobody: neither debugging
/// output nor a form for people has it, and it cannot be read from one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DiscoveryKey([u8; KEY_BYTES]);

impl DiscoveryKey {
    /// The key of these octets, which must be random.
    #[must_use]
    pub const fn new(octets: [u8; KEY_BYTES]) -> Self {
        Self(octets)
    }

    /// Its octets, to sign with.
    #[must_use]
    pub const fn octets(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }
}

impl fmt::Debug for DiscoveryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl Serialize for DiscoveryKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match serializer.is_human_readable() {
            true => serializer.serialize_str(HIDDEN),
            false => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for DiscoveryKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <[u8; KEY_BYTES]>::deserialize(deserializer).map(Self)
    }
}

/// The form in which the controller's store alone has a key.
pub mod stored_key {
    use super::DiscoveryKey;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes it, octet by octet.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn serialize<S: Serializer>(key: &Option<DiscoveryKey>, to: S) -> Result<S::Ok, S::Error> {
        key.map(|key| key.0).serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// When it has another length.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<DiscoveryKey>, D::Error> {
        Ok(Option::deserialize(from)?.map(DiscoveryKey))
    }
}

/// What somebody is taken for who says that he is at the other end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Another node of this domain: its word is signed and fresh.
    Ours,
    /// He signs nothing: some other device.
    Unsigned,
    /// His signature is by no key of this domain: forged, or of another domain.
    Forged,
    /// His word is signed, and older than one that was heard before.
    Replayed,
    /// A node of this domain that has not been heard for longer than its word held.
    Stale,
    /// This node itself: the link leads back to it.
    Itself,
    /// Another node that has the name of this one.
    SameName,
}

impl Trust {
    /// All, in order.
    pub const ALL: [Self; 7] = [
        Self::Ours,
        Self::Unsigned,
        Self::Forged,
        Self::Replayed,
        Self::Stale,
        Self::Itself,
        Self::SameName,
    ];

    /// The word of the API.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Unsigned => "unsigned",
            Self::Forged => "forged",
            Self::Replayed => "replayed",
            Self::Stale => "stale",
            Self::Itself => "itself",
            Self::SameName => "same_name",
        }
    }

    /// That of a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|trust| trust.word() == word)
    }

    /// Why nothing is sent over the link for his sake, for people; none: he is a node of this domain.
    #[must_use]
    pub const fn complaint(self) -> Option<&'static str> {
        match self {
            Self::Ours => None,
            Self::Unsigned => Some("it signs nothing: a device that is no node"),
            Self::Forged => {
                Some("it is signed by another key: forged, or a node of another domain")
            }
            Self::Replayed => Some(
                "its word is older than one that was heard before: it is replayed, or the clock of that node \
                 was set back",
            ),
            Self::Stale => Some("it has not been heard lately"),
            Self::Itself => Some("it is this node itself: the link leads back to it"),
            Self::SameName => Some("another node has the name of this one: give it one of its own"),
        }
    }
}

/// Somebody who says that he is at the other end of a link. The texts are his, whoever he is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Neighbour {
    /// What he calls himself: of a node, its name.
    pub chassis: String,
    /// What he calls his port: of a node, the interface.
    pub port: String,
    /// What he calls his system; empty: nothing.
    pub system: String,
    /// The port number that he claims.
    #[schema(value_type = Option<u8>)]
    pub number: Option<PortNumber>,
    /// What he is taken for.
    pub trust: Trust,
}

/// What a node tells of one of its links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkState {
    /// The interface.
    pub interface: String,
    /// Its number in the program that the node runs.
    pub number: Option<PortNumber>,
    /// Does it carry anything?
    pub is_up: bool,
    /// What it carried lately in its busier direction, in thousandths of its speed; none: that is not known.
    pub load_permille: Option<u16>,
    /// The longest IP packet that it takes, in bytes; none: its node does not say.
    pub mtu: Option<u16>,
    /// LLDP frames that were not read, because more came than a link may send.
    pub flooded: u64,
    /// LLDP frames that are none, or of one neighbour more than a link may have.
    pub refused: u64,
    /// Who says that he is at its other end.
    pub neighbours: Vec<Neighbour>,
    /// Why the data plane does not have it; empty: it has, or nobody has tried yet.
    pub hindrance: String,
    /// That is a doubt alone: frames may still pass, where there is no other way.
    pub is_doubted: bool,
}

/// Whether a link can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LinkCondition {
    /// It carries.
    Up,
    /// It does not: it is down, unplugged, or its node is away.
    Down,
    /// It has no port number.
    NoNumber,
}

impl LinkCondition {
    /// The word of the API.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::NoNumber => "no-number",
        }
    }
}

/// The other end of a cable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub struct FarEnd {
    /// The node.
    pub node: NodeName,
    /// Its port.
    #[schema(value_type = u8)]
    pub number: PortNumber,
    /// The interface.
    pub interface: String,
}

impl fmt::Display for FarEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} ({})", self.node, self.number, self.interface)
    }
}

/// A link of a node, as the controller knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LinkReport {
    /// The node.
    pub node: NodeName,
    /// The interface there.
    pub interface: String,
    /// Its port number.
    #[schema(value_type = Option<u8>)]
    pub number: Option<PortNumber>,
    /// Can it be used?
    pub state: LinkCondition,
    /// The cable that both of its ends agree on.
    pub cable: Option<FarEnd>,
    /// What is wrong with it, and what to do.
    pub trouble: Option<String>,
    /// What it carried lately in its busier direction, in thousandths of its speed; none: that is not known.
    pub load_permille: Option<u16>,
    /// The longest IP packet that it takes, in bytes; none: its node does not say.
    pub mtu: Option<u16>,
    /// LLDP frames that were not read, because more came than a link may send.
    pub flooded: u64,
    /// LLDP frames that are none, or of one neighbour more than a link may have.
    pub refused: u64,
    /// Who says that he is at its other end, foreign ones among them.
    pub neighbours: Vec<Neighbour>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::NodeEntry;

    #[derive(Serialize, Deserialize)]
    struct Stored {
        #[serde(default, with = "stored_key")]
        key: Option<DiscoveryKey>,
    }

    #[test]
    fn no_form_for_people_has_the_key_and_both_of_machines_do() {
        let key = DiscoveryKey::new(*b"sixteen octets!!");
        let entry = NodeEntry { discovery_key: Some(key), ..NodeEntry::default() };
        for text in [format!("{entry:?}"), serde_json::to_string(&entry).unwrap()] {
            assert!(text.contains(HIDDEN) && !text.contains("115"), "{text}");
        }
        let bytes = postcard::to_stdvec(&entry).unwrap();
        assert_eq!(postcard::from_bytes(&bytes), Ok(entry));
        let stored = serde_json::to_string(&Stored { key: Some(key) }).unwrap();
        assert_eq!(serde_json::from_str::<Stored>(&stored).unwrap().key, Some(key));
        assert_eq!(serde_json::from_str::<Stored>("{}").unwrap().key, None);
    }

    #[test]
    fn a_word_stands_for_what_it_says() {
        for trust in Trust::ALL {
            assert_eq!(Trust::of_word(trust.word()), Some(trust));
            assert_eq!(serde_json::to_value(trust).unwrap(), trust.word());
            assert_eq!(trust.complaint().is_none(), trust == Trust::Ours);
        }
        assert_eq!(Trust::of_word("best friend"), None);
    }
}

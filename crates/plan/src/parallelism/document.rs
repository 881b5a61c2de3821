//! Profiles in a file: field names and letters as the specification of function parallelism writes them (section 1.1),
//! such as `{"profiles": {"FW": {"R": ["ip.src", "l4.dport"], "D": true}}}`.
//!
//! Knows names; refuses to judge.

use super::StageMember;
use catena_model::profile::{FieldSet, Meta, Profile, StateScope};
use catena_wire::field::Field;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Profiles of a file: so many.
const PROFILES_MAX: usize = 64;

/// Short names that the literature uses, beside our own.
const SHORT: [(&str, Field); 12] = [
    ("dmac", Field::EthernetDestination),
    ("smac", Field::EthernetSource),
    ("vid", Field::VlanId),
    ("dscp", Field::Dscp),
    ("ttl", Field::Ttl),
    ("sip", Field::Source),
    ("dip", Field::Destination),
    ("proto", Field::Protocol),
    ("sport", Field::SourcePort),
    ("dport", Field::DestinationPort),
    ("len", Field::Length),
    ("payload", Field::Payload),
];

/// Why a profile is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// A field that there is not.
    #[error(
        "the profile {profile} names the field '{field}', which there is not; fields are {}",
        field_names()
    )]
    Field {
        /// Whose.
        profile: String,
        /// The word.
        field: String,
    },
    /// Bits that the field does not have.
    #[error(
        "the profile {profile} names '{field}', which says no bits of that field; write its bits in hexadecimal digits, such as ip.dst&0xff"
    )]
    Bits {
        /// Whose.
        profile: String,
        /// The word.
        field: String,
    },
    /// It says two things that cannot both be.
    #[error("the profile {profile} contradicts itself: {what}")]
    Contradiction {
        /// Whose.
        profile: String,
        /// What does not go together.
        what: &'static str,
    },
    /// None, or too many.
    #[error("there are {count} profiles, and there may be 1 to {PROFILES_MAX}")]
    Count {
        /// How many.
        count: usize,
    },
}

/// Profiles by their names, as a file says them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Profiles {
    #[serde(deserialize_with = "once_each")]
    profiles: BTreeMap<String, ProfileText>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileText {
    /// Fields read.
    #[serde(rename = "R", default)]
    reads: Vec<String>,
    /// Fields written.
    #[serde(rename = "W", default)]
    writes: Vec<String>,
    /// Another packet in a packet's place.
    #[serde(rename = "A", default)]
    replaces: bool,
    /// May drop.
    #[serde(rename = "D", default)]
    drops: bool,
    /// Effects outside of the packet.
    #[serde(rename = "E", default)]
    has_effects: bool,
    /// State that influences later outputs.
    #[serde(rename = "S", default)]
    state: StateText,
    /// Makes packets.
    #[serde(rename = "G", default)]
    generates: bool,
    /// Order across flows.
    #[serde(rename = "O", default)]
    is_ordered: bool,
    /// Effects can be taken back, or be held.
    #[serde(rename = "X", default)]
    is_transactional: bool,
    /// Packets may wait in it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    holds: bool,
    /// It takes packets as on the wire, and no super-frames.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    wire_packets: bool,
}

/// Profiles by their names, each of which is said once.
fn once_each<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, ProfileText>, D::Error> {
    struct OnceEach;
    impl<'de> Visitor<'de> for OnceEach {
        type Value = BTreeMap<String, ProfileText>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("profiles by their names")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut profiles = BTreeMap::new();
            while let Some((name, profile)) = map.next_entry::<String, ProfileText>()? {
                if profiles.contains_key(&name) {
                    return Err(A::Error::custom(format!("the profile {name} is there twice")));
                }
                profiles.insert(name, profile);
            }
            Ok(profiles)
        }
    }
    from.deserialize_map(OnceEach)
}

/// Is there state, or how far does it reach?
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(untagged, expecting = "S as true, false, \"packet\", \"flow\", \"host\" or \"all\"")]
enum StateText {
    Is(bool),
    Reaches(ScopeText),
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ScopeText {
    Packet,
    Flow,
    Host,
    All,
}

impl Default for StateText {
    fn default() -> Self {
        Self::Is(false)
    }
}

impl StateText {
    const fn scope(self) -> StateScope {
        match self {
            Self::Is(false) | Self::Reaches(ScopeText::Packet) => StateScope::Packet,
            Self::Reaches(ScopeText::Flow) => StateScope::Flow,
            Self::Reaches(ScopeText::Host) => StateScope::Host,
            // Who does not say how far may mean all of it.
            Self::Is(true) | Self::Reaches(ScopeText::All) => StateScope::All,
        }
    }
}

impl Profiles {
    /// Them, by their names. Nobody has held them against code, and they are judged as if somebody had: what comes of
    /// it is worth as much as they are.
    ///
    /// # Errors
    /// When one names what there is not or contradicts itself, or they are too many.
    pub fn members(&self) -> Result<Vec<StageMember>, ProfileError> {
        let count = self.profiles.len();
        if !(1..=PROFILES_MAX).contains(&count) {
            return Err(ProfileError::Count { count });
        }
        let members = self.profiles.iter().map(|(name, text)| {
            Ok(StageMember { name: name.clone(), profile: text.profile(name)? })
        });
        members.collect()
    }
}

impl<'m> FromIterator<&'m StageMember> for Profiles {
    fn from_iter<M: IntoIterator<Item = &'m StageMember>>(members: M) -> Self {
        let texts =
            members.into_iter().map(|member| (member.name.clone(), (&member.profile).into()));
        Self { profiles: texts.collect() }
    }
}

impl From<&Profile> for ProfileText {
    fn from(profile: &Profile) -> Self {
        let acts = profile.has_effects || profile.state != StateScope::Packet;
        Self {
            reads: profile.reads.in_words(),
            writes: profile.writes.in_words(),
            replaces: profile.replaces,
            drops: profile.drops,
            has_effects: profile.has_effects,
            state: StateText::Reaches(match profile.state {
                StateScope::Packet => ScopeText::Packet,
                StateScope::Flow => ScopeText::Flow,
                StateScope::Host => ScopeText::Host,
                StateScope::All => ScopeText::All,
            }),
            generates: profile.generates,
            is_ordered: profile.is_ordered,
            is_transactional: acts && (profile.is_transactional || profile.effects_are_sums),
            holds: profile.holds,
            wire_packets: profile.wants_wire_packets(),
        }
    }
}

impl ProfileText {
    fn profile(&self, name: &str) -> Result<Profile, ProfileError> {
        let contradiction =
            |what| Err(ProfileError::Contradiction { profile: name.to_owned(), what });
        let acts = self.has_effects || self.state.scope() != StateScope::Packet;
        if self.is_transactional && !acts {
            return contradiction(
                "X says that effects can be taken back, and there are neither E nor S",
            );
        }
        if self.is_ordered
            && matches!(self.state, StateText::Reaches(ScopeText::Packet | ScopeText::Flow))
        {
            return contradiction(
                "O says that order across flows matters, and S that no state reaches beyond a flow",
            );
        }
        Ok(Profile {
            reads: fields(name, &self.reads)?,
            writes: fields(name, &self.writes)?,
            replaces: self.replaces,
            drops: self.drops,
            has_effects: self.has_effects,
            // What can be taken back can as well be kept back.
            effects_are_sums: self.is_transactional,
            state: self.state.scope(),
            generates: self.generates,
            is_ordered: self.is_ordered,
            is_transactional: self.is_transactional,
            holds: self.holds,
            takes_super_frames: !self.wire_packets,
            ..Profile::IDENTITY
        })
    }
}

fn fields(profile: &str, words: &[String]) -> Result<FieldSet, ProfileError> {
    words.iter().try_fold(FieldSet::EMPTY, |set, word| {
        let unknown = || ProfileError::Field { profile: profile.to_owned(), field: word.clone() };
        let (name, bits) =
            word.split_once('&').map_or((word.as_str(), None), |(name, bits)| (name, Some(bits)));
        if let Some((meta, _)) = Meta::ALL.into_iter().find(|(_, own)| *own == word) {
            return Ok(set.with_meta(meta));
        }
        let field = field_named(name).ok_or_else(unknown)?;
        let Some(bits) = bits else { return Ok(set.with(field)) };
        let bits = bits.strip_prefix("0x").and_then(|digits| u128::from_str_radix(digits, 16).ok());
        match bits {
            Some(bits) if bits & !field.all() == 0 && bits != 0 => Ok(set.with_bits(field, bits)),
            _ => Err(ProfileError::Bits { profile: profile.to_owned(), field: word.clone() }),
        }
    })
}

fn field_named(name: &str) -> Option<Field> {
    let short = SHORT.into_iter().find(|(short, _)| *short == name);
    short.map(|(_, field)| field).or_else(|| Field::named(name))
}

fn field_names() -> String {
    let fields = Field::ALL.iter().map(|field| field.name());
    let names: Vec<&str> = fields.chain(Meta::ALL.into_iter().map(|(_, name)| name)).collect();
    names.join(", ")
}

#[cfg(test)]
pub(super) fn short_name(field: Field) -> Option<&'static str> {
    SHORT.into_iter().find(|(_, own)| *own == field).map(|(short, _)| short)
}

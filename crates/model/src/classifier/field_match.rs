//! Conditions on declared fields, as bits of one word: a packet's word and a rule's are compared at once,
//! however many fields there are. Knows the word; refuses to know what the bits of a field mean.

use super::field::{FIELDS, Field};
use crate::resource::Transport;
use catena_wire::varying::VaryingFields;
use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;

/// Text that is no condition on a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldError {
    /// No such field.
    #[error("there is no field '{0}'")]
    Unknown(String),
    /// The field is never like that.
    #[error("'{given}' says nothing of the {title}: {help}")]
    Value {
        /// What was said.
        given: String,
        /// The field.
        title: &'static str,
        /// What may be said.
        help: &'static str,
    },
    /// No packet is like that and like what was said before.
    #[error("'{given}' says of the {title} otherwise than was said before; say it once")]
    Contradiction {
        /// What was said.
        given: String,
        /// The field.
        title: &'static str,
    },
}

/// Where the bits of a field begin in the word. The bit above its value says that the packet has it.
const fn shift(index: usize) -> u32 {
    let (mut at, mut bits) = (0, 0);
    while at < index {
        bits += FIELDS[at].bits() + 1;
        at += 1;
    }
    bits
}

const _: () = assert!(shift(FIELDS.len()) <= u32::BITS, "fields have outgrown their word");
const _: () = {
    let mut at = 0;
    while at < FIELDS.len() {
        assert!(FIELDS[at].bits() >= 1 && FIELDS[at].bits() <= u8::BITS, "a value has 1 to 8 bits");
        at += 1;
    }
};

/// All fields of a packet in one word, or those of them that somebody asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldWord(pub u32);

impl FieldWord {
    /// That of a packet.
    #[must_use]
    pub fn of(packet: &VaryingFields) -> Self {
        let word = |(index, field): (usize, &Field)| {
            let value = (field.read)(packet).map(|value| u32::from(value) | 1 << field.bits());
            value.unwrap_or(0) << shift(index)
        };
        Self(FIELDS.iter().enumerate().map(word).sum())
    }

    /// What of it is asked for.
    #[must_use]
    pub const fn masked(self, mask: u32) -> Self {
        Self(self.0 & mask)
    }
}

/// Which words a rule takes: those with these bits where it looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldMatch {
    value: u32,
    mask: u32,
}

impl FieldMatch {
    /// Does it look at no field?
    #[must_use]
    pub const fn is_any(&self) -> bool {
        self.mask == 0
    }

    /// The bits that it looks at.
    #[must_use]
    pub const fn mask(&self) -> u32 {
        self.mask
    }

    /// Does it take a packet?
    #[inline]
    #[must_use]
    pub const fn takes(&self, word: FieldWord) -> bool {
        (word.0 ^ self.value) & self.mask == 0
    }

    /// What both take; none: nothing.
    #[must_use]
    pub fn intersection(self, other: Self) -> Option<Self> {
        let is_met = (self.value ^ other.value) & self.mask & other.mask == 0;
        is_met.then_some(Self { value: self.value | other.value, mask: self.mask | other.mask })
    }

    /// Adds a condition on a field, in words.
    ///
    /// # Errors
    /// When they are no condition on it, or contradict what was said before.
    pub fn set(&mut self, field: &'static Field, words: &str) -> Result<(), FieldError> {
        let said = field.parse(words).ok_or_else(|| FieldError::Value {
            given: words.to_owned(),
            title: field.title(),
            help: field.help,
        });
        let (value, mask) = said?;
        let index = FIELDS.iter().position(|one| one.name == field.name);
        let shift = shift(index.unwrap_or(FIELDS.len()));
        let has = 1 << field.bits();
        let word = |bits: u8| (u32::from(bits) | has) << shift;
        let both = self.intersection(Self { value: word(value), mask: word(mask) });
        *self = both.ok_or_else(|| FieldError::Contradiction {
            given: words.to_owned(),
            title: field.title(),
        })?;
        Ok(())
    }

    /// Value and mask of each field that it looks at.
    pub fn parts(&self) -> impl Iterator<Item = (&'static Field, u8, u8)> {
        let Self { value, mask } = *self;
        FIELDS.iter().enumerate().filter_map(move |(index, field)| {
            let part = |word: u32| (word >> shift(index)) as u8 & field.all();
            let is_asked = mask >> shift(index) & 1 << field.bits() != 0;
            is_asked.then_some((field, part(value), part(mask)))
        })
    }

    /// The condition on each field that it looks at, in words.
    pub fn words(&self) -> impl Iterator<Item = (&'static Field, String)> {
        self.parts().map(|(field, value, mask)| (field, field.words(value, mask)))
    }

    /// The same of one field; none: it does not look at it.
    #[must_use]
    pub fn get(&self, field: &Field) -> Option<String> {
        self.words().find(|(one, _)| one.name == field.name).map(|(_, words)| words)
    }

    /// Bits of packets that it looks at: the more, the fewer packets it takes.
    #[must_use]
    pub fn bits(&self) -> u32 {
        self.parts().map(|(_, _, mask)| mask.count_ones()).sum()
    }

    /// A field that it looks at though the packets of a rule with this protocol need not have it, and
    /// the protocol that does.
    #[must_use]
    pub fn missing(&self, transport: Option<Transport>) -> Option<(&'static Field, Transport)> {
        let mut parts = self.parts().filter_map(|(field, ..)| Some((field, field.transport?)));
        parts.find(|(_, needed)| transport != Some(*needed))
    }

    /// The first field that keeps a packet out: what is wanted of it, and what the packet shows; none: it
    /// does not have it.
    #[must_use]
    pub fn failing(
        &self,
        packet: &VaryingFields,
    ) -> Option<(&'static Field, String, Option<String>)> {
        let is_met = |field: &Field, value, mask| {
            (field.read)(packet).is_some_and(|shown| (shown ^ value) & mask == 0)
        };
        let mut failing = self.parts().filter(|(field, value, mask)| !is_met(field, *value, *mask));
        let (field, value, mask) = failing.next()?;
        Some((field, field.words(value, mask), field.shown(packet)))
    }

    /// Makes a packet such that it is taken: of a field that is looked at it shows what is wanted and no
    /// more, unless nothing is; fields that are not looked at stay.
    pub fn impose(&self, packet: &mut VaryingFields) {
        for (field, value, mask) in self.parts() {
            let shown = if value == 0 { field.usual & !mask } else { value };
            (field.write)(packet, shown);
        }
    }
}

impl Field {
    /// A condition in its one form, such as `ef` for 46.
    ///
    /// # Errors
    /// When the words are none.
    pub fn one_form(&'static self, words: &str) -> Result<String, FieldError> {
        let mut condition = FieldMatch::default();
        condition.set(self, words)?;
        Ok(condition.get(self).unwrap_or_default())
    }
}

impl Serialize for FieldMatch {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.parts().count()))?;
        for (field, words) in self.words() {
            map.serialize_entry(field.name, &words)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for FieldMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut found = Self::default();
        for (name, words) in BTreeMap::<String, String>::deserialize(deserializer)? {
            let field = Field::named(&name).ok_or(FieldError::Unknown(name));
            field.and_then(|field| found.set(field, &words)).map_err(D::Error::custom)?;
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_wire::tcp::TcpFlags;
    use proptest::prelude::*;

    fn of(said: &[(&str, &str)]) -> FieldMatch {
        let mut found = FieldMatch::default();
        for (name, words) in said {
            found.set(Field::named(name).unwrap(), words).unwrap();
        }
        found
    }

    fn packet(dscp: u8, flags: Option<TcpFlags>) -> VaryingFields {
        VaryingFields { dscp, tcp_flags: flags }
    }

    #[test]
    fn conditions_are_read_as_they_are_written() {
        for (name, said, written) in [
            ("dscp", "46", "ef"),
            ("dscp", "EF", "ef"),
            ("dscp", "0", "cs0"),
            ("dscp", "63", "63"),
            ("tcp_flags", "syn", "syn"),
            ("tcp_flags", "!ACK, syn", "syn,!ack"),
            ("tcp_flags", "cwr,!fin", "!fin,cwr"),
        ] {
            let condition = of(&[(name, said)]);
            assert_eq!(condition.get(Field::named(name).unwrap()).as_deref(), Some(written));
            let text = serde_json::to_string(&condition).unwrap();
            assert_eq!(text, format!(r#"{{"{name}":"{written}"}}"#));
            assert_eq!(serde_json::from_str::<FieldMatch>(&text).unwrap(), condition);
            let bytes = postcard::to_stdvec(&condition).unwrap();
            assert_eq!(postcard::from_bytes::<FieldMatch>(&bytes).unwrap(), condition);
        }
    }

    #[test]
    fn what_is_no_condition_is_refused_with_what_may_be_said() {
        for (name, said) in [
            ("dscp", "64"),
            ("dscp", ""),
            ("dscp", "-1"),
            ("dscp", "fast"),
            ("tcp_flags", ""),
            ("tcp_flags", "syn,"),
            ("tcp_flags", "syn,!syn"),
            ("tcp_flags", "!!syn"),
            ("tcp_flags", "2"),
        ] {
            let field = Field::named(name).unwrap();
            let error = FieldMatch::default().set(field, said).unwrap_err().to_string();
            assert!(error.contains(field.title()) && error.contains(field.help), "{error}");
        }
        for text in [r#"{"colour":"red"}"#, r#"{"dscp":"red"}"#, r#"{"dscp":46}"#] {
            assert!(serde_json::from_str::<FieldMatch>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn two_conditions_on_one_field_hold_both_or_are_refused() {
        let both = of(&[("tcp_flags", "syn"), ("tcp_flags", "!ack")]);
        assert_eq!(both, of(&[("tcp_flags", "syn,!ack")]));
        for (name, one, other) in [("dscp", "cs1", "cs2"), ("tcp_flags", "syn", "!syn")] {
            let mut condition = of(&[(name, one)]);
            let error = condition.set(Field::named(name).unwrap(), other).unwrap_err();
            assert!(matches!(error, FieldError::Contradiction { .. }), "{error}");
            assert_eq!(condition, of(&[(name, one)]), "nothing is half said");
        }
    }

    #[test]
    fn a_packet_that_is_made_shows_what_is_wanted_and_no_more() {
        for (words, flags) in [
            ("ack", TcpFlags::ACK),
            ("syn,!ack", TcpFlags::SYN),
            ("!syn", TcpFlags::ACK),
            ("!syn,!ack", TcpFlags(0)),
        ] {
            let mut made = packet(7, Some(TcpFlags::SYN));
            of(&[("tcp_flags", words)]).impose(&mut made);
            assert_eq!(made, packet(7, Some(flags)), "{words}");
        }
    }

    #[test]
    fn a_packet_without_a_field_meets_no_condition_on_it() {
        let no_syn = of(&[("tcp_flags", "!syn")]);
        let word = |packet: VaryingFields| FieldWord::of(&packet);
        assert!(no_syn.takes(word(packet(0, Some(TcpFlags::ACK)))));
        assert!(!no_syn.takes(word(packet(0, Some(TcpFlags::SYN)))));
        assert!(!no_syn.takes(word(packet(0, None))));
        let (field, wanted, found) = no_syn.failing(&packet(0, None)).unwrap();
        assert_eq!((field.name, wanted.as_str(), found), ("tcp_flags", "!syn", None));
        assert_eq!(no_syn.missing(Some(Transport::Udp)).unwrap().1, Transport::Tcp);
        assert!(no_syn.missing(Some(Transport::Tcp)).is_none());
        assert!(of(&[("dscp", "ef")]).missing(None).is_none());
    }

    fn any_condition() -> impl Strategy<Value = FieldMatch> {
        (any::<Option<u8>>(), any::<u8>(), any::<u8>()).prop_map(|(dscp, value, mask)| {
            let mut found = FieldMatch::default();
            let [code, flags] = &FIELDS;
            if let Some(dscp) = dscp {
                found.set(code, &(dscp & code.all()).to_string()).unwrap();
            }
            if mask != 0 {
                found.set(flags, &flags.words(value, mask)).unwrap();
            }
            found
        })
    }

    fn any_packet() -> impl Strategy<Value = VaryingFields> {
        (0..64_u8, any::<Option<u8>>()).prop_map(|(dscp, flags)| packet(dscp, flags.map(TcpFlags)))
    }

    proptest! {
        #[test]
        fn what_both_take_is_what_their_intersection_takes(
            (one, other, packet) in (any_condition(), any_condition(), any_packet()),
        ) {
            let word = FieldWord::of(&packet);
            let both = one.takes(word) && other.takes(word);
            match one.intersection(other) {
                Some(shared) => {
                    prop_assert_eq!(shared.takes(word), both);
                    let mut made = packet;
                    shared.impose(&mut made);
                    let word = FieldWord::of(&made);
                    prop_assert!(shared.takes(word) && one.takes(word) && other.takes(word));
                }
                None => prop_assert!(!both),
            }
            prop_assert_eq!(one.failing(&packet).is_none(), one.takes(word));
            // What it does not look at makes no difference.
            prop_assert_eq!(one.takes(word), one.takes(word.masked(one.mask())));
            let text = serde_json::to_string(&one).unwrap();
            prop_assert_eq!(serde_json::from_str::<FieldMatch>(&text).unwrap(), one);
        }
    }
}

//! Classes as they are written, and what each must hold by itself. Knows words and bounds; refuses to know the
//! other classes.

use super::{
    BUCKET_BYTES_MAX, ColourAction, Meter, NAME_BYTES_MAX, Policing, Precolours, QosClass,
    RATE_MAX, Rate, Shaping, Treatment,
};
use crate::condition::Condition;
use crate::matches::MatchText;
use crate::scalars::{Dscp, Listed, Word, optional_word, word};
use catena_model::limits::{FUNCTION_HELD_BYTES_MAX, QOS_MATCHES_MAX};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Units of rates, bits a second, the greatest last.
pub(super) const RATE_UNITS: [(&str, u64); 4] =
    [("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)];

impl Word for Rate {
    const EXPECTED: &'static str =
        "a rate in bits a second to a terabit, such as 64kbit, 10mbit, 2gbit or 8000";

    fn read(text: &str) -> Result<Self, String> {
        let digits = text.find(|one: char| !one.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit = if unit.is_empty() { "bit" } else { unit };
        let unit = RATE_UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
        let bits = unit.zip(number.parse::<u64>().ok());
        bits.and_then(|((_, unit), number)| number.checked_mul(*unit))
            .filter(|bits| (1..=RATE_MAX).contains(bits))
            .map(Self)
            .ok_or_else(|| Self::refused(text))
    }
}

impl Word for ColourAction {
    const EXPECTED: &'static str = "pass, drop, or the code point that packets get, such as af12";

    fn read(text: &str) -> Result<Self, String> {
        match text {
            "pass" => Ok(Self::Pass),
            "drop" => Ok(Self::Drop),
            _ => Dscp::read(text).map(Self::Mark).map_err(|_| Self::refused(text)),
        }
    }
}

impl<'de> Deserialize<'de> for QosClass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ClassVisitor)
    }
}

/// Holds a class against itself while its place is known.
struct ClassVisitor;

impl<'de> Visitor<'de> for ClassVisitor {
    type Value = QosClass;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a class with its 'name' and what is done with it")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<QosClass, A::Error> {
        let text = ClassText::deserialize(MapAccessDeserializer::new(map))?;
        text.read().map_err(de::Error::custom)
    }
}

/// A class as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassText {
    name: String,
    #[serde(default, rename = "match")]
    matches: Matches,
    #[serde(default, deserialize_with = "optional_word")]
    mark: Option<Dscp>,
    #[serde(default)]
    police: Option<PoliceText>,
    #[serde(default)]
    shape: Option<ShapeText>,
}

/// The matches of which one will do; none: all packets.
#[derive(Default)]
struct Matches(Option<Vec<MatchText>>);

impl<'de> Deserialize<'de> for Matches {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MatchesVisitor)
    }
}

struct MatchesVisitor;

impl<'de> Visitor<'de> for MatchesVisitor {
    type Value = Matches;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a match, or a list of matches of which one will do")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Matches, A::Error> {
        let one = MatchText::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Matches(Some(vec![one])))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Matches, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(|all| Matches(Some(all)))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PoliceText {
    srtcm: Option<SingleRateText>,
    trtcm: Option<TwoRateText>,
    aware: Option<AwareText>,
    #[serde(default = "pass", deserialize_with = "word")]
    green: ColourAction,
    #[serde(default = "pass", deserialize_with = "word")]
    yellow: ColourAction,
    #[serde(default = "drop", deserialize_with = "word")]
    red: ColourAction,
}

const fn pass() -> ColourAction {
    ColourAction::Pass
}

const fn drop() -> ColourAction {
    ColourAction::Drop
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SingleRateText {
    #[serde(deserialize_with = "word")]
    cir: Rate,
    cbs: u64,
    ebs: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TwoRateText {
    #[serde(deserialize_with = "word")]
    cir: Rate,
    cbs: u64,
    #[serde(deserialize_with = "word")]
    pir: Rate,
    pbs: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AwareText {
    yellow: Option<Listed<Dscp>>,
    red: Option<Listed<Dscp>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeText {
    #[serde(deserialize_with = "word")]
    rate: Rate,
    burst: u64,
    queue: u64,
}

impl ClassText {
    fn read(self) -> Result<QosClass, String> {
        let Self { name, matches, mark, police, shape } = self;
        let bytes = name.len();
        if !(1..=NAME_BYTES_MAX).contains(&bytes) || name.chars().any(char::is_control) {
            return Err(format!(
                "a class has a name of 1 to {NAME_BYTES_MAX} printable bytes, not {name:?}"
            ));
        }
        let of = |what: String| format!("class {name}: {what}");
        let treatment = match (mark, police, shape) {
            (Some(mark), None, None) => Ok(Treatment::Mark(mark)),
            (None, Some(police), None) => police.read().map(Treatment::Police),
            (None, None, Some(shape)) => shape.read().map(Treatment::Shape),
            (None, None, None) => Err("it says neither 'mark', 'police' nor 'shape'".to_owned()),
            _ => Err("it says more than one of 'mark', 'police' and 'shape'; write a class for \
                      each into the configuration of its own function"
                .to_owned()),
        };
        let treatment = treatment.map_err(of)?;
        let rows = matches.rows().map_err(of)?;
        Ok(QosClass { name, rows, treatment })
    }
}

impl Matches {
    fn rows(self) -> Result<Vec<Vec<Condition>>, String> {
        let Some(texts) = self.0 else { return Ok(vec![Vec::new()]) };
        if !(1..=QOS_MATCHES_MAX).contains(&texts.len()) {
            return Err(format!("it has {} matches of 1 to {QOS_MATCHES_MAX}", texts.len()));
        }
        let mut rows = Vec::new();
        for text in texts {
            rows.extend(text.rows()?);
        }
        Ok(rows)
    }
}

/// Refuses numbers of bytes that no bucket has.
fn bucket(key: &str, bytes: u64) -> Result<u64, String> {
    if bytes <= BUCKET_BYTES_MAX {
        return Ok(bytes);
    }
    Err(format!("{key} is {bytes} bytes of at most {BUCKET_BYTES_MAX}"))
}

/// The same, where it may not be empty either.
fn full_bucket(key: &str, bytes: u64) -> Result<u64, String> {
    if bytes == 0 {
        return Err(format!("{key} is 0 bytes, so no packet would ever find room in it"));
    }
    bucket(key, bytes)
}

impl PoliceText {
    fn read(self) -> Result<Policing, String> {
        let meter = match (self.srtcm, self.trtcm) {
            (Some(text), None) => text.read()?,
            (None, Some(text)) => text.read()?,
            _ => return Err("'police' wants one meter, 'srtcm' or 'trtcm'".to_owned()),
        };
        let aware = self.aware.map(AwareText::read).transpose()?;
        Ok(Policing { meter, aware, actions: [self.green, self.yellow, self.red] })
    }
}

impl SingleRateText {
    fn read(self) -> Result<Meter, String> {
        let (cbs, ebs) = (bucket("cbs", self.cbs)?, bucket("ebs", self.ebs)?);
        if cbs == 0 && ebs == 0 {
            return Err("cbs and ebs are both 0; one must be more (RFC 2697 section 2)".to_owned());
        }
        Ok(Meter::SingleRate { cir: self.cir, cbs, ebs })
    }
}

impl TwoRateText {
    fn read(self) -> Result<Meter, String> {
        let (cbs, pbs) = (full_bucket("cbs", self.cbs)?, full_bucket("pbs", self.pbs)?);
        let Self { cir, pir, .. } = self;
        if pir < cir {
            return Err(format!("pir {pir} is below cir {cir} (RFC 2698 section 2)"));
        }
        Ok(Meter::TwoRate { cir, cbs, pir, pbs })
    }
}

impl AwareText {
    fn read(self) -> Result<Precolours, String> {
        let all = |listed: Option<Listed<Dscp>>| listed.map_or_else(Vec::new, |listed| listed.0);
        let (yellow, red) = (all(self.yellow), all(self.red));
        if let Some(both) = yellow.iter().find(|dscp| red.contains(dscp)) {
            return Err(format!("'aware' calls {both} both yellow and red"));
        }
        Ok(Precolours { yellow, red })
    }
}

impl ShapeText {
    fn read(self) -> Result<Shaping, String> {
        let burst = full_bucket("burst", self.burst)?;
        let most = FUNCTION_HELD_BYTES_MAX as u64;
        if self.queue > most {
            return Err(format!("queue is {} bytes of at most {most}", self.queue));
        }
        Ok(Shaping { rate: self.rate, burst, queue: self.queue })
    }
}

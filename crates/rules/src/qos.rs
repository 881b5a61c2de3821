//! Classes of traffic and what is done with each: the configuration of markers, policers and shapers.
//!
//! Knows what may stand in it and what of it contradicts itself. Refuses to hold packets against it, and to read
//! files: text in YAML or JSON comes in, a [`QosConfig`] or a [`RuleError`] goes out. Words are those of RFC 2474,
//! RFC 2697 and RFC 2698.

#[cfg(test)]
mod tests;
mod words;

use crate::check;
use crate::condition::Condition;
use crate::error::RuleError;
use crate::exactness::Exactness;
use crate::options::ReadOptions;
use crate::refusal::Refusal;
use crate::scalars::Dscp;
use catena_model::limits::QOS_CLASSES_MAX;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;

/// Classes in the order in which packets are held against them: the first that takes one decides. What none takes
/// passes as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosConfig {
    /// The file, as messages call it.
    pub file: String,
    /// The classes.
    pub classes: Vec<QosClass>,
}

/// A class of traffic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QosClass {
    /// Its name in messages, counters and state.
    pub name: String,
    /// Rows of conditions: it takes a packet that meets all of one row.
    pub rows: Vec<Vec<Condition>>,
    /// What is done with its packets.
    pub treatment: Treatment,
}

/// What is done with the packets of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// They are marked.
    Mark(Dscp),
    /// They are metered, and treated by their colours.
    Police(Policing),
    /// They leave no faster than a bucket of tokens says.
    Shape(Shaping),
}

/// Kinds of functions that classes configure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosKind {
    /// Marks.
    Marker,
    /// Polices.
    Policer,
    /// Shapes.
    Shaper,
}

/// Bits a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// The fastest rate: a terabit a second.
const RATE_MAX: u64 = 1_000_000_000_000;
/// The deepest bucket, bytes.
const BUCKET_BYTES_MAX: u64 = u32::MAX as u64;
/// The longest name, bytes.
const NAME_BYTES_MAX: usize = 63;

/// How packets are metered and treated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policing {
    /// The meter.
    pub meter: Meter,
    /// The colours that packets come with; none: the meter is blind to them.
    pub aware: Option<Precolours>,
    /// What becomes of packets of each colour: green, yellow, red.
    pub actions: [ColourAction; 3],
}

/// A meter. Buckets are in bytes of IP packets and full at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meter {
    /// The single rate three color marker (RFC 2697).
    SingleRate {
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: u64,
        /// Excess burst size.
        ebs: u64,
    },
    /// The two rate three color marker (RFC 2698).
    TwoRate {
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: u64,
        /// Peak information rate.
        pir: Rate,
        /// Peak burst size.
        pbs: u64,
    },
}

/// Which code points say that a packet comes yellow or red; all others come green.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precolours {
    /// Yellow.
    pub yellow: Vec<Dscp>,
    /// Red.
    pub red: Vec<Dscp>,
}

/// What becomes of packets of a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColourAction {
    /// They pass as they are.
    Pass,
    /// They pass with this code point.
    Mark(Dscp),
    /// They end.
    Drop,
}

/// How fast packets leave, and how many wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shaping {
    /// Tokens of one bit that come a second.
    pub rate: Rate,
    /// Bytes of IP packets that leave at once.
    pub burst: u64,
    /// Bytes of IP packets that wait at most.
    pub queue: u64,
}

impl Rate {
    /// Bits a second.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = words::RATE_UNITS.iter().rfind(|(_, bits)| self.0.is_multiple_of(*bits));
        let (name, bits) = unit.copied().unwrap_or(("bit", 1));
        write!(f, "{}{name}", self.0 / bits)
    }
}

impl fmt::Display for ColourAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass => f.write_str("pass"),
            Self::Mark(dscp) => write!(f, "mark {dscp}"),
            Self::Drop => f.write_str("drop"),
        }
    }
}

impl Treatment {
    /// Which kind of function does it.
    #[must_use]
    pub const fn kind(&self) -> QosKind {
        match self {
            Self::Mark(_) => QosKind::Marker,
            Self::Police(_) => QosKind::Policer,
            Self::Shape(_) => QosKind::Shaper,
        }
    }
}

impl QosKind {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Marker => "marker",
            Self::Policer => "policer",
            Self::Shaper => "shaper",
        }
    }

    /// The key of its treatment.
    const fn key(self) -> &'static str {
        match self {
            Self::Marker => "mark",
            Self::Policer => "police",
            Self::Shaper => "shape",
        }
    }
}

impl QosClass {
    /// Does it take packets whatever they are?
    #[must_use]
    pub fn takes_all(&self) -> bool {
        self.rows.iter().any(Vec::is_empty)
    }

    /// How much its conditions say of what becomes of a packet: with a bucket, the packets before it decide, too.
    #[must_use]
    pub const fn exactness(&self) -> Exactness {
        match self.treatment {
            Treatment::Mark(_) => Exactness::Exact,
            Treatment::Police(_) | Treatment::Shape(_) => Exactness::Wider,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    classes: Vec<QosClass>,
}

/// Reads the configuration of a function of this kind, in YAML or JSON; `file` is what messages call it.
///
/// # Errors
/// When it is malformed, with the line; or when it contradicts itself, with the classes that do.
pub fn read(text: &str, file: &str, kind: QosKind) -> Result<QosConfig, RuleError> {
    let document: Document = check::document(text, file, kind.name())?;
    let options = ReadOptions { file: file.to_owned(), ..ReadOptions::default() };
    check(&document.classes, kind).map_err(|refusal| refusal.at(0, &options))?;
    Ok(QosConfig { file: options.file, classes: document.classes })
}

/// Refuses classes that contradict one another.
fn check(classes: &[QosClass], kind: QosKind) -> Result<(), Refusal> {
    let number = classes.len();
    if !(1..=QOS_CLASSES_MAX).contains(&number) {
        let what = format!("there are {number} classes");
        return Err(Refusal::wrong(what, format!("write 1 to {QOS_CLASSES_MAX}")));
    }
    let mut names = BTreeSet::new();
    let mut all: Option<&str> = None;
    for class in classes {
        let name = class.name.as_str();
        if !names.insert(name) {
            let what = format!("two classes are called {name}");
            return Err(Refusal::wrong(what, "give each a name of its own"));
        }
        if class.treatment.kind() != kind {
            let other = class.treatment.kind();
            let what =
                format!("class {name} says '{}', which a {} does", other.key(), other.name());
            let advice = format!("a {} wants '{}'", kind.name(), kind.key());
            return Err(Refusal::wrong(what, advice));
        }
        if let Some(before) = all {
            let what =
                format!("no packet meets class {name}, as class {before} before it takes all");
            return Err(Refusal::wrong(what, format!("put class {before} behind it")));
        }
        all = all.or_else(|| class.takes_all().then_some(name));
    }
    Ok(())
}

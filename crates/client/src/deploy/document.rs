//! A chain in a document: what a file says, that of the study (its section IV) and a lab's `chains:`
//! alike. Refuses to know what becomes of it.

use super::words;
use catena_model::classifier::FIELDS;
use catena_model::resource::{Encapsulation, Payload};
use catena_model::setup::Setup;
use catena_model::telemetry::Telemetry;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv6Addr;

/// A chain as a file declares it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", deny_unknown_fields, expecting = "a chain with 'source' and 'through'")]
pub struct ChainDocument {
    /// Name of the chain; without one, `source-destination`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the traffic begins: name of an instance.
    pub source: String,
    /// Where it ends; empty: wherever its packets are addressed. A symmetric chain needs it, or says
    /// to which addresses its packets go.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub destination: String,
    /// Attributes of the flow classifier, or words such as `tcp dport 5201`; `destination_port` and
    /// `source_port` may stand for both bounds of a range.
    #[serde(default, alias = "classify", deserialize_with = "fields_or_words")]
    pub match_fields: Map<String, Value>,
    /// The functions in order.
    #[serde(alias = "through")]
    pub chain: Vec<ChainStep>,
    /// How the path is carried between hosts; without one, as it is, or as the API chooses for a new
    /// chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encapsulation: Option<Encapsulation>,
    /// What is to be inside, where the encapsulation has a choice: what was read is one with it in `encapsulation`.
    #[serde(default, skip_serializing)]
    pub payload: Option<Payload>,
    /// When the controller is asked for its flows; without one, as it is, or before any comes for a new chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setup: Option<Setup>,
    /// What its packets take along, and which of them are told of; null takes it away; without one, as it is.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "given")]
    pub telemetry: Option<Option<Telemetry>>,
    /// Segments of others, plain routers among them, that its packets visit on their way to a function, by the
    /// function's name; `{}`: none; without it, as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub via: Option<BTreeMap<String, Vec<Ipv6Addr>>>,
    /// Do the answers take the same instances in reverse order?
    #[serde(default, skip_serializing_if = "is_false")]
    pub symmetric: bool,
    /// Which figure of a lab it belongs to; nobody else reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// How the figures of a lab call it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

impl<'de> Deserialize<'de> for ChainDocument {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut read = Self::deserialize(from)?;
        if let Some(payload) = read.payload.take() {
            let named = read.encapsulation.ok_or_else(|| {
                D::Error::custom(
                    "'payload' goes with 'encapsulation': add it, or leave 'payload' out",
                )
            })?;
            let meant = named.with_payload(payload).map_err(D::Error::custom)?;
            read.encapsulation = Some(meant);
        }
        Ok(read)
    }
}

impl Serialize for ChainDocument {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, to)
    }
}

impl ChainDocument {
    /// The name of its chain and flow classifier; a document without one is called after its ends.
    #[must_use]
    pub fn name(&self) -> String {
        let ends = || match self.destination.as_str() {
            "" => self.source.clone(),
            destination => format!("{}-{destination}", self.source),
        };
        self.name.clone().unwrap_or_else(ends)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// A value that was given, even as null.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// What functions may speak.
fn spoken<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Encapsulation>, D::Error> {
    let Some(name) = Option::<String>::deserialize(from)? else { return Ok(None) };
    let mut known = Encapsulation::SPOKEN.into_iter();
    known.find(|one| one.name() == name).map(Some).ok_or_else(|| {
        let known = Encapsulation::SPOKEN.map(Encapsulation::name).join(", ");
        D::Error::custom(format!("no function speaks '{name}'; use one of {known}"))
    })
}

fn fields_or_words<'de, D: Deserializer<'de>>(from: D) -> Result<Map<String, Value>, D::Error> {
    struct FieldsOrWords;
    impl<'de> Visitor<'de> for FieldsOrWords {
        type Value = Map<String, Value>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("classifier attributes, or words such as 'tcp dport 5201'")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            words::fields(text).map_err(E::custom)
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            let mut said = Map::deserialize(MapAccessDeserializer::new(map))?;
            for field in &FIELDS {
                if let Some(value) = said.get_mut(field.name).filter(|value| !value.is_null()) {
                    *value = words::condition(field, value).map_err(Error::custom)?;
                }
            }
            Ok(said)
        }
    }
    from.deserialize_any(FieldsOrWords)
}

/// One function of a chain document; in a file its name alone may stand for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainStep {
    /// Name of the function; without `instances`, of its only instance, too.
    pub name: String,
    /// Where its traffic goes.
    pub direction: Direction,
    /// The encapsulation that its instances speak; none: each gets a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaks: Option<Encapsulation>,
    /// The instances that share its flows; empty: one, of the function's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<ChainInstance>,
}

/// The long form of a step.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepForm {
    name: String,
    #[serde(default)]
    direction: Direction,
    #[serde(default, deserialize_with = "spoken")]
    speaks: Option<Encapsulation>,
    #[serde(default)]
    instances: Vec<ChainInstance>,
}

impl<'de> Deserialize<'de> for ChainStep {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NameOrForm;
        impl<'de> Visitor<'de> for NameOrForm {
            type Value = ChainStep;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a function, or its name, direction and instances")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<ChainStep, E> {
                Ok(ChainStep {
                    name: name.into(),
                    direction: Direction::default(),
                    speaks: None,
                    instances: Vec::new(),
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ChainStep, A::Error> {
                let form = StepForm::deserialize(MapAccessDeserializer::new(map))?;
                let StepForm { name, direction, speaks, instances } = form;
                Ok(ChainStep { name, direction, speaks, instances })
            }
        }
        from.deserialize_any(NameOrForm)
    }
}

impl ChainStep {
    /// Its instances; at least one.
    #[must_use]
    pub fn all_instances(&self) -> Vec<ChainInstance> {
        if self.instances.is_empty() {
            return vec![ChainInstance { name: self.name.clone(), weight: WEIGHT_DEFAULT }];
        }
        self.instances.clone()
    }
}

/// One instance of a function of a chain document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an instance with its 'name'")]
pub struct ChainInstance {
    /// Its name.
    pub name: String,
    /// Its share of new flows relative to the others; 0: none.
    #[serde(default = "weight_default")]
    pub weight: u32,
}

/// Weight of an instance that states none, as in networking-sfc.
const WEIGHT_DEFAULT: u32 = 1;

fn weight_default() -> u32 {
    WEIGHT_DEFAULT
}

/// Which port of a function the traffic leaves by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// By its port on the internal network: the one that the endpoints are not on.
    In,
    /// By its port on the endpoints' network.
    Out,
    /// By the port it came in by.
    #[default]
    Same,
    /// Nowhere: the function gets a copy.
    Tap,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::In => "in",
            Self::Out => "out",
            Self::Same => "same",
            Self::Tap => "tap",
        })
    }
}

impl<'de> Deserialize<'de> for Direction {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match String::deserialize(from)?.as_str() {
            "in" => Ok(Self::In),
            "out" => Ok(Self::Out),
            "same" => Ok(Self::Same),
            "tap" => Ok(Self::Tap),
            other => Err(D::Error::custom(format!(
                "'{other}' is not a direction; use in, out, same or tap"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_with_an_unknown_key_or_direction_is_refused() {
        for bad in [
            r#"{"source": "S", "destination": "D", "chain": [], "colour": 1}"#,
            r#"{"source": "S", "destination": "D", "chain": [{"name": "v1", "direction": "up"}]}"#,
            r#"{"destination": "D", "chain": []}"#,
            r#"{"source": "S", "chain": [], "classify": "tcp port 80"}"#,
            r#"{"source": "S", "chain": [], "classify": {}, "match_fields": {}}"#,
            r#"{"source": "S", "chain": [7]}"#,
            r#"{"source": "S", "destination": "D", "chain": [{"name": "web", "direction": "same",
                "instances": [{"name": "v1", "wait": 1}]}]}"#,
        ] {
            assert!(serde_json::from_str::<ChainDocument>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_document_without_a_name_is_called_after_its_ends() {
        let named = |text: &str| serde_json::from_str::<ChainDocument>(text).unwrap().name();
        assert_eq!(named(r#"{"source": "S", "destination": "D", "chain": []}"#), "S-D");
        let given = r#"{"name": "web", "source": "S", "destination": "D", "chain": []}"#;
        assert_eq!(named(given), "web");
    }

    #[test]
    fn a_function_has_the_instances_it_names_or_one_of_its_own_name() {
        let step = |text: &str| serde_json::from_str::<ChainStep>(text).unwrap();
        let own = step(r#"{"name": "v1", "direction": "same"}"#);
        let instance = |name: &str, weight| ChainInstance { name: name.into(), weight };
        assert_eq!(own.all_instances(), [instance("v1", 1)]);
        assert_eq!(
            serde_json::to_string(&own).unwrap(),
            r#"{"name":"v1","direction":"same"}"#,
            "what the study does not know is not written"
        );
        let web = step(
            r#"{"name": "web", "direction": "same",
                "instances": [{"name": "v1", "weight": 3}, {"name": "v2"}]}"#,
        );
        assert_eq!(web.all_instances(), [instance("v1", 3), instance("v2", 1)]);
    }

    #[test]
    fn a_direction_is_read_in_the_words_that_it_is_written_in() {
        for direction in [Direction::In, Direction::Out, Direction::Same, Direction::Tap] {
            let word = serde_json::to_value(direction).unwrap();
            assert_eq!(word, direction.to_string());
            assert_eq!(serde_json::from_value::<Direction>(word).unwrap(), direction);
        }
    }

    #[test]
    fn telemetry_is_given_left_as_it_is_or_taken_away() {
        let read = |telemetry: &str| {
            let text = format!(r#"{{"source": "S", "chain": []{telemetry}}}"#);
            serde_json::from_str::<ChainDocument>(&text)
        };
        let all = Some(Some(Telemetry::default()));
        for (said, meant) in
            [("", None), (r#", "telemetry": null"#, Some(None)), (r#", "telemetry": {}"#, all)]
        {
            let document = read(said).unwrap();
            assert_eq!(document.telemetry, meant);
            let written = serde_json::to_string(&document).unwrap();
            assert_eq!(serde_json::from_str::<ChainDocument>(&written).unwrap(), document);
        }
        for (bad, word) in [("[]", "fields"), (r#"["delay"]"#, "`latency`")] {
            let refused = read(&format!(r#", "telemetry": {{"fields": {bad}}}"#)).unwrap_err();
            assert!(refused.to_string().contains(word), "{refused}");
        }
    }

    #[test]
    fn words_and_names_are_short_for_fields_and_steps() {
        let short = r#"{"source": "S", "classify": "tcp dport 5201",
                        "through": ["v1", {"name": "v2", "direction": "tap"}]}"#;
        let long = r#"{"source": "S", "destination": "",
                       "match_fields": {"protocol": "tcp", "destination_port": 5201},
                       "chain": [{"name": "v1", "direction": "same", "instances": []},
                                 {"name": "v2", "direction": "tap"}]}"#;
        let read = |text: &str| serde_json::from_str::<ChainDocument>(text).unwrap();
        assert_eq!(read(short), read(long));
        assert_eq!(read(short).name(), "S");
        let written = serde_json::to_string(&read(short)).unwrap();
        assert_eq!(read(&written), read(short));
    }
}

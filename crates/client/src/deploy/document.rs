//! The chain document of the study: what a file says. Refuses to know what becomes of it.

use catena_model::resource::Encapsulation;
use serde::de::IntoDeserializer;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A chain as the study's JSON file declares it (its section IV).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainDocument {
    /// Name of the chain; without one, `source-destination`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Where the traffic begins: name of an instance.
    pub source: String,
    /// Where it ends.
    pub destination: String,
    /// Attributes of the flow classifier; `destination_port` and `source_port` may stand for
    /// both bounds of a range.
    #[serde(default)]
    pub match_fields: Map<String, Value>,
    /// The functions in order.
    pub chain: Vec<ChainStep>,
    /// How the path is carried between hosts; without one, as the API chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encapsulation: Option<Encapsulation>,
    /// Do the answers take the same instances in reverse order?
    #[serde(default, skip_serializing_if = "is_false")]
    pub symmetric: bool,
}

impl ChainDocument {
    /// The name of its chain and flow classifier; a document without one is called after its ends.
    #[must_use]
    pub fn name(&self) -> String {
        let ends = || format!("{}-{}", self.source, self.destination);
        self.name.clone().unwrap_or_else(ends)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks for this form")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// One function of a chain document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChainStep {
    /// Name of the function; without `instances`, of its only instance, too.
    pub name: String,
    /// Where its traffic goes.
    pub direction: Direction,
    /// The instances that share its flows; empty: one, of the function's name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<ChainInstance>,
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
#[serde(deny_unknown_fields)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// By its port on the internal network: the one that the endpoints are not on.
    In,
    /// By its port on the endpoints' network.
    Out,
    /// By the port it came in by.
    Same,
    /// Nowhere: the function gets a copy.
    Tap,
}

impl Direction {
    /// Reads the document's word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let word: StrDeserializer<'_, ValueError> = word.into_deserializer();
        Self::deserialize(word).ok()
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
            r#"{"source": "S", "chain": []}"#,
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
            assert_eq!(Direction::parse(word.as_str().unwrap()), Some(direction));
        }
        assert_eq!(Direction::parse("up"), None);
    }
}

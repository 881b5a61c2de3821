//! Rule sets that are larger than a request: sent once, known by their digest, and named by the configurations of
//! bundled functions. Knows digests, owners and the places that name one; refuses to know what stands in them.

use crate::bundle::{hex, unhex};
use crate::id::{ProjectId, RuleSetId};
use crate::limits::FUNCTION_CONFIG_BYTES_MAX;
use crate::resource::{FunctionTemplate, Label};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use utoipa::ToSchema;
use uuid::Uuid;

/// The key of a file in a configuration that holds its text.
const TEXT_KEY: &str = "text";
/// The key that names a rule set in place of the text.
const DIGEST_KEY: &str = "sha256";

/// By what a rule set is known: the SHA-256 of its text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleSetDigest([u8; 32]);

impl RuleSetDigest {
    /// Of a text.
    #[must_use]
    pub fn of(text: &str) -> Self {
        Self(Sha256::digest(text).into())
    }
}

/// A text that is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a rule set is known by its SHA-256: 64 hexadecimal digits, as `sha256sum` tells them")]
pub struct NoDigest;

impl FromStr for RuleSetDigest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        unhex(text).map(Self).ok_or(NoDigest)
    }
}

impl fmt::Display for RuleSetDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hex(&self.0, f)
    }
}

impl fmt::Debug for RuleSetDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for RuleSetDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for RuleSetDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl RuleSetId {
    /// The identity of a project's rule set: what two projects send is two, though it be the same.
    #[must_use]
    pub fn of(project: &ProjectId, digest: RuleSetDigest) -> Self {
        let mut hash = Sha256::new();
        hash.update(digest.0);
        hash.update(project.0.as_bytes());
        let whole: [u8; 32] = hash.finalize().into();
        let mut id = [0; 16];
        id.copy_from_slice(&whole[..16]);
        Self(Uuid::from_bytes(id))
    }
}

/// The text of a rule set, as its project has sent it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleSet {
    /// Identity: follows from the project and the digest.
    pub id: RuleSetId,
    /// The owner; the name is the digest.
    pub label: Label,
    /// By what it is known.
    pub digest: RuleSetDigest,
    /// When it was sent last, in seconds since 1970.
    pub sent_s: u64,
    /// What stands in it.
    pub text: Arc<str>,
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rule set {} of {} ({} bytes)", self.digest, self.label.project, self.text.len())
    }
}

impl RuleSet {
    /// What a project sends now.
    #[must_use]
    pub fn new(project: ProjectId, text: &str, sent_s: u64) -> Self {
        let digest = RuleSetDigest::of(text);
        let id = RuleSetId::of(&project, digest);
        let label = Label { name: digest.to_string(), description: String::new(), project };
        Self { id, label, digest, sent_s, text: text.into() }
    }

    /// The same as another project's, which shares the text.
    #[must_use]
    pub fn given_to(&self, project: ProjectId, sent_s: u64) -> Self {
        let id = RuleSetId::of(&project, self.digest);
        Self { id, label: Label { project, ..self.label.clone() }, sent_s, ..self.clone() }
    }
}

/// A rule set, for whoever asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleSetReport {
    /// The SHA-256 of its text.
    #[schema(value_type = String)]
    pub sha256: RuleSetDigest,
    /// Bytes of its text.
    pub bytes: usize,
    /// When it was sent last, as RFC 3339 text.
    pub sent: String,
    /// The functions that name it. Where there is none for an hour, it is removed.
    pub functions: Vec<String>,
}

/// A configuration names a rule set that is not there, or no digest: where, and what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRuleSet {
    /// It names no digest.
    #[error("'config.{key}.sha256' is '{said}', and {NoDigest}")]
    NoDigest {
        /// The key of the file.
        key: String,
        /// What it says.
        said: String,
    },
    /// It names what nobody has sent.
    #[error(
        "'config.{key}' names the rule set {digest}, which the function's project has not sent, or which was removed \
         because no function named it; send it (PUT /v1/rule-sets/{digest}), and then this"
    )]
    NotSent {
        /// The key of the file.
        key: String,
        /// The digest.
        digest: RuleSetDigest,
    },
    /// What it names has more bytes than any configuration may have.
    #[error(
        "the rule sets that 'config' names have more than {FUNCTION_CONFIG_BYTES_MAX} bytes together; split their rules \
         among several functions"
    )]
    TooLarge,
}

/// The digest that a file of a configuration names, as it is written.
fn named(value: &Value) -> Option<&str> {
    value.as_object()?.get(DIGEST_KEY)?.as_str()
}

impl FunctionTemplate {
    /// The rule sets that it names.
    pub fn rule_sets(&self) -> impl Iterator<Item = RuleSetDigest> {
        self.config.values().filter_map(|value| named(value)?.parse().ok())
    }

    /// Are all that it names there?
    ///
    /// # Errors
    /// One is not.
    pub fn check_rule_sets(
        &self,
        is_there: impl Fn(RuleSetDigest) -> bool,
    ) -> Result<(), BadRuleSet> {
        let named = self.config.iter().filter_map(|(key, file)| Some((key, named(file)?)));
        named.map(|(key, said)| digest_of(key, said).map(|digest| (key, digest))).try_for_each(
            |found| match found? {
                (_, digest) if is_there(digest) => Ok(()),
                (key, digest) => Err(BadRuleSet::NotSent { key: key.clone(), digest }),
            },
        )
    }

    /// Bytes of all texts of files in its configuration.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        let files = self.config.values().filter_map(Value::as_object);
        files.filter_map(|file| file.get(TEXT_KEY)?.as_str()).map(str::len).sum()
    }

    /// The same with the text of each rule set in the place of its digest: what it would be if the text had come
    /// with it.
    ///
    /// # Errors
    /// One of them is not there, or they are too large together.
    pub fn with_texts(
        &self,
        text_of: impl Fn(RuleSetDigest) -> Option<Arc<str>>,
    ) -> Result<Self, BadRuleSet> {
        let mut whole = self.clone();
        // Each is a copy, and a configuration may name the same one again and again.
        let mut room = FUNCTION_CONFIG_BYTES_MAX;
        for (key, file) in &mut whole.config {
            let Some(said) = named(file) else { continue };
            let digest = digest_of(key, said)?;
            let text =
                text_of(digest).ok_or_else(|| BadRuleSet::NotSent { key: key.clone(), digest })?;
            room = room.checked_sub(text.len()).ok_or(BadRuleSet::TooLarge)?;
            if let Value::Object(file) = file {
                put_text(file, &text);
            }
        }
        Ok(whole)
    }
}

fn digest_of(key: &str, said: &str) -> Result<RuleSetDigest, BadRuleSet> {
    said.parse().map_err(|_| BadRuleSet::NoDigest { key: key.to_owned(), said: said.to_owned() })
}

/// Puts a text where the digest of it stands. What has both keeps both, and is refused as what it is.
fn put_text(file: &mut Map<String, Value>, text: &str) {
    if file.contains_key(TEXT_KEY) {
        return;
    }
    let former = std::mem::take(file);
    file.extend(former.into_iter().map(|(key, value)| match key.as_str() {
        DIGEST_KEY => (TEXT_KEY.to_owned(), Value::String(text.to_owned())),
        _ => (key, value),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Runs;
    use serde_json::json;

    fn template(config: &Value) -> FunctionTemplate {
        let runs = serde_json::to_value(Runs::Bundled("firewall".into())).unwrap();
        serde_json::from_value(json!({"runs": runs, "config": config})).unwrap()
    }

    #[test]
    fn a_named_text_makes_the_configuration_that_an_inlined_one_makes() {
        let text = "*filter\nCOMMIT\n";
        let digest = RuleSetDigest::of(text);
        let named = template(&json!({
            "file": {"name": "a.rules", "sha256": digest}, "unsupported": "skip",
        }));
        let inlined = template(&json!({
            "file": {"name": "a.rules", "text": text}, "unsupported": "skip",
        }));
        assert_eq!(named.rule_sets().collect::<Vec<_>>(), [digest]);
        assert_eq!(inlined.rule_sets().count(), 0);
        let whole = named.with_texts(|asked| (asked == digest).then(|| text.into())).unwrap();
        assert_eq!((whole.text_bytes(), named.text_bytes()), (text.len(), 0));
        assert_eq!(whole, inlined);
        let ids = [&whole, &inlined].map(|one| one.configuration().unwrap().id());
        assert_eq!(ids[0], ids[1]);
        assert_ne!(named.configuration().unwrap().id(), ids[0]);
    }

    #[test]
    fn what_names_no_rule_set_that_is_there_is_told_by_its_place() {
        let digest = RuleSetDigest::of("x");
        let missing = template(&json!({"v6_file": {"name": "a", "sha256": digest}}));
        let why = missing.with_texts(|_| None).unwrap_err();
        assert_eq!(missing.check_rule_sets(|_| false), Err(why.clone()));
        assert_eq!(missing.check_rule_sets(|asked| asked == digest), Ok(()));
        let why = why.to_string();
        assert!(why.contains("config.v6_file") && why.contains(&digest.to_string()), "{why}");
        let wrong = template(&json!({"file": {"name": "a", "sha256": "12"}}));
        let why = wrong.with_texts(|_| None).unwrap_err().to_string();
        assert!(why.contains("'config.file.sha256' is '12'") && why.contains("64 hex"), "{why}");
        let both = template(&json!({"file": {"name": "a", "sha256": digest, "text": "y"}}));
        assert_eq!(both.with_texts(|_| Some("x".into())).unwrap(), both);
    }

    #[test]
    fn one_text_named_by_many_keys_is_not_copied_for_each() {
        let (text, count) = ("x".repeat(FUNCTION_CONFIG_BYTES_MAX / 4), std::cell::Cell::new(0));
        let digest = RuleSetDigest::of(&text);
        let text: Arc<str> = text.into();
        let files = |keys: usize| {
            let file = json!({"name": "a", "sha256": digest});
            let files: Map<String, Value> =
                (0..keys).map(|key| (format!("k{key}"), file.clone())).collect();
            template(&Value::Object(files))
        };
        let text_of = |_| {
            count.set(count.get() + 1);
            Some(Arc::clone(&text))
        };
        assert_eq!(files(4).with_texts(text_of).unwrap().text_bytes(), FUNCTION_CONFIG_BYTES_MAX);
        count.set(0);
        assert_eq!(files(10_000).with_texts(text_of), Err(BadRuleSet::TooLarge));
        assert_eq!(count.get(), 5, "it ends at the first that has no room");
    }

    #[test]
    fn projects_that_send_the_same_have_two() {
        let id = |project: &str| RuleSet::new(ProjectId(project.into()), "x", 7).id;
        assert_ne!(id("one"), id("other"));
        assert_eq!(id("one"), id("one"));
        let given =
            RuleSet::new(ProjectId("one".into()), "x", 7).given_to(ProjectId("other".into()), 7);
        assert_eq!(given, RuleSet::new(ProjectId("other".into()), "x", 7));
        for wrong in ["", "zz", &"é".repeat(32), &"0".repeat(63), &"0".repeat(66)] {
            assert_eq!(wrong.parse::<RuleSetDigest>(), Err(NoDigest), "{wrong}");
        }
        assert!("A".repeat(64).parse::<RuleSetDigest>().is_ok());
    }
}

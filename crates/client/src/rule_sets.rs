//! The requests about rule sets that are larger than a request may be: sent by themselves, and named by their SHA-256.
//! Refuses to know how a request travels.

use crate::Client;
use crate::error::ClientError;
use catena_model::resource::FunctionTemplate;
use catena_model::rule_set::{RuleSetDigest, RuleSetReport};
use serde_json::{Map, Value};

/// A text of more bytes than this, written as JSON, is sent by itself: a template may have several, and a request has
/// at most a mebibyte.
const INLINED_BYTES_MAX: usize = 256 * 1024;
/// Bytes of JSON that a byte of text may take: an escaped control character.
const ESCAPED_BYTES_MAX: usize = 6;

impl Client {
    /// Every rule set that was sent by itself.
    ///
    /// # Errors
    /// When the controller does not answer.
    pub fn rule_sets(&self) -> Result<Vec<RuleSetReport>, ClientError> {
        self.get("/v1/rule-sets")
    }

    /// One of them.
    ///
    /// # Errors
    /// When there is none, or the controller does not answer.
    pub fn rule_set(&self, digest: RuleSetDigest) -> Result<RuleSetReport, ClientError> {
        self.get(&format!("/v1/rule-sets/{digest}"))
    }

    /// Sends the text of one, if it is not there yet or named by nobody; answers by what configurations name it.
    ///
    /// # Errors
    /// When the controller refuses or does not answer.
    pub fn send_rule_set(&self, text: &str) -> Result<RuleSetDigest, ClientError> {
        let digest = RuleSetDigest::of(text);
        let is_named = match self.rule_set(digest) {
            Err(error) if error.is_not_found() => false,
            // What nobody names may go before it is named.
            known => !known?.functions.is_empty(),
        };
        if !is_named {
            let path = format!("/v1/rule-sets/{digest}");
            self.put_bytes::<RuleSetReport>(&path, text.as_bytes().to_vec())?;
        }
        Ok(digest)
    }

    /// Sends what of a template is too large to be sent with it, and names it there.
    ///
    /// # Errors
    /// When the controller refuses or does not answer.
    pub(crate) fn send_large(&self, template: &mut FunctionTemplate) -> Result<(), ClientError> {
        for file in template.config.values_mut().filter_map(Value::as_object_mut) {
            let text = file.get("text").and_then(Value::as_str);
            if let Some(text) = text.filter(|text| is_large(text)) {
                let digest = self.send_rule_set(text)?;
                name(file, digest);
            }
        }
        Ok(())
    }
}

fn is_large(text: &str) -> bool {
    // Most are not, and are not written twice.
    text.len() > INLINED_BYTES_MAX
        || (text.len() > INLINED_BYTES_MAX / ESCAPED_BYTES_MAX
            && Value::from(text).to_string().len() > INLINED_BYTES_MAX)
}

/// Puts a digest where the text stands.
fn name(file: &mut Map<String, Value>, digest: RuleSetDigest) {
    let former = std::mem::take(file);
    file.extend(former.into_iter().map(|(key, value)| match key.as_str() {
        "text" => ("sha256".to_owned(), Value::from(digest.to_string())),
        _ => (key, value),
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_fits_no_request_as_json_is_large() {
        for (text, expected) in [
            ("x".repeat(INLINED_BYTES_MAX - 2), false),
            ("x".repeat(INLINED_BYTES_MAX - 1), true),
            ("\u{1}".repeat(INLINED_BYTES_MAX / ESCAPED_BYTES_MAX + 1), true),
            ("\"".repeat(INLINED_BYTES_MAX / 2), true),
            ("\"".repeat(INLINED_BYTES_MAX / 2 - 1), false),
        ] {
            assert_eq!(is_large(&text), expected, "{} bytes", text.len());
        }
    }

    #[test]
    fn a_digest_stands_where_the_text_stood() {
        let digest = RuleSetDigest::of("x");
        let mut file = json!({"name": "a.rules", "text": "x"});
        name(file.as_object_mut().unwrap(), digest);
        assert_eq!(file.to_string(), format!("{{\"name\":\"a.rules\",\"sha256\":\"{digest}\"}}"));
    }
}

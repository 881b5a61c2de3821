//! Why a request failed, in the server's own words where it had some.

use serde_json::Value;

/// What can go wrong between a client and its controller.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No answer.
    #[error(
        "the controller at {url} does not answer: {reason}; is it running, and is the address right?"
    )]
    Unreachable {
        /// Address of the controller.
        url: String,
        /// What the connection said.
        reason: String,
    },
    /// The controller refused.
    #[error("{message}")]
    Refused {
        /// HTTP status code.
        status: u16,
        /// Kind of the error in the server's words; empty if it gave none.
        kind: String,
        /// Text for people.
        message: String,
    },
    /// The answer is not what this client expects.
    #[error(
        "the controller answered {what} in a form that this client does not know: {reason}; compare their versions"
    )]
    Unexpected {
        /// The request.
        what: String,
        /// Where it differs.
        reason: String,
    },
    /// A name that nothing has.
    #[error("there is no {kind} named '{name}'; list them, or create it first")]
    NotFound {
        /// What was looked for.
        kind: &'static str,
        /// The name given.
        name: String,
    },
    /// A name that several things have.
    #[error("{count} {kind}s are named '{name}'; use the id of the one that you mean")]
    Ambiguous {
        /// What was looked for.
        kind: &'static str,
        /// The name given.
        name: String,
        /// How many have it.
        count: usize,
    },
}

impl ClientError {
    /// Reads the error body of either API: Neutron's or RFC 9457 problem details.
    pub(crate) fn from_answer(status: u16, body: &str) -> Self {
        let parsed: Value = serde_json::from_str(body).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let neutron = &parsed["NeutronError"];
        let kind = text(&neutron["type"]).or_else(|| text(&parsed["title"])).unwrap_or_default();
        let message = text(&neutron["message"])
            .or_else(|| text(&parsed["detail"]))
            .or_else(|| text(&parsed["title"]))
            .unwrap_or_else(|| format!("the controller answered {status}: {body:.200}"));
        Self::Refused { status, kind, message }
    }

    /// Is it the answer 404?
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. } | Self::Refused { status: 404, .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_error_bodies_give_their_text() {
        let neutron =
            r#"{"NeutronError": {"type": "PortInUse", "message": "in use", "detail": ""}}"#;
        assert_eq!(ClientError::from_answer(409, neutron).to_string(), "in use");
        let problem = r#"{"title": "Not found", "detail": "no chain 'x'"}"#;
        let error = ClientError::from_answer(404, problem);
        assert_eq!(error.to_string(), "no chain 'x'");
        assert!(error.is_not_found());
        assert!(ClientError::from_answer(502, "<html>").to_string().contains("502"));
    }
}

//! What is inside packets of segments, as a word of its own beside the encapsulation. Knows which encapsulation is
//! meant by both; refuses to know what becomes of it.

use crate::encapsulation::Encapsulation;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What is inside packets of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Payload {
    /// IP packets, whose frames are made anew.
    Ip,
    /// Whole frames.
    Ethernet,
}

impl Encapsulation {
    /// The one that is meant by this name beside what is to be inside.
    ///
    /// # Errors
    /// The name says what is inside already, and something else, or has no choice: what to do.
    pub fn with_payload(self, payload: Payload) -> Result<Self, String> {
        match (self, payload) {
            (Self::Srv6 | Self::Srv6Csid, Payload::Ip) => Ok(self),
            (Self::Srv6 | Self::Srv6Ethernet, Payload::Ethernet) => Ok(Self::Srv6Ethernet),
            (Self::Srv6Ethernet, Payload::Ip) => Err(
                "'srv6/ethernet' carries frames; give 'encapsulation': 'srv6' with 'payload': 'ip'"
                    .into(),
            ),
            (Self::Srv6Csid, Payload::Ethernet) => Err(
                "'srv6/csid' carries packets; give 'encapsulation': 'srv6' with 'payload': 'ethernet'"
                    .into(),
            ),
            _ => Err(format!(
                "'payload' goes with 'encapsulation': 'srv6', and {} has no choice; leave it out",
                self.name()
            )),
        }
    }

    /// The name that says nothing of what is inside, where there is a choice.
    #[must_use]
    pub const fn without_payload(self) -> Self {
        match self {
            Self::Srv6Ethernet => Self::Srv6,
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_is_chosen_where_there_is_a_choice_and_said_once() {
        use Encapsulation::{Nsh, SourceRouteNative, Srv6, Srv6Csid, Srv6Ethernet};
        use Payload::{Ethernet, Ip};
        for (named, inside, meant) in [
            (Srv6, Ip, Srv6),
            (Srv6, Ethernet, Srv6Ethernet),
            (Srv6Ethernet, Ethernet, Srv6Ethernet),
        ] {
            assert_eq!(named.with_payload(inside), Ok(meant));
            assert_eq!(meant.without_payload(), Srv6);
        }
        assert_eq!(Srv6Csid.with_payload(Ip), Ok(Srv6Csid));
        assert_eq!(Srv6Csid.without_payload(), Srv6Csid);
        let refused =
            [(Srv6Ethernet, Ip), (Srv6Csid, Ethernet), (Nsh, Ethernet), (SourceRouteNative, Ip)];
        for (named, inside) in refused {
            let refused = named.with_payload(inside).unwrap_err();
            assert!(refused.contains(named.name()) && refused.contains("'payload'"), "{refused}");
        }
    }
}

//! Slices of 5G networks: the traffic of some users of a tenant, the chain that it goes through, and
//! what it may cost the others. Knows meaning and legal values; refuses to know how a path is made
//! of them.

use crate::account::SliceCounters;
use crate::id::{ChainId, NodeName, PathId, PortId, SliceId};
use crate::limits::SLICE_QUANTUM_BYTES_MIN;
use crate::program::{DelayClass, SlicePolicy, SliceRate};
use crate::resource::Label;
use crate::status::ChainState;
pub use catena_wire::scalar::{Qfi, ScalarError, Teid, TeidRange, TunnelId, Vni};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Least of a slice's rate, in bits per second: one byte each millisecond.
pub const SLICE_RATE_BITS_MIN: u64 = 8_000;
/// Least burst of a slice, in bytes: the largest frame of an ordinary Ethernet. A smaller bucket
/// would never let one pass.
pub const SLICE_BURST_BYTES_MIN: u32 = 1_518;

/// Where packets are when a slice takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SlicePlace {
    /// At any endpoint's port of the network in which the chain delivers.
    Endpoints,
    /// At this port.
    Port(PortId),
    /// At the end of this chain, on its way forward: behind its own paths and those of its slices.
    After(ChainId),
}

/// The traffic of some 5G users, and the chain that it goes through on a path of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Identity.
    pub id: SliceId,
    /// Owner and name.
    pub label: Label,
    /// The chain whose functions it meets.
    pub chain: ChainId,
    /// The port that its packets enter by; none: see [`Slice::place`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<PortId>,
    /// The chain at whose end it takes packets; none: see [`Slice::place`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<ChainId>,
    /// The tenant's network; none: any, or none.
    #[serde(flatten)]
    pub tunnel_id: Option<TunnelId>,
    /// The users' GTP-U tunnels; none: any, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teids: Option<TeidRange>,
    /// The QoS flow; none: any, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qfi: Option<Qfi>,
    /// Its packets carry tenant and user as metadata (NSH MD type 2).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub carries_metadata: bool,
    /// Rate and delay at the nodes that classify.
    #[serde(default, skip_serializing_if = "SlicePolicy::is_none")]
    pub policy: SlicePolicy,
}

impl Slice {
    /// What people call it.
    #[must_use]
    pub fn name(&self) -> String {
        self.label.name_or(self.id)
    }

    /// Where it takes packets.
    #[must_use]
    pub const fn place(&self) -> SlicePlace {
        match (self.after, self.source_port) {
            (Some(chain), _) => SlicePlace::After(chain),
            (None, Some(port)) => SlicePlace::Port(port),
            (None, None) => SlicePlace::Endpoints,
        }
    }

    /// Why it cannot be, looking at nothing else; none: it can.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        if self.source_port.is_some() && self.after.is_some() {
            return Some("it begins at a port or at the end of a chain; give one of them".into());
        }
        if self.tunnel_id.is_none() && self.teids.is_none() && self.qfi.is_none() {
            return Some(
                "it takes every packet; give 'vni', 'gre_key', 'stt_context', 'teids' or 'qfi'"
                    .into(),
            );
        }
        if self.carries_metadata && matches!(self.tunnel_id, Some(TunnelId::SttContext(_))) {
            return Some(
                "no context header of NSH holds a context of STT; leave out \
                         'carries_metadata'"
                    .into(),
            );
        }
        if let Some(SliceRate { bits_per_second, burst_bytes }) = self.policy.rate {
            if bits_per_second < SLICE_RATE_BITS_MIN {
                return Some(format!(
                    "its rate is {bits_per_second} bit/s; it is at least {SLICE_RATE_BITS_MIN}"
                ));
            }
            if burst_bytes < SLICE_BURST_BYTES_MIN {
                return Some(format!(
                    "its burst is {burst_bytes} bytes; it is at least {SLICE_BURST_BYTES_MIN}, or \
                     no frame would pass"
                ));
            }
        }
        match self.policy.class {
            DelayClass::Shared { quantum_bytes } if quantum_bytes < SLICE_QUANTUM_BYTES_MIN => {
                Some(format!(
                    "its quantum is {quantum_bytes} bytes; it is at least {SLICE_QUANTUM_BYTES_MIN}"
                ))
            }
            _ => None,
        }
    }
}

/// A slice in the words of requests, of documents and of labs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SliceDocument {
    /// Its name.
    pub name: String,
    /// Name or id of its chain; in a document may stand at the chain instead.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub chain: String,
    /// Name or id of the port that its packets enter by; none: any endpoint's port of the network
    /// in which the chain delivers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<String>,
    /// Name or id of the chain at whose end it takes packets, instead of at ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Identifier of the tenant's network in VXLAN, VXLAN-GPE or GENEVE (24 bits).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vni: Option<u32>,
    /// The tenant's network by the key of GRE instead (RFC 2890, all 32 bits).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gre_key: Option<u32>,
    /// The tenant's network by the context identifier of STT instead (64 bits).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stt_context: Option<u64>,
    /// First and last identifier of the users' GTP-U tunnels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teids: Option<(u32, u32)>,
    /// One identifier, instead of `teids`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub teid: Option<u32>,
    /// QoS flow identifier (6 bits).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qfi: Option<u32>,
    /// Do its packets carry tenant and user as metadata?
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub carries_metadata: bool,
    /// Token bucket; none: as much as it likes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<SliceRate>,
    /// Whose packet goes first.
    #[serde(default, skip_serializing_if = "DelayClass::is_default")]
    pub class: DelayClass,
}

/// The part of a slice that says what its packets look like.
pub type SliceFields = (Option<TunnelId>, Option<TeidRange>, Option<Qfi>);

impl SliceDocument {
    /// The fields as they are compared.
    ///
    /// # Errors
    /// The field that is not what it should be, for people.
    pub fn fields(&self) -> Result<SliceFields, String> {
        let tunnel_id = self.tunnel_id()?;
        let teids = match (self.teids, self.teid) {
            (Some(_), Some(_)) => return Err("give 'teid' or 'teids', not both".into()),
            (Some(range), None) => {
                Some(TeidRange::try_from(range).map_err(|error| format!("'teids': {error}"))?)
            }
            (None, one) => one.map(|teid| TeidRange::one(Teid(teid))),
        };
        let qfi = self.qfi.map(Qfi::new).transpose().map_err(|error| format!("'qfi': {error}"))?;
        Ok((tunnel_id, teids, qfi))
    }

    /// The network, by whichever of its words it was given.
    ///
    /// # Errors
    /// When it was given by several, or is none; for people.
    pub fn tunnel_id(&self) -> Result<Option<TunnelId>, String> {
        match (self.vni, self.gre_key, self.stt_context) {
            (None, None, None) => Ok(None),
            (Some(vni), None, None) => {
                Vni::new(vni).map(|vni| Some(TunnelId::Vni(vni))).map_err(|e| format!("'vni': {e}"))
            }
            (None, Some(key), None) => Ok(Some(TunnelId::GreKey(key))),
            (None, None, Some(context)) => Ok(Some(TunnelId::SttContext(context))),
            _ => Err("a network has one identifier: give 'vni', 'gre_key' or 'stt_context'".into()),
        }
    }

    /// Rate and delay.
    #[must_use]
    pub const fn policy(&self) -> SlicePolicy {
        SlicePolicy { rate: self.rate, class: self.class }
    }

    /// The words for a slice, whose chain and port, or chain before it, people call so.
    #[must_use]
    pub fn of(slice: &Slice, chain: String, start: Option<String>) -> Self {
        let range = slice.teids.map(<(u32, u32)>::from);
        let one = range.filter(|(first, last)| first == last).map(|(first, _)| first);
        let (vni, gre_key, stt_context) = match slice.tunnel_id {
            None => (None, None, None),
            Some(TunnelId::Vni(vni)) => (Some(vni.get()), None, None),
            Some(TunnelId::GreKey(key)) => (None, Some(key), None),
            Some(TunnelId::SttContext(context)) => (None, None, Some(context)),
        };
        Self {
            name: slice.name(),
            chain,
            source_port: start.clone().filter(|_| slice.source_port.is_some()),
            after: start.filter(|_| slice.after.is_some()),
            vni,
            gre_key,
            stt_context,
            teids: range.filter(|_| one.is_none()),
            teid: one,
            qfi: slice.qfi.map(|qfi| qfi.get().into()),
            carries_metadata: slice.carries_metadata,
            rate: slice.policy.rate,
            class: slice.policy.class,
        }
    }
}

/// How far a slice is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceStatus {
    /// `active` when every node concerned has acknowledged it as it is declared now.
    pub state: ChainState,
    /// What is missing; empty: nothing.
    pub reason: String,
    /// Its own path; none: it has none yet.
    pub path: Option<PathId>,
}

/// A slice and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceReport {
    /// Identity.
    pub id: SliceId,
    /// As it is declared.
    pub slice: SliceDocument,
    /// How far it is.
    pub status: SliceStatus,
    /// What nodes counted of it; only told of one slice that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<SliceAtNode>,
}

/// A slice that was put in at a node by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InjectedSlice {
    /// As it was given.
    pub slice: SliceDocument,
    /// The chain's path that its packets go into: its counters hold them.
    pub path: PathId,
}

/// What a node counted of a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SliceAtNode {
    /// The node; none: it is not told to whoever asks.
    pub node: Option<NodeName>,
    /// Its counters.
    pub counters: SliceCounters,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProjectId;

    fn slice(document: &SliceDocument) -> Slice {
        let (tunnel_id, teids, qfi) = document.fields().unwrap();
        Slice {
            id: SliceId::MIN,
            label: Label {
                name: document.name.clone(),
                description: String::new(),
                project: ProjectId("p".into()),
            },
            chain: ChainId::MIN,
            source_port: None,
            after: document.after.as_ref().map(|_| ChainId::MIN),
            tunnel_id,
            teids,
            qfi,
            carries_metadata: document.carries_metadata,
            policy: document.policy(),
        }
    }

    #[test]
    fn a_slice_is_told_in_the_words_that_it_was_declared_in() {
        for text in [
            r#"{"name":"a","chain":"c","vni":7}"#,
            r#"{"name":"a","chain":"c","gre_key":4294967295}"#,
            r#"{"name":"a","chain":"c","stt_context":18446744073709551615,"teid":1}"#,
            r#"{"name":"a","chain":"c","teids":[1,9],"qfi":63,"carries_metadata":true}"#,
            r#"{"name":"a","chain":"c","teid":4294967295,"class":"urgent"}"#,
            r#"{"name":"a","chain":"c","after":"b","teid":1}"#,
            r#"{"name":"a","chain":"c","qfi":1,"rate":{"bits_per_second":8000,"burst_bytes":1518},"class":{"shared":{"quantum_bytes":64}}}"#,
        ] {
            let document: SliceDocument = serde_json::from_str(text).unwrap();
            assert_eq!(slice(&document).fault(), None, "{text}");
            let told = SliceDocument::of(&slice(&document), "c".into(), document.after.clone());
            assert_eq!(serde_json::to_string(&told).unwrap(), text);
        }
    }

    #[test]
    fn a_slice_is_stored_with_its_network_by_its_own_word_as_it_was_before_there_were_others() {
        for (fields, text) in [
            (r#"{"name":"a","chain":"c","vni":7}"#, r#""vni":7"#),
            (r#"{"name":"a","chain":"c","gre_key":7}"#, r#""gre_key":7"#),
            (
                r#"{"name":"a","chain":"c","stt_context":18446744073709551615}"#,
                r#""stt_context":18446744073709551615"#,
            ),
            (r#"{"name":"a","chain":"c","teid":7}"#, r#""teids":[7,7]"#),
        ] {
            let slice = slice(&serde_json::from_str(fields).unwrap());
            let stored = serde_json::to_string(&slice).unwrap();
            assert!(stored.contains(text), "{stored}");
            assert_eq!(serde_json::from_str::<Slice>(&stored).unwrap(), slice);
        }
    }

    #[test]
    fn what_no_slice_can_be_is_refused_with_its_reason() {
        let read = |text: &str| serde_json::from_str::<SliceDocument>(text).unwrap();
        for (text, word) in [
            (r#"{"name":"a","vni":16777216}"#, "'vni'"),
            (r#"{"name":"a","vni":1,"gre_key":1}"#, "one identifier"),
            (r#"{"name":"a","gre_key":1,"stt_context":1}"#, "one identifier"),
            (r#"{"name":"a","teids":[9,1]}"#, "'teids'"),
            (r#"{"name":"a","teids":[1,9],"teid":1}"#, "not both"),
            (r#"{"name":"a","qfi":64}"#, "'qfi'"),
        ] {
            assert!(read(text).fields().unwrap_err().contains(word), "{text}");
        }
        for (text, word) in [
            (r#"{"name":"a"}"#, "every packet"),
            (r#"{"name":"a","stt_context":1,"carries_metadata":true}"#, "context header"),
            (r#"{"name":"a","vni":1,"rate":{"bits_per_second":7999,"burst_bytes":1518}}"#, "rate"),
            (r#"{"name":"a","vni":1,"rate":{"bits_per_second":8000,"burst_bytes":1517}}"#, "burst"),
            (r#"{"name":"a","vni":1,"class":{"shared":{"quantum_bytes":63}}}"#, "quantum"),
        ] {
            assert!(slice(&read(text)).fault().unwrap().contains(word), "{text}");
        }
    }
}

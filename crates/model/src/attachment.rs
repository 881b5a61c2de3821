//! Where a port is found on its node: behind an interface, or in the data plane itself. Knows names; refuses to
//! look for any of it.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The network namespace that holds an interface, as its node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NamespaceRef {
    /// A name below `/run/netns`, or an absolute path.
    Netns(String),
    /// The namespace of a running process.
    Pid(u32),
}

/// An interface on a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InterfaceRef {
    /// The endpoint's or function's namespace; none: the interface is the switch side itself, in
    /// the node's own namespace.
    pub namespace: Option<NamespaceRef>,
    /// The interface's name there.
    pub interface: String,
}

/// Where a port is found on its node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Attachment {
    /// Behind an interface.
    Interface(InterfaceRef),
    /// It has none: the function behind it runs inside the data plane.
    Inside,
}

impl Attachment {
    /// Its interface, where it has one.
    #[must_use]
    pub const fn interface(&self) -> Option<&InterfaceRef> {
        match self {
            Self::Interface(interface) => Some(interface),
            Self::Inside => None,
        }
    }

    /// What it is called: the interface's name, or the word for a function inside the data plane.
    #[must_use]
    pub fn name(&self) -> &str {
        self.interface().map_or("inside", |interface| &interface.interface)
    }
}

impl From<InterfaceRef> for Attachment {
    fn from(interface: InterfaceRef) -> Self {
        Self::Interface(interface)
    }
}

/// Doors by which a function is reached without an interface.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Door {
    Inside,
}

/// As text has it: an interface by its own fields, as it always was, or the word for a door.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Interface(InterfaceRef),
    Door(Door),
}

/// As bytes have it, which say of themselves what they are.
#[derive(Serialize, Deserialize)]
enum Bytes {
    Interface(InterfaceRef),
    Inside,
}

impl Serialize for Attachment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_text = serializer.is_human_readable();
        match (self.clone(), is_text) {
            (Self::Interface(interface), true) => Text::Interface(interface).serialize(serializer),
            (Self::Inside, true) => Text::Door(Door::Inside).serialize(serializer),
            (Self::Interface(interface), false) => {
                Bytes::Interface(interface).serialize(serializer)
            }
            (Self::Inside, false) => Bytes::Inside.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Attachment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(if deserializer.is_human_readable() {
            match Text::deserialize(deserializer)? {
                Text::Interface(interface) => Self::Interface(interface),
                Text::Door(Door::Inside) => Self::Inside,
            }
        } else {
            match Bytes::deserialize(deserializer)? {
                Bytes::Interface(interface) => Self::Interface(interface),
                Bytes::Inside => Self::Inside,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attachment_is_the_same_as_text_and_as_bytes() {
        let interface = InterfaceRef { namespace: None, interface: "eth0".into() };
        for (attachment, text) in [
            (Attachment::from(interface), r#"{"namespace":null,"interface":"eth0"}"#),
            (Attachment::Inside, r#""inside""#),
        ] {
            assert_eq!(serde_json::to_string(&attachment).unwrap(), text);
            assert_eq!(serde_json::from_str::<Attachment>(text).unwrap(), attachment);
            let bytes = postcard::to_stdvec(&attachment).unwrap();
            assert_eq!(postcard::from_bytes::<Attachment>(&bytes).unwrap(), attachment);
        }
        assert!(serde_json::from_str::<Attachment>(r#""outside""#).is_err());
    }
}

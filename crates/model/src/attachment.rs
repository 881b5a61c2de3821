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

impl Attachment {
    /// As bytes have it: an interface by its own fields, as it always was, so that what nodes keep stays readable. No
    /// interface is without a name.
    fn to_bytes_form(&self) -> InterfaceRef {
        let nowhere = InterfaceRef { namespace: None, interface: String::new() };
        self.interface().cloned().unwrap_or(nowhere)
    }
}

impl Serialize for Attachment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !serializer.is_human_readable() {
            return self.to_bytes_form().serialize(serializer);
        }
        match self.clone() {
            Self::Interface(interface) => Text::Interface(interface).serialize(serializer),
            Self::Inside => Text::Door(Door::Inside).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Attachment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        if !deserializer.is_human_readable() {
            let found = InterfaceRef::deserialize(deserializer)?;
            let is_nowhere = found.namespace.is_none() && found.interface.is_empty();
            return Ok(if is_nowhere { Self::Inside } else { Self::Interface(found) });
        }
        Ok(match Text::deserialize(deserializer)? {
            Text::Interface(interface) => Self::Interface(interface),
            Text::Door(Door::Inside) => Self::Inside,
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

    #[test]
    fn what_nodes_have_kept_of_interfaces_is_read_as_before() {
        for namespace in [None, Some(NamespaceRef::Netns("ids".into())), Some(NamespaceRef::Pid(7))]
        {
            let interface = InterfaceRef { namespace, interface: "eth0".into() };
            let kept = postcard::to_stdvec(&interface).unwrap();
            let read: Attachment = postcard::from_bytes(&kept).unwrap();
            assert_eq!(read, Attachment::from(interface));
            assert_eq!(postcard::to_stdvec(&read).unwrap(), kept);
        }
    }
}

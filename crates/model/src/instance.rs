//! Instances of functions that nodes run themselves: what one is to be, and what became of it. Knows commands,
//! interfaces and bounds; refuses to know how processes are started.

use crate::bundle::Configuration;
use crate::id::{InstanceId, PortId};
use catena_wire::scalar::MacAddr;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The interface of an instance by which packets come to it on the way forward.
pub const INGRESS_INTERFACE: &str = "eth0";
/// The interface of an instance by which packets leave it on the way forward.
pub const EGRESS_INTERFACE: &str = "eth1";

/// How network namespaces of instances begin.
pub const NAMESPACE_PREFIX: &str = "catena-";

/// Characters of an identity that names of namespaces and interfaces end with.
const IDENTITY_CHARACTERS: usize = 12;

/// Where a bundled function runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Door {
    /// In the data plane, which asks it about each packet.
    #[default]
    Inside,
    /// In a process of its own beside the data plane, which asks it there about each packet.
    Beside,
    /// In a process of its own, between two interfaces in a network namespace of its own.
    Apart,
}

impl Door {
    /// Is it the usual one?
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::Inside
    }

    /// Does the data plane ask it about packets? Else it takes them by interfaces.
    #[must_use]
    pub fn is_inside(&self) -> bool {
        matches!(self, Self::Inside | Self::Beside)
    }
}

/// An instance that a node is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceSpec {
    /// Identity.
    pub id: InstanceId,
    /// Name for people.
    pub name: String,
    /// What runs.
    pub program: InstanceProgram,
    /// The network namespace that is made for it, below `/run/netns`.
    pub namespace: String,
    /// Its interfaces there.
    pub interfaces: Vec<InstanceInterface>,
    /// How much of its node it may take.
    pub bounds: InstanceBounds,
}

/// What an instance runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstanceProgram {
    /// A command with its arguments, in the foreground.
    Command(Vec<String>),
    /// A function that comes with Catena.
    Bundled(Configuration),
}

/// An interface of an instance, behind which a port is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceInterface {
    /// Its name in the namespace of the instance.
    pub name: String,
    /// The port.
    pub port: PortId,
    /// Its hardware address.
    pub mac: MacAddr,
    /// Its addresses, with the prefixes of their subnets.
    pub addresses: Vec<IpNet>,
}

/// How much of its node an instance may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceBounds {
    /// Processor time, in thousandths of a core; none: no bound.
    pub cpu_milli: Option<u32>,
    /// Memory, in MiB; none: no bound.
    pub memory_mib: Option<u32>,
}

impl InstanceBounds {
    /// Is there none?
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// What became of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InstanceState {
    /// The instance.
    pub id: InstanceId,
    /// Does its process run?
    pub is_running: bool,
    /// How often it was started anew after it had ended.
    pub restarts: u32,
    /// Why it does not run, or what it ended with last; empty: nothing is known of an end.
    pub last_exit: String,
}

/// The network namespace of an instance.
#[must_use]
pub fn namespace_of(instance: InstanceId) -> String {
    format!("{NAMESPACE_PREFIX}{}", shortened(instance.0.simple().to_string()))
}

/// The node's end of an instance's interface: as long as Linux lets it be.
#[must_use]
pub fn node_interface_of(port: PortId) -> String {
    format!("cat{}", shortened(port.0.simple().to_string()))
}

fn shortened(mut identity: String) -> String {
    identity.truncate(IDENTITY_CHARACTERS);
    identity
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{FUNCTION_CONFIG_BYTES_MAX, MESSAGE_BYTES_MAX};
    use uuid::Uuid;

    /// IFNAMSIZ of linux/if.h, less the byte of zero.
    const INTERFACE_NAME_MAX: usize = 15;

    #[test]
    fn the_largest_configuration_fits_a_message_whatever_is_in_it() {
        let text = "\u{1}".repeat(FUNCTION_CONFIG_BYTES_MAX);
        let config = serde_json::json!({"file": {"name": "edge.iptables", "text": text}});
        let config = config.to_string();
        let configuration = Configuration::new("firewall", config);
        let written = serde_json::to_vec(&InstanceProgram::Bundled(configuration)).unwrap();
        assert!(written.len() + 1024 * 1024 < MESSAGE_BYTES_MAX, "{}", written.len());
    }

    #[test]
    fn names_of_interfaces_fit_the_kernel_and_tell_ports_apart() {
        let of = |number: u128| node_interface_of(PortId(Uuid::from_u128(number << 96)));
        assert_eq!(of(0xabcd), "cat0000abcd0000");
        assert_eq!(of(1).len(), INTERFACE_NAME_MAX);
        assert_ne!(of(1), of(2));
    }

    #[test]
    fn what_is_sent_is_read() {
        let spec = InstanceSpec {
            id: InstanceId(Uuid::from_u128(7)),
            name: "scrubber".into(),
            program: InstanceProgram::Command(vec!["sleep".into(), "infinity".into()]),
            namespace: namespace_of(InstanceId(Uuid::from_u128(7))),
            interfaces: vec![InstanceInterface {
                name: INGRESS_INTERFACE.into(),
                port: PortId(Uuid::from_u128(8)),
                mac: MacAddr([2, 0, 0, 0, 0, 1]),
                addresses: vec!["10.0.0.9/24".parse().unwrap()],
            }],
            bounds: InstanceBounds { cpu_milli: Some(500), memory_mib: None },
        };
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<InstanceSpec>(&text).unwrap(), spec);
        assert!(!spec.bounds.is_none() && InstanceBounds::default().is_none());
    }
}

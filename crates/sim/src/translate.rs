//! What a session's event means for the reconciler: a model of the controller's translation, which
//! lives beside its gRPC server.

use catena_model::BlueprintNumber;
use catena_model::discovery::{LinkState, Neighbour, Trust};
use catena_model::id::PortId;
use catena_model::program::Underlay;
use catena_model::topology::{NodePlace, PortNumber};
use catena_plan::NodeNews;
use catena_protocol::message::{self, Hello, LinkStates, PortStates};
use catena_protocol::session::NodeEvent;

/// None: the session must end.
pub(crate) fn translate(event: NodeEvent) -> Option<NodeNews> {
    Some(match event {
        NodeEvent::Hello(hello) => met(&hello)?,
        NodeEvent::Acknowledged(number) => NodeNews::Acknowledged(BlueprintNumber(number)),
        NodeEvent::Refused { number, reason } => {
            NodeNews::Refused { number: BlueprintNumber(number), reason }
        }
        NodeEvent::Ports(states) => ports(states)?,
        // No chain of the simulation is set up by its flows or has telemetry, and no function is run by its nodes.
        NodeEvent::Links(_)
        | NodeEvent::Answer(_)
        | NodeEvent::FlowsAsked(_)
        | NodeEvent::Instances(_)
        | NodeEvent::PathEnds(_) => return None,
    })
}

/// What a node tells of its links, in the order of interfaces; none: no node can have said so.
pub(crate) fn links(told: LinkStates) -> Option<Vec<LinkState>> {
    let state = |told: message::LinkState| {
        let neighbours = told.neighbours.iter().map(neighbour).collect::<Option<_>>()?;
        Some(LinkState {
            number: PortNumber::new(u8::try_from(told.number).ok()?),
            interface: told.interface,
            is_up: told.is_up,
            load_permille: None,
            mtu: None,
            flooded: 0,
            refused: 0,
            neighbours,
            hindrance: told.hindrance,
            is_doubted: told.is_doubted,
        })
    };
    let mut states: Vec<LinkState> = told.links.into_iter().map(state).collect::<Option<_>>()?;
    states.sort_by(|one, other| one.interface.cmp(&other.interface));
    Some(states)
}

fn neighbour(told: &message::Neighbour) -> Option<Neighbour> {
    Some(Neighbour {
        chassis: told.chassis.clone(),
        port: told.port.clone(),
        system: told.system.clone(),
        number: PortNumber::new(u8::try_from(told.number).ok()?),
        trust: Trust::of_word(&told.trust)?,
    })
}

fn met(hello: &Hello) -> Option<NodeNews> {
    let address = hello.underlay_address.parse().ok()?;
    let mtu = u16::try_from(hello.underlay_mtu).ok()?;
    let running = BlueprintNumber(hello.program_number);
    let (role, protocol) = (hello.node_role().ok()?, hello.protocol_version);
    let place = NodePlace {
        underlay: Underlay { address, mtu },
        role,
        protocol,
        is_edge: false,
        segments: None,
    };
    Some(NodeNews::Met { place, running })
}

fn ports(states: PortStates) -> Option<NodeNews> {
    let state = |state: catena_protocol::message::PortState| {
        Some((PortId(state.port_id.parse().ok()?), state.reason))
    };
    let states: Vec<(PortId, String)> =
        states.ports.into_iter().map(state).collect::<Option<_>>()?;
    let (bound, unbound): (Vec<_>, Vec<_>) =
        states.into_iter().partition(|(_, reason)| reason.is_empty());
    Some(NodeNews::Ports {
        bound: bound.into_iter().map(|(id, _)| id).collect(),
        unbound: unbound.into_iter().collect(),
    })
}

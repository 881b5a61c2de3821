//! What a session's event means for the reconciler: a model of the controller's translation, which
//! lives beside its gRPC server.

use catena_model::BlueprintNumber;
use catena_model::id::PortId;
use catena_model::program::Underlay;
use catena_model::topology::NodePlace;
use catena_plan::NodeNews;
use catena_protocol::message::{Hello, PortStates};
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
        // No node of the simulation has links.
        NodeEvent::Links(_) | NodeEvent::Answer(_) => return None,
    })
}

fn met(hello: &Hello) -> Option<NodeNews> {
    let address = hello.underlay_address.parse().ok()?;
    let mtu = u16::try_from(hello.underlay_mtu).ok()?;
    let running = BlueprintNumber(hello.program_number);
    let place = NodePlace { underlay: Underlay { address, mtu }, role: hello.node_role().ok()? };
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

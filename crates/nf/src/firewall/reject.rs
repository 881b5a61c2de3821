//! How the sender of a rejected packet is told.

use crate::outcome::{GeneratedKind, Outcomes};
use crate::packet::{Direction, Packet};
use catena_rules::rule_set::Reject;
use catena_wire::frame::Network;
use catena_wire::icmp::error_message::{self, ErrorMessage, Said};
use catena_wire::tcp::reset;

/// Makes the answer, if the packet's sender may have one: it goes back where the packet came from. Answers
/// whether it resets the connection.
pub(super) fn tell(
    how: Reject,
    packet: &Packet<'_>,
    (at, direction): (usize, Direction),
    outcomes: &mut Outcomes,
) -> bool {
    let macs = (packet.view.destination, packet.view.source);
    let back = direction.reversed();
    let said = match (how, packet.view.network) {
        (Reject::TcpReset, _) => {
            let made = (at, GeneratedKind::TcpReset, back);
            let write = |into: &mut [u8]| reset::emit(packet.frame, macs, into);
            return outcomes.generate(made, reset::FRAME_BYTES_MAX, write);
        }
        (Reject::Icmp(v4) | Reject::OfVersion { v4, .. }, Network::Ipv4) => {
            Said::unreachable_v4(v4)
        }
        (Reject::IcmpV6(v6) | Reject::OfVersion { v6, .. }, Network::Ipv6) => {
            Said::unreachable_v6(v6)
        }
        _ => return false,
    };
    let Some(message) = ErrorMessage::judge(packet.frame) else { return false };
    let made = (at, GeneratedKind::Unreachable, back);
    let write = |into: &mut [u8]| message.emit(said, macs, into);
    outcomes.generate(made, error_message::FRAME_BYTES_MAX, write);
    false
}

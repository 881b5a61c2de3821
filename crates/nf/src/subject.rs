//! What conditions ask of a packet, read from it, and which fields they read for that. Knows subjects; refuses to
//! judge values.

use crate::packet::{Direction, Packet};
use catena_model::profile::{FieldSet, Meta};
use catena_rules::condition::Subject;
use catena_search::number;
use catena_wire::field::Field;
use catena_wire::frame::{Fragment, FrameView, Network};
use catena_wire::scalar::IpProtocol;

/// What says which connection a packet belongs to, whether it fits there, and whether its checksum, which
/// covers all of it, is right.
const TRACKED: [Field; 21] = [
    Field::EtherType,
    Field::Length,
    Field::FragmentFlags,
    Field::FragmentOffset,
    Field::Protocol,
    Field::Source,
    Field::Destination,
    Field::SourcePort,
    Field::DestinationPort,
    Field::Sequence,
    Field::Acknowledgment,
    Field::TcpFlags,
    Field::Window,
    Field::UrgentPointer,
    Field::TcpOptions,
    Field::UpperChecksum,
    Field::IcmpType,
    Field::IcmpCode,
    Field::IcmpIdentifier,
    Field::IcmpSequence,
    Field::Payload,
];

/// What a subject reads beside what is in a set, where these bits of it decide.
pub(crate) fn reads(subject: Subject, mask: u128, set: FieldSet) -> FieldSet {
    // Where a field is, what comes before it says.
    let upper = |set: FieldSet| set.with(Field::Protocol).with(Field::FragmentOffset);
    match subject {
        Subject::Field(field) => {
            let set = set.with_bits(field, mask);
            let is_upper = Field::SourcePort <= field && field <= Field::Payload;
            if is_upper { upper(set) } else { set }
        }
        Subject::Version => set.with(Field::EtherType),
        Subject::PacketBytes => set.with(Field::Length),
        Subject::IsLaterFragment => set.with(Field::FragmentOffset),
        Subject::CameIn => set.with_meta(Meta::InPort),
        Subject::State => TRACKED
            .iter()
            .fold(set, |set, field| set.with(*field))
            .with_meta(Meta::ConnectionState)
            .with_meta(Meta::ReceivedAt),
        Subject::TcpOption(_) => upper(set).with(Field::TcpOptions),
        Subject::IcmpMessage => upper(set).with(Field::IcmpType).with(Field::IcmpCode),
    }
}

/// The value of a subject; none: the packet has no such thing.
#[inline]
pub(crate) fn value(packet: &Packet<'_>, direction: Direction, subject: Subject) -> Option<u128> {
    let view = &packet.view;
    let read = |field: Field| field.read(packet.frame, view);
    match subject {
        Subject::Field(field) => of_view(view, field).unwrap_or_else(|| read(field)),
        Subject::Version => match view.network {
            Network::Ipv4 => Some(4),
            Network::Ipv6 => Some(6),
            Network::Arp | Network::Other => None,
        },
        Subject::PacketBytes => Some(u128::from(view.end.saturating_sub(view.l3_offset.into())))
            .filter(|_| view.flow.is_some()),
        Subject::IsLaterFragment => Some(u128::from(view.fragment == Fragment::Later)),
        Subject::CameIn => Some(match direction {
            Direction::Forward => 0,
            Direction::Backward => 1,
        }),
        Subject::IcmpMessage => Some(read(Field::IcmpType)? << 8 | read(Field::IcmpCode)?),
        Subject::TcpOption(kind) => {
            let options = packet.frame.get(Field::TcpOptions.bytes(packet.frame, view)?)?;
            Some(u128::from(has_option(options, kind)))
        }
        // What came before says it, not the packet.
        Subject::State => None,
    }
}

/// What the view of a packet has of a field that rules ask for most; none: it does not say.
#[inline]
fn of_view(view: &FrameView, field: Field) -> Option<Option<u128>> {
    let flow = view.flow?;
    let has_ports = matches!(flow.protocol, IpProtocol::TCP | IpProtocol::UDP)
        && view.fragment != Fragment::Later;
    let port = |port: u16| has_ports.then(|| u128::from(port));
    Some(match field {
        Field::Source => Some(number(flow.source)),
        Field::Destination => Some(number(flow.destination)),
        Field::SourcePort => port(flow.source_port),
        Field::DestinationPort => port(flow.destination_port),
        Field::Protocol => Some(flow.protocol.0.into()),
        Field::TcpFlags => view.varying.tcp_flags.map(|flags| flags.0.into()),
        Field::Dscp => Some(view.varying.dscp.into()),
        _ => return None,
    })
}

/// Is there an option with this number (RFC 9293 section 3.1)?
fn has_option(mut options: &[u8], kind: u8) -> bool {
    loop {
        match *options {
            [found, ..] if found == kind => return true,
            // The end of the list, and an option without a length.
            [0 | 1, ref rest @ ..] => options = rest,
            [_, length, ..] => match options.get(usize::from(length).max(1)..) {
                Some(rest) => options = rest,
                None => return false,
            },
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::traffic;

    #[test]
    fn what_a_view_says_of_a_field_is_what_the_frame_has() {
        let mut said = 0;
        for input in traffic::draw(8, 3_000) {
            let packet = Packet::read(&input.frame).unwrap();
            for field in Field::ALL {
                if let Some(value) = of_view(&packet.view, *field) {
                    assert_eq!(value, field.read(packet.frame, &packet.view), "{field:?}");
                    said += usize::from(value.is_some());
                }
            }
        }
        assert!(said > 12_000, "{said}");
    }
}

//! What conditions ask of a packet, read from it. Knows subjects; refuses to judge values.

use crate::packet::{Direction, Packet};
use catena_rules::condition::Subject;
use catena_wire::field::Field;
use catena_wire::frame::{Fragment, Network};

/// The value of a subject; none: the packet has no such thing.
#[inline]
pub(super) fn value(packet: &Packet<'_>, direction: Direction, subject: Subject) -> Option<u128> {
    let view = &packet.view;
    let read = |field: Field| field.read(packet.frame, view);
    match subject {
        Subject::Field(field) => read(field),
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

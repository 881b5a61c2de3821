//! Answers of functions that have no machine: who asks for the hardware address of one of their addresses is
//! told it, and their addresses answer echo requests, those that they translate into among them. Knows
//! questions; refuses to know what a function does, and answers for nobody whose port is at another node.
//!
//! What else is addressed to such a function, and no chain has led there, ends by name where it would be switched.

use super::answer::{self, Question};
use crate::engine::action::context::Context;
use crate::engine::packet::index::{NetworkIndex, PortIndex};
use crate::engine::packet::parse;
use crate::engine::tables::Tables;
use crate::engine::tables::network::MacLocation;
use crate::engine::vector::{Source, Step, Work};
use catena_model::DropReason;
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::frame::{Fragment, FrameView, Network};
use catena_wire::icmp::{IcmpV4Type, IcmpV6Type};
use catena_wire::scalar::MacAddr;
use std::net::IpAddr;

/// The time to live of answers, as hosts set it.
const TTL: u128 = 64;

/// Turns questions to functions inside into answers, which go back to who has asked.
pub(crate) fn answer(vector: &mut [Work], context: &mut Context<'_>) {
    if context.tables.bundles.is_empty() {
        return;
    }
    for work in vector {
        let Step::Ordinary { network, .. } = work.step else { continue };
        let is_answered = match question(work, network, context.tables) {
            Some((port, question)) => {
                let mac = context.tables.port(port).entry.mac;
                answer::reply(work, port, (&question, mac), context)
            }
            None => echo(work, network, context),
        };
        if is_answered {
            work.new_destination = None;
            work.step = Step::Ordinary { network, from: Source::Proxy };
        }
    }
}

/// The port here that has a MAC and no interface.
fn port_of(mac: MacAddr, network: NetworkIndex, tables: &Tables) -> Option<PortIndex> {
    match tables.network(network).lines.location(mac) {
        Some(MacLocation::Port(port)) if tables.port(*port).is_inside() => Some(*port),
        _ => None,
    }
}

/// The same of an address.
fn port_at(address: IpAddr, network: NetworkIndex, tables: &Tables) -> Option<PortIndex> {
    port_of(tables.network(network).lines.neighbour(address)?, network, tables)
}

/// Who is asked for his hardware address, and how. One who has no address yet is told by ARP that another has
/// that which he wants; over IPv6 everybody had to be told (RFC 4861 section 7.2.4), and nobody is.
fn question(work: &Work, network: NetworkIndex, tables: &Tables) -> Option<(PortIndex, Question)> {
    // What cannot be read ends where it would without us.
    let question = answer::question(&work.view, work.buffer.bytes()).ok()??;
    let is_v6 = matches!(question, Question::Neighbour(_));
    let port = port_at(question.target(), network, tables)?;
    let is_untold = question.is_about_asker() || is_v6 && question.is_of_nobody();
    (!is_untold).then_some((port, question))
}

/// What an echo request's type is in its answer; none: it is no echo request.
fn echoed(view: &FrameView) -> Option<u8> {
    match (view.network, view.icmp_type?) {
        (Network::Ipv4, kind) if kind == IcmpV4Type::ECHO_REQUEST.0 => {
            Some(IcmpV4Type::ECHO_REPLY.0)
        }
        (Network::Ipv6, kind) if kind == IcmpV6Type::ECHO_REQUEST.0 => {
            Some(IcmpV6Type::ECHO_REPLY.0)
        }
        _ => None,
    }
}

/// Makes an echo request to an address of a function its answer; false: it is none.
fn echo(work: &mut Work, network: NetworkIndex, context: &mut Context<'_>) -> bool {
    let view = work.view;
    let (Some(kind), Some(flow)) = (echoed(&view), view.flow) else { return false };
    let port = port_of(view.destination, network, context.tables);
    let Some(port) =
        port.filter(|port| port_at(flow.destination, network, context.tables) == Some(*port))
    else {
        return false;
    };
    // To who says that he is nobody, or many, nothing is said (RFC 1122 section 3.2.2).
    let is_host = !flow.source.is_unspecified() && !flow.source.is_multicast();
    let is_whole = view.fragment == Fragment::Whole && work.buffer.offload.checksum.is_none();
    if !is_host || !is_whole {
        return false;
    }
    let turned = turn(work.buffer.bytes_mut(), &view, kind);
    let turned = turned.and_then(|()| parse::parse_frame(work.buffer.bytes()).ok());
    match turned {
        Some(turned) => answer::become_answer(work, turned, port, context),
        None => work.drop(DropReason::MalformedIp),
    }
    turned.is_some()
}

/// Makes a request its answer; none: it has not what an answer has.
fn turn(frame: &mut [u8], view: &FrameView, kind: u8) -> Option<()> {
    let read = |field: Field| field.read(frame, view);
    let turned = [
        (Field::EthernetDestination, read(Field::EthernetSource)?),
        (Field::EthernetSource, read(Field::EthernetDestination)?),
        (Field::Source, read(Field::Destination)?),
        (Field::Destination, read(Field::Source)?),
        (Field::Ttl, TTL),
        (Field::IcmpType, kind.into()),
    ];
    for (field, value) in turned {
        field.write(frame, view, (value, field.all()), UpperChecksum::Closed).ok()?;
    }
    Some(())
}

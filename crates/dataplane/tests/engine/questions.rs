//! What a kernel behind an interface answers to ARP and neighbour discovery.

use crate::town::Port;
use catena_wire::arp::ArpPacket;
use catena_wire::frame::{FrameView, Network};
use catena_wire::neighbour::{self, NeighbourSolicitation, emit_neighbour_advertisement};
use catena_wire::probe;
use std::net::IpAddr;

/// What a kernel answers to a question about an address of its interface.
pub(crate) fn answer_question(bytes: &[u8], port: &Port) -> Option<Vec<u8>> {
    let view = FrameView::parse(bytes).unwrap();
    let mut reply = [0; probe::QUESTION_BYTES_MAX];
    if view.network == Network::Arp {
        let asked = ArpPacket::parse(&bytes[usize::from(view.l3_offset)..]).ok()?;
        let is_ours = port.addresses.contains(&asked.target_ip.into());
        let length = is_ours.then(|| asked.reply(port.mac).emit_frame(&mut reply).unwrap())?;
        return Some(reply[..length].to_vec());
    }
    let (IpAddr::V6(source), IpAddr::V6(to)) = (view.flow?.source, view.flow?.destination) else {
        return None;
    };
    let message = &bytes[usize::from(view.l4_offset?)..];
    let asked = NeighbourSolicitation::parse(message, source, to, neighbour::HOP_LIMIT).ok()?;
    let is_ours = port.addresses.contains(&asked.target.into());
    let emit = emit_neighbour_advertisement;
    let length = is_ours.then(|| emit(&asked, view.source, port.mac, &mut reply).unwrap())?;
    Some(reply[..length].to_vec())
}

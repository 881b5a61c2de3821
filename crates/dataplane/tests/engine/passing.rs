//! What functions do to frames: route like a kernel, or move a chain header on.

use catena_model::program::PROXY_MAC;
use catena_model::resource::Encapsulation;
use catena_wire::ethernet::{self, EthernetView};
use catena_wire::frame::{FrameView, Network};
use catena_wire::mpls::SfcLabelPair;
use catena_wire::nsh::{ContextHeader, ContextHeaders, Metadata, NshHeader, NshView};
use catena_wire::scalar::{MacAddr, ServiceIndex};
use catena_wire::source_route::native::NativeView;
use catena_wire::{ipv4, ipv6};

/// What a function does with a frame.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Routes like a kernel, towards the proxy's MAC or a fixed one.
    Route(MacAddr),
    /// Gives it back as it is.
    Bridge,
    /// Keeps it.
    Swallow,
    /// Reads its chain header and moves it on.
    Advance(Encapsulation),
    /// Moves its NSH on, with one context header of a class that nobody knows and a value of this
    /// many bytes in place of all metadata.
    Annotate(usize),
    /// Reads its chain header and sends it back untouched; unaware ones keep it.
    Echo,
    /// Its kernel answers for its interface and routes nothing.
    Hang,
    /// Routes the traffic that it knows, answers for its interface, and lets no probe through.
    Filter,
    /// Gives everything that comes by one port out by the other, groups too, both ways.
    Repeat,
    /// The same as if it had made it.
    Reflect,
}

impl Behaviour {
    /// Does something behind its interface answer ARP and neighbour discovery?
    pub(crate) fn has_kernel(self) -> bool {
        !self.repeats() && !matches!(self, Self::Bridge | Self::Swallow | Self::Echo)
    }

    /// Takes part in whatever it hears, by either port.
    pub(crate) fn repeats(self) -> bool {
        matches!(self, Self::Repeat | Self::Reflect)
    }
}

/// What a routing kernel does to a frame; false: it sends nothing.
pub(crate) fn route(bytes: &mut [u8], next: MacAddr, own: MacAddr) -> bool {
    ethernet::set_destination(bytes, next).unwrap();
    bytes[6..12].copy_from_slice(&own.0);
    let view = FrameView::parse(bytes).unwrap();
    let packet = &mut bytes[usize::from(view.l3_offset)..];
    match view.network {
        Network::Ipv4 => {
            let ttl = ipv4::Ipv4View::parse(packet).unwrap().ttl();
            ipv4::set_ttl(packet, ttl.saturating_sub(1)).unwrap();
            ttl > 1
        }
        Network::Ipv6 => {
            let limit = ipv6::Ipv6View::parse(packet).unwrap().hop_limit();
            ipv6::set_hop_limit(packet, limit.saturating_sub(1)).unwrap();
            limit > 1
        }
        _ => false,
    }
}

/// The same to a frame with a source route, which stays as it is.
fn route_under(bytes: &mut [u8], own: MacAddr) -> bool {
    let view = NativeView::parse_at_function(bytes).unwrap();
    let (len, ether_type) = (view.len_bytes(), view.ether_type());
    let mut frame = [&bytes[..12], &ether_type.0.to_be_bytes(), &bytes[len..]].concat();
    let is_sent = route(&mut frame, PROXY_MAC, own);
    bytes[..12].copy_from_slice(&frame[..12]);
    bytes[len..].copy_from_slice(&frame[14..]);
    is_sent
}

/// The metadata that a function writes which annotates with a value of this many bytes.
pub(crate) fn annotation(bytes_of_value: usize) -> Vec<u8> {
    let value = vec![0xee; bytes_of_value];
    let header = ContextHeader { class: 0xfff1, kind: 0x99, value: &value };
    let mut context = vec![0; header.len_bytes()];
    header.emit(&mut context).unwrap();
    context
}

/// Moves an NSH on, with that metadata in place of all other.
pub(crate) fn annotate(bytes: &mut Vec<u8>, bytes_of_value: usize) -> bool {
    let context = annotation(bytes_of_value);
    let start = EthernetView::parse(bytes).unwrap().header_len();
    let header = NshView::parse(&bytes[start..]).unwrap().0.header();
    let metadata = Metadata::Type2(ContextHeaders::parse(&context).unwrap());
    let si = ServiceIndex(header.si.0 - 1);
    let mut written = [0; NshHeader::LEN_MAX];
    let length = NshHeader { si, metadata, ..header }.emit(&mut written).unwrap();
    bytes.splice(start..start + header.len_bytes(), written[..length].iter().copied());
    true
}

/// What a function that speaks an encapsulation, and has this address, does to its header; false: it cannot go on.
pub(crate) fn advance(bytes: &mut [u8], encapsulation: Encapsulation, own: MacAddr) -> bool {
    let start = EthernetView::parse(bytes).unwrap().header_len();
    match encapsulation {
        Encapsulation::Nsh => {
            let mut written = [0; NshHeader::LEN_MAX];
            let header = NshView::parse(&bytes[start..]).unwrap().0.header();
            let Some(si) = header.si.0.checked_sub(1) else { return false };
            let length = NshHeader { si: ServiceIndex(si), ..header }.emit(&mut written).unwrap();
            bytes[start..start + length].copy_from_slice(&written[..length]);
        }
        Encapsulation::Mpls => {
            let pair = SfcLabelPair::parse(&bytes[start..]).unwrap().0;
            let si = pair.service_index().unwrap().0 - 1;
            let next = SfcLabelPair::new(pair.context, ServiceIndex(si), pair.function_ttl);
            let Ok(next) = next else { return false };
            next.emit(&mut bytes[start..]).unwrap();
        }
        Encapsulation::SourceRouteNative => return route_under(bytes, own),
        // Functions get bare packets of it.
        Encapsulation::SourceRouteSafe9
        | Encapsulation::SourceRouteClassic80
        | Encapsulation::SourceRouteSrMpls
        | Encapsulation::SourceRoutePolka
        | Encapsulation::SourceRouteNativeTagged
        | Encapsulation::Srv6
        | Encapsulation::Srv6Ethernet
        | Encapsulation::Srv6Csid => return false,
        #[cfg(dummy_encapsulation)]
        Encapsulation::Dummy => bytes[start + 5] += 1,
    }
    true
}

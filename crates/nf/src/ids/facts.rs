//! What rules ask of single packets. Knows fields; refuses to know what came before.

use super::flow::Flow;
use crate::packet::Packet;
use catena_rules::snort::{IdsRule, Protocol};
use catena_wire::frame::Network;
use catena_wire::icmp::IcmpView;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpView;
use catena_wire::udp::UdpView;
use std::net::IpAddr;

/// A packet, as rules see it.
#[derive(Clone, Copy)]
pub(super) struct Facts<'p> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) protocol: IpProtocol,
    /// Of TCP and UDP.
    pub(super) ports: Option<(u16, u16)>,
    pub(super) payload: &'p [u8],
    pub(super) tcp: Option<TcpView<'p>>,
    pub(super) icmp: Option<(u8, u8)>,
    pub(super) ttl: u8,
}

impl<'p> Facts<'p> {
    /// None: it is no whole packet of IP.
    pub(super) fn of(packet: &Packet<'p>) -> Option<Self> {
        let view = &packet.view;
        let flow = view.flow?;
        let ip = packet.frame.get(usize::from(view.l3_offset)..view.end as usize)?;
        let upper = packet.frame.get(usize::from(view.l4_offset?)..view.end as usize)?;
        let mut facts = Self {
            source: flow.source,
            destination: flow.destination,
            protocol: flow.protocol,
            ports: None,
            payload: upper,
            tcp: None,
            icmp: None,
            ttl: if view.network == Network::Ipv4 { *ip.get(8)? } else { *ip.get(7)? },
        };
        match flow.protocol {
            IpProtocol::TCP => {
                let tcp = TcpView::parse(upper).ok()?;
                facts.payload = tcp.payload();
                facts.ports = Some((flow.source_port, flow.destination_port));
                facts.tcp = Some(tcp);
            }
            IpProtocol::UDP => {
                facts.payload = UdpView::parse(upper).ok()?.payload();
                facts.ports = Some((flow.source_port, flow.destination_port));
            }
            IpProtocol::ICMP | IpProtocol::ICMPV6 => {
                let icmp = IcmpView::parse(upper).ok()?;
                facts.icmp = Some((icmp.v4_type().0, icmp.code()));
                // Behind eight bytes, as both programs have it: identifier and number are header.
                facts.payload = icmp.body();
            }
            _ => {}
        }
        Some(facts)
    }

    /// Are the ends and the protocol those of a rule?
    pub(super) fn is_between(&self, rule: &IdsRule) -> bool {
        let is_protocol = match rule.protocol {
            Protocol::Ip => true,
            Protocol::Udp => self.protocol == IpProtocol::UDP,
            Protocol::Icmp => self.icmp.is_some(),
            _ => self.tcp.is_some(),
        };
        let (from, to) = self.ports.map_or((None, None), |(from, to)| (Some(from), Some(to)));
        let goes = |source: IpAddr, from, destination: IpAddr, to| {
            rule.source.has(source, from) && rule.destination.has(destination, to)
        };
        is_protocol
            && (goes(self.source, from, self.destination, to)
                || rule.is_both_ways && goes(self.destination, to, self.source, from))
    }

    /// Is the packet as the options ask that look at one?
    pub(super) fn is_such(&self, rule: &IdsRule) -> bool {
        let length = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        let flags = self.tcp.as_ref().map(|tcp| tcp.flags().0);
        let icmp = |part: fn((u8, u8)) -> u8| self.icmp.map(|icmp| u32::from(part(icmp)));
        rule.payload_bytes.is_none_or(|span| span.has(length))
            && rule.flags.is_none_or(|test| flags.is_some_and(|flags| test.has(flags)))
            && rule
                .icmp_type
                .is_none_or(|span| icmp(|(kind, _)| kind).is_some_and(|kind| span.has(kind)))
            && rule
                .icmp_code
                .is_none_or(|span| icmp(|(_, code)| code).is_some_and(|code| span.has(code)))
            && rule.ttl.is_none_or(|span| span.has(self.ttl.into()))
    }
}

/// Is the flow as a rule asks? `way`: the flow, and whether the packet goes to who was asked.
pub(super) fn is_flow_such(rule: &IdsRule, way: Option<(&Flow, bool)>) -> bool {
    use catena_rules::snort::FlowbitUse;
    let asks = &rule.flow;
    let bits = rule.flowbits.iter().all(|(usage, bit)| {
        let is_set = way.is_some_and(|(flow, _)| flow.has_bit(*bit));
        match usage {
            FlowbitUse::IsSet => is_set,
            FlowbitUse::IsNotSet => !is_set,
            FlowbitUse::Set | FlowbitUse::Unset | FlowbitUse::Toggle => true,
        }
    });
    bits && asks
        .is_established
        .is_none_or(|wanted| way.is_some_and(|(flow, _)| flow.is_established == wanted))
        && asks
            .is_to_server
            .is_none_or(|wanted| way.is_some_and(|(_, is_to_server)| is_to_server == wanted))
        && (rule.protocol != Protocol::Http || way.is_some_and(|(flow, _)| flow.is_http))
}

//! Rules of Open vSwitch that do the steps which ours does, in its own words. Every rule takes from
//! the port of the source and ends at that of the sink.

use std::net::Ipv4Addr;

const NEXT_HOP: &str = "set_field:02:00:00:00:00:05->eth_dst,set_field:02:00:00:00:00:06->eth_src";

/// A UDP flow by its five values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Flow {
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
}

impl Flow {
    fn matches(&self) -> String {
        let Self { source, destination, source_port, destination_port } = self;
        format!(
            "udp,nw_src={source},nw_dst={destination},tp_src={source_port},tp_dst={destination_port}"
        )
    }
}

/// Everything, to the sink.
pub(crate) fn pass() -> String {
    "priority=1,in_port=1,actions=output:2".into()
}

/// A flow, to the sink.
pub(crate) fn classify(flow: &Flow) -> String {
    format!("priority=10,in_port=1,{},actions=output:2", flow.matches())
}

/// A flow gets an NSH of type 1 and a new Ethernet header.
pub(crate) fn push(flow: &Flow, path: u32, index: u8) -> String {
    push_what(&flow.matches(), path, index)
}

/// The same for all UDP.
pub(crate) fn push_all(path: u32, index: u8) -> String {
    push_what("udp", path, index)
}

fn push_what(matches: &str, path: u32, index: u8) -> String {
    format!(
        "priority=10,in_port=1,{matches},actions=encap(nsh(md_type=1)),\
         set_field:{path:#x}->nsh_spi,set_field:{index}->nsh_si,encap(ethernet),{NEXT_HOP},output:2"
    )
}

/// A position goes to its next hop: index and TTL less by one, a new destination.
pub(crate) fn forward(path: u32, index: u8) -> String {
    let next = index.saturating_sub(1);
    format!(
        "priority=10,in_port=1,dl_type=0x894f,nsh_spi={path:#x},nsh_si={index},\
         actions=set_field:02:00:00:00:00:05->eth_dst,set_field:{next}->nsh_si,dec_nsh_ttl,output:2"
    )
}

/// A position loses its Ethernet header and its NSH.
pub(crate) fn pop(path: u32, index: u8) -> String {
    format!(
        "priority=10,in_port=1,dl_type=0x894f,nsh_spi={path:#x},nsh_si={index},\
         actions=decap(),decap(),output:2"
    )
}

/// An inner flow out of the VXLAN tunnel.
pub(crate) fn from_tunnel(vni: u32, flow: &Flow) -> String {
    format!("priority=10,in_port=9,tun_id={vni},{},actions=output:2", flow.matches())
}

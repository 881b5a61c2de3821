//! What of a packet chooses its instance: the whole flow, or the fields that the function names.
//! Knows fields; refuses to know instances.

use catena_model::program::Balance;
use catena_model::resource::FlowField;
use catena_search::has_ports;
use catena_wire::flow::mix;
use catena_wire::frame::FrameView;
use catena_wire::scalar::{IpProtocol, MacAddr};
use std::net::IpAddr;

/// Steps between the states of the hash, so that no content leaves it where it was.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number by which a packet chooses. `flow_hash` is that of its whole flow. Fields count by
/// their place in the list, not by their names: the way back names the opposite ones.
pub(crate) fn hash(balance: &Balance, view: &FrameView, flow_hash: u64, seed: u64) -> u64 {
    let Balance::Fields(fields) = balance else { return flow_hash };
    fields.iter().fold(STEP ^ seed, |state, field| match number(*field, view) {
        Some(number) => {
            let (high, low) = ((number >> 64) as u64, number as u64);
            let half = mix(state.wrapping_add(STEP) ^ low);
            mix(half.wrapping_add(STEP) ^ high)
        }
        None => mix(state.wrapping_sub(STEP)),
    })
}

/// The content of a field, if the packet has it.
fn number(field: FlowField, view: &FrameView) -> Option<u128> {
    let mac = |mac: MacAddr| mac.0.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte));
    let address = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let of = |protocol: IpProtocol| {
        view.flow.filter(|flow| flow.protocol == protocol && has_ports(flow))
    };
    match field {
        FlowField::EthSrc => Some(mac(view.source)),
        FlowField::EthDst => Some(mac(view.destination)),
        FlowField::IpSrc => view.flow.map(|flow| address(flow.source)),
        FlowField::IpDst => view.flow.map(|flow| address(flow.destination)),
        FlowField::TcpSrc => of(IpProtocol::TCP).map(|flow| flow.source_port.into()),
        FlowField::TcpDst => of(IpProtocol::TCP).map(|flow| flow.destination_port.into()),
        FlowField::UdpSrc => of(IpProtocol::UDP).map(|flow| flow.source_port.into()),
        FlowField::UdpDst => of(IpProtocol::UDP).map(|flow| flow.destination_port.into()),
    }
}

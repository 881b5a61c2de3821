//! Written messages are read back, and damage ends in an error, never in a panic.

use std::vec;
use std::vec::Vec;

use core::net::{Ipv4Addr, Ipv6Addr};
use proptest::collection::vec as any_vec;
use proptest::prelude::*;

mod telemetry;

use super::*;
use crate::golden::{each_bit_flip, each_truncation, hex};

const GOLDEN: &str = include_str!("../../../../conformance/ipfix/data.hex");
const HEADER: MessageHeader =
    MessageHeader { export_seconds: 0x6553_f100, sequence: 7, domain: 0x0102_0304 };

fn v4() -> FlowRecord {
    FlowRecord {
        flow: FlowKey {
            source: Ipv4Addr::new(10, 0, 0, 1).into(),
            destination: Ipv4Addr::new(10, 0, 0, 2).into(),
            protocol: IpProtocol::TCP,
            source_port: 40_000,
            destination_port: 443,
        },
        bytes: 1_500,
        packets: 3,
        tcp_flags: TcpFlags(0x1b),
        end: EndReason::Ended,
        is_egress: false,
        first_ms: 0x018b_cfe5_6800,
        last_ms: 0x018b_cfe5_6801,
    }
}

fn v6() -> FlowRecord {
    FlowRecord {
        flow: FlowKey {
            source: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
            destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).into(),
            protocol: IpProtocol::ICMPV6,
            source_port: 0,
            destination_port: icmp_port(128, 0),
        },
        tcp_flags: TcpFlags(0),
        end: EndReason::Idle,
        is_egress: true,
        ..v4()
    }
}

fn written(header: MessageHeader, records: &[FlowRecord]) -> Vec<u8> {
    let mut into = vec![0xa5; 70_000];
    let length = emit_data(header, records, &mut into).unwrap();
    into.truncate(length);
    into
}

fn read(bytes: &[u8]) -> (MessageHeader, Vec<FlowRecord>) {
    let message = Message::parse(bytes).unwrap();
    (message.header, message.sets().flat_map(|set| set.records()).collect())
}

#[test]
fn the_golden_is_written_and_read() {
    // Those of IPv6 come last, whatever their order was.
    let message = written(HEADER, &[v6(), v4()]);
    assert_eq!(message, hex(GOLDEN));
    assert_eq!(message.len(), data_bytes(1, 1));
    assert_eq!(read(&message), (HEADER, vec![v4(), v6()]));
}

#[test]
fn templates_have_the_bytes_of_the_records() {
    for (fields, bytes) in [(FIELDS_V4, RECORD_V4_BYTES), (FIELDS_V6, RECORD_V6_BYTES)] {
        assert_eq!(fields.iter().map(|(_, bytes)| usize::from(*bytes)).sum::<usize>(), bytes);
    }
    let mut into = [0; TEMPLATES_BYTES];
    assert_eq!(emit_templates(HEADER, &mut into), Ok(TEMPLATES_BYTES));
    let message = Message::parse(&into).unwrap();
    let sets: Vec<_> = message.sets().collect();
    assert!(sets.len() == 1 && sets[0].id == TEMPLATE_SET && sets[0].records().count() == 0);
    let need = TEMPLATES_BYTES;
    let cut = IpfixError::Truncated { need, have: need - 1 };
    assert_eq!(emit_templates(HEADER, &mut into[1..]), Err(cut));
}

#[test]
fn what_is_too_long_is_not_written() {
    let records = vec![v4(); 1_285];
    let mut into = vec![0; 70_000];
    assert_eq!(emit_data(HEADER, &records, &mut into), Err(IpfixError::TooLong));
    assert!(emit_data(HEADER, &records[1..], &mut into).is_ok());
    let need = data_bytes(1, 0);
    let cut = IpfixError::Truncated { need, have: 50 };
    assert_eq!(emit_data(HEADER, &records[..1], &mut into[..50]), Err(cut));
}

#[test]
fn damage_is_an_error_or_another_message() {
    let golden = hex(GOLDEN);
    each_truncation(&golden, |cut| assert!(Message::parse(cut).is_err()));
    each_bit_flip(&golden, |damaged| {
        if let Ok(message) = Message::parse(damaged) {
            let _ = message.sets().map(|set| set.records().count()).sum::<usize>();
        }
    });
    let mut golden = golden;
    golden[1] = 9;
    assert_eq!(Message::parse(&golden), Err(IpfixError::Version(9)));
    golden[1] = 10;
    golden[HEADER_BYTES + 3] = 3;
    assert_eq!(Message::parse(&golden), Err(IpfixError::Set(TEMPLATE_V4)));
}

fn records() -> impl Strategy<Value = FlowRecord> {
    let address = (any::<bool>(), any::<[u128; 2]>());
    let counts = any::<[u64; 4]>();
    (address, any::<[u16; 2]>(), any::<[u8; 2]>(), 1..6u8, any::<bool>(), counts).prop_map(
        |((is_v6, ends), ports, [protocol, flags], end, is_egress, counts)| {
            let address = |bits: u128| match is_v6 {
                true => IpAddr::V6(bits.into()),
                false => IpAddr::V4((bits as u32).into()),
            };
            let [source, destination] = ends.map(address);
            let [source_port, destination_port] = ports;
            let protocol = IpProtocol(protocol);
            let mut flow = FlowKey { source, destination, protocol, source_port, destination_port };
            if is_icmp(&flow) {
                flow.source_port = 0;
            }
            let [bytes, packets, first_ms, last_ms] = counts;
            let end = EndReason::from_number(end).unwrap();
            let tcp_flags = TcpFlags(flags);
            FlowRecord { flow, bytes, packets, tcp_flags, end, is_egress, first_ms, last_ms }
        },
    )
}

proptest! {
    #[test]
    fn all_records_are_read_back(mut records in any_vec(records(), 0..40)) {
        let message = written(HEADER, &records);
        records.sort_by_key(|record| record.flow.source.is_ipv6());
        prop_assert_eq!(read(&message), (HEADER, records));
    }

    #[test]
    fn any_bytes_are_read_without_panic(bytes in any_vec(any::<u8>(), 0..200)) {
        if let Ok(message) = Message::parse(&bytes) {
            let _ = message.sets().map(|set| set.records().count()).sum::<usize>();
        }
    }
}

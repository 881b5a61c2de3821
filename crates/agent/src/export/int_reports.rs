//! As telemetry reports 2.0: of each packet its header, with the records of all nodes, and what the node at its end has
//! measured. Refuses to know where they go.

use super::{DATAGRAM_BYTES_MAX, Told};
use catena_protocol::message::PathEndReason;
use catena_wire::int_report::{Report, ReportGroup, ReportMetadata, ReportedPacket};
use catena_wire::scalar::{HardwareId, ReportSequence};
use catena_wire::srv6_int::{Hop, IntMetadata};

/// The number of a node whose own records do not have it.
const NO_NODE: u32 = 0;

#[derive(Debug, Default)]
pub(super) struct Writer {
    /// Groups that were written before.
    sequence: u32,
}

impl Writer {
    pub(super) fn write(&mut self, told: &[Told<'_>]) -> Vec<Vec<u8>> {
        let mut groups: Vec<(u32, Vec<u8>)> = Vec::new();
        for told in told {
            let own = own_record(told);
            let node = own.and_then(|record| record.device).map_or(NO_NODE, u32::from);
            let report = report(told, own.as_ref());
            let need = report.len_bytes();
            let has_room = |(of, group): &&mut (u32, Vec<u8>)| {
                *of == node && group.len() + need <= DATAGRAM_BYTES_MAX
            };
            let group = match groups.last_mut().filter(has_room) {
                Some((_, group)) => group,
                None => {
                    groups.push((node, self.begin(node)));
                    let Some((_, group)) = groups.last_mut() else { continue };
                    group
                }
            };
            let at = group.len();
            group.resize(at + need, 0);
            let written = group.get_mut(at..).map(|into| report.emit(into));
            if !matches!(written, Some(Ok(_))) {
                group.truncate(at);
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    fn begin(&mut self, node: u32) -> Vec<u8> {
        let mut group = vec![0; ReportGroup::LEN];
        let head = ReportGroup {
            hardware: HardwareId::ONLY,
            sequence: ReportSequence::of(self.sequence),
            node,
        };
        if head.emit(&mut group).is_ok() {
            self.sequence = self.sequence.wrapping_add(1);
        }
        group
    }
}

/// What the node at the end has written; none: nothing, or it is not known to have: a node could not write.
fn own_record(told: &Told<'_>) -> Option<IntMetadata> {
    match told.view.hops().last() {
        Some(Hop::Recorded(record)) if !told.view.tag().is_incomplete => Some(record),
        _ => None,
    }
}

fn report<'p>(told: &Told<'p>, own: Option<&IntMetadata>) -> Report<'p> {
    Report {
        is_dropped: false,
        is_congested: i32::from(told.reason) == i32::from(PathEndReason::Queue),
        is_watched: true,
        is_intermediate: false,
        domain: Report::DOMAIN,
        metadata: own.map(ReportMetadata::of).unwrap_or_default(),
        packet_type: ReportedPacket::Ipv6,
        packet: told.header,
    }
}

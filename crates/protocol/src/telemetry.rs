//! Packets that came to the end of their path, as they travel. Knows their fields; refuses to know which of them are
//! believed.
//!
//! What cannot be read becomes a record that contradicts itself: whoever judges reports counts it by that name.

use crate::message::{self, HopEndKind, PathEndReason};
use catena_model::PathId;
use catena_model::telemetry::{
    ArrivalTime, DeviceId, FlowCounter, FlowName, HopRecord, HopReport, PathEnd, QueueId,
    QueueLength, QueueState, ReportReason, Stamp, VisitLatency,
};

/// A packet as it travels, without its header.
#[must_use]
pub fn pack_end(end: &PathEnd) -> message::PathEnd {
    let PathEnd { path, flow, reason, is_incomplete, hops } = end;
    let reason = match reason {
        ReportReason::Sampled => PathEndReason::Sampled,
        ReportReason::Incomplete => PathEndReason::Incomplete,
        ReportReason::Saturated => PathEndReason::Saturated,
        ReportReason::Queue => PathEndReason::Queue,
        ReportReason::Latency => PathEndReason::Latency,
    };
    message::PathEnd {
        path: path.0,
        flow: flow.0,
        reason: reason.into(),
        is_incomplete: *is_incomplete,
        hops: hops.iter().map(pack_hop).collect(),
        header: Vec::new(),
    }
}

fn pack_hop(hop: &HopReport) -> message::HopEnd {
    let of_kind = |kind: HopEndKind| message::HopEnd { kind: kind.into(), ..Default::default() };
    let record = match hop {
        HopReport::Recorded(record) => record,
        HopReport::Silent => return of_kind(HopEndKind::Silent),
        HopReport::Malformed => return of_kind(HopEndKind::Malformed),
    };
    let HopRecord { device, arrival, latency, queue, counter } = record;
    message::HopEnd {
        device: device.map(|device| device.0.into()),
        arrival_ns: arrival.map(|stamp| stamp.time.ns()),
        is_synchronised: arrival.is_some_and(|stamp| stamp.is_synchronised),
        latency_ns: latency.map(|latency| latency.ns),
        is_saturated: latency.is_some_and(|latency| latency.is_saturated),
        queue: queue.map(|queue| queue.id.into()),
        queue_length: queue.map(|queue| queue.length.into()),
        counter: counter.map(u32::from),
        ..of_kind(HopEndKind::Recorded)
    }
}

/// The packet in a message.
#[must_use]
pub fn read_end(packed: &message::PathEnd) -> PathEnd {
    let reason = match PathEndReason::try_from(packed.reason) {
        Ok(PathEndReason::Sampled) => Some(ReportReason::Sampled),
        Ok(PathEndReason::Incomplete) => Some(ReportReason::Incomplete),
        Ok(PathEndReason::Saturated) => Some(ReportReason::Saturated),
        Ok(PathEndReason::Queue) => Some(ReportReason::Queue),
        Ok(PathEndReason::Latency) => Some(ReportReason::Latency),
        Ok(PathEndReason::Unknown) | Err(_) => None,
    };
    let hops = match reason {
        Some(_) => packed.hops.iter().map(read_hop).collect(),
        None => vec![HopReport::Malformed],
    };
    PathEnd {
        path: PathId(packed.path),
        flow: FlowName(packed.flow),
        reason: reason.unwrap_or(ReportReason::Incomplete),
        is_incomplete: packed.is_incomplete,
        hops,
    }
}

fn read_hop(packed: &message::HopEnd) -> HopReport {
    match HopEndKind::try_from(packed.kind) {
        Ok(HopEndKind::Recorded) => {
            read_record(packed).map_or(HopReport::Malformed, HopReport::Recorded)
        }
        Ok(HopEndKind::Silent) => HopReport::Silent,
        Ok(HopEndKind::Unknown | HopEndKind::Malformed) | Err(_) => HopReport::Malformed,
    }
}

/// None: a field holds what it cannot.
fn read_record(packed: &message::HopEnd) -> Option<HopRecord> {
    let device = packed.device.map(u16::try_from).transpose().ok()?.map(DeviceId);
    let arrival = match packed.arrival_ns.map(|ns| (ns, ArrivalTime::from_ns(ns))) {
        Some((ns, time)) if time.ns() == ns => {
            Some(Stamp { time, is_synchronised: packed.is_synchronised })
        }
        Some(_) => return None,
        None => None,
    };
    let latency = match packed.latency_ns {
        Some(ns) if ns > VisitLatency::MAX_NS => return None,
        told => told.map(|ns| VisitLatency { ns, is_saturated: packed.is_saturated }),
    };
    let queue = match (packed.queue, packed.queue_length) {
        (Some(id), Some(length)) => Some(QueueState {
            id: QueueId::try_from(id).ok()?,
            length: QueueLength::try_from(length).ok()?,
        }),
        (None, None) => None,
        _ => return None,
    };
    let counter = packed.counter.map(FlowCounter::try_from).transpose().ok()?;
    Some(HopRecord { device, arrival, latency, queue, counter })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::option::of;
    use proptest::prelude::*;
    use prost::Message as _;

    fn record() -> impl Strategy<Value = HopRecord> {
        let arrival = (0_u64..1 << 40, any::<bool>()).prop_map(|(ns, is_synchronised)| Stamp {
            time: ArrivalTime::from_ns(ns),
            is_synchronised,
        });
        let latency = (0..=VisitLatency::MAX_NS, any::<bool>())
            .prop_map(|(ns, is_saturated)| VisitLatency { ns, is_saturated });
        let queue = (0..=QueueId::MAX, 0..=QueueLength::MAX).prop_map(|(id, length)| QueueState {
            id: QueueId::try_from(id).unwrap(),
            length: QueueLength::try_from(length).unwrap(),
        });
        let counter =
            (0..=FlowCounter::MAX).prop_map(|count| FlowCounter::try_from(count).unwrap());
        let device = any::<u16>().prop_map(DeviceId);
        (of(device), of(arrival), of(latency), of(queue), of(counter)).prop_map(
            |(device, arrival, latency, queue, counter)| HopRecord {
                device,
                arrival,
                latency,
                queue,
                counter,
            },
        )
    }

    fn end() -> impl Strategy<Value = PathEnd> {
        let hop = prop_oneof![
            record().prop_map(HopReport::Recorded),
            Just(HopReport::Silent),
            Just(HopReport::Malformed),
        ];
        let reason = prop_oneof![
            Just(ReportReason::Sampled),
            Just(ReportReason::Incomplete),
            Just(ReportReason::Saturated),
            Just(ReportReason::Queue),
            Just(ReportReason::Latency),
        ];
        let hops = proptest::collection::vec(hop, 0..9);
        (any::<u32>(), any::<u64>(), reason, any::<bool>(), hops).prop_map(
            |(path, flow, reason, is_incomplete, hops)| PathEnd {
                path: PathId(path),
                flow: FlowName(flow),
                reason,
                is_incomplete,
                hops,
            },
        )
    }

    proptest! {
        #[test]
        fn a_packet_comes_out_as_it_went_in(end in end()) {
            let bytes = pack_end(&end).encode_to_vec();
            let packed = message::PathEnd::decode(bytes.as_slice()).unwrap();
            prop_assert_eq!(read_end(&packed), end);
        }
    }

    fn recorded() -> message::HopEnd {
        message::HopEnd {
            kind: HopEndKind::Recorded.into(),
            device: Some(7),
            arrival_ns: Some(5),
            latency_ns: Some(128),
            queue: Some(1),
            queue_length: Some(2),
            counter: Some(3),
            ..Default::default()
        }
    }

    type Spoil = fn(&mut message::HopEnd);

    #[test]
    fn a_field_that_cannot_be_makes_its_record_one_that_contradicts_itself() {
        let packet = |hops| message::PathEnd {
            reason: PathEndReason::Sampled.into(),
            hops,
            ..Default::default()
        };
        let read = read_end(&packet(vec![recorded()])).hops;
        assert!(matches!(read.as_slice(), [HopReport::Recorded(_)]), "{read:?}");
        let spoilt: [Spoil; 9] = [
            |hop| hop.kind = 0,
            |hop| hop.kind = 99,
            |hop| hop.device = Some(1 << 16),
            |hop| hop.arrival_ns = Some(1 << 40),
            |hop| hop.latency_ns = Some(VisitLatency::MAX_NS + 1),
            |hop| hop.queue = Some(16),
            |hop| hop.queue_length = Some(1 << 12),
            |hop| hop.queue_length = None,
            |hop| hop.counter = Some(1 << 20),
        ];
        for (number, spoil) in spoilt.into_iter().enumerate() {
            let mut hop = recorded();
            spoil(&mut hop);
            let hops = read_end(&packet(vec![recorded(), hop])).hops;
            assert_eq!(hops[1], HopReport::Malformed, "{number}");
            assert!(matches!(hops[0], HopReport::Recorded(_)), "{number}");
        }
    }

    #[test]
    fn a_packet_for_no_reason_that_is_known_says_nothing_of_its_hops() {
        for reason in [0, 6, -1] {
            let packed =
                message::PathEnd { reason, hops: vec![recorded()], ..message::PathEnd::default() };
            assert_eq!(read_end(&packed).hops, [HopReport::Malformed]);
        }
    }
}

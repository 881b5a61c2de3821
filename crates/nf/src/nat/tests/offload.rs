//! Packets that are open, closed or super-framed are translated alike: what leaves on the wire is the same.

use super::*;
use catena_wire::segment::{SegmentKind, SuperFrame, complete_checksum};
use proptest::prelude::*;

/// The packets of a super-frame as they leave, its checksum completed by whoever cuts it.
fn segments(frame: &[u8], protocol: IpProtocol, bytes: u16) -> Vec<Vec<u8>> {
    let kind = if protocol == TCP { SegmentKind::Tcp } else { SegmentKind::Udp };
    let plan = SuperFrame::parse(frame, kind, bytes).unwrap();
    let all = (0..).map(|number| {
        let mut segment = vec![0; plan.segment_len(number)];
        let written = plan.write_segment(frame, number, &mut segment);
        segment.truncate(written);
        segment
    });
    all.take_while(|segment| !segment.is_empty()).collect()
}

/// Leaves the checksum to whoever sends the frame.
fn open(frame: &mut [u8]) {
    let view = FrameView::parse(frame).unwrap();
    let flow = view.flow.unwrap();
    let length = view.end - u32::from(view.l4_offset.unwrap());
    let sum =
        catena_wire::checksum::pseudo_header(flow.source, flow.destination, flow.protocol, length);
    let value = (sum.folded().into(), u128::MAX);
    Field::UpperChecksum.write(frame, &view, value, UpperChecksum::Closed).unwrap();
}

fn super_packet(frame: &[u8], upper: UpperChecksum, count: u32) -> Packet<'_> {
    Packet { upper, wire_packets: count, ..Packet::read(frame).unwrap() }
}

proptest! {
    #[test]
    fn open_closed_and_super_framed_packets_leave_alike(
        is_tcp in any::<bool>(), port in 1_u16.., payload in 1_usize..6_000, segment in 500_u16..1_400,
        returns in any::<bool>(), taken in any::<bool>(),
    ) {
        let protocol = if is_tcp { TCP } else { UDP };
        let mut nat = nat(SIMPLE);
        let to = if returns { (POOL, 40_000) } else { SERVER };
        out(&mut nat, 0, &packet(protocol, OTHER_HOST, OTHER_SERVER, SYN));
        if taken {
            // Its port is another's, so that it gets another.
            out(&mut nat, 0, &packet(protocol, (OTHER_HOST.0, port), OTHER_SERVER, SYN));
        }
        let from = (HOST.0, port);
        show(&mut nat, 0, Direction::Forward, &packet(protocol, from, to, SYN));
        let payload: Vec<u8> = (0..payload).map(|at| at as u8).collect();
        let closed = Shape { payload, ..shape(protocol, from, to, ACK) }.frame().unwrap();
        let mut opened = closed.clone();
        open(&mut opened);
        let before = segments(&closed, protocol, segment);
        let count = before.len() as u32;
        // Cut first, and translated then.
        let mut wanted = Vec::new();
        for segment in &before {
            match show(&mut nat.clone(), 1, Direction::Forward, segment) {
                Came::Through(frame) => wanted.push(frame),
                Came::Back(made) => wanted.extend(made),
                other => panic!("{other:?}"),
            }
        }
        prop_assert!(wanted.iter().all(|frame| is_sound(frame)));
        for (frame, upper) in [(&closed, UpperChecksum::Closed), (&opened, UpperChecksum::Open)] {
            let packet = super_packet(frame, upper, count);
            match show_packet(&mut nat.clone(), Time::seconds(1), Direction::Forward, &packet) {
                Came::Through(frame) => {
                    prop_assert!(!returns);
                    prop_assert_eq!(&segments(&frame, protocol, segment), &wanted);
                }
                // How they were to be cut is not known, but for how many they are.
                Came::Back(made) => {
                    prop_assert!(returns);
                    prop_assert_eq!(made.len(), wanted.len());
                    prop_assert!(made.iter().all(|frame| is_sound(frame)));
                    let data = |frames: &[Vec<u8>]| frames.iter().flat_map(|frame| {
                        let view = FrameView::parse(frame).unwrap();
                        frame[Field::Payload.bytes(frame, &view).unwrap()].to_vec()
                    }).collect::<Vec<_>>();
                    prop_assert_eq!(data(&made), data(&wanted));
                    prop_assert_eq!(ends(&made[0]), ends(&wanted[0]));
                }
                other => panic!("{other:?}"),
            }
        }
        // One that is whole and open, completed by a device.
        let packet = super_packet(&opened, UpperChecksum::Open, 1);
        let closed_came = show(&mut nat.clone(), 1, Direction::Forward, &closed);
        match show_packet(&mut nat, Time::seconds(1), Direction::Forward, &packet) {
            Came::Through(mut frame) => {
                let view = FrameView::parse(&frame).unwrap();
                let offset = if is_tcp { 16 } else { 6 };
                complete_checksum(&mut frame, view.l4_offset.unwrap(), offset).unwrap();
                prop_assert_eq!(Came::Through(frame), closed_came);
            }
            came => prop_assert_eq!(came, closed_came),
        }
    }
}

//! The measuring socket on a veth pair.
#![allow(clippy::unwrap_used, reason = "a test stops at its first surprise")]

use std::time::{Duration, Instant, SystemTime};

use catena_io::{STAMPED_ROW_MAX, StampedSocket};

mod namespace;

use namespace::{in_new_namespace, ip, silence_ipv6};

const WAIT: Duration = Duration::from_millis(200);
/// Nothing here takes this long unless it never comes.
const HANG: Duration = Duration::from_secs(20);

fn frame(number: u8) -> Vec<u8> {
    // An experimental EtherType (IEEE 802): nobody answers it.
    let header = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
    [&header[..], &vec![number; 50 + usize::from(number)]].concat()
}

/// Makes `left`, which may send at once, and `right`.
fn pair(mtu: u32) {
    silence_ipv6();
    ip(&format!("link add left mtu {mtu} type veth peer name right mtu {mtu}"));
    ip("link set right up");
    // The last one to come up finds its carrier there. To the other end the kernel gives a queue a
    // moment later, and what is sent before is lost and counted nowhere.
    ip("link set left up");
}

#[test]
fn rows_of_frames_arrive_whole_in_order_with_the_time_of_their_arrival() {
    in_new_namespace("stamped", || {
        pair(1_600);
        let sender = StampedSocket::open("left", 1 << 16, WAIT).unwrap();
        let mut receiver = StampedSocket::open("right", 1 << 22, WAIT).unwrap();
        let frames: Vec<Vec<u8>> = (0..100).map(frame).collect();
        let now_ns = || {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
            u64::try_from(now.as_nanos()).unwrap()
        };
        let began_ns = now_ns();
        let mut sent = 0;
        while sent < frames.len() {
            let row: Vec<&[u8]> = frames[sent..].iter().map(Vec::as_slice).collect();
            let left = sender.send(&row).unwrap();
            assert!((1..=STAMPED_ROW_MAX).contains(&left));
            sent += left;
        }
        let mut came = Vec::new();
        let mut last_ns = began_ns;
        while came.len() < frames.len() {
            let count = receiver
                .receive(|frame| {
                    assert!(frame.arrived_ns >= last_ns && frame.arrived_ns <= now_ns());
                    last_ns = frame.arrived_ns;
                    came.push(frame.bytes.to_vec());
                })
                .unwrap();
            assert!(count > 0, "{} of {} frames came", came.len(), frames.len());
        }
        assert_eq!(came, frames);
        assert_eq!(receiver.lost(), 0);
        // Nothing more: the wait ends, and own frames do not come back.
        assert_eq!(receiver.receive(|_| panic!("nobody sent")).unwrap(), 0);
        let mut own = sender;
        assert_eq!(own.receive(|_| panic!("own frames")).unwrap(), 0);
    });
}

#[test]
fn a_receiver_without_room_says_how_much_it_lost() {
    in_new_namespace("stamped-lost", || {
        pair(1_500);
        let sender = StampedSocket::open("left", 1 << 16, WAIT).unwrap();
        let mut receiver = StampedSocket::open("right", 4_096, WAIT).unwrap();
        let large = frame(200);
        // A call may send fewer than it is given.
        let sent: usize = (0..50).map(|_| sender.send(&[large.as_slice(); 10]).unwrap()).sum();
        let (mut came, mut lost) = (0, 0);
        let began = Instant::now();
        while came + lost < sent as u64 && began.elapsed() < HANG {
            receiver.receive(|_| came += 1).unwrap();
            lost += receiver.lost();
        }
        assert!(came > 0 && lost > 0);
        assert_eq!(came + lost, sent as u64);
        assert!(StampedSocket::open("nobody", 4_096, WAIT).is_err());
    });
}

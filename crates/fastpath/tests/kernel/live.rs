//! Real stacks on both sides of a node: super-frames stay whole, and a flow that passes from the
//! engine to the kernel's path loses no packet and keeps their order.

use crate::needs_privilege;
use crate::scene::{Host, Installs, Relay, Stand, seat};
use crate::streams;
use catena_fastpath::{Event, Kind};
use std::net::SocketAddr;

const MTU: u32 = 1_500;
const STREAM_BYTES: usize = 32 << 20;

struct Pair {
    stand: Stand,
    a: Host,
    b: Host,
}

impl Pair {
    async fn new(name: &str) -> Self {
        let mut stand = Stand::new(name).await;
        let (a, b) = (Host::new("a"), Host::new("b"));
        stand.add_port(1, &a, MTU).await;
        stand.add_port(2, &b, MTU).await;
        a.knows("e0", seat(2).address, seat(2).mac).await;
        b.knows("e0", seat(1).address, seat(1).mac).await;
        Self { stand, a, b }
    }

    fn stream(&self, port: u16, bytes: usize) {
        let local = SocketAddr::new(seat(1).address.into(), port);
        let target = SocketAddr::new(seat(2).address.into(), port);
        streams::tcp(&self.a, local, &self.b, target, bytes);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_super_frame_goes_up_to_the_engine_whole_with_its_open_checksum() {
    needs_privilege!("a_super_frame_goes_up_to_the_engine_whole_with_its_open_checksum");
    let pair = Pair::new("up").await;
    let relay = Relay::start(&pair.stand, Installs::Nothing);
    pair.stream(5_001, STREAM_BYTES);
    let seen = relay.end();
    println!("{seen:?}");
    assert!(seen.longest > 60_000, "the longest frame has {} bytes", seen.longest);
    assert!(seen.super_frames > STREAM_BYTES as u64 / 65_536);
    let events = pair.stand.events();
    assert_eq!(events[&Event::Hit], 0);
    assert!(events[&Event::Miss] >= seen.frames - 10 && events[&Event::Broken] == 0);
}

async fn runs_in_the_kernel(exit: Kind) {
    let pair = Pair::new("through").await;
    let relay = Relay::start(&pair.stand, Installs::Every(exit));
    pair.stream(5_001, STREAM_BYTES);
    let seen = relay.end();
    let (events, tables) = (pair.stand.events(), &pair.stand.tables);
    println!("{seen:?} {events:?}");
    assert_eq!(seen.installed, 2, "one flow each way");
    assert_eq!(seen.opened, 2);
    assert_eq!(events[&Event::Broken] + events[&Event::Unfit] + events[&Event::Stale], 0);
    // What the sender's stack cut into one frame went through as one.
    let (there, back) = (tables.account(2), tables.account(1));
    assert!(there.bytes > STREAM_BYTES as u64 / 2, "most of it took the kernel's path: {there:?}");
    let frames = events[&Event::Hit] - back.packets;
    assert!(there.packets > 10 * frames, "{there:?} in {frames} frames");
    let entries = {
        let mut sum = (0, 0);
        tables.walk(|_, entry| sum = (sum.0 + entry.packets, sum.1 + entry.bytes)).unwrap();
        sum
    };
    assert_eq!(entries, (there.packets + back.packets, there.bytes + back.bytes));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_runs_through_the_kernel_with_its_super_frames_whole() {
    needs_privilege!("a_stream_runs_through_the_kernel_with_its_super_frames_whole");
    runs_in_the_kernel(Kind::Transmit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_handed_over_to_the_peer_with_its_super_frames_whole() {
    needs_privilege!("a_stream_is_handed_over_to_the_peer_with_its_super_frames_whole");
    runs_in_the_kernel(Kind::HandOver).await;
}

async fn keeps_its_order(exit: Kind) {
    const FLOWS: u16 = 100;
    const DATAGRAMS: u32 = 400;
    let pair = Pair::new("order").await;
    let relay = Relay::start(&pair.stand, Installs::Every(exit));
    for flow in 0..FLOWS {
        let target = SocketAddr::new(seat(2).address.into(), 6_000 + flow);
        let numbers = streams::numbered(&pair.a, &pair.b, target, DATAGRAMS, 64);
        assert!(numbers.iter().copied().eq(0..DATAGRAMS), "flow {flow}: {numbers:?}");
    }
    let seen = relay.end();
    let events = pair.stand.events();
    println!("{seen:?} {events:?}");
    assert_eq!((seen.installed, seen.ring_full), (u64::from(FLOWS), 0));
    assert!(seen.opened > u64::from(FLOWS) / 2, "most flows passed over");
    assert!(events[&Event::Waiting] > 0 && events[&Event::Hit] > 0);
    let frames = u64::from(FLOWS) * u64::from(DATAGRAMS);
    let counted = [Event::Hit, Event::Miss, Event::Waiting].map(|event| events[&event]);
    assert_eq!(counted.iter().sum::<u64>(), frames);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_that_passes_to_the_kernel_loses_nothing_and_keeps_its_order() {
    needs_privilege!("a_flow_that_passes_to_the_kernel_loses_nothing_and_keeps_its_order");
    keeps_its_order(Kind::Transmit).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flow_that_is_handed_to_the_peer_loses_nothing_and_keeps_its_order() {
    needs_privilege!("a_flow_that_is_handed_to_the_peer_loses_nothing_and_keeps_its_order");
    keeps_its_order(Kind::HandOver).await;
}

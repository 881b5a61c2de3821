//! Random programs, changes and packets; the report says what was met and how often.

use crate::dice::Dice;
use crate::streets::TownKind;
use crate::twin::{Report, Twin};
use crate::{packets, streets};
use catena_fastpath::Kind;
use catena_kernel::capabilities;
use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::netlink::Netlink;
use catena_model::DropReason;

/// Frames that both must treat the same in one run; `CATENA_CASES` asks for another number.
const CASES: usize = 150_000;
const PACKETS_OF_A_TOWN: usize = 600;
/// How often everything that is met must be met.
pub(crate) const HITS_MIN: usize = 100;
const CHANGE_AFTER: usize = 45;
/// One user sends more at a time than may wait.
const FLOOD: usize = 200;
const FLOOD_ONE_IN: usize = 150;

/// What must have become of frames. None is stale: a transform that has ended is taken out at once.
const OUTCOMES: [&str; 12] = [
    "carried",
    "carried, crowded town",
    "carried, sliced town",
    "carried, watched town",
    "miss",
    "waiting",
    "unkeyed",
    "not rehearsed",
    "carried by tunnel",
    "miss by tunnel",
    "waiting by tunnel",
    "unkeyed by tunnel",
];
/// What the kernel must have done to them.
const OPERATIONS: [Kind; 10] = Kind::ALL;
/// Drops that packets can meet here; each of them must have been the engine's.
const DROPS: [DropReason; 41] = [
    DropReason::BuffersExhausted,
    DropReason::ContextTooLong,
    DropReason::ForeignAddress,
    DropReason::ForeignChainHeader,
    DropReason::ForeignPath,
    DropReason::ForeignSegment,
    DropReason::FragmentWithoutFirst,
    DropReason::FunctionDead,
    DropReason::HairpinToSource,
    DropReason::IndexExhausted,
    DropReason::MalformedArp,
    DropReason::MalformedEthernet,
    DropReason::MalformedIp,
    DropReason::MalformedMpls,
    DropReason::MalformedNsh,
    DropReason::MalformedSrv6,
    DropReason::MalformedTransport,
    DropReason::MalformedTunnel,
    DropReason::MalformedVxlan,
    DropReason::MalformedVxlanGpe,
    DropReason::MtuExceeded,
    DropReason::NoInstance,
    DropReason::NoNeighbour,
    DropReason::NoPath,
    DropReason::PathRemoved,
    DropReason::PortUnbound,
    DropReason::PositionElsewhere,
    DropReason::SliceQueueFull,
    DropReason::SliceRateExceeded,
    DropReason::TransmitFailed,
    DropReason::TtlExpired,
    DropReason::TunnelTooDeep,
    DropReason::UnknownMac,
    DropReason::UnknownNetwork,
    DropReason::UnknownPort,
    DropReason::UnknownReturn,
    DropReason::UnknownTunnelSource,
    DropReason::UnsupportedEncapsulation,
    DropReason::UnsupportedNextProtocol,
    DropReason::UnsupportedOffload,
    DropReason::VlanNotInNetwork,
];

/// Those that no engine alone could have: what the kernel refuses is in `losses`; what rings cut or have
/// no room for, and what sockets do not take, is counted in the tests of `catena-io`; what links bring is in
/// `transit`, and what else goes wrong on segments in `engine/srv6`.
const DROPS_OF_OTHERS: [DropReason; 21] = [
    DropReason::CongestionUntold,
    DropReason::ForeignDevice,
    DropReason::KernelRefused,
    DropReason::LinkDead,
    DropReason::MalformedSourceRoute,
    DropReason::NoRoute,
    DropReason::NoSegmentRoute,
    DropReason::NoSegments,
    DropReason::NoSourceRoute,
    DropReason::NotPlainIp,
    DropReason::PuntLost,
    DropReason::PuntRingFull,
    DropReason::PuntShareFull,
    DropReason::RouteEnded,
    DropReason::RouteUnfit,
    DropReason::SegmentFromPort,
    DropReason::SegmentsUnfit,
    DropReason::TruncatedByRing,
    DropReason::UnknownExit,
    DropReason::UnknownNeighbour,
    DropReason::WrongRouteTag,
];

/// Those that these packets do not meet often enough; each has tests in the engine alone, through which
/// every fragment and every packet that no path expects goes.
const DROPS_OF_THE_ENGINE: [DropReason; 19] = [
    DropReason::ContextMemoryFull,
    DropReason::FloodLimited,
    DropReason::FloodRepeated,
    DropReason::FlowMemoryFull,
    DropReason::FragmentInTunnel,
    DropReason::FragmentOverlap,
    DropReason::FragmentsWaitingFull,
    DropReason::FunctionDenied,
    DropReason::FunctionFailed,
    DropReason::FunctionFull,
    DropReason::FunctionUnasked,
    DropReason::MtuUntold,
    DropReason::SecondFirstFragment,
    DropReason::SetupFlowFull,
    DropReason::SetupNodeFull,
    DropReason::SetupRateExceeded,
    DropReason::SetupUnanswered,
    DropReason::UndeclaredPort,
    DropReason::UnicastInGroupFrame,
];

fn is_privileged() -> bool {
    capabilities::effective_has_net_admin() && capabilities::effective_has_sys_admin()
}

/// One interface for each port, numbered from 2 on.
async fn make_interfaces(namespace: &NetNamespace, ports: usize) -> Vec<u32> {
    let links = Netlink::open(namespace).unwrap();
    for pair in 0..ports.div_ceil(2) {
        let (near, far) = (format!("near{pair}"), format!("far{pair}"));
        links.add_veth(&near, &far, namespace, 1_500, None, None).await.unwrap();
    }
    let mut made: Vec<u32> = links.links().await.unwrap().iter().map(|link| link.index).collect();
    made.sort_unstable();
    assert!(made[1..].iter().copied().eq(2..2 + made.len() as u32 - 1), "{made:?}");
    made.split_off(1)
}

/// Runs a test in a namespace with so many interfaces; without capabilities it is skipped.
pub(crate) async fn with_interfaces(name: &str, ports: usize, test: impl FnOnce(&[u32]) + Send) {
    if !is_privileged() {
        println!("SKIPPED: {name}: no capabilities");
        return;
    }
    let namespace = NetNamespace::create_unnamed("kernel").unwrap();
    let interfaces = make_interfaces(&namespace, ports).await;
    run_in(&namespace, || test(&interfaces)).unwrap();
}

fn play(seed: u64, interfaces: &[u32], report: Report) -> Report {
    let (mut dice, kind) = (Dice(seed), TownKind::of(seed));
    let mut twin = Twin::new(streets::empty(), seed, interfaces, report);
    streets::change(&mut twin.town, seed, &mut dice);
    twin.apply();
    twin.is_rough = true;
    let packets = if kind.is_crowded { 2 * PACKETS_OF_A_TOWN } else { PACKETS_OF_A_TOWN };
    let end = twin.report.packets + packets;
    while twin.report.packets < end {
        if dice.once_in(CHANGE_AFTER) {
            streets::change(&mut twin.town, seed, &mut dice);
            twin.apply();
        }
        if dice.once_in(if kind.is_watched { 15 } else { 30 }) {
            spend_time(&mut twin, kind, &mut dice);
        }
        if kind.has_slices && dice.once_in(FLOOD_ONE_IN) {
            let sent = packets::roll_user(&twin.town, seed);
            (0..FLOOD).for_each(|_| twin.send(sent.clone(), &mut dice));
        }
        if dice.once_in(100) {
            twin.compare_counters();
        }
        if dice.once_in(if kind.is_crowded { 2 } else { 6 }) {
            let sent = packets::roll_datagram(&twin.town, seed, &mut dice);
            for _ in 0..1 + dice.below(4) {
                twin.send_by_tunnel(&sent, &mut dice);
            }
        } else {
            let sent = packets::roll(&twin.town, seed, &mut dice);
            twin.send(sent, &mut dice);
        }
    }
    twin.end()
}

/// Time in which flows are forgotten, or functions die and come back.
fn spend_time(twin: &mut Twin, kind: TownKind, dice: &mut Dice) {
    if kind.is_watched {
        twin.dead = (!dice.once_in(4)).then(|| dice.pick(&streets::FUNCTIONS).to_owned());
        twin.report.deaths += twin.watch();
    } else if !kind.is_crowded {
        let pause = dice.pick(&[20_000_000, 150_000_000, 1_500_000_000]);
        twin.pass(pause, dice);
    }
}

fn print_and_check(report: &Report) {
    let known = DROPS.len() + DROPS_OF_OTHERS.len() + DROPS_OF_THE_ENGINE.len();
    assert_eq!(known, DropReason::COUNT);
    println!("{} frames, functions found dead: {}", report.packets, report.deaths);
    for (name, count) in &report.outcomes {
        println!("  {name}: {count}");
    }
    for (kind, count) in &report.operations {
        println!("  operation {kind:?}: {count}");
    }
    for (reason, count) in &report.declined {
        println!("  declined {reason:?}: {count}");
    }
    for (name, count) in &report.dropped {
        println!("  dropped {name}: {count}");
    }
    for name in OUTCOMES {
        assert!(report.outcomes.get(name).is_some_and(|count| *count >= HITS_MIN), "{name}");
    }
    for reason in DROPS.map(DropReason::name) {
        assert!(
            report.dropped.get(reason).is_some_and(|count| *count >= HITS_MIN as u64),
            "{reason}"
        );
    }
    for kind in OPERATIONS {
        assert!(report.operations.get(&kind).is_some_and(|count| *count >= HITS_MIN), "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_and_the_engine_treat_every_packet_the_same() {
    let asked = std::env::var("CATENA_CASES").ok().and_then(|text| text.parse().ok());
    let cases = asked.unwrap_or(CASES);
    let name = "the_kernel_and_the_engine_treat_every_packet_the_same";
    with_interfaces(name, streets::empty().ports.len(), |interfaces| {
        let mut report = Report::default();
        for seed in 0.. {
            if report.packets >= cases {
                break;
            }
            report = play(seed, interfaces, report);
        }
        print_and_check(&report);
    })
    .await;
}

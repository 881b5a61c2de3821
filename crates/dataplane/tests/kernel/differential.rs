//! Random programs, changes and packets; the report says what was met and how often.

use crate::dice::Dice;
use crate::twin::{Report, Twin};
use crate::{packets, streets};
use catena_fastpath::Kind;
use catena_kernel::capabilities;
use catena_kernel::namespace::{NetNamespace, run_in};
use catena_kernel::netlink::Netlink;
use catena_model::DropReason;

/// Frames that both must treat the same in one run; `CATENA_CASES` asks for another number.
const CASES: usize = 100_000;
const PACKETS_OF_A_TOWN: usize = 600;
/// How often everything that is met must be met.
const HITS_MIN: usize = 100;
const CHANGE_AFTER: usize = 60;

/// What must have become of frames. None is stale: a transform that has ended is taken out at once.
const OUTCOMES: [&str; 9] = [
    "carried",
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
const OPERATIONS: [Kind; 8] = Kind::ALL;
/// Drops that packets can meet here; each of them must have been the engine's. The others are those of
/// rings and of the kernel itself (`losses`), of slices that wait and of ports that leave; of memories
/// that are full, since the kernel goes on without them; and of dead functions: an engine finds them
/// dead by the packets that it sees, and beside the kernel it sees fewer.
const DROPS: [DropReason; 33] = [
    DropReason::BuffersExhausted,
    DropReason::ContextTooLong,
    DropReason::ForeignChainHeader,
    DropReason::HairpinToSource,
    DropReason::IndexExhausted,
    DropReason::MalformedArp,
    DropReason::MalformedEthernet,
    DropReason::MalformedIp,
    DropReason::MalformedMpls,
    DropReason::MalformedNsh,
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
    DropReason::SliceRateExceeded,
    DropReason::TransmitFailed,
    DropReason::TtlExpired,
    DropReason::TunnelTooDeep,
    DropReason::UnknownMac,
    DropReason::UnknownNetwork,
    DropReason::UnknownReturn,
    DropReason::UnknownTunnelSource,
    DropReason::UnsupportedEncapsulation,
    DropReason::UnsupportedNextProtocol,
    DropReason::UnsupportedOffload,
    DropReason::VlanNotInNetwork,
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
    let mut dice = Dice(seed);
    let mut town = streets::empty();
    streets::change(&mut town, seed, &mut dice);
    let mut twin = Twin::new(town, seed, interfaces, report);
    twin.is_rough = true;
    let end = twin.report.packets + PACKETS_OF_A_TOWN;
    while twin.report.packets < end {
        if dice.once_in(CHANGE_AFTER) {
            streets::change(&mut twin.town, seed, &mut dice);
            twin.apply();
        }
        if dice.once_in(30) {
            let pause = dice.pick(&[20_000_000, 150_000_000, 1_500_000_000]);
            twin.pass(pause);
        }
        if dice.once_in(100) {
            twin.compare_counters();
        }
        if dice.once_in(6) {
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

fn print_and_check(report: &Report) {
    println!("{} frames", report.packets);
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

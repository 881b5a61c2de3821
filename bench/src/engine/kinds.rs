//! Plain traffic of other kinds than IPv4 over NSH, and the slow path, each beside IPv4 over NSH on the
//! fast path in turns.

use super::PACKETS;
use super::work::Work;
use crate::error::BenchError;
use crate::results::{Better, Figure, Goal, Notes};
use catena_model::resource::Encapsulation;

/// A kind of traffic, and the path that it takes through the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) encapsulation: Encapsulation,
    pub(crate) is_v6: bool,
    /// It is tagged with [`VLAN`].
    pub(crate) is_tagged: bool,
    pub(crate) has_fast_path: bool,
    /// Functions inside are timed, as in production.
    pub(crate) is_metered: bool,
    /// Packets take records of nodes along.
    pub(crate) takes_records: bool,
}

/// The VLAN of tagged traffic.
pub(super) const VLAN: u16 = 7;

impl Kind {
    /// IPv4 over NSH, by the fast path.
    pub(crate) const ORDINARY: Self = Self {
        encapsulation: Encapsulation::Nsh,
        is_v6: false,
        is_tagged: false,
        has_fast_path: true,
        is_metered: false,
        takes_records: false,
    };
    const MPLS: Self = Self { encapsulation: Encapsulation::Mpls, ..Self::ORDINARY };
    const IPV6: Self = Self { is_v6: true, ..Self::ORDINARY };
    /// With a clock beside functions.
    pub(crate) const METERED: Self = Self { is_metered: true, ..Self::ORDINARY };
    const TAGGED: Self = Self { is_tagged: true, ..Self::ORDINARY };
    /// IPv4 over source routes.
    pub(crate) const ROUTED: Self =
        Self { encapsulation: Encapsulation::SourceRouteNative, ..Self::ORDINARY };
    /// IPv4 over segments of IPv6.
    pub(crate) const SEGMENTED: Self =
        Self { encapsulation: Encapsulation::Srv6, ..Self::ORDINARY };
    /// The same with telemetry, and a clock by which it is told how long functions take.
    pub(crate) const RECORDED: Self =
        Self { takes_records: true, is_metered: true, ..Self::SEGMENTED };
    pub(crate) const SLOW: Self = Self { has_fast_path: false, ..Self::ORDINARY };
}

/// What is measured, what it is called, and how much of IPv4 over NSH it may be.
const ALL: [(Kind, Work, &str, Option<f64>); 10] = [
    (Kind::MPLS, Work::Push, "mpls_push_ns", Some(1.15)),
    (Kind::MPLS, Work::ForwardOut, "mpls_forward_ns", Some(1.15)),
    (Kind::MPLS, Work::Pop, "mpls_pop_ns", Some(1.15)),
    (Kind::IPV6, Work::Push, "ipv6_push_ns", Some(1.15)),
    (Kind::IPV6, Work::ProxyOut, "ipv6_proxy_ns", Some(1.15)),
    (Kind::TAGGED, Work::Push, "vlan_push_ns", Some(1.15)),
    (Kind::SLOW, Work::Push, "slow_push_ns", None),
    (Kind::SLOW, Work::ForwardOut, "slow_forward_ns", None),
    (Kind::SLOW, Work::Pop, "slow_pop_ns", None),
    (Kind::SLOW, Work::ProxyOut, "slow_proxy_ns", None),
];

/// Figures beside the same work of IPv4 over NSH.
pub(super) fn figures() -> Vec<Figure> {
    let figure = |(_, _, name, most)| Figure::new(name, "ns", Better::Lower, Goal::Quotient(most));
    ALL.map(figure).to_vec()
}

/// The work that a figure is of.
pub(super) fn named(name: &str) -> Option<(Kind, Work)> {
    let found = ALL.into_iter().find(|(_, _, figure, _)| figure.strip_suffix("_ns") == Some(name));
    found.map(|(kind, work, ..)| (kind, work))
}

pub(super) fn measure(samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    for (kind, work, figure, _) in ALL {
        eprintln!("bench: {figure}");
        let mut ordinary = work.ready(Kind::ORDINARY, 64)?;
        let mut bench = work.ready(kind, 64)?;
        for _ in 0..samples {
            notes.take(figure, true, bench.warm_ns(256, PACKETS)?);
            notes.take(figure, false, ordinary.warm_ns(256, PACKETS)?);
        }
    }
    Ok(())
}

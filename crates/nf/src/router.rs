//! A router between two interfaces: time to live, next hops, and errors to senders (RFC 1812, RFC 8200, RFC 792,
//! RFC 4443). Knows routes and the hardware addresses of next hops; refuses to resolve addresses, to learn routes, and
//! to cut packets.

mod routes;
#[cfg(test)]
mod tests;

use crate::counts::Counts;
use crate::function::{Answer, Function, RuleCount, StateEntry};
use crate::outcome::{DropCause, GeneratedKind, Outcomes, Patch, Verdict};
use crate::packet::{Direction, Packet, Time};
use catena_model::profile::{FieldSet, Profile};
use catena_rules::Side;
use catena_rules::router::{InterfaceConfig, RefusedRoute, RouteTarget, RouterConfig};
use catena_wire::field::Field;
use catena_wire::icmp::error_message::{self, ErrorMessage, Said};
use catena_wire::ipv4::Ipv4View;
use catena_wire::scalar::MacAddr;
use routes::Routes;
use std::net::IpAddr;

/// Rules before those of the routes.
mod rule {
    pub(super) const NOT_FOR_IT: u32 = 0;
    pub(super) const DAMAGED: u32 = 1;
    pub(super) const STAYS: u32 = 2;
    pub(super) const OWN: u32 = 3;
    pub(super) const NO_ROUTE: u32 = 4;
    pub(super) const EXPIRED: u32 = 5;
    pub(super) const RETURNS: u32 = 6;
    pub(super) const WORDS: [&str; 7] = [
        "frames that are not for the router",
        "wrong checksum of IPv4",
        "addresses that are not forwarded",
        "packets for the router itself",
        "no route",
        "time to live exceeded",
        "routes back to where packets come from",
    ];
}

/// Codes of destination unreachable (RFC 792, RFC 1812 section 5.2.7.1; RFC 4443 section 3.1), as Linux chooses them.
mod code {
    pub(super) const NET_UNREACHABLE: u8 = 0;
    pub(super) const HOST_UNREACHABLE: u8 = 1;
    pub(super) const PROHIBITED: u8 = 13;
    pub(super) const V6_NO_ROUTE: u8 = 0;
    pub(super) const V6_PROHIBITED: u8 = 1;
    pub(super) const V6_BEYOND_SCOPE: u8 = 2;
}

/// A router.
#[derive(Clone, Debug)]
pub struct Router {
    profile: Profile,
    /// Its interfaces, the incoming first.
    interfaces: [InterfaceConfig; 2],
    routes: Routes,
    counts: Counts,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Decision {
    rule: u32,
    way: Way,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It goes on from one hardware address to another, with this time to live.
    On { from: MacAddr, to: MacAddr, ttl: u8 },
    /// It ends, and its sender may be told.
    Ends(Option<(GeneratedKind, Said)>),
}

impl Decision {
    const fn ends(rule: u32) -> Self {
        Self { rule, way: Way::Ends(None) }
    }

    /// Destination unreachable, by the code of the packet's version.
    const fn unreachable(rule: u32, is_v6: bool, (v4, v6): (u8, u8)) -> Self {
        let said = if is_v6 { Said::unreachable_v6(v6) } else { Said::unreachable_v4(v4) };
        Self { rule, way: Way::Ends(Some((GeneratedKind::Unreachable, said))) }
    }

    fn verdict(&self) -> Verdict {
        match self.way {
            Way::On { .. } => Verdict::Pass,
            Way::Ends(_) => Verdict::Drop(DropCause::Rule(self.rule)),
        }
    }

    fn patches(&self) -> impl Iterator<Item = Patch> + use<> {
        let patches = match self.way {
            Way::On { from, to, ttl } => Some([
                Patch::of(Field::EthernetDestination, number(to)),
                Patch::of(Field::EthernetSource, number(from)),
                Patch::of(Field::Ttl, ttl.into()),
            ]),
            Way::Ends(_) => None,
        };
        patches.into_iter().flatten()
    }
}

fn number(mac: MacAddr) -> u128 {
    mac.0.iter().fold(0, |number, octet| number << 8 | u128::from(*octet))
}

const fn index(side: Side) -> usize {
    match side {
        Side::In => 0,
        Side::Out => 1,
    }
}

/// Where packets of a direction come in.
const fn entrance(direction: Direction) -> usize {
    match direction {
        Direction::Forward => index(Side::In),
        Direction::Backward => index(Side::Out),
    }
}

impl Router {
    /// A router of a configuration that [`catena_rules::router::read`] has read.
    #[must_use]
    pub fn new(config: &RouterConfig) -> Self {
        let mut counts = Counts::default();
        rule::WORDS.iter().for_each(|words| counts.add((*words).to_owned(), (*words).to_owned()));
        for route in &config.routes {
            let leads = match route.target() {
                Some(RouteTarget::Via(side, mac)) => {
                    let side = ["in", "out"][index(side)];
                    format!("via {mac} at {side}")
                }
                Some(RouteTarget::Refused(refused)) => format!("{refused:?}").to_lowercase(),
                None => "nowhere".to_owned(),
            };
            let words = format!("route to {} {leads}", route.to);
            counts.add(words.clone(), words);
        }
        let writes = [Field::EthernetDestination, Field::EthernetSource, Field::Ttl];
        // Errors quote the packet, and are as long as it.
        let profile = Profile {
            reads: FieldSet::all(),
            writes: writes.into_iter().fold(FieldSet::EMPTY, FieldSet::with),
            drops: true,
            generates: true,
            takes_super_frames: false,
            ..Profile::IDENTITY
        };
        let interfaces = [config.at_in.clone(), config.at_out.clone()];
        Self { profile, interfaces, routes: Routes::new(&config.routes), counts }
    }

    /// What becomes of a packet, in the order in which Linux looks (ip_rcv, ip_route_input, ip_forward and their
    /// kin of IPv6).
    fn decide(&self, direction: Direction, packet: &Packet<'_>) -> Decision {
        let view = &packet.view;
        let Some(flow) = view.flow else { return Decision::ends(rule::STAYS) };
        let came = entrance(direction);
        if view.destination != self.interfaces[came].mac {
            return Decision::ends(rule::NOT_FOR_IT);
        }
        if is_damaged(packet) {
            return Decision::ends(rule::DAMAGED);
        }
        let (source, destination) = (flow.source, flow.destination);
        if !may_be_forwarded(source) || !may_be_forwarded(destination) || view.is_meant_for_link() {
            return Decision::ends(rule::STAYS);
        }
        if self.interfaces.iter().any(|own| own.addresses.contains(&destination)) {
            return Decision::ends(rule::OWN);
        }
        let is_v6 = destination.is_ipv6();
        let Some((number, target)) = self.routes.find(destination) else {
            let codes = (code::NET_UNREACHABLE, code::V6_NO_ROUTE);
            return Decision::unreachable(rule::NO_ROUTE, is_v6, codes);
        };
        let number = number.saturating_add(rule::WORDS.len() as u32);
        let (side, mac) = match target {
            RouteTarget::Via(side, mac) => (index(side), mac),
            RouteTarget::Refused(refused) => return refuse(number, is_v6, refused),
        };
        let ttl = Field::Ttl.read(packet.frame, view).and_then(|ttl| u8::try_from(ttl).ok());
        let Some(ttl) = ttl.and_then(|ttl| ttl.checked_sub(1)).filter(|ttl| *ttl > 0) else {
            let said = if is_v6 { Said::time_exceeded_v6() } else { Said::time_exceeded_v4() };
            let way = Way::Ends(Some((GeneratedKind::TimeExceeded, said)));
            return Decision { rule: rule::EXPIRED, way };
        };
        if view.is_from_link_local() {
            let beyond = Decision::unreachable(rule::STAYS, true, (0, code::V6_BEYOND_SCOPE));
            return if is_v6 { beyond } else { Decision::ends(rule::STAYS) };
        }
        if side == came {
            return Decision::ends(rule::RETURNS);
        }
        let from = self.interfaces[side].mac;
        Decision { rule: number, way: Way::On { from, to: mac, ttl } }
    }

    /// Tells the sender of a packet, from the address of the interface where it came in.
    fn tell(
        &self,
        (kind, said): (GeneratedKind, Said),
        (at, packet, direction): (usize, &Packet<'_>, Direction),
        outcomes: &mut Outcomes,
    ) {
        let own = &self.interfaces[entrance(direction)];
        let Some(message) = ErrorMessage::judge(packet.frame) else { return };
        let is_v6 = message.sender().is_some_and(|sender| sender.is_ipv6());
        let Some(address) = own.addresses.iter().find(|own| own.is_ipv6() == is_v6) else { return };
        let macs = (own.mac, packet.view.source);
        let made = (at, kind, direction.reversed());
        outcomes.generate(made, error_message::FRAME_BYTES_MAX, |into| {
            message.emit_from(*address, said, macs, into)
        });
    }
}

/// Is the checksum of an IPv4 header wrong (RFC 1812 section 5.2.2)?
fn is_damaged(packet: &Packet<'_>) -> bool {
    let ip = packet.frame.get(usize::from(packet.view.l3_offset)..).unwrap_or_default();
    let is_v4 = packet.view.flow.is_some_and(|flow| flow.source.is_ipv4());
    is_v4 && !Ipv4View::parse(ip).is_ok_and(|ip| ip.is_checksum_correct())
}

/// Can a packet that has this address be for elsewhere (RFC 1812 section 5.3.7)?
fn may_be_forwarded(address: IpAddr) -> bool {
    let is_of_no_net = match address {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.octets()[0] == 0,
        IpAddr::V6(v6) => v6.is_unspecified(),
    };
    !(is_of_no_net || address.is_loopback() || address.is_multicast())
}

fn refuse(rule: u32, is_v6: bool, refused: RefusedRoute) -> Decision {
    match refused {
        RefusedRoute::Unreachable => {
            Decision::unreachable(rule, is_v6, (code::HOST_UNREACHABLE, code::V6_NO_ROUTE))
        }
        RefusedRoute::Prohibit => {
            Decision::unreachable(rule, is_v6, (code::PROHIBITED, code::V6_PROHIBITED))
        }
        RefusedRoute::Blackhole => Decision::ends(rule),
    }
}

impl Function for Router {
    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn process(
        &mut self,
        _now: Time,
        direction: Direction,
        batch: &[Packet<'_>],
        outcomes: &mut Outcomes,
    ) {
        outcomes.begin(batch.len());
        for (at, packet) in batch.iter().enumerate() {
            let decision = self.decide(direction, packet);
            self.counts.count(decision.rule, packet);
            outcomes.decide(at, decision.verdict());
            decision.patches().for_each(|patch| outcomes.patch(at, patch));
            if let Way::Ends(Some(said)) = decision.way {
                self.tell(said, (at, packet, direction), outcomes);
            }
        }
    }

    fn elapse(&mut self, _now: Time, outcomes: &mut Outcomes) {
        outcomes.begin(0);
    }

    fn ask(&self, _now: Time, direction: Direction, packet: &Packet<'_>) -> Answer {
        let decision = self.decide(direction, packet);
        Answer {
            verdict: decision.verdict(),
            patches: decision.patches().collect(),
            rules: vec![decision.rule],
        }
    }

    fn export(&mut self, all: bool, into: &mut Vec<StateEntry>) {
        self.counts.export(all, into);
    }

    fn import(&mut self, entries: &[StateEntry]) -> usize {
        entries.iter().filter(|entry| self.counts.import(entry).is_some()).count()
    }

    fn report(&self, into: &mut Vec<RuleCount>) {
        self.counts.report(into);
    }

    fn rule_in_words(&self, rule: u32) -> Option<String> {
        self.counts.words(rule)
    }
}

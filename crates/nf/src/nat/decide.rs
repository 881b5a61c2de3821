//! What becomes of a packet. Knows rules, flows and the direction; refuses to change either: what a packet
//! changes of flows is said, and done afterwards.
//!
//! What is due must have been forgotten before.

use super::Nat;
use super::end::{End, Flow};
use super::fragments::First;
use super::rules::Named;
use super::session::{Origin, Seen};
use super::sight::{Kind, Quoted, Sight};
use crate::outcome::DropCause;
use crate::packet::{Direction, Packet, Time};
use catena_rules::nat::FilteringBehaviour;
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;
use std::net::Ipv4Addr;

/// How an end of a packet is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) address: Ipv4Addr,
    /// Its port, or the identifier of a query; none: it stays.
    pub(super) port: Option<u16>,
}

/// How a packet is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Translation {
    pub(super) source: Option<Written>,
    pub(super) destination: Option<Written>,
    /// Of an error: the ends of the packet that it is about.
    pub(super) quoted: Option<(Option<Written>, Option<Written>)>,
    /// Does it go back to where it came from?
    pub(super) returns: bool,
}

/// What a packet makes of flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// This was seen of a flow.
    Goes(Flow, Seen),
    /// It begins, and has this outside endpoint.
    Begins(Flow, End, Seen),
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Decision {
    /// Why it ends; none: it goes on, or goes back.
    pub(super) drop: Option<DropCause>,
    pub(super) translation: Translation,
    /// The rules that it meets: that of its source, that of its destination, and one that ends it.
    pub(super) rules: [Option<u32>; 3],
    pub(super) changes: [Option<Change>; 2],
    /// What is to be remembered for the fragments behind it.
    pub(super) noted: Option<First>,
}

/// An end, translated.
#[derive(Clone, Copy, Debug)]
struct Found {
    end: End,
    /// Does its port count?
    has_port: bool,
    rule: Option<u32>,
    change: Option<Change>,
}

impl Found {
    fn written(&self) -> Written {
        Written { address: self.end.address, port: self.has_port.then_some(self.end.port) }
    }
}

/// What is found of an end.
type Finding = Result<Option<Found>, DropCause>;

impl Nat {
    pub(super) fn decide(&self, now: Time, direction: Direction, packet: &Packet<'_>) -> Decision {
        let Some(sight) = Sight::of(packet, direction) else {
            let is_v6 = packet.view.network == catena_wire::frame::Network::Ipv6;
            return if is_v6 && self.rules.blocks_ipv6 {
                self.refuse(Named::Ipv6)
            } else {
                Decision::default()
            };
        };
        let decided = match sight.kind {
            Kind::Later => self.follow(now, &sight),
            Kind::Error => self.error(packet, &sight),
            _ if direction == Direction::Forward => self.outward(&sight),
            _ => self.inward(&sight),
        };
        let mut decision = decided.unwrap_or_else(|cause| self.ended(cause));
        if sight.is_first_fragment && decision.drop.is_none() && self.may_have_followers(&sight) {
            let Translation { source, destination, returns, .. } = decision.translation;
            decision.noted = Some(First {
                source: source.map(|one| one.address),
                destination: destination.map(|one| one.address),
                returns,
                rule: decision.rules.into_iter().flatten().next(),
            });
        }
        if decision.translation.returns && decision.drop.is_none() {
            decision.rules[2] = Some(self.rules.named(Named::Hairpin));
        }
        decision
    }

    fn refuse(&self, named: Named) -> Decision {
        self.ended(self.cause(named))
    }

    fn ended(&self, cause: DropCause) -> Decision {
        let rule = match cause {
            DropCause::Rule(rule) => Some(rule),
            DropCause::Full => None,
        };
        Decision { drop: Some(cause), rules: [None, None, rule], ..Decision::default() }
    }

    fn cause(&self, named: Named) -> DropCause {
        DropCause::Rule(self.rules.named(named))
    }

    /// A packet from inside.
    fn outward(&self, sight: &Sight) -> Result<Decision, DropCause> {
        let source = self.outside_of(sight)?;
        let mut decision = Decision::default();
        let mut from = sight.ends.source;
        if let Some(found) = &source {
            from = found.end;
            decision.translation.source = Some(found.written());
            decision.rules[0] = found.rule;
            decision.changes[0] = found.change;
        }
        if self.rules.is_outside(sight.destination()) {
            let found =
                self.inside_of(sight.kind, sight.ends.destination, (from.address, from.port))?;
            decision.translation.destination = Some(found.written());
            decision.translation.returns = true;
            decision.rules[1] = found.rule.filter(|rule| Some(*rule) != decision.rules[0]);
            decision.changes[1] = found.change;
        }
        Ok(decision)
    }

    /// A packet from outside.
    fn inward(&self, sight: &Sight) -> Result<Decision, DropCause> {
        if !self.rules.is_outside(sight.destination()) {
            return if self.rules.is_inside(sight.destination()) {
                Err(self.cause(Named::NoMapping))
            } else {
                Ok(Decision::default())
            };
        }
        let remote = (sight.ends.source.address, sight.ends.source.port);
        let found = self.inside_of(sight.kind, sight.ends.destination, remote)?;
        Ok(Decision {
            translation: Translation {
                destination: Some(found.written()),
                ..Translation::default()
            },
            rules: [found.rule, None, None],
            changes: [found.change, None],
            ..Decision::default()
        })
    }

    /// The outside endpoint of a packet's source; none: its source stays.
    fn outside_of(&self, sight: &Sight) -> Finding {
        let inside = sight.ends.source;
        if let Some(found) = self.fixed_outside(&inside) {
            return Ok(Some(found));
        }
        let Some(source) = self.rules.source_of(inside.address) else { return Ok(None) };
        let rule = Some(source.rule);
        let (flags, may_begin) = match sight.kind {
            Kind::Tcp(flags) => {
                let is_asking = flags.has_any(TcpFlags::SYN)
                    && !flags.has_any(TcpFlags::ACK.with(TcpFlags::RST));
                (flags, is_asking)
            }
            Kind::Udp | Kind::Query => (TcpFlags::default(), true),
            Kind::Reply => (TcpFlags::default(), false),
            Kind::Other if inside.protocol == IpProtocol::ICMP => {
                return Err(self.cause(Named::NoMapping));
            }
            Kind::Other | Kind::Error | Kind::Later => return Err(self.cause(Named::Protocol)),
        };
        let flow = Flow { inside, remote: self.told_apart(inside.protocol, sight.remote()) };
        let known = self.flows.mapping(&inside);
        let found = |end, change| Found { end, has_port: true, rule, change };
        if let Some(end) = known {
            if let Some(seen) = self.flows.session(&flow) {
                let seen = seen.after(flags, Origin::Inside);
                return Ok(Some(found(end, Some(Change::Goes(flow, seen)))));
            }
            // What answers a connection from outside that was let in, and does not open it, is no flow of ours.
            let is_silent = match sight.kind {
                Kind::Tcp(flags) => !flags.has_any(TcpFlags::SYN) || flags.has_any(TcpFlags::RST),
                kind => kind == Kind::Reply,
            };
            if is_silent {
                return Ok(Some(found(end, None)));
            }
        } else if !may_begin {
            return Err(self.cause(Named::NoMapping));
        }
        self.has_room_for(&flow)?;
        let end = match known {
            Some(end) => end,
            None => self.choose(&inside).ok_or_else(|| self.cause(Named::NoPort))?,
        };
        Ok(Some(found(end, Some(Change::Begins(flow, end, Seen::begun(flags))))))
    }

    fn has_room_for(&self, flow: &Flow) -> Result<(), DropCause> {
        let host = flow.inside.address;
        if self.rules.flows_per_host.is_some_and(|most| self.flows.of_host(host) >= most) {
            return Err(self.cause(Named::HostFull));
        }
        if self.flows.is_full() { Err(DropCause::Full) } else { Ok(()) }
    }

    /// The outside endpoint that an inside one gets: of the address that its host has, the same port, if it may be
    /// had, or one that the endpoint's own number says.
    fn choose(&self, inside: &End) -> Option<End> {
        let source = self.rules.source_of(inside.address)?;
        let (place, range) = self.rules.room_of(source, inside.address)?;
        let address = *self.rules.shared.get(place)?;
        let ports = self.flows.ports();
        let is_kept =
            range.contains(inside.port) && ports.is_free(place, inside.protocol, inside.port);
        let port = if is_kept {
            inside.port
        } else {
            let start = self.start(inside, range);
            ports.find(place, inside.protocol, range, start)?
        };
        Some(End { protocol: inside.protocol, address, port })
    }

    /// Whom a flow is with, as far as that is told apart: of TCP each connection is one.
    pub(super) fn told_apart(
        &self,
        protocol: IpProtocol,
        (address, port): (Ipv4Addr, u16),
    ) -> (Ipv4Addr, u16) {
        if protocol == IpProtocol::TCP {
            return (address, port);
        }
        // The identifier of a query says nothing of whom it is for.
        let port = if protocol == IpProtocol::ICMP { 0 } else { port };
        match self.rules.filtering {
            FilteringBehaviour::EndpointIndependent => (Ipv4Addr::UNSPECIFIED, 0),
            FilteringBehaviour::AddressDependent => (address, 0),
            FilteringBehaviour::AddressAndPortDependent => (address, port),
        }
    }

    /// The outside endpoint of an inside one, which no flow changes.
    fn fixed_outside(&self, inside: &End) -> Option<Found> {
        let own = self.rules.static_outside(inside.address).map(|(address, rule)| Found {
            end: End { address, ..*inside },
            has_port: false,
            rule: Some(rule),
            change: None,
        });
        own.or_else(|| {
            let (end, rule) = self.rules.forwarded_outside(inside)?;
            Some(Found { end, has_port: true, rule: Some(rule), change: None })
        })
    }

    /// The same the other way.
    fn fixed_inside(&self, outside: &End) -> Option<Found> {
        let own = self.rules.static_inside(outside.address).map(|(address, rule)| Found {
            end: End { address, ..*outside },
            has_port: false,
            rule: Some(rule),
            change: None,
        });
        own.or_else(|| {
            let (end, rule) = self.rules.forwarded_inside(outside)?;
            Some(Found { end, has_port: true, rule: Some(rule), change: None })
        })
    }

    /// The inside endpoint of an outside one that a packet of someone remote is for.
    fn inside_of(
        &self,
        kind: Kind,
        outside: End,
        remote: (Ipv4Addr, u16),
    ) -> Result<Found, DropCause> {
        if let Some(found) = self.fixed_inside(&outside) {
            return Ok(found);
        }
        let no_mapping = || self.cause(Named::NoMapping);
        // What asks a host inside by ICMP is for nobody: its identifier is that of another who asks.
        if matches!(kind, Kind::Query | Kind::Other) {
            return Err(no_mapping());
        }
        let end = self.flows.inside(&outside).ok_or_else(no_mapping)?;
        if !self.lets_in(end, remote) {
            return Err(self.cause(Named::Filtered));
        }
        let flow = Flow { inside: end, remote };
        let change = match kind {
            Kind::Tcp(flags) => self
                .flows
                .session(&flow)
                .map(|seen| Change::Goes(flow, seen.after(flags, Origin::Outside))),
            // What comes from outside keeps no mapping alive (RFC 4787 REQ-6).
            _ => None,
        };
        let rule = self.rules.source_of(end.address).map(|source| source.rule);
        Ok(Found { end, has_port: true, rule, change })
    }

    /// May someone remote send to this inside endpoint?
    fn lets_in(&self, inside: End, remote: (Ipv4Addr, u16)) -> bool {
        let is_tcp = inside.protocol == IpProtocol::TCP;
        match self.rules.filtering {
            FilteringBehaviour::EndpointIndependent => true,
            FilteringBehaviour::AddressDependent if is_tcp => {
                self.flows.has_contact(inside, remote.0)
            }
            _ => {
                let remote = self.told_apart(inside.protocol, remote);
                self.flows.session(&Flow { inside, remote }).is_some()
            }
        }
    }

    /// An error about a packet of a flow. It changes no flow (RFC 5508 section 4: from outside REQ-4, from inside
    /// REQ-5, back inside REQ-7; REQ-6).
    fn error(&self, packet: &Packet<'_>, sight: &Sight) -> Result<Decision, DropCause> {
        let from_inside = sight.whole.direction == Direction::Forward;
        let to_outside = self.rules.is_outside(sight.destination());
        let concerned = if from_inside {
            self.rules.is_inside(sight.source()) || to_outside
        } else {
            to_outside || self.rules.is_inside(sight.destination())
        };
        // What nobody can read is translated for nobody.
        let unknown = || {
            if concerned { Err(self.cause(Named::NoMapping)) } else { Ok(Decision::default()) }
        };
        let Some(quoted) = Quoted::of(packet) else { return unknown() };
        if concerned && !quoted.is_sound(packet) {
            return Err(self.cause(Named::Damaged));
        }
        let mut decision = Decision::default();
        if from_inside {
            // It is about a packet that came in.
            let about = quoted.ends.destination;
            let Some(found) = self.known_outside(&about) else { return unknown() };
            let own = self.rules.static_outside(sight.source()).map(|(address, _)| address);
            let source = Written { address: own.unwrap_or(found.end.address), port: None };
            decision.translation.source = Some(source);
            decision.translation.quoted = Some((None, Some(found.written())));
            decision.rules[0] = found.rule;
            if to_outside {
                let to = self.quoted_inside(
                    sight,
                    quoted.ends.source,
                    (found.end.address, found.end.port),
                )?;
                decision.translation.destination = Some(Written { port: None, ..to.written() });
                decision.translation.quoted = Some((Some(to.written()), Some(found.written())));
                decision.translation.returns = true;
            }
            return Ok(decision);
        }
        if !to_outside {
            return unknown();
        }
        let remote = (quoted.ends.destination.address, quoted.ends.destination.port);
        let found = self.quoted_inside(sight, quoted.ends.source, remote)?;
        decision.translation.destination = Some(Written { port: None, ..found.written() });
        decision.translation.quoted = Some((Some(found.written()), None));
        decision.rules[0] = found.rule;
        Ok(decision)
    }

    /// The outside endpoint that an inside one has.
    fn known_outside(&self, inside: &End) -> Option<Found> {
        self.fixed_outside(inside).or_else(|| {
            let end = self.flows.mapping(inside)?;
            let rule = self.rules.source_of(inside.address).map(|source| source.rule);
            Some(Found { end, has_port: true, rule, change: None })
        })
    }

    /// Who inside has sent what an error is about, which must be for that host.
    fn quoted_inside(
        &self,
        sight: &Sight,
        outside: End,
        remote: (Ipv4Addr, u16),
    ) -> Result<Found, DropCause> {
        if outside.address != sight.destination() {
            return Err(self.cause(Named::NoMapping));
        }
        // As its sender is known by what it has sent, it is asked as an answer is.
        let found = self.inside_of(Kind::Reply, outside, remote)?;
        Ok(Found { change: None, ..found })
    }

    /// A fragment behind the first.
    fn follow(&self, now: Time, sight: &Sight) -> Result<Decision, DropCause> {
        let written = |address| Written { address, port: None };
        let is_outward = sight.whole.direction == Direction::Forward;
        let to_outside = self.rules.is_outside(sight.destination());
        if !self.may_have_followers(sight) {
            return Ok(Decision::default());
        }
        let mut decision = Decision::default();
        if is_outward && !to_outside {
            if let Some((address, rule)) = self.rules.static_outside(sight.source()) {
                decision.translation.source = Some(written(address));
                decision.rules[0] = Some(rule);
                return Ok(decision);
            }
        } else if !is_outward
            && let Some((address, rule)) = self.rules.static_inside(sight.destination())
        {
            decision.translation.destination = Some(written(address));
            decision.rules[0] = Some(rule);
            return Ok(decision);
        }
        let first = self.fragments.find(now, &sight.whole);
        let first = first.ok_or_else(|| self.cause(Named::Fragment))?;
        decision.translation = Translation {
            source: first.source.map(written),
            destination: first.destination.map(written),
            quoted: None,
            returns: first.returns,
        };
        decision.rules[0] = first.rule;
        Ok(decision)
    }

    /// Is it such a packet that what its first fragment shows decides over the fragments behind it?
    fn may_have_followers(&self, sight: &Sight) -> bool {
        match sight.whole.direction {
            Direction::Forward => {
                self.rules.may_be_translated(sight.source())
                    || self.rules.is_outside(sight.destination())
            }
            Direction::Backward => {
                self.rules.is_outside(sight.destination())
                    || self.rules.is_inside(sight.destination())
            }
        }
    }
}

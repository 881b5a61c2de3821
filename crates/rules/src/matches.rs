//! What a class, a rule between groups or a selector asks of packets, as it is written, made into rows of conditions.
//! Knows that addresses of IPv4 and of IPv6 never meet; refuses to know what follows.

use crate::condition::{Condition, Range, Subject, Test};
use crate::options::Side;
use crate::scalars::{Dscp, Listed, ProtocolNumber, Word};
use catena_wire::field::Field;
use catena_wire::scalar::{IpProtocol, PortRange};
use ipnet::IpNet;
use serde::Deserialize;
use std::net::Ipv6Addr;

/// A match as it is written: a packet must meet each key that is there, by one of its values. Its ends are prefixes, or
/// what stands for them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, bound(deserialize = "N: Word"))]
pub(crate) struct MatchText<N = IpNet> {
    version: Option<u8>,
    direction: Option<DirectionWord>,
    source: Option<Listed<N>>,
    destination: Option<Listed<N>>,
    protocol: Option<Listed<ProtocolNumber>>,
    source_port: Option<Listed<PortRange>>,
    destination_port: Option<Listed<PortRange>>,
    dscp: Option<Listed<Dscp>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum DirectionWord {
    Forward,
    Backward,
}

impl<N> MatchText<N> {
    /// The same with prefixes in the place of what stands for them.
    pub(crate) fn resolved(
        self,
        nets: impl Fn(&N) -> Result<Vec<IpNet>, String>,
    ) -> Result<MatchText, String> {
        let all = |ends: Option<Listed<N>>| {
            let Some(Listed(ends)) = ends else { return Ok(None) };
            let nets: Result<Vec<Vec<IpNet>>, String> = ends.iter().map(&nets).collect();
            nets.map(|nets| Some(Listed(nets.concat())))
        };
        let Self { version, direction, protocol, source_port, destination_port, dscp, .. } = self;
        let (source, destination) = (all(self.source)?, all(self.destination)?);
        Ok(MatchText {
            version,
            direction,
            source,
            destination,
            protocol,
            source_port,
            destination_port,
            dscp,
        })
    }
}

impl MatchText {
    /// A row for each version of IP whose packets can meet it; one for both where it asks for no addresses.
    pub(crate) fn rows(self) -> Result<Vec<Vec<Condition>>, String> {
        let of_both = self.of_both()?;
        let asked = [
            (Field::Source, self.source.as_ref()),
            (Field::Destination, self.destination.as_ref()),
        ];
        let asked: Vec<_> =
            asked.into_iter().filter_map(|(field, nets)| Some((field, &nets?.0))).collect();
        let version = match self.version {
            None => None,
            Some(version @ (4 | 6)) => Some(version),
            Some(other) => return Err(format!("there is no IP version {other}; say 4 or 6")),
        };
        if asked.is_empty() {
            let own = version.map(of_version);
            return Ok(vec![own.into_iter().chain(of_both).collect()]);
        }
        let mut rows = Vec::new();
        for one in [4, 6].into_iter().filter(|one| version.is_none_or(|version| version == *one)) {
            let mut row = vec![of_version(one)];
            row.extend(asked.iter().filter_map(|(field, nets)| of_nets(*field, nets, one)));
            // Each field that is asked for has addresses of this version.
            if row.len() == 1 + asked.len() {
                row.extend_from_slice(&of_both);
                rows.push(row);
            }
        }
        if rows.is_empty() {
            return Err(
                "no packet meets a match, as its addresses and 'version' are of different \
                        versions of IP"
                    .to_owned(),
            );
        }
        Ok(rows)
    }

    /// What it asks of packets of both versions.
    fn of_both(&self) -> Result<Vec<Condition>, String> {
        let mut conditions = Vec::new();
        if let Some(direction) = self.direction {
            let side = match direction {
                DirectionWord::Forward => Side::In,
                DirectionWord::Backward => Side::Out,
            };
            let test = Test::equals(side.number());
            conditions.push(Condition::of(Subject::CameIn, test, false));
        }
        if let Some(protocols) = &self.protocol {
            self.check_ports(&protocols.0)?;
            let number = |protocol: &ProtocolNumber| Range::one(protocol.0.into());
            conditions.push(among(Field::Protocol, protocols.0.iter().map(number)));
        }
        let ports = [
            (Field::SourcePort, &self.source_port),
            (Field::DestinationPort, &self.destination_port),
        ];
        for (field, ranges) in ports {
            let Some(ranges) = ranges else { continue };
            let range =
                |&ports: &PortRange| Range { first: ports.min().into(), last: ports.max().into() };
            conditions.push(among(field, ranges.0.iter().map(range)));
        }
        if let Some(code_points) = &self.dscp {
            conditions.push(among(Field::Dscp, code_points.0.iter().map(|one| one.range())));
        }
        Ok(conditions)
    }

    /// Refuses ports of protocols that have none that can be asked for.
    fn check_ports(&self, protocols: &[ProtocolNumber]) -> Result<(), String> {
        let has_ports = |protocol: &ProtocolNumber| {
            [IpProtocol::TCP.0, IpProtocol::UDP.0].contains(&protocol.0)
        };
        let asks = self.source_port.is_some() || self.destination_port.is_some();
        match protocols.iter().find(|protocol| !has_ports(protocol)) {
            Some(other) if asks => Err(format!(
                "no packet of protocol {} meets a match, as ports are those of tcp and udp; take it \
                 or the ports out",
                other.0
            )),
            _ => Ok(()),
        }
    }
}

fn among(field: Field, ranges: impl Iterator<Item = Range>) -> Condition {
    Condition::of(Subject::Field(field), Test::among(ranges.collect()), false)
}

fn of_version(version: u8) -> Condition {
    Condition::of(Subject::Version, Test::equals(version.into()), false)
}

/// The prefixes of this version; none: there are none.
fn of_nets(field: Field, nets: &[IpNet], version: u8) -> Option<Condition> {
    let ranges: Vec<Range> = nets
        .iter()
        .filter_map(|net| match (net, version) {
            (IpNet::V4(net), 4) => {
                let [first, last] = [net.network(), net.broadcast()].map(|ip| ip.to_bits().into());
                Some(Range { first, last })
            }
            (IpNet::V6(net), 6) => {
                let [first, last] = [net.network(), net.broadcast()].map(Ipv6Addr::to_bits);
                Some(Range { first, last })
            }
            _ => None,
        })
        .collect();
    if ranges.is_empty() { None } else { Some(among(field, ranges.into_iter())) }
}

//! Questions and answers about flows (reactive set-up) as they travel. Knows what they must hold; refuses to know
//! what is made of them.

use crate::message;
use catena_model::id::PortId;
use catena_model::setup::{FlowAnswer, FlowAsked, FlowKey, FlowLeg, FlowTimes, IpProtocol};
use catena_model::topology::PortNumber;
use catena_model::{NodeName, PathId};
use std::net::IpAddr;
use uuid::Uuid;

/// Why a message is no question or answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// A field holds what it cannot.
    #[error("its field '{0}' cannot be read")]
    Field(&'static str),
}

/// Where a question comes from, and when it left: what an answer repeats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// The worker.
    pub worker: u32,
    /// By a clock of its data plane, in nanoseconds.
    pub sent_ns: u64,
}

/// A question as it travels.
#[must_use]
pub fn pack_asked(asked: &FlowAsked, asker: Asker) -> message::FlowAsked {
    let FlowAsked { sequence, port, path, flow } = asked;
    message::FlowAsked {
        sequence: *sequence,
        worker: asker.worker,
        sent_ns: asker.sent_ns,
        port: port.0.as_bytes().to_vec(),
        path: path.0,
        source: octets(flow.source),
        destination: octets(flow.destination),
        protocol: flow.protocol.0.into(),
        source_port: flow.source_port.into(),
        destination_port: flow.destination_port.into(),
    }
}

/// The question in a message.
///
/// # Errors
/// When a field holds what it cannot.
pub fn read_asked(packed: &message::FlowAsked) -> Result<FlowAsked, SetupError> {
    let number = |field, value: u32| u16::try_from(value).map_err(|_| SetupError::Field(field));
    let protocol = u8::try_from(packed.protocol).map_err(|_| SetupError::Field("protocol"))?;
    Ok(FlowAsked {
        sequence: packed.sequence,
        port: port("port", &packed.port)?,
        path: PathId(packed.path),
        flow: FlowKey {
            source: address("source", &packed.source)?,
            destination: address("destination", &packed.destination)?,
            protocol: IpProtocol(protocol),
            source_port: number("source_port", packed.source_port)?,
            destination_port: number("destination_port", packed.destination_port)?,
        },
    })
}

/// An answer as it travels, to a question of this asker.
#[must_use]
pub fn pack_answer(answer: &FlowAnswer, asker: Asker) -> message::FlowAnswer {
    let FlowAnswer { sequence, path, legs, times } = answer;
    let leg = |leg: &FlowLeg| message::FlowLeg {
        node: leg.node.to_string(),
        port: leg.to.0.as_bytes().to_vec(),
        ports: leg.ports.iter().map(|port| port.get()).collect(),
    };
    message::FlowAnswer {
        sequence: *sequence,
        worker: asker.worker,
        sent_ns: asker.sent_ns,
        path: path.0,
        legs: legs.iter().map(leg).collect(),
        header_ns: times.header,
        controller_ns: times.header.saturating_add(times.controller),
    }
}

/// The answer in a message that came at this time, by the asker's clock.
///
/// # Errors
/// When a field holds what it cannot.
pub fn read_answer(packed: &message::FlowAnswer, now_ns: u64) -> Result<FlowAnswer, SetupError> {
    let leg = |leg: &message::FlowLeg| {
        let numbers = leg.ports.iter().map(|port| PortNumber::new(*port));
        let ports = numbers.collect::<Option<Vec<_>>>().ok_or(SetupError::Field("ports"))?;
        let node = NodeName::new(&leg.node).map_err(|_| SetupError::Field("node"))?;
        Ok(FlowLeg { node, to: port("port", &leg.port)?, ports })
    };
    let whole = now_ns.saturating_sub(packed.sent_ns);
    Ok(FlowAnswer {
        sequence: packed.sequence,
        path: PathId(packed.path),
        legs: packed.legs.iter().map(leg).collect::<Result<_, SetupError>>()?,
        times: FlowTimes {
            header: packed.header_ns,
            controller: packed.controller_ns.saturating_sub(packed.header_ns),
            channel: whole.saturating_sub(packed.controller_ns),
        },
    })
}

fn port(field: &'static str, bytes: &[u8]) -> Result<PortId, SetupError> {
    Uuid::from_slice(bytes).map(PortId).map_err(|_| SetupError::Field(field))
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn address(field: &'static str, bytes: &[u8]) -> Result<IpAddr, SetupError> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .map_err(|_| SetupError::Field(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Spoil = fn(&mut message::FlowAsked);

    fn asked(source: IpAddr, destination: IpAddr) -> FlowAsked {
        let protocol = IpProtocol::UDP;
        let flow = FlowKey { source, destination, protocol, source_port: 7, destination_port: 9 };
        FlowAsked { sequence: 5, port: PortId(Uuid::from_u128(1)), path: PathId(3), flow }
    }

    #[test]
    fn a_question_comes_out_as_it_went_in_and_one_that_lies_is_refused_by_its_field() {
        let pairs: [(IpAddr, IpAddr); 2] =
            [([10, 0, 0, 1].into(), [10, 0, 0, 2].into()), ([1_u16; 8].into(), [2_u16; 8].into())];
        let asker = Asker { worker: 2, sent_ns: 40 };
        for (source, destination) in pairs {
            let asked = asked(source, destination);
            let packed = pack_asked(&asked, asker);
            assert_eq!(read_asked(&packed), Ok(asked));
            let wrong: [(&str, Spoil); 6] = [
                ("port", |packed| packed.port.truncate(15)),
                ("source", |packed| packed.source.push(0)),
                ("destination", |packed| packed.destination.clear()),
                ("protocol", |packed| packed.protocol = 256),
                ("source_port", |packed| packed.source_port = 65_536),
                ("destination_port", |packed| packed.destination_port = u32::MAX),
            ];
            for (field, spoil) in wrong {
                let mut packed = packed.clone();
                spoil(&mut packed);
                assert_eq!(read_asked(&packed), Err(SetupError::Field(field)));
            }
        }
    }

    #[test]
    fn an_answer_tells_where_its_time_went_and_what_is_left_was_on_the_way() {
        let leg = FlowLeg {
            node: NodeName::new("host2").unwrap(),
            to: PortId(Uuid::from_u128(2)),
            ports: [3, 250].map(|port| PortNumber::new(port).unwrap()).into(),
        };
        let times = FlowTimes { header: 100, controller: 400, channel: 0 };
        let answer = FlowAnswer { sequence: 5, path: PathId(3), legs: vec![leg], times };
        let asker = Asker { worker: 2, sent_ns: 10_000 };
        let packed = pack_answer(&answer, asker);
        assert_eq!((packed.worker, packed.sent_ns), (2, 10_000));
        let came = read_answer(&packed, 12_500).unwrap();
        let times = FlowTimes { channel: 2_000, ..answer.times };
        assert_eq!(came, FlowAnswer { times, ..answer });
        let mut spoilt = packed.clone();
        spoilt.legs[0].ports.push(0);
        assert_eq!(read_answer(&spoilt, 0), Err(SetupError::Field("ports")), "0 is no port");
    }
}

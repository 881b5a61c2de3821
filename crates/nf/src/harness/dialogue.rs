//! Hosts that talk to one another: connections with beginning, data, answers and end, what goes wrong in
//! them, and errors about their packets. Knows what hosts send; refuses to know what becomes of it.

use super::traffic::{Random, Shape};
use crate::packet::Direction;
use catena_wire::field::{Field, UpperChecksum};
use catena_wire::frame::FrameView;
use catena_wire::icmp::error_message::{ErrorMessage, FRAME_BYTES_MAX, Said};
use catena_wire::scalar::IpProtocol;
use catena_wire::tcp::TcpFlags;

/// One of so many packets goes wrong.
const ODD: usize = 10;
const SYN_ACK: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);
const FIN_ACK: TcpFlags = TcpFlags::FIN.with(TcpFlags::ACK);
const RST_ACK: TcpFlags = TcpFlags::RST.with(TcpFlags::ACK);
/// Options of a SYN: MSS, selective acknowledgments, scaled windows.
const OPTIONS: [&[u8]; 3] =
    [&[], &[2, 4, 5, 180, 4, 2, 1, 1], &[2, 4, 5, 180, 4, 2, 1, 3, 3, 7, 0, 0]];

/// Two hosts that talk.
#[derive(Clone, Debug)]
pub(super) struct Dialogue {
    /// A packet from the first to the second.
    shape: Shape,
    /// Which way the first one's packets go.
    first: Direction,
    /// What either will send next, and has acknowledged.
    numbers: [(u32, u32); 2],
    said: usize,
    /// How many packets it has before it ends.
    length: usize,
    last: Option<(Vec<u8>, Direction)>,
}

impl Dialogue {
    pub(super) fn begin(random: &mut Random) -> Self {
        let mut shape = Shape::draw(random);
        shape.is_later_fragment = false;
        shape.options.clear();
        let icmp = if shape.ends.0.is_ipv4() { IpProtocol::ICMP } else { IpProtocol::ICMPV6 };
        let protocols = [IpProtocol::TCP, IpProtocol::TCP, IpProtocol::TCP, IpProtocol::UDP, icmp];
        let has_ports = matches!(shape.protocol, IpProtocol::TCP | IpProtocol::UDP);
        shape.protocol = random.pick(&protocols).unwrap_or(icmp);
        if !has_ports {
            shape.ports = (40_000 + random.below(64) as u16, 80);
        }
        let is_forward = random.below(3) > 0;
        Self {
            shape,
            first: if is_forward { Direction::Forward } else { Direction::Backward },
            numbers: [(random.number() as u32, 0), (random.number() as u32, 0)],
            said: 0,
            length: 4 + random.below(24),
            last: None,
        }
    }

    /// The next packet, and which way it goes; none: they have nothing more to say.
    pub(super) fn next(&mut self, random: &mut Random) -> Option<(Vec<u8>, Direction)> {
        if self.said >= self.length {
            return None;
        }
        if self.last.is_some() && random.below(ODD) == 0 {
            return self.odd(random);
        }
        let packet = match self.shape.protocol {
            IpProtocol::TCP => self.segment(random),
            IpProtocol::UDP => {
                let is_answer = self.said > 0 && random.below(2) == 0;
                self.datagram(is_answer, random)
            }
            _ => self.ping(self.said % 2 == 1),
        };
        self.said += 1;
        self.last.clone_from(&packet);
        packet
    }

    /// What goes wrong: an error about the last packet, the last packet again, or one that nobody expects.
    fn odd(&mut self, random: &mut Random) -> Option<(Vec<u8>, Direction)> {
        let (frame, direction) = self.last.clone()?;
        match random.below(4) {
            0 | 1 => {
                let is_v4 = self.shape.ends.0.is_ipv4();
                let said = if is_v4 { Said::unreachable_v4(1) } else { Said::unreachable_v6(3) };
                let mut error = vec![0; FRAME_BYTES_MAX];
                let written = ErrorMessage::judge(&frame)
                    .and_then(|message| message.emit(said, self.shape.macs, &mut error));
                match written {
                    Some(length) => {
                        error.truncate(length);
                        Some((error, direction.reversed()))
                    }
                    None => Some((frame, direction)),
                }
            }
            2 if self.shape.protocol == IpProtocol::TCP => {
                let kinds = [TcpFlags::RST, TcpFlags::SYN, TcpFlags::ACK, FIN_ACK];
                let flags = random.pick(&kinds)?;
                let apart = random.pick(&[0, 1, 90_000, 0x8000_0000_u32])?;
                let is_answer = random.below(2) == 0;
                self.tcp(is_answer, flags, apart, 0)
            }
            _ => Some((frame, direction)),
        }
    }

    fn segment(&mut self, random: &mut Random) -> Option<(Vec<u8>, Direction)> {
        self.shape.options.clear();
        match (self.said, self.length - self.said) {
            (0, _) => {
                self.shape.options = random.pick(&OPTIONS)?.to_vec();
                self.tcp(false, TcpFlags::SYN, 0, 0)
            }
            (1, _) => {
                self.shape.options = random.pick(&OPTIONS)?.to_vec();
                self.tcp(true, SYN_ACK, 0, 0)
            }
            (2, _) => self.tcp(false, TcpFlags::ACK, 0, 0),
            (_, 3) => self.tcp(self.length.is_multiple_of(2), FIN_ACK, 0, 0),
            (_, 2) => self.tcp(!self.length.is_multiple_of(2), FIN_ACK, 0, 0),
            (_, 1) if random.below(3) == 0 => {
                self.tcp(self.length.is_multiple_of(2), RST_ACK, 0, 0)
            }
            (_, 1) => self.tcp(self.length.is_multiple_of(2), TcpFlags::ACK, 0, 0),
            _ => {
                let bytes = random.pick(&[0, 1, 100, 1_200])?;
                let is_answer = random.below(2) == 0;
                self.tcp(is_answer, TcpFlags::ACK.with(TcpFlags::PSH), 0, bytes)
            }
        }
    }

    /// A segment whose numbers are so far from those that fit.
    fn tcp(
        &mut self,
        is_answer: bool,
        flags: TcpFlags,
        apart: u32,
        bytes: usize,
    ) -> Option<(Vec<u8>, Direction)> {
        let (own, other) = if is_answer { (1, 0) } else { (0, 1) };
        let expected = self.numbers.get(other)?.0;
        let (sequence, acknowledged) = self.numbers.get_mut(own)?;
        *acknowledged = expected;
        let number = sequence.wrapping_add(apart);
        if apart == 0 {
            let has = |flag: TcpFlags| u32::from(flags.0 & flag.0 != 0);
            let length = bytes as u32 + has(TcpFlags::SYN) + has(TcpFlags::FIN);
            *sequence = sequence.wrapping_add(length);
        }
        self.shape.flags = flags;
        self.shape.payload = vec![7; bytes];
        let (mut frame, direction) = self.datagram_of(is_answer)?;
        let view = FrameView::parse(&frame).ok()?;
        let has_ack = flags.0 & TcpFlags::ACK.0 != 0;
        let ack = if has_ack { expected } else { 0 };
        for (field, value) in [(Field::Sequence, number), (Field::Acknowledgment, ack)] {
            let bits = (value.into(), field.all());
            field.write(&mut frame, &view, bits, UpperChecksum::Closed).ok()?;
        }
        Some((frame, direction))
    }

    fn datagram(&mut self, is_answer: bool, random: &mut Random) -> Option<(Vec<u8>, Direction)> {
        self.shape.payload = vec![9; random.pick(&[0, 20, 600])?];
        self.datagram_of(is_answer)
    }

    fn ping(&mut self, is_answer: bool) -> Option<(Vec<u8>, Direction)> {
        let [ask, answer] = if self.shape.ends.0.is_ipv4() { [8, 0] } else { [128, 129] };
        self.shape.ports = (if is_answer { answer } else { ask }, 0);
        self.datagram_of(is_answer)
    }

    fn datagram_of(&self, is_answer: bool) -> Option<(Vec<u8>, Direction)> {
        if !is_answer {
            return Some((self.shape.frame()?, self.first));
        }
        let mut shape = self.shape.clone();
        shape.ends = (shape.ends.1, shape.ends.0);
        if matches!(shape.protocol, IpProtocol::TCP | IpProtocol::UDP) {
            shape.ports = (shape.ports.1, shape.ports.0);
        }
        Some((shape.frame()?, self.first.reversed()))
    }
}

//! Which state of TCP follows which, as Linux has it (net/netfilter/nf_conntrack_proto_tcp.c, 6.18). Knows
//! kinds of segments by their flags; refuses to know numbers.

use super::super::key::Way;
use catena_wire::tcp::TcpFlags;

/// What has been seen of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum State {
    /// Nothing.
    None,
    SynSent,
    SynReceived,
    Established,
    FinWait,
    CloseWait,
    LastAck,
    TimeWait,
    Close,
    /// A SYN from either side.
    SynSent2,
}

impl State {
    pub(crate) const ALL: [Self; 10] = [
        Self::None,
        Self::SynSent,
        Self::SynReceived,
        Self::Established,
        Self::FinWait,
        Self::CloseWait,
        Self::LastAck,
        Self::TimeWait,
        Self::Close,
        Self::SynSent2,
    ];

    /// Has a side closed it, or reset it?
    pub(super) const fn is_closing(self) -> bool {
        matches!(
            self,
            Self::FinWait | Self::CloseWait | Self::LastAck | Self::TimeWait | Self::Close
        )
    }
}

/// What a segment is for, by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Syn,
    SynAck,
    Fin,
    Ack,
    Reset,
    None,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Syn, Self::SynAck, Self::Fin, Self::Ack, Self::Reset, Self::None];

    pub(super) fn of(flags: TcpFlags) -> Self {
        let has = |flag: TcpFlags| flags.0 & flag.0 != 0;
        if has(TcpFlags::RST) {
            Self::Reset
        } else if has(TcpFlags::SYN) {
            if has(TcpFlags::ACK) { Self::SynAck } else { Self::Syn }
        } else if has(TcpFlags::FIN) {
            Self::Fin
        } else if has(TcpFlags::ACK) {
            Self::Ack
        } else {
            Self::None
        }
    }
}

/// Can a segment have these flags? PSH, ECE and CWR may stand with any.
pub(super) fn are_possible(flags: TcpFlags) -> bool {
    const FIN_ACK: TcpFlags = TcpFlags::FIN.with(TcpFlags::ACK);
    const SYN_ACK: TcpFlags = TcpFlags::SYN.with(TcpFlags::ACK);
    const RST_ACK: TcpFlags = TcpFlags::RST.with(TcpFlags::ACK);
    let counted = flags.without(TcpFlags::PSH).without(TcpFlags::ECE).without(TcpFlags::CWR);
    matches!(counted, TcpFlags::RST | RST_ACK | SYN_ACK)
        || matches!(counted.without(TcpFlags::URG), TcpFlags::SYN | TcpFlags::ACK | FIN_ACK)
}

/// What comes of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// This state, if its numbers are those of the connection.
    To(State),
    /// No other state: maybe the ends know better than whoever looks on.
    Stay,
    /// It is none of the connection.
    Never,
}

/// What comes of a segment of this kind, going this way, in this state.
pub(crate) const fn step(way: Way, kind: Kind, state: State) -> Step {
    STEPS[way as usize][kind as usize][state as usize]
}

const NO: Step = Step::Never;
const __: Step = Step::Stay;
const SS: Step = Step::To(State::SynSent);
const SR: Step = Step::To(State::SynReceived);
const ES: Step = Step::To(State::Established);
const FW: Step = Step::To(State::FinWait);
const CW: Step = Step::To(State::CloseWait);
const LA: Step = Step::To(State::LastAck);
const TW: Step = Step::To(State::TimeWait);
const CL: Step = Step::To(State::Close);
const S2: Step = Step::To(State::SynSent2);

/// By way, kind and state, in their orders.
const STEPS: [[[Step; 10]; 6]; 2] = [
    [
        [SS, SS, __, __, __, __, __, SS, SS, S2],
        [NO, NO, SR, NO, NO, NO, NO, NO, NO, SR],
        [NO, NO, FW, FW, LA, LA, LA, TW, CL, NO],
        [ES, NO, ES, ES, CW, CW, TW, TW, CL, NO],
        [NO, CL, CL, CL, CL, CL, CL, CL, CL, CL],
        [NO; 10],
    ],
    [
        [NO, S2, NO, NO, NO, NO, NO, SS, NO, S2],
        [NO, SR, __, __, __, __, __, __, __, SR],
        [NO, NO, FW, FW, LA, LA, LA, TW, CL, NO],
        [NO, __, SR, ES, CW, CW, TW, TW, CL, __],
        [NO, CL, CL, CL, CL, CL, CL, CL, CL, CL],
        [NO; 10],
    ],
];

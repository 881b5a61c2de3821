//! A connection of any protocol. Knows how long it is remembered; refuses to know others.

use super::TrackingConfig;
use super::key::Way;
use super::tcp::{Judged, Known, Segment, Tcp};
use crate::packet::{Packet, Time};
use catena_wire::flow::FlowKey;
use catena_wire::scalar::IpProtocol;

/// For so long a flow of UDP may be a single question with its answer (Linux,
/// net/netfilter/nf_conntrack_proto_udp.c).
const QUESTION: Time = Time::seconds(2);
const SECOND: u64 = Time::seconds(1).0;

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Connection {
    /// What its first packet was known by.
    pub(super) key: FlowKey,
    /// When it is forgotten.
    pub(super) expires: Time,
    /// Has it seen an answer?
    pub(super) has_reply: bool,
    /// Is it worth more than others, where there is no room?
    pub(super) is_assured: bool,
    pub(super) layer: Layer,
}

/// What its protocol knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layer {
    Tcp(Tcp),
    Udp {
        /// From then on it is more than a question.
        stream: Time,
    },
    Gre,
    Icmp,
    Other,
}

impl Connection {
    /// One that begins with this packet; none: none begins so.
    pub(super) fn open(
        key: FlowKey,
        packet: &Packet<'_>,
        now: Time,
        config: &TrackingConfig,
    ) -> Option<Self> {
        let layer = match key.protocol {
            IpProtocol::TCP => Layer::Tcp(Tcp::open(&Segment::read(packet)?, config.is_loose)?),
            IpProtocol::UDP => Layer::Udp { stream: Time(now.0.saturating_add(QUESTION.0)) },
            IpProtocol::GRE => Layer::Gre,
            IpProtocol::ICMP | IpProtocol::ICMPV6 => Layer::Icmp,
            _ => Layer::Other,
        };
        let mut new = Self { key, expires: now, has_reply: false, is_assured: false, layer };
        matches!(new.follow(packet, Way::Original, now, config), Judged::Belongs(_)).then_some(new)
    }

    /// What a packet makes of it.
    pub(super) fn follow(
        &mut self,
        packet: &Packet<'_>,
        way: Way,
        now: Time,
        config: &TrackingConfig,
    ) -> Judged {
        let timeouts = &config.timeouts;
        let judged = match &mut self.layer {
            Layer::Tcp(tcp) => {
                let Some(segment) = Segment::read(packet) else { return Judged::Invalid(None) };
                let mut known = Known {
                    has_reply: self.has_reply,
                    is_assured: &mut self.is_assured,
                    left_s: self.expires.since(now) / SECOND,
                };
                tcp.follow(&segment, way, &mut known, config)
            }
            Layer::Udp { stream } if self.has_reply && now > *stream => {
                self.is_assured = true;
                Judged::Belongs(Some(timeouts.udp_stream_s))
            }
            Layer::Udp { .. } => Judged::Belongs(Some(timeouts.udp_s)),
            Layer::Gre if self.has_reply => {
                self.is_assured = true;
                Judged::Belongs(Some(timeouts.gre_stream_s))
            }
            Layer::Gre => Judged::Belongs(Some(timeouts.gre_s)),
            Layer::Icmp => Judged::Belongs(Some(timeouts.icmp_s)),
            Layer::Other => Judged::Belongs(Some(timeouts.other_s)),
        };
        if let Judged::Belongs(Some(seconds)) | Judged::Invalid(Some(seconds)) = judged {
            self.live_on(seconds, now);
        }
        if matches!(judged, Judged::Belongs(_)) {
            self.has_reply |= way == Way::Reply;
        }
        judged
    }

    /// Ends it, as far as a reset ends it that was sent in its name.
    pub(super) fn close(&mut self, now: Time, config: &TrackingConfig) {
        if let Layer::Tcp(tcp) = &mut self.layer
            && let Some(seconds) = tcp.close(&config.timeouts)
        {
            self.live_on(seconds, now);
        }
    }

    pub(super) fn is_expired(&self, now: Time) -> bool {
        self.expires <= now
    }

    fn live_on(&mut self, seconds: u64, now: Time) {
        self.expires = Time(now.0.saturating_add(Time::seconds(seconds).0));
    }
}

//! How backends stand: what active checks found, what answers to clients showed (the words are those of Envoy's
//! outlier detection), and where frames to them go. Knows one backend at a time but for the share that may be
//! ejected; refuses to ask anybody.

use super::program::Program;
use super::session::Sign;
use crate::packet::{Direction, Packet, Time};
use catena_rules::balancer::{HealthConfig, PassiveConfig};
use catena_wire::ethernet;
use catena_wire::scalar::MacAddr;

/// The longest Ethernet header, bytes.
pub(super) const LINK_BYTES_MAX: usize =
    ethernet::HEADER_BYTES + ethernet::TAGS_MAX * ethernet::TAG_BYTES;

/// The Ethernet header of frames to a backend, tags included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Link {
    bytes: [u8; LINK_BYTES_MAX],
    length: u8,
}

impl Link {
    /// That of these bytes; none: they are too many or too few.
    pub(super) fn of(header: &[u8]) -> Option<Self> {
        let mut link = Self { length: u8::try_from(header.len()).ok()?, ..Self::default() };
        if header.len() < ethernet::HEADER_BYTES {
            return None;
        }
        link.bytes.get_mut(..header.len())?.copy_from_slice(header);
        Some(link)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }

    /// The same between other stations, where they are named.
    pub(super) fn between(mut self, to: Option<MacAddr>, from: Option<MacAddr>) -> Self {
        let (destination, rest) = self.bytes.split_at_mut(to.map_or(0, |mac| mac.0.len()));
        if let Some(to) = to {
            destination.copy_from_slice(&to.0);
        }
        let skipped = if to.is_some() { 0 } else { ethernet::ADDRESSES_BYTES / 2 };
        if let (Some(from), Some(source)) = (from, rest.get_mut(skipped..skipped + 6)) {
            source.copy_from_slice(&from.0);
        }
        self
    }

    /// What a packet shows: its own header forward, and turned round of one that comes back.
    fn seen(packet: &Packet<'_>, direction: Direction) -> Option<Self> {
        let view = &packet.view;
        if view.source.is_multicast() || view.destination.is_multicast() {
            return None;
        }
        let link = Self::of(packet.frame.get(..usize::from(view.l3_offset))?)?;
        Some(match direction {
            Direction::Forward => link,
            Direction::Backward => link.between(Some(view.source), Some(view.destination)),
        })
    }
}

/// How a backend stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// Checks have not found it dead.
    pub(super) is_up: bool,
    /// Checks in a row that say otherwise.
    pub(super) streak: u8,
    /// Connections in a row that it did not take.
    pub(super) failures: u16,
    /// Ejections in a row.
    pub(super) ejections: u16,
    pub(super) ejected_until: Time,
    pub(super) link: Option<Link>,
    /// That was learnt from what came back from it.
    pub(super) is_link_sure: bool,
    pub(super) is_dirty: bool,
}

/// That of a backend nothing is known of: it serves.
pub(super) const FRESH: Standing = Standing {
    is_up: true,
    streak: 0,
    failures: 0,
    ejections: 0,
    ejected_until: Time(0),
    link: None,
    is_link_sure: false,
    is_dirty: false,
};

impl Standing {
    pub(super) fn is_ejected(&self, now: Time) -> bool {
        now < self.ejected_until
    }

    /// Of it, what active checks and answers to clients have shown, or not.
    pub(super) fn only(mut self, checks: bool, judges: bool) -> Self {
        if !checks {
            (self.is_up, self.streak) = (FRESH.is_up, FRESH.streak);
            (self.link, self.is_link_sure) = (FRESH.link, FRESH.is_link_sure);
        }
        if !judges {
            (self.failures, self.ejections) = (FRESH.failures, FRESH.ejections);
            self.ejected_until = FRESH.ejected_until;
        }
        self
    }

    /// Counts what a check found. True: it is dead now, or back.
    pub(super) fn check(&mut self, is_good: bool, health: &HealthConfig) -> bool {
        let streak = if is_good == self.is_up { 0 } else { self.streak.saturating_add(1) };
        let wanted = if self.is_up { health.fall } else { health.rise };
        let turns = streak >= wanted && streak > 0;
        self.is_dirty |= streak != self.streak || turns;
        (self.streak, self.is_up) = if turns { (0, is_good) } else { (streak, self.is_up) };
        turns
    }

    /// Learns where frames to it go.
    pub(super) fn learn(&mut self, packet: &Packet<'_>, direction: Direction) {
        let is_sure = direction == Direction::Backward;
        if self.is_link_sure && !is_sure {
            return;
        }
        let seen = Link::seen(packet, direction);
        if seen.is_some() && (seen, is_sure) != (self.link, self.is_link_sure) {
            (self.link, self.is_link_sure, self.is_dirty) = (seen, is_sure, true);
        }
    }
}

/// Counts what a client's connection showed of a backend.
pub(super) fn judge(
    standings: &mut [Standing],
    program: &Program,
    (backend, sign): (usize, Sign),
    now: Time,
) {
    let Some(service) = program.service(backend) else { return };
    let Some(passive) = &service.config.passive else { return };
    let backends = service.config.backends.len();
    let own = standings.get(service.first..service.first + backends).unwrap_or_default();
    let ejected = own.iter().filter(|one| one.is_ejected(now)).count();
    let may_eject = (ejected + 1) * 100 <= backends * usize::from(passive.max_ejection_percent);
    let Some(standing) = standings.get_mut(backend) else { return };
    let before = *standing;
    let is_ejected = standing.is_ejected(now);
    match sign {
        Sign::Answered => {
            standing.failures = 0;
            if !is_ejected {
                standing.ejections = 0;
            }
        }
        Sign::Failed if is_ejected => {}
        Sign::Failed => {
            standing.failures = standing.failures.saturating_add(1);
            if standing.failures >= passive.consecutive_failures && may_eject {
                eject(standing, passive, now);
            }
        }
    }
    standing.is_dirty |= *standing != before;
}

fn eject(standing: &mut Standing, passive: &PassiveConfig, now: Time) {
    const MILLISECOND: u64 = 1_000_000;
    standing.failures = 0;
    standing.ejections = standing.ejections.saturating_add(1);
    let long = u64::from(passive.base_ejection_ms).saturating_mul(standing.ejections.into());
    let milliseconds = long.min(passive.max_ejection_ms.into());
    standing.ejected_until = Time(now.0.saturating_add(milliseconds * MILLISECOND));
}

//! Records on their way to collectors. Knows when messages of IPFIX are due; refuses to know where they go.

use super::Moment;
use crate::outcome::HandedOutKind;
use crate::packet::Time;
use catena_wire::ipfix::{self, FlowRecord, MessageHeader, TEMPLATES_BYTES};

/// Bytes of a message at most: with headers of IPv6 and UDP it fits any path.
const MESSAGE_BYTES_MAX: usize = 1_400;
/// Records of a message at most: those of IPv4.
const RECORDS_MAX: usize = MESSAGE_BYTES_MAX / ipfix::RECORD_V4_BYTES;
/// How long a record waits for others.
const WAIT: Time = Time::seconds(1);
/// How long collectors that are new, or have missed them, wait for the templates.
const TEMPLATES_EVERY: Time = Time::seconds(60);

#[derive(Clone, Debug)]
pub(super) struct Collector {
    domain: u32,
    epoch_seconds: u64,
    /// Records that were handed out.
    pub(super) sequence: u32,
    /// When the templates were last.
    pub(super) templates_at: Option<Time>,
    waiting: Vec<FlowRecord>,
    /// How many of these are of IPv6.
    waiting_v6: usize,
    /// Since when the first of them waits.
    pub(super) since: Time,
}

impl Collector {
    pub(super) fn new(domain: u32, epoch_seconds: u64) -> Self {
        Self {
            domain,
            epoch_seconds,
            sequence: 0,
            templates_at: None,
            waiting: Vec::with_capacity(RECORDS_MAX),
            waiting_v6: 0,
            since: Time::default(),
        }
    }

    fn header(&self, now: Time) -> MessageHeader {
        // Seconds since 1970 are counted modulo 2^32 (RFC 7011 section 3.1).
        let export_seconds = self.epoch_seconds.wrapping_add(now.0 / 1_000_000_000) as u32;
        MessageHeader { export_seconds, sequence: self.sequence, domain: self.domain }
    }

    /// Hands out what has waited long enough.
    #[inline]
    pub(super) fn due(&mut self, moment: &mut Moment<'_>) {
        let is_due = |at: Time| moment.now.since(at) >= TEMPLATES_EVERY.0;
        if self.templates_at.is_none_or(is_due) {
            self.templates_at = Some(moment.now);
            let header = self.header(moment.now);
            moment.hand_out(TEMPLATES_BYTES, |into| ipfix::emit_templates(header, into).ok());
        }
        if !self.waiting.is_empty() && moment.now.since(self.since) >= WAIT.0 {
            self.flush(moment);
        }
    }

    /// Takes a record.
    pub(super) fn add(&mut self, record: FlowRecord, moment: &mut Moment<'_>) {
        let is_v6 = record.flow.source.is_ipv6();
        let v6 = self.waiting_v6 + usize::from(is_v6);
        let v4 = self.waiting.len() + 1 - v6;
        if ipfix::data_bytes(v4, v6) > MESSAGE_BYTES_MAX {
            self.flush(moment);
        }
        if self.waiting.is_empty() {
            self.since = moment.now;
        }
        self.waiting.push(record);
        self.waiting_v6 += usize::from(is_v6);
    }

    /// Hands out all that waits.
    pub(super) fn flush(&mut self, moment: &mut Moment<'_>) {
        if self.waiting.is_empty() {
            return;
        }
        let header = self.header(moment.now);
        let records = &self.waiting;
        moment.hand_out(MESSAGE_BYTES_MAX, |into| ipfix::emit_data(header, records, into).ok());
        self.sequence = self.sequence.wrapping_add(self.waiting.len() as u32);
        self.waiting.clear();
        self.waiting_v6 = 0;
    }

    /// What waits, as a message.
    pub(super) fn write(&self, into: &mut Vec<u8>) {
        let mut message = [0; MESSAGE_BYTES_MAX];
        let written = ipfix::emit_data(self.header(self.since), &self.waiting, &mut message);
        into.extend(message.iter().take(written.unwrap_or(0)));
    }

    /// Takes over what waited elsewhere, in the place of what waits; none: it is no such message.
    pub(super) fn read(&mut self, message: &[u8]) -> Option<()> {
        let is_short = message.len() <= MESSAGE_BYTES_MAX;
        let message = ipfix::Message::parse(message).ok().filter(|_| is_short)?;
        self.waiting.clear();
        let records = message.sets().flat_map(|set| set.records());
        self.waiting.extend(records.take(RECORDS_MAX));
        let is_v6 = |record: &&FlowRecord| record.flow.source.is_ipv6();
        self.waiting_v6 = self.waiting.iter().filter(is_v6).count();
        Some(())
    }
}

impl Moment<'_> {
    fn hand_out(&mut self, bytes_max: usize, write: impl FnOnce(&mut [u8]) -> Option<usize>) {
        self.outcomes.hand_out(self.at, HandedOutKind::Ipfix, bytes_max, write);
    }
}

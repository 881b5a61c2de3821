//! What packets with telemetry say at the end of their path, on its way to collectors of others. Knows which formats
//! somebody wants and what became of them; refuses to know what collectors make of it: nothing here is decided by that.

mod int_reports;
mod ipfix;
mod moment;

use crate::collectors::{Collectors, Datagram, Tally};
use catena_model::export::{ExportCounters, ExportFormat};
use catena_model::limits::NODE_EXPORT_DATAGRAMS_PER_SECOND;
use catena_protocol::message::PathEnd;
use catena_wire::srv6_int::{IntView, Tail};
use moment::Moment;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a datagram at most: with headers of IPv6 and UDP it fits any path.
const DATAGRAM_BYTES_MAX: usize = 1_400;
/// What is sent at most.
const LIMIT: (u64, &str) = (NODE_EXPORT_DATAGRAMS_PER_SECOND, "this node");

/// Collectors, `HOST:PORT` each; none: nobody is told in that format.
#[derive(Clone, Debug, Default)]
pub struct Exports {
    /// By IPFIX (RFC 7011), with elements of RFC 9487 and of our own.
    pub ipfix: Option<String>,
    /// By telemetry reports 2.0 of the P4 applications working group.
    pub int_reports: Option<String>,
}

/// A packet that is told of.
struct Told<'p> {
    view: IntView<'p>,
    /// From its IPv6 header on.
    header: &'p [u8],
    path: u32,
    /// Another at each start: by the engine's own hash whoever knows the flow would learn the seed by which instances
    /// are chosen.
    flow: u64,
    /// As numbered in `PathEndReason`.
    reason: u8,
}

impl<'p> Told<'p> {
    /// None: its header is not there, or says nothing.
    fn of(end: &PathEnd, header: &'p [u8], names: &RandomState) -> Option<Self> {
        let view = IntView::parse(header, Tail::Tlv).ok()?;
        let reason = u8::try_from(end.reason).ok()?;
        let flow = names.hash_one((end.path, end.flow));
        Some(Self { view, header, path: end.path, flow, reason })
    }
}

/// Writes datagrams of a format.
#[derive(Debug)]
enum Writer {
    Ipfix(ipfix::Writer),
    IntReports(int_reports::Writer),
}

impl Writer {
    /// `unsent`: datagrams of it that could not be sent so far.
    fn write(&mut self, told: &[Told<'_>], moment: Moment, unsent: u64) -> Vec<Vec<u8>> {
        match self {
            Self::Ipfix(writer) => writer.write(told, moment, unsent),
            Self::IntReports(writer) => writer.write(told),
        }
    }

    const fn format(&self) -> ExportFormat {
        match self {
            Self::Ipfix(_) => ExportFormat::Ipfix,
            Self::IntReports(_) => ExportFormat::IntReports,
        }
    }
}

/// What became of it, a line for each collector.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exported(Arc<Mutex<Vec<ExportCounters>>>);

impl Exported {
    fn note(&self, format: ExportFormat, note: impl FnOnce(&mut ExportCounters)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter_mut().find(|counters| counters.format == format).map(note);
    }

    fn unsent(&self, format: ExportFormat) -> u64 {
        let all = self.counters();
        all.iter().find(|counters| counters.format == format).map_or(0, |counters| counters.unsent)
    }

    pub(crate) fn counters(&self) -> Vec<ExportCounters> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Tally for Exported {
    type Of = ExportFormat;

    fn note_sent(&self, format: ExportFormat) {
        self.note(format, |counters| counters.sent += 1);
    }

    fn note_unsent(&self, format: ExportFormat, why: &str) {
        self.note(format, |counters| {
            counters.unsent += 1;
            why.clone_into(&mut counters.trouble);
        });
    }
}

/// Tells collectors.
#[derive(Debug)]
pub(crate) struct Exporter {
    writers: Vec<(String, Writer)>,
    /// What names of flows are made with.
    names: RandomState,
    ways: Collectors<Exported>,
    pub(crate) exported: Exported,
}

impl Exporter {
    pub(crate) fn new(exports: &Exports) -> Self {
        let Exports { ipfix, int_reports } = exports.clone();
        let ipfix = ipfix.map(|to| (to, Writer::Ipfix(ipfix::Writer::default())));
        let int_reports =
            int_reports.map(|to| (to, Writer::IntReports(int_reports::Writer::default())));
        let writers: Vec<_> = ipfix.into_iter().chain(int_reports).collect();
        let lines = writers.iter().map(|(collector, writer)| ExportCounters {
            format: writer.format(),
            collector: collector.clone(),
            packets: 0,
            unreadable: 0,
            sent: 0,
            unsent: 0,
            trouble: String::new(),
        });
        let exported = Exported(Arc::new(Mutex::new(lines.collect())));
        let (names, ways) = (RandomState::new(), Collectors::new(exported.clone(), LIMIT));
        Self { writers, names, ways, exported }
    }

    /// Tells of these packets, and takes their headers, which nobody else is told.
    pub(crate) fn take(&mut self, ends: &mut [PathEnd]) {
        let headers: Vec<Vec<u8>> =
            ends.iter_mut().map(|end| std::mem::take(&mut end.header)).collect();
        if self.writers.is_empty() {
            return;
        }
        let all = ends.iter().zip(&headers);
        let told = all.filter_map(|(end, header)| Told::of(end, header, &self.names));
        let told: Vec<Told<'_>> = told.collect();
        let unreadable = ends.len() - told.len();
        let moment = Moment::now();
        for (collector, writer) in &mut self.writers {
            let format = writer.format();
            self.exported.note(format, |counters| {
                counters.packets += told.len() as u64;
                counters.unreadable += unreadable as u64;
            });
            let unsent = self.exported.unsent(format);
            for body in writer.write(&told, moment, unsent) {
                self.ways.send(collector, Datagram { of: format, body });
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Slices through the whole product: a controller with its store on disk, and two nodes with agent
//! and data plane, as a lab has them. Each slice's path has a hop on either node.
//!
//! A slice is there when the controller has it on disk, both nodes have acknowledged it, and both
//! data planes name it when they are asked.

use crate::engine::drive::wrong;
use crate::error::BenchError;
use crate::results::Notes;
use crate::servers::Server;
use catena_client::Client;
use catena_model::id::SliceId;
use catena_model::limits::SLICE_COUNTERS_MAX;
use catena_model::slice::SliceDocument;
use std::path::Path;
use std::time::{Duration, Instant};

const LAB: &str = "bench-slices.yaml";
const NODES: [&str; 2] = ["host1", "host2"];
/// Slices that are made one after the other, among few and among many.
const SINGLES: u32 = 100;
/// Slices of the study's largest table: two hops each.
const STUDY: u32 = 8_192;
/// Slices of the goal.
const MANY: u32 = 100_000;
/// Two hops each: all that one domain of MPLS has, and a million hops.
const MILLION_HOPS: u32 = 524_288;
/// Connections by which slices are made one by one.
const CONNECTIONS: u32 = 16;
const IN_FORCE_WAIT: Duration = Duration::from_secs(600);
const PAUSE: Duration = Duration::from_millis(5);

pub(super) const STUDY_API: &str = "api_16384_hops_s";
pub(super) const STUDY_BULK: &str = "bulk_16384_hops_s";
pub(super) const BULK: &str = "bulk_100000_slices_s";
pub(super) const BULK_CPU: &str = "bulk_100000_slices_controller_cpu_s";
pub(super) const MILLION: &str = "deltas_1048576_hops_s";
pub(super) const ONE: &str = "one_slice_ms";
pub(super) const ONE_CPU: &str = "one_slice_controller_cpu_us";
pub(super) const AMONG_MANY: &str = "one_slice_among_100000_vs_1";
pub(super) const CPU_AMONG_MANY: &str = "one_slice_controller_cpu_among_100000_vs_1";

/// Measures all of it, so many times each; the largest once.
pub(super) fn measure(root: &Path, samples: usize, notes: &mut Notes) -> Result<(), BenchError> {
    for sample in 0..samples {
        eprintln!("bench: slices through the API, {} of {samples}", sample + 1);
        let mut site = Site::start(root)?;
        notes.take(STUDY_API, true, site.make_by_single_calls(STUDY)?);
        drop(site);
        eprintln!("bench: slices by the line, {} of {samples}", sample + 1);
        let mut site = Site::start(root)?;
        for ms in site.make_singly(SINGLES)? {
            notes.take(ONE, true, ms);
            notes.take(AMONG_MANY, false, ms);
        }
        let few_cpu = site.make_singly_cpu_us(SINGLES)?;
        notes.take(ONE_CPU, true, few_cpu);
        notes.take(CPU_AMONG_MANY, false, few_cpu);
        notes.take(STUDY_BULK, true, site.make_by_the_line(STUDY)?);
        let before = site.server.cpu_ns();
        notes.take(BULK, true, site.make_by_the_line(MANY)?);
        notes.take(BULK_CPU, true, (site.server.cpu_ns() - before) as f64 / 1e9);
        for ms in site.make_singly(SINGLES)? {
            notes.take(AMONG_MANY, true, ms);
        }
        notes.take(CPU_AMONG_MANY, true, site.make_singly_cpu_us(SINGLES)?);
        if sample == 0 {
            eprintln!("bench: slices up to a million hops");
            let rest = MILLION_HOPS - site.made;
            notes.take(MILLION, true, site.make_by_the_line(rest)?);
        }
    }
    Ok(())
}

/// The lab, and how many slices it has.
struct Site {
    server: Server,
    client: Client,
    made: u32,
}

impl Site {
    fn start(root: &Path) -> Result<Self, BenchError> {
        let server = Server::lab(root, LAB)?;
        let client = Client::new(format!("http://{}", server.address), None)?;
        Ok(Self { server, client, made: 0 })
    }

    /// The next slices: users of two tenants by turns.
    fn next(&mut self, count: u32) -> Vec<SliceDocument> {
        let first = self.made;
        self.made += count;
        (first..self.made).map(document).collect()
    }

    /// Each waits for the one before, and is answered when it is in force; milliseconds of each.
    fn make_singly(&mut self, count: u32) -> Result<Vec<f64>, BenchError> {
        let slices = self.next(count);
        let one = |slice: &SliceDocument| {
            let began = Instant::now();
            self.client.create_slice(slice)?;
            Ok(began.elapsed().as_secs_f64() * 1e3)
        };
        slices.iter().map(one).collect()
    }

    /// Processor time of the controller for each of them, in microseconds.
    fn make_singly_cpu_us(&mut self, count: u32) -> Result<f64, BenchError> {
        let before = self.server.cpu_ns();
        self.make_singly(count)?;
        let cpu_ns = self.server.cpu_ns() - before;
        Ok(cpu_ns as f64 / 1e3 / f64::from(count))
    }

    /// One by one by several connections; seconds until all are there.
    fn make_by_single_calls(&mut self, count: u32) -> Result<f64, BenchError> {
        let slices = self.next(count);
        let address = format!("http://{}", self.server.address);
        let began = Instant::now();
        let part = slices.len().div_ceil(CONNECTIONS as usize);
        let make = |slices: &[SliceDocument]| {
            let client = Client::new(address.clone(), None)?;
            slices.iter().try_for_each(|slice| client.create_slice(slice).map(drop))
        };
        let make = &make;
        std::thread::scope(|scope| {
            let parts = slices.chunks(part).map(|slices| scope.spawn(move || make(slices)));
            let parts: Vec<_> = parts.collect();
            parts.into_iter().try_for_each(|part| -> Result<(), BenchError> {
                part.join().map_err(|_| wrong("a connection", &"its thread ended"))??;
                Ok(())
            })
        })?;
        self.wait_in_force(began)
    }

    /// By the bulk route; seconds until all are there.
    fn make_by_the_line(&mut self, count: u32) -> Result<f64, BenchError> {
        let slices = self.next(count);
        let began = Instant::now();
        let made = self.client.create_slices(slices.iter())?;
        if let Some((line, reason)) = made.refused.first() {
            return Err(wrong("the bulk route", &format!("line {line}: {reason}")));
        }
        self.wait_in_force(began)
    }

    /// Waits until every slice is classified and every node has acknowledged it; then asks the data
    /// planes for each of them, which is not counted.
    fn wait_in_force(&self, began: Instant) -> Result<f64, BenchError> {
        loop {
            let status = self.client.status()?;
            let slices = &status["slices"];
            let is_behind = slices["behind"].as_array().is_none_or(|nodes| !nodes.is_empty());
            if !is_behind && slices["classified"] == self.made && slices["declared"] == self.made {
                break;
            }
            if began.elapsed() > IN_FORCE_WAIT {
                return Err(wrong("the controller", &format!("it stays at {slices}")));
            }
            std::thread::sleep(PAUSE);
        }
        let seconds = began.elapsed().as_secs_f64();
        for node in NODES {
            let known = self.count_at(node)?;
            if known != self.made {
                let reason = format!("it has {known} slices of {}", self.made);
                return Err(wrong("the data plane", &format!("{node}: {reason}")));
            }
        }
        Ok(seconds)
    }

    /// How many slices a data plane has paths of.
    fn count_at(&self, node: &str) -> Result<u32, BenchError> {
        let (mut count, mut last): (u32, Option<SliceId>) = (0, None);
        loop {
            let page = self.client.slices_at(node, SLICE_COUNTERS_MAX, last)?;
            let Some(end) = page.last() else { return Ok(count) };
            last = Some(end.slice);
            count += u32::try_from(page.len()).unwrap_or(u32::MAX);
        }
    }
}

fn document(number: u32) -> SliceDocument {
    SliceDocument {
        name: format!("user{number}"),
        chain: "users".into(),
        source_port: Some("S@customer".into()),
        vni: Some(5_001 + number % 2),
        teid: Some(number / 2 + 1),
        ..SliceDocument::default()
    }
}

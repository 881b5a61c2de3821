//! The kinds of work: what comes in, through which program, and what must come out.

use super::drive::{Came, Drive, From, Order, cpu_ns, wrong};
use super::frames::Template;
use super::kinds::Kind;
use super::site::{Hop, Seat, program, program_of};
use crate::error::BenchError;
use catena_model::NodeProgram;
use catena_model::program::PROXY_MAC;

/// Flows of the warm source.
const FLOWS: u32 = 1_024;
/// Read to empty the processor's caches, in bytes: twice the last-level cache.
const SWEEP_BYTES: usize = 64 << 20;
/// Packets that warm an engine up.
const WARMING: usize = 1 << 15;
/// Entries of the source of a table, for each hop.
const TURNS_PER_HOP: usize = 10;

/// One kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// From an endpoint: classified, into NSH, to another node.
    Push,
    /// From a tunnel, to a function here that reads NSH.
    ForwardIn,
    /// From that function, to the next hop on another node.
    ForwardOut,
    /// From a tunnel at the end of the path: delivered bare.
    Pop,
    /// From a tunnel, bare into a function that knows nothing of chains.
    ProxyIn,
    /// From that function: its path found again, to another node.
    ProxyOut,
    /// Between two endpoints that no rule names.
    Switch,
}

/// Is the work in the processor's caches?
#[derive(Clone, Copy)]
pub(super) enum Temperature {
    Warm,
    Cold,
}

impl Work {
    pub(super) const ALL: [Self; 7] = [
        Self::Push,
        Self::ForwardIn,
        Self::ForwardOut,
        Self::Pop,
        Self::ProxyIn,
        Self::ProxyOut,
        Self::Switch,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Push => "push",
            Self::ForwardIn => "forward-in",
            Self::ForwardOut => "forward-out",
            Self::Pop => "pop",
            Self::ProxyIn => "proxy-in",
            Self::ProxyOut => "proxy-out",
            Self::Switch => "switch",
        }
    }

    pub(super) fn figure(self, temperature: Temperature) -> &'static str {
        match (self, temperature) {
            (Self::Push, Temperature::Warm) => "nsh_push_ns",
            (Self::Push, Temperature::Cold) => "nsh_push_cold_ns",
            (Self::ForwardIn, Temperature::Warm) => "forward_in_ns",
            (Self::ForwardIn, Temperature::Cold) => "forward_in_cold_ns",
            (Self::ForwardOut, Temperature::Warm) => "forward_out_ns",
            (Self::ForwardOut, Temperature::Cold) => "forward_out_cold_ns",
            (Self::Pop, Temperature::Warm) => "pop_ns",
            (Self::Pop, Temperature::Cold) => "pop_cold_ns",
            (Self::ProxyIn, Temperature::Warm) => "proxy_in_ns",
            (Self::ProxyIn, Temperature::Cold) => "proxy_in_cold_ns",
            (Self::ProxyOut, Temperature::Warm) => "proxy_out_ns",
            (Self::ProxyOut, Temperature::Cold) => "proxy_out_cold_ns",
            (Self::Switch, Temperature::Warm) => "switch_ns",
            (Self::Switch, Temperature::Cold) => "switch_cold_ns",
        }
    }

    /// Is it one of the steps that a goal is set for?
    pub(super) fn is_step(self) -> bool {
        self != Self::Switch
    }

    /// An engine with the work's program for a kind of traffic, warm, and its source.
    pub(super) fn ready(self, kind: Kind, frame_bytes: usize) -> Result<Bench, BenchError> {
        let (source, sink) = (Seat::Source, Seat::Sink);
        let plain = Template::bare(kind, (source, sink), sink.mac().0, frame_bytes);
        let returned = Template::bare(kind, (source, sink), PROXY_MAC.0, frame_bytes);
        let tunnelled = |index| plain.clone().on_path(kind.encapsulation, index).in_tunnel();
        let aware: &[Hop] = &[Hop::Aware, Hop::Far];
        let (hops, from, template, index): (&[Hop], _, _, _) = match self {
            Self::Push => (&[Hop::Far, Hop::Far], From::Port(source), plain, 0),
            Self::ForwardIn => (aware, From::Tunnel, tunnelled(255), 255),
            Self::ForwardOut => {
                let template = plain.on_path(kind.encapsulation, 254);
                let template = template.behind_ethernet(Seat::AwareOut);
                (aware, From::Port(Seat::AwareOut), template, 254)
            }
            Self::Pop => (aware, From::Tunnel, tunnelled(253), 253),
            Self::ProxyIn => (&[Hop::Bare, Hop::Far], From::Tunnel, tunnelled(255), 255),
            Self::ProxyOut => (&[Hop::Bare, Hop::Far], From::Port(Seat::BareOut), returned, 0),
            Self::Switch => {
                let seats = (sink, source);
                let template = Template::bare(kind, seats, source.mac().0, frame_bytes);
                (&[Hop::Far], From::Port(sink), template, 0)
            }
        };
        let mut drive = Drive::new(&program_of(kind, hops, 1)?, kind)?;
        if self == Self::ProxyOut {
            // What comes out must have gone in.
            let into = Template::bare(kind, (source, sink), sink.mac().0, frame_bytes);
            let (from, into) = match kind.encapsulation.is_source_route() {
                true => (From::Port(source), into),
                false => (From::Tunnel, into.on_path(kind.encapsulation, 255).in_tunnel()),
            };
            let order = &mut Order::flows(FLOWS, 255);
            drive.run(from, &into, order, (256, FLOWS as usize))?;
        }
        let is_tunnelled = !kind.encapsulation.is_source_route()
            && matches!(self, Self::Push | Self::ForwardOut | Self::ProxyOut);
        let order = Order::flows(FLOWS, index);
        Bench::new(drive, from, template, order, is_tunnelled)
    }
}

/// A table of so many hops, and traffic over all of them: each path has two here, as each slice of the
/// paper, so that a table of one hop has one too many. Between them stands one elsewhere, as nobody
/// else may send to the second.
pub(super) fn table(hops: u32) -> Result<Bench, BenchError> {
    let paths = hops.div_ceil(2);
    let indexes: &[u8] = if hops == 1 { &[255] } else { &[255, 253] };
    let kind = Kind::ORDINARY;
    let drive = Drive::new(&program(&[Hop::Aware, Hop::Far, Hop::Aware], paths)?, kind)?;
    let (source, sink) = (Seat::Source, Seat::Sink);
    let template = Template::bare(kind, (source, sink), sink.mac().0, 64);
    let template = template.on_path(kind.encapsulation, 255).in_tunnel();
    let order =
        Order::positions(paths, indexes, (hops as usize * TURNS_PER_HOP).max(1 << 14), 1 << 14);
    Bench::new(drive, From::Tunnel, template, order, false)
}

/// One kind of work at an edge, over and over.
pub(crate) struct EdgeWork(Bench);

impl EdgeWork {
    /// Packets of 64 bytes from an endpoint, classified and sent to another node.
    pub(crate) fn push(kind: Kind) -> Result<Self, BenchError> {
        Work::Push.ready(kind, 64).map(Self)
    }

    /// The same out of a function that knows nothing of chains.
    pub(crate) fn proxy_out(kind: Kind) -> Result<Self, BenchError> {
        Work::ProxyOut.ready(kind, 64).map(Self)
    }

    /// From another node by NSH, whose path is looked up, to a function here that reads NSH.
    pub(crate) fn nsh_forward() -> Result<Self, BenchError> {
        Work::ForwardIn.ready(Kind::ORDINARY, 64).map(Self)
    }

    /// Between two endpoints that no rule names.
    pub(crate) fn switch() -> Result<Self, BenchError> {
        Work::Switch.ready(Kind::ORDINARY, 64).map(Self)
    }

    /// Nanoseconds per packet.
    pub(crate) fn ns(&mut self, packets: usize) -> Result<f64, BenchError> {
        self.0.warm_ns(256, packets)
    }

    /// Packets that took the fast path.
    pub(crate) fn by_fast_path(&self) -> u64 {
        self.0.drive.by_fast_path()
    }
}

/// Visits to a function that knows nothing of chains: from another node, and out of the function to the next.
pub(crate) struct Visits {
    /// The path ends with the function, and packets are delivered here.
    is_last: bool,
    drive: Drive,
    into: (Template, Order),
    out: (Template, Order),
}

impl Visits {
    /// Packets of 64 bytes under such a header. `is_last`: the path ends with the function, and packets are delivered.
    pub(crate) fn new(kind: Kind, header: &[u8], is_last: bool) -> Result<Self, BenchError> {
        let seats = (Seat::Source, Seat::Sink);
        let into = Template::bare(kind, seats, Seat::Sink.mac().0, 64).under(header);
        let out = Template::bare(kind, seats, PROXY_MAC.0, 64);
        let hops = if is_last { [Hop::Far, Hop::Bare] } else { [Hop::Bare, Hop::Far] };
        let drive = Drive::new(&program_of(kind, &hops, 1)?, kind)?;
        let order = || Order::flows(FLOWS, 255);
        let mut visits = Self { is_last, drive, into: (into, order()), out: (out, order()) };
        visits.ns(WARMING)?;
        Ok(visits)
    }

    /// Nanoseconds per packet, in and out.
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn ns(&mut self, packets: usize) -> Result<f64, BenchError> {
        const BATCH: usize = 256;
        let batches = packets.div_ceil(BATCH);
        let began = cpu_ns();
        for _ in 0..batches {
            let Self { drive, into, out, .. } = self;
            drive.run(From::Tunnel, &into.0, &mut into.1, (BATCH, BATCH))?;
            drive.run(From::Port(Seat::BareOut), &out.0, &mut out.1, (BATCH, BATCH))?;
        }
        let packets = (batches * BATCH) as u64;
        let spent = (cpu_ns() - began) / packets as f64;
        let wanted = match self.is_last {
            true => Came { frames: 2 * packets, datagrams: 0 },
            false => Came { frames: packets, datagrams: packets },
        };
        let came = self.drive.came();
        if came != wanted {
            let dropped = self.drive.dropped().unwrap_or_default();
            return Err(wrong("the engine", &format!("{came:?} and not {wanted:?}; {dropped}")));
        }
        Ok(spent)
    }

    /// Packets whose records were lost.
    pub(crate) fn records_lost(&self) -> u64 {
        self.drive.records_lost()
    }

    /// Packets that took the fast path, in and out.
    pub(crate) fn by_fast_path(&self) -> u64 {
        self.drive.by_fast_path()
    }
}

/// An engine that takes flows it knows from a port, by a program of any rules.
pub(crate) struct KnownFlows(Bench);

/// One with this program, in which all UDP of the source enters the first path at last.
pub(crate) fn known_flows(program: &NodeProgram) -> Result<KnownFlows, BenchError> {
    flows_of(program, Kind::ORDINARY, true)
}

/// The same where the path ends at this node.
pub(crate) fn delivered_flows(program: &NodeProgram, kind: Kind) -> Result<KnownFlows, BenchError> {
    flows_of(program, kind, false)
}

fn flows_of(
    program: &NodeProgram,
    kind: Kind,
    is_tunnelled: bool,
) -> Result<KnownFlows, BenchError> {
    let (source, sink) = (Seat::Source, Seat::Sink);
    let template = Template::bare(kind, (source, sink), sink.mac().0, 64);
    let order = Order::flows(FLOWS, 0);
    let drive = Drive::new(program, kind)?;
    Bench::new(drive, From::Port(source), template, order, is_tunnelled).map(KnownFlows)
}

impl KnownFlows {
    /// Nanoseconds per packet.
    #[inline(never)]
    pub(crate) fn ns(&mut self, packets: usize) -> Result<f64, BenchError> {
        self.0.warm_ns(256, packets)
    }
}

/// An engine at work.
pub(super) struct Bench {
    drive: Drive,
    from: From,
    template: Template,
    order: Order,
    is_tunnelled: bool,
    sweep: Vec<u8>,
}

impl Bench {
    fn new(
        drive: Drive,
        from: From,
        template: Template,
        order: Order,
        is_tunnelled: bool,
    ) -> Result<Self, BenchError> {
        let sweep = Vec::new();
        let mut bench = Self { drive, from, template, order, is_tunnelled, sweep };
        bench.drive.came();
        bench.count(WARMING)?;
        Ok(bench)
    }

    /// Takes packets through, and makes sure that each did what is measured.
    pub(super) fn count(&mut self, packets: usize) -> Result<(), BenchError> {
        self.go(256, packets)?;
        self.check(packets.div_ceil(256) * 256)
    }

    fn go(&mut self, batch: usize, packets: usize) -> Result<(), BenchError> {
        self.drive.run(self.from, &self.template, &mut self.order, (batch, packets))
    }

    fn check(&mut self, packets: usize) -> Result<(), BenchError> {
        let packets = packets as u64;
        let wanted = match self.is_tunnelled {
            true => Came { frames: 0, datagrams: packets },
            false => Came { frames: packets, datagrams: 0 },
        };
        let came = self.drive.came();
        if came == wanted {
            return Ok(());
        }
        let dropped = self.drive.dropped().unwrap_or_default();
        Err(wrong("the engine", &format!("{came:?} came out and not {wanted:?}; {dropped}")))
    }

    /// Nanoseconds per packet.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn warm_ns(&mut self, batch: usize, packets: usize) -> Result<f64, BenchError> {
        let began = cpu_ns();
        self.go(batch, packets)?;
        let packets = packets.div_ceil(batch) * batch;
        let spent = (cpu_ns() - began) / packets as f64;
        self.check(packets)?;
        Ok(spent)
    }

    /// The same where the processor's caches are emptied before each vector.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn cold_ns(&mut self, vectors: usize) -> Result<f64, BenchError> {
        let mut spent = 0.0;
        for _ in 0..vectors {
            self.sweep();
            let began = cpu_ns();
            self.go(256, 256)?;
            spent += cpu_ns() - began;
        }
        self.check(vectors * 256)?;
        Ok(spent / (vectors * 256) as f64)
    }

    fn sweep(&mut self) {
        self.sweep.resize(SWEEP_BYTES, 0);
        for line in self.sweep.chunks_mut(64) {
            line[0] = line[0].wrapping_add(1);
        }
        std::hint::black_box(&mut self.sweep);
    }
}

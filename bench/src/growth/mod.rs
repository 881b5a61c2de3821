//! How the cost of one change grows with the chains in force: a controller and four nodes with agent
//! and data plane, sixty-four functions shared by all chains. Among none to ten thousand chains, one
//! more is made, changed and removed again, fifty times, while a counted stream goes through another.
//!
//! Knows when a size is reached and what is noted of it. Refuses to know how chains are made.

mod figures;
mod peer;
mod restart;
mod site;
mod stream;
mod usage;

use crate::engine::drive::wrong;
use crate::error::BenchError;
use crate::machine::calibrate;
use crate::publish::{Run, publish};
use crate::results::Notes;
use figures::{PEER_SIZES, SIZES, Work};
pub(crate) use figures::{figures, plot};
use site::{Chain, Site};
use std::path::Path;
use std::time::{Duration, Instant};
pub(crate) use stream::{send, take};
use usage::{ROLES, Usage};

/// Its name, and that of the run with all rules at one port.
const NAME: &str = "growth";
const NAME_ONE_PORT: &str = "growth-one-port";

/// How much is measured.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Up to a hundred chains: six minutes at most.
    #[arg(long)]
    pub(crate) quick: bool,
    /// All rules at one port of one node, instead of four ports of four.
    #[arg(long)]
    one_port: bool,
    /// Ours alone: the peer cannot be had on this machine.
    #[arg(long)]
    no_peer: bool,
}

const SIZES_QUICK: usize = 3;
/// Chains that are made, changed and removed one by one.
const SINGLES: usize = 50;
/// Those whose processor time and bytes are one sample: a single one's are too small for it.
const BATCH: usize = 10;
/// How long a number of chains may take to be in force.
const FILL_WAIT: Duration = Duration::from_secs(15 * 60);
/// After so long no further chain is made, changed or removed for its time.
const WORK_WAIT: Duration = Duration::from_secs(5 * 60);
/// What chains in force have set off is over once all processes use less than this share of a core,
/// or after so long: then it is their rest.
const QUIET_SHARE: f64 = 0.1;
const QUIET_WAIT: Duration = Duration::from_secs(60);
/// Time that the use of the processor is taken over.
const QUIET_LOOK: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_secs(3);

/// Measures, writes the results and prints them.
pub(crate) fn run(options: &Options, folder: &Path) -> Result<(), BenchError> {
    let mut notes = Notes::default();
    calibrate(&mut notes);
    let root = folder.parent().unwrap_or(folder);
    let mut bed = Bed::start(root, options)?;
    let sizes = if options.quick { &SIZES[..SIZES_QUICK] } else { &SIZES[..] };
    let mut ended = None;
    for size in sizes {
        if !bed.measure(*size, &mut notes)? {
            ended = Some(*size);
            break;
        }
    }
    if let (None, Some(size)) = (ended, sizes.last()) {
        eprintln!("bench: a restart, {size} chains in force");
        figures::take_restart(&mut notes, *size, &restart::restart(&bed.site, root)?);
    }
    drop(bed);
    if !options.no_peer {
        let size = if options.quick { PEER_SIZES[0] } else { PEER_SIZES[1] };
        figures::take_peer(&mut notes, size, &peer::one_more(root, size)?);
    }
    figures::settle_bytes(&mut notes);
    let name = if options.one_port { NAME_ONE_PORT } else { NAME };
    let text = |key: &str, value: String| (key.to_owned(), value);
    let reached = ended.map_or("all sizes".to_owned(), |size| format!("fewer than {size} chains"));
    let mut versions = vec![text("ours", env!("CARGO_PKG_VERSION").into())];
    if !options.no_peer {
        versions.push(text("peer", "neutron 29.0.0, networking-sfc 23.0.0".into()));
    }
    publish(
        Run {
            name,
            about: about(ended, options),
            versions: versions.into_iter().collect(),
            options: [
                text("quick", options.quick.to_string()),
                text(
                    "rules",
                    if options.one_port { "at one port" } else { "at four ports" }.into(),
                ),
                text("reached", reached),
            ]
            .into(),
            plots: vec![plot(&notes, name)],
            notes,
        },
        folder,
    )
}

/// For people.
fn about(ended: Option<usize>, options: &Options) -> String {
    let mut text = format!(
        "`labs/{lab}.yaml`: a controller with its store on disk, and four hosts with agent, data plane \
         and sixteen functions each, all on this machine's cores. Each chain is over three of the \
         sixty-four, no two over the same three in the same order, with a rule of its own; MPLS, as \
         where nothing is said. A number behind a name is that of the chains in force before, brought \
         there by drafts. Then up to {SINGLES} more are made one by one (rule and chain, until the chain \
         is active: every node has acknowledged), changed (three other functions, until it is active and \
         no node knows the old path), and removed (until no node sends into it, and its rule); what is not \
         over when the controller answers, after five seconds at the latest, is seen within a fiftieth of \
         its time, or a tenth where a chain is removed. Processor \
         time is that of controller, agents and data planes less what they use at rest in the same \
         time; it and bytes are means over {BATCH} chains. Bytes are those of the controller's \
         connections with all nodes, as the kernel counts them; without a number they are those among \
         the most chains that were reached. Memory is resident, the data plane's that of the largest. \
         The stream: {} datagrams of {} bytes a second over three functions of one more chain, also \
         while chains are brought in force.",
        stream::PER_SECOND,
        stream::PAYLOAD_BYTES,
        lab = site::LAB,
    );
    if ended.is_none() {
        text.push_str(
            " At the end the controller is killed and started anew on its store, five times: until it \
             answers, until all nodes have what they should have and all chains are active, and what it \
             has sent to them three seconds later, greetings and encryption with it.",
        );
    }
    if !options.no_peer {
        text.push_str(
            " The peer has no nodes; its chains are over as many functions, and its one more is timed \
             as ours is.",
        );
    }
    if let Some(size) = ended {
        let minutes = FILL_WAIT.as_secs() / 60;
        text.push_str(&format!(
            " {size} chains were not in force within {minutes} minutes: nothing was measured among \
             them, nor beyond."
        ));
    }
    text
}

/// The lab with what is read of it.
struct Bed {
    site: Site,
    usage: Usage,
    /// Processor time at rest by role, in microseconds a second.
    rest: [f64; ROLES.len()],
}

impl Bed {
    fn start(root: &Path, options: &Options) -> Result<Self, BenchError> {
        let site = Site::start(root, options.one_port)?;
        let usage = Usage::of(&site.server)?;
        Ok(Self { site, usage, rest: [0.0; ROLES.len()] })
    }

    /// Everything among so many chains; false: they were not in force in time.
    fn measure(&mut self, size: usize, notes: &mut Notes) -> Result<bool, BenchError> {
        let before = self.site.carried()?;
        let stream = self.site.stream()?;
        let is_reached = self.site.fill(size, Instant::now() + FILL_WAIT)?;
        if is_reached {
            eprintln!("bench: one by one, {size} chains in force");
            self.wait_quiet()?;
            self.at_rest(size, notes)?;
            self.one_by_one(size, notes)?;
        }
        let counted = stream.end()?;
        let carried = self.site.carried()?.saturating_sub(before);
        if carried < counted.sent - counted.lost {
            let reason = format!("{carried} of {} went through its chain", counted.sent);
            return Err(wrong("the stream", &reason));
        }
        figures::take_stream(notes, counted.sent, counted.lost);
        Ok(is_reached)
    }

    /// Processor time by role, in microseconds a second, while nothing is asked.
    fn unasked(&mut self, length: Duration) -> Result<[f64; ROLES.len()], BenchError> {
        let before = self.usage.read()?;
        std::thread::sleep(length);
        let spent = self.usage.since(&before)?;
        Ok(spent.cpu_us.map(|us| us / spent.wall.as_secs_f64()))
    }

    fn wait_quiet(&mut self) -> Result<(), BenchError> {
        let began = Instant::now();
        while began.elapsed() < QUIET_WAIT {
            if self.unasked(QUIET_LOOK)?.iter().sum::<f64>() < QUIET_SHARE * 1e6 {
                break;
            }
        }
        Ok(())
    }

    /// What is used while nothing changes.
    fn at_rest(&mut self, size: usize, notes: &mut Notes) -> Result<(), BenchError> {
        self.rest = self.unasked(REST)?;
        figures::take_rest(notes, size, self.rest.iter().sum::<f64>() / 1e4);
        self.take_memory(size, notes)
    }

    fn take_memory(&self, size: usize, notes: &mut Notes) -> Result<(), BenchError> {
        for role in ["controller", "dataplane"] {
            figures::take_memory(notes, size, role, self.usage.resident_mib(role)?);
        }
        Ok(())
    }

    fn one_by_one(&mut self, size: usize, notes: &mut Notes) -> Result<(), BenchError> {
        let made = self.make(size, notes)?;
        self.take_memory(size, notes)?;
        let site = &mut self.site;
        let (mut changed, began) = (Vec::new(), Instant::now());
        for chain in &made {
            if began.elapsed() < WORK_WAIT {
                changed.push(site.change(chain)?);
            }
        }
        figures::take_times(notes, Work::Change, size, &changed);
        // All go, so that the next size begins with what it says.
        let removed = made.iter().map(|chain| site.remove(chain));
        let removed = removed.collect::<Result<Vec<_>, _>>()?;
        figures::take_times(notes, Work::Remove, size, &removed);
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)]
    fn make(&mut self, size: usize, notes: &mut Notes) -> Result<Vec<Chain>, BenchError> {
        let (mut chains, mut took) = (Vec::new(), Vec::new());
        let began = Instant::now();
        while chains.len() < SINGLES && began.elapsed() < WORK_WAIT {
            let before = self.usage.read()?;
            for _ in 0..BATCH {
                let (chain, made) = self.site.make()?;
                chains.push(chain);
                took.push(made);
            }
            let spent = self.usage.since(&before)?;
            let mut cpu_us = spent.cpu_us;
            for (us, rest) in cpu_us.iter_mut().zip(self.rest) {
                *us = (*us - rest * spent.wall.as_secs_f64()) / BATCH as f64;
            }
            figures::take_cpu(notes, size, cpu_us);
            figures::take_bytes(notes, size, spent.sent_bytes as f64 / BATCH as f64);
        }
        figures::take_times(notes, Work::Make, size, &took);
        Ok(chains)
    }
}

//! `catena path compare --live`: a chain goes through encapsulations under its own traffic, and back to where it began.
//! Knows what is measured with each; refuses to make up what nobody observed.

mod journey;
mod told;

use crate::failure::Failure;
use crate::output::{Format, progress, tell};
use catena_client::Client;
use catena_kernel::signals::{BlockedSignals, Signal};
use catena_model::check::CheckReport;
use catena_model::resource::Encapsulation;
use catena_model::status::{ChainReport, Comparison};
use clap::Args;
use journey::{Ground, Journey};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Args)]
pub(crate) struct LiveArguments {
    /// Measure, too: move the chain through the list under its traffic, and back to what carries it now.
    #[arg(long)]
    live: bool,
    /// How long packets are counted with each encapsulation, and about as long it is probed.
    #[arg(long, default_value_t = 5, requires = "live", value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
    /// Draw what was measured into this file, .svg or .png.
    #[arg(long, value_name = "FILE", requires = "live", value_parser = drawable)]
    plot: Option<PathBuf>,
}

fn drawable(name: &str) -> Result<PathBuf, String> {
    let file = PathBuf::from(name);
    let ending = file.extension().and_then(|ending| ending.to_str());
    if !matches!(ending, Some("svg" | "png")) {
        return Err("its name must end in .svg or .png".into());
    }
    // Found out before the chain is moved.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    match folder.is_none_or(std::path::Path::is_dir) {
        true => Ok(file),
        false => Err("its folder is not there: make it first".into()),
    }
}

impl LiveArguments {
    /// What tells that the user wants it to stop: from now on that ends nothing in the middle. Call it before other
    /// threads are started. None: nothing is to be measured.
    pub(crate) fn stop(&self) -> Result<Option<OwnedFd>, Failure> {
        if !self.live {
            return Ok(None);
        }
        let held = BlockedSignals::block(&[Signal::INT, Signal::TERM, Signal::HUP])?;
        Ok(Some(held.descriptor()?))
    }
}

/// Measures, and tells what was found even where it did not come to its end.
pub(crate) fn run(
    (client, chain): (&Client, &str),
    compared: &[Comparison],
    arguments: &LiveArguments,
    stop: OwnedFd,
    output: Format,
) -> Result<(), Failure> {
    let mut field = Field { client, chain, stop, began: Instant::now() };
    let seconds = Duration::from_secs(arguments.seconds.into());
    let journey = Journey::begin(&mut field, seconds)?;
    let (live, outcome) = journey.through(compared);
    tell(output, &live, |_| told::tell(&live))?;
    if let Some(file) = &arguments.plot {
        told::draw(&live, file)?;
    }
    outcome
}

/// A chain that is there.
struct Field<'c> {
    client: &'c Client,
    chain: &'c str,
    stop: OwnedFd,
    began: Instant,
}

impl Ground for Field<'_> {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn rest(&mut self, rest: Duration) {
        std::thread::sleep(rest);
    }

    fn is_stopped(&mut self) -> bool {
        let mut waiting = [PollFd::new(&self.stop, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut waiting, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    fn report(&mut self) -> Result<ChainReport, Failure> {
        Ok(self.client.chain(self.chain)?)
    }

    fn move_to(&mut self, encapsulation: Encapsulation) -> Result<ChainReport, Failure> {
        Ok(self.client.move_chain(self.chain, encapsulation)?)
    }

    fn probe(&mut self) -> Result<CheckReport, Failure> {
        Ok(self.client.check_chain(self.chain)?)
    }

    fn progress(&mut self, what: &str) {
        progress(format_args!("{what}"));
    }
}

//! A process that a function has for itself: what it needs is opened, rights are given up, walls put up, and packets
//! pass until a signal ends it. Knows signals and the order of all that; refuses to know the function, and how its
//! account is told.

use crate::bump::Bump;
use crate::clock::Clock;
use crate::error::RunError;
use crate::lines::Lines;
use crate::place::Place;
use crate::run::{News, run};
use crate::sandbox::{confine_calls, wall_off};
use catena_io::PacketRing;
use catena_kernel::namespace::NetNamespace;
use catena_kernel::signals::{BlockedSignals, Signal};
use catena_kernel::sysctl;
use catena_nf::Function;
use std::io::Write;
use std::net::UdpSocket;

/// Where a function takes every frame itself, the kernel of its namespace forwards none and says nothing.
const SILENCE: [(&str, &str); 4] = [
    ("net.ipv4.ip_forward", "0"),
    ("net.ipv4.icmp_echo_ignore_all", "1"),
    ("net.ipv4.conf.all.arp_ignore", "8"),
    ("net.ipv6.conf.all.disable_ipv6", "1"),
];

/// What is around a function that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walls {
    /// It has no privilege.
    Privileges,
    /// And it reaches no file and no port, and makes no system call but those of its loop.
    Everything,
}

/// Where what a function hands out goes.
pub enum Outlet {
    /// To a collector, each message in a datagram.
    Datagrams(UdpSocket),
    /// To a file or a pipe, each message as a line.
    Lines(Box<dyn Write + Send>),
}

/// How a function is run.
pub struct Setting<'p> {
    /// Where it stands.
    pub place: &'p Place,
    /// What is around it.
    pub walls: Walls,
    /// By which it lives, and was made.
    pub clock: Clock,
    /// Where what it hands out goes; none: it is counted and goes nowhere.
    pub outlet: Option<Outlet>,
}

/// Runs a function until SIGINT or SIGTERM ends it, and answers it with its account so far. SIGUSR1 asks for an account
/// on the way. To be called while there is one thread; the signals stay blocked.
///
/// # Errors
/// An interface cannot be opened, the kernel refuses something, or the function breaks its profile.
pub fn run_between<F: Function + ?Sized>(
    function: Box<F>,
    setting: Setting<'_>,
    mut tell: impl FnMut(&F, News),
) -> Result<Bump<PacketRing, F>, RunError> {
    // First of all: a signal that comes meanwhile waits.
    let stop = BlockedSignals::block(&[Signal::INT, Signal::TERM])?.descriptor()?;
    let ask = BlockedSignals::block(&[Signal::USR1])?.descriptor()?;
    let ports = crate::open(setting.place.open()?)?;
    crate::confine()?;
    let is_walled = setting.walls == Walls::Everything;
    if is_walled && !wall_off()? {
        tell(&*function, News::FilesWithinReach);
    }
    let mut bump = Bump::new(function, ports);
    match setting.outlet {
        Some(Outlet::Datagrams(collector)) => bump = bump.with_collector(collector)?,
        Some(Outlet::Lines(to)) => bump = bump.with_lines(Lines::new(to)),
        None => {}
    }
    tell(bump.function(), News::Running);
    let begin = || if is_walled { confine_calls() } else { Ok(()) };
    run(&mut bump, setting.clock, (stop, ask), begin, tell)?;
    Ok(bump)
}

/// The same to its end, whose account is told as well.
///
/// # Errors
/// As [`run_between`].
pub fn run_to_end<F: Function + ?Sized>(
    function: Box<F>,
    setting: Setting<'_>,
    mut tell: impl FnMut(&F, News),
) -> Result<(), RunError> {
    let mut bump = run_between(function, setting, &mut tell)?;
    bump.close_lines();
    let account = Box::new(bump.account());
    tell(bump.function(), News::Account(account));
    Ok(())
}

/// Lets the kernel keep out of what passes, in a network namespace that is this process's alone.
///
/// # Errors
/// The kernel refuses.
pub(crate) fn silence_kernel() -> Result<(), RunError> {
    let own = NetNamespace::current()?;
    Ok(SILENCE.iter().try_for_each(|(key, value)| sysctl::write_in(&own, key, value))?)
}

/// A number by which flows are filed, so that whoever sends them cannot choose such as are hard to tell apart.
///
/// # Errors
/// The kernel has no random numbers.
pub fn secret_seed() -> Result<u64, RunError> {
    let mut seed = [0; 8];
    rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| RunError::Seed(error.into()))?;
    Ok(u64::from_ne_bytes(seed))
}

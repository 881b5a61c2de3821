//! The loop of a process: waits for ports and for whoever stops it or asks for an account, and tells the
//! function what time it is.

use crate::account::Account;
use crate::bump::Bump;
use crate::clock::Clock;
use crate::error::RunError;
use crate::place::Place;
use catena_io::{Poller, Port};
use catena_nf::Function;
use catena_nf::function::Waiting;
use catena_nf::packet::Time;
use catena_rules::Side;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// How long a function's time may stand still while no packet comes.
const TICK: Duration = Duration::from_millis(100);
const TOKEN_IN: u64 = 0;
const TOKEN_OUT: u64 = 1;
const TOKEN_STOP: u64 = 2;
const TOKEN_ASK: u64 = 3;
/// Room for what a descriptor says while it asks; several questions are one.
const QUESTION_BYTES: usize = 1_024;

/// What whoever runs a function is told on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// Both interfaces are open: packets pass from now on.
    Running,
    /// The kernel's Landlock does not hold all files back.
    FilesWithinReach,
    /// The account that was asked for, or the last one.
    Account(Box<Account>),
    /// The kernel has noted an error at a side, such as its interface going down (`errno`).
    PortError {
        /// Where.
        side: Side,
        /// Which.
        errno: i32,
    },
}

impl News {
    /// A line for people; none for an account, which has more to say.
    #[must_use]
    pub fn in_words(&self, place: &Place) -> Option<String> {
        match self {
            Self::Running => {
                Some(format!("runs between {} and {}", place.name(Side::In), place.name(Side::Out)))
            }
            Self::FilesWithinReach => {
                let what = "this kernel's Landlock is older, or missing: files are within reach";
                Some(what.to_owned())
            }
            Self::PortError { side, errno } => Some(format!(
                "interface {}: {}; nothing comes or goes there until it is up again; if it was removed, end this and \
                 start it anew",
                place.name(*side),
                std::io::Error::from_raw_os_error(*errno)
            )),
            Self::Account(_) => None,
        }
    }
}

/// How long nothing is to be done, if no packet comes: until what waits goes on, or time is told again.
fn wait(waiting: Waiting, now: Time) -> Duration {
    waiting.next.map_or(TICK, |next| TICK.min(Duration::from_nanos(next.since(now))))
}

/// Lets go on what has waited long enough, before what comes.
fn release<P: Port, F: Function + ?Sized>(
    bump: &mut Bump<P, F>,
    now: Time,
) -> Result<(), RunError> {
    let mut before = bump.waiting();
    while before.next.is_some_and(|next| next <= now) {
        bump.elapse(now)?;
        let after = bump.waiting();
        if after == before {
            // It gives nothing back now, whatever it has told.
            break;
        }
        before = after;
    }
    Ok(())
}

/// Runs a function by a clock until `stop` can be read; tells its account, beside the function, whenever `ask`
/// can be. What the function is to say at its end is [`Bump::conclude`]'s. `begin` is called once all is open that
/// the loop needs.
///
/// # Errors
/// When the function breaks its profile, or the kernel refuses the wait.
pub fn run<P: Port, F: Function + ?Sized>(
    bump: &mut Bump<P, F>,
    clock: Clock,
    (stop, ask): (impl AsFd, OwnedFd),
    begin: impl FnOnce() -> Result<(), RunError>,
    mut tell: impl FnMut(&F, News),
) -> Result<(), RunError> {
    let mut ask = File::from(ask);
    let mut poller = Poller::new()?;
    let [at_in, at_out] = bump.ports();
    poller.add(at_in, TOKEN_IN)?;
    poller.add(at_out, TOKEN_OUT)?;
    poller.add(&stop, TOKEN_STOP)?;
    poller.add(&ask, TOKEN_ASK)?;
    let mut ready = Vec::new();
    begin()?;
    let mut ticked = Time::default();
    let mut rest = Duration::ZERO;
    loop {
        poller.wait(Some(rest), &mut ready)?;
        let now = clock.now();
        release(bump, now)?;
        let turn = bump.turn(now)?;
        for (side, error) in [Side::In, Side::Out].into_iter().zip(turn.errors) {
            if let Some(errno) = error {
                tell(bump.function(), News::PortError { side, errno });
            }
        }
        if u128::from(now.since(ticked)) >= TICK.as_nanos() {
            bump.elapse(now)?;
            ticked = now;
        }
        if ready.contains(&TOKEN_ASK) {
            hear(&mut ask)?;
            let account = Box::new(bump.account());
            tell(bump.function(), News::Account(account));
        }
        if ready.contains(&TOKEN_STOP) {
            return Ok(());
        }
        rest = if turn.frames > 0 { Duration::ZERO } else { wait(bump.waiting(), now) };
    }
}

/// Takes what has been asked, so that it is not heard again.
fn hear(ask: &mut File) -> Result<(), RunError> {
    match ask.read(&mut [0; QUESTION_BYTES]) {
        Ok(_) => Ok(()),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(())
        }
        Err(error) => Err(RunError::Asking(error)),
    }
}

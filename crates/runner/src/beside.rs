//! A function in a process of its own, beside the data plane that asks it: from its first question to the end of
//! whoever asks. Knows the walls around it; refuses to know what the function does with packets.

use crate::error::RunError;
use crate::sandbox::{confine_calls, wall_off};
use catena_io::{Mailbox, Unheard};
use catena_model::bundle::Configuration;
use catena_nf::Function;
use catena_nf::exchange::{Question, Said, answer, panic_in_words, read_question, write_said};
use catena_nf::registry::{self, Surroundings};
use rustix::process::Signal;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Serves whoever holds the other end of a socket, over which the rest comes, until that ends.
///
/// # Errors
/// Something else comes, or the kernel refuses something.
pub fn serve_beside(life: OwnedFd) -> Result<(), RunError> {
    // Should whoever has started it end without a word, nobody would end it; and where memory is short, it goes first.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| RunError::Asking(errno.into()))?;
    if let Err(error) = std::fs::write("/proc/self/oom_score_adj", "1000") {
        eprintln!("where memory is short, others may end first: {error}");
    }
    let mailbox = Mailbox::answerer(life)?;
    // What the kernel cannot hold back, the data plane has told of when it started.
    wall_off()?;
    confine_calls()?;
    serve(mailbox);
    Ok(())
}

fn serve(mut mailbox: Mailbox) {
    let (mut heard, mut said) = (Vec::new(), Vec::new());
    let mut function: Option<Box<dyn Function>> = None;
    loop {
        match mailbox.hear(None, &mut heard) {
            Ok(()) => {}
            Err(Unheard::Ended | Unheard::Silent | Unheard::Garbled) => return,
        }
        let answer = match (read_question(&heard), &mut function) {
            (None, _) => Said::Refused("it was asked what is no question".to_owned()),
            (Some((Question::Make(configuration, surroundings), _)), None) => {
                make(&configuration, surroundings, &mut function)
            }
            (Some(_), None) => Said::Refused("it was asked before it was made".to_owned()),
            (Some((question, packets)), Some(function)) => {
                let asked = AssertUnwindSafe(|| answer(&mut **function, question, &packets));
                // Its last words: after them, whoever asks ends it.
                catch_unwind(asked).unwrap_or_else(|panic| Said::Refused(panic_in_words(&*panic)))
            }
        };
        write_said(&answer, &mut said);
        if !mailbox.say(&said) {
            let why = format!("an answer of {} bytes is too long", said.len());
            write_said(&Said::Refused(why), &mut said);
            if !mailbox.say(&said) {
                return;
            }
        }
    }
}

fn make(
    configuration: &Configuration,
    surroundings: Surroundings,
    into: &mut Option<Box<dyn Function>>,
) -> Said {
    match registry::make(configuration, &surroundings) {
        Ok(made) => {
            *into = Some(made.function);
            Said::Made
        }
        Err(error) => Said::Refused(error.to_string()),
    }
}

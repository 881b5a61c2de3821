//! A function in a process of its own, beside the data plane that asks it: from its first question to the end of whoever
//! asks. Knows the walls around it; refuses to know what the function does with packets.

use crate::error::RunError;
use crate::sandbox::{confine_calls, wall_off};
use catena_io::{Mailbox, Unheard};
use catena_model::bundle::Configuration;
use catena_nf::Function;
use catena_nf::exchange::{Question, Said, answer, read_question, write_said};
use catena_nf::registry::{self, Surroundings};
use std::os::fd::OwnedFd;

/// Serves whoever holds the other end of a socket, over which the rest comes, until that ends.
///
/// # Errors
/// Something else comes, or the kernel refuses something.
pub fn serve_beside(life: OwnedFd) -> Result<(), RunError> {
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
                answer(&mut **function, question, &packets)
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

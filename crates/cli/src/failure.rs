//! How a verb fails: one message for people and an exit code for programs.

use std::error::Error;

/// What failed, why and what to do next, with the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) exit: u8,
}

impl Failure {
    /// Something went wrong.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: 1 }
    }

    /// The command line does not make sense.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit: 2 }
    }

    /// No fault: the plan has changes, and they have been printed.
    pub(crate) fn changes() -> Self {
        Self { message: String::new(), exit: 3 }
    }

    /// A check of a lab or chain did not hold; it has been printed already.
    pub(crate) fn check() -> Self {
        Self { message: String::new(), exit: 4 }
    }
}

impl<E: Error> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Many errors already quote their cause.
            if !message.contains(&cause_text) {
                message.push_str(": ");
                message.push_str(&cause_text);
            }
            source = cause.source();
        }
        Self::failed(message)
    }
}

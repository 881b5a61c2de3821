//! Why a lab could not do what was asked: what failed, why, and what to do next.

use crate::vocabulary::LabFileError;
use crate::wiring::NoRoom;
use catena_client::ClientError;
use catena_client::deploy::DeployError;
use catena_kernel::KernelError;

/// Any failure of a lab command.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The lab file is wrong.
    #[error(transparent)]
    File(#[from] LabFileError),
    /// A network of the file is too small.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// The kernel refused.
    #[error("{0} (labs need root and a kernel with network, mount and PID namespaces)")]
    Kernel(#[from] KernelError),
    /// A file or pipe of ours failed.
    #[error("cannot {operation} {object}: {source}")]
    Io {
        /// What was tried.
        operation: &'static str,
        /// On what.
        object: String,
        /// The reason.
        source: std::io::Error,
    },
    /// The API refused or did not answer.
    #[error("the lab's controller: {0}")]
    Api(#[from] ClientError),
    /// A chain of the file could not be deployed.
    #[error(transparent)]
    Deploy(#[from] DeployError),
    /// A lab of this name is running.
    #[error(
        "a lab named '{name}' is running; end it with: catena lab down {name} (or give this one \
         another 'name:')"
    )]
    AlreadyRuns {
        /// The name.
        name: String,
    },
    /// No such lab.
    #[error("{}", not_running(.name.as_deref(), .running))]
    NotRunning {
        /// The name that was asked for.
        name: Option<String>,
        /// Those that do run.
        running: Vec<String>,
    },
    /// The supervisor refused a request.
    #[error("lab '{lab}': {reason}")]
    Refused {
        /// The lab.
        lab: String,
        /// Its reason, with the remedy.
        reason: String,
    },
    /// Somebody else listens under the lab's name.
    #[error(
        "lab '{lab}': it is not visited, since user {user} answers for it, who is neither root nor \
         you; see who listens with: ss -xlp"
    )]
    Stranger {
        /// The lab.
        lab: String,
        /// Who listens, by number.
        user: u32,
    },
    /// The lab ended before it stood.
    #[error("lab '{lab}' did not come up: {reason}")]
    DidNotComeUp {
        /// The lab.
        lab: String,
        /// What its supervisor said last.
        reason: String,
    },
    /// A program that the file asks for is missing or failed.
    #[error("{tool}: {problem}; {advice}")]
    Tool {
        /// The program.
        tool: String,
        /// What went wrong.
        problem: String,
        /// What to do.
        advice: String,
    },
    /// A figure could not be drawn.
    #[error("cannot draw {file}: {reason}")]
    Figure {
        /// The file.
        file: String,
        /// Why.
        reason: String,
    },
}

impl LabError {
    pub(crate) fn io(
        operation: &'static str,
        object: impl Into<String>,
        source: impl Into<std::io::Error>,
    ) -> Self {
        Self::Io { operation, object: object.into(), source: source.into() }
    }
}

/// Answer of every door of this crate.
pub type Result<T> = std::result::Result<T, LabError>;

fn not_running(name: Option<&str>, running: &[String]) -> String {
    let known = if running.is_empty() {
        "none runs; start one with: catena lab up labs/openstack-testbed.yaml".to_owned()
    } else {
        format!("running: {}", running.join(", "))
    };
    match name {
        Some(name) => format!("no lab named '{name}' runs ({known})"),
        None if running.is_empty() => "no lab runs; start one with: catena lab up \
                                       labs/openstack-testbed.yaml"
            .to_owned(),
        None => format!("several labs run: name one of {}", running.join(", ")),
    }
}

//! A test bed that stands: two ends with a chain between them.

use super::chains::Node;
use super::wires::{DESTINATION_ADDRESS, Wires};
use crate::peers::Daemon;
use std::process::Command;

/// The two ends of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Source,
    Destination,
}

/// Who a bed is made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Maker {
    /// Ours, as the demo runs it.
    Ours,
    /// Ours without the kernel path: every packet goes through the engine.
    Engine,
    Redirect,
    RedirectPeer,
    Routing,
    OpenVswitch,
}

/// A bed; gone with this value.
pub(crate) struct Bed {
    wires: Wires,
    /// Ends after the cables to it.
    _switch: Option<Daemon>,
}

impl Bed {
    pub(crate) fn of(wires: Wires, switch: Option<Daemon>) -> Self {
        Self { wires, _switch: switch }
    }
}

/// Where programs are run and what they connect to.
pub(crate) trait Ends {
    /// A command at an end; its program is the first argument to be added.
    fn at(&self, end: End) -> Command;

    /// The destination's address.
    fn address(&self) -> &'static str {
        DESTINATION_ADDRESS
    }
}

impl Ends for Bed {
    fn at(&self, end: End) -> Command {
        self.wires.inside(match end {
            End::Source => Node::Source,
            End::Destination => Node::Destination,
        })
    }
}

//! Where a function stands: two interfaces, as a command line or an agent names them. Knows how they are opened, and
//! what to do where they cannot be; refuses to know what passes there.

use crate::error::RunError;
use catena_kernel::KernelError;
use catena_kernel::packet::open_packet_socket_here;
use catena_rules::Side;
use clap::Args;
use std::os::fd::OwnedFd;

/// Refusals of the kernel (errno(3)): EPERM, EACCES.
const NOT_PERMITTED: [i32; 2] = [1, 13];

/// The interfaces that a function stands between. An agent tells them to the instances that it starts.
#[derive(Args, Clone, Debug)]
pub struct Place {
    /// The interface where packets of the forward direction come in; those of the backward go out there.
    #[arg(long = "in", value_name = "IF", env = "CATENA_INGRESS")]
    at_in: String,
    /// The interface where packets of the forward direction go out; those of the backward come in there.
    #[arg(long = "out", value_name = "IF", env = "CATENA_EGRESS")]
    at_out: String,
}

impl Place {
    /// Are there two interfaces?
    ///
    /// # Errors
    /// They are one.
    pub fn check(&self) -> Result<(), RunError> {
        if self.at_in == self.at_out {
            return Err(RunError::OneInterface(self.at_in.clone()));
        }
        Ok(())
    }

    /// The interface at a side.
    #[must_use]
    pub fn name(&self, side: Side) -> &str {
        match side {
            Side::In => &self.at_in,
            Side::Out => &self.at_out,
        }
    }

    /// A packet socket on each, the incoming first.
    pub(crate) fn open(&self) -> Result<[OwnedFd; 2], RunError> {
        Ok([self.open_at(Side::In)?, self.open_at(Side::Out)?])
    }

    fn open_at(&self, side: Side) -> Result<OwnedFd, RunError> {
        let name = self.name(side);
        open_packet_socket_here(name).map_err(|error| RunError::Interface {
            name: name.to_owned(),
            advice: advice(&error),
            error,
        })
    }
}

fn advice(error: &KernelError) -> &'static str {
    match error.errno() {
        _ if error.is_not_found() => "`ip link` lists those that are here",
        Some(errno) if NOT_PERMITTED.contains(&errno) => {
            "run it as root, or give the binary CAP_NET_RAW"
        }
        _ => "name an Ethernet interface",
    }
}

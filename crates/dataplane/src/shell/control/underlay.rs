//! The tunnel sockets of the control thread: when they are opened, given to the worker and tried
//! again. Refuses to know what travels in them.

use super::{Control, DataplaneError, Order, Underlay};
use catena_model::entry::Program;
use catena_protocol::message::UnderlayDevices;
use std::net::IpAddr;

impl Control {
    /// Opens the tunnel sockets on this address; none: they are open already.
    pub(super) fn open_underlay(
        &mut self,
        address: IpAddr,
    ) -> Result<Option<Box<Underlay>>, String> {
        if self.underlay == Some(address) {
            return Ok(None);
        }
        let opened = Underlay::open(address, &mut self.reserve).map_err(|error| {
            format!(
                "the tunnel sockets cannot be opened on {address}: {error}; the underlay address \
                 must be one of this host, and its tunnel ports free"
            )
        })?;
        let mut opened = Box::new(opened);
        opened.take_only_from(&self.underlay_devices);
        Ok(Some(opened))
    }

    /// None: they are open already, or stay closed until the host has the address; a host whose
    /// data network comes late serves its own ports all the same.
    pub(super) fn open_underlay_if_possible(&mut self, program: &Program) -> Option<Box<Underlay>> {
        let address = program.entries.own()?.underlay.address;
        self.open_underlay(address).unwrap_or_else(|reason| {
            tracing::error!("no tunnels for now: {reason}");
            self.no_tunnels = Some(reason);
            None
        })
    }

    /// An agent says by which interfaces datagrams of other nodes come in, and how large they may be.
    pub(super) fn take_underlay_devices(
        &mut self,
        devices: UnderlayDevices,
    ) -> Result<(), DataplaneError> {
        let UnderlayDevices { interfaces, mtu } = devices;
        self.underlay_devices.clone_from(&interfaces);
        self.workers.order(|done| Order::UnderlayDevices { interfaces, done })?;
        let mtu = if mtu == 0 { u16::MAX } else { u16::try_from(mtu).unwrap_or(u16::MAX) };
        if std::mem::replace(&mut self.underlay_mtu, mtu) != mtu {
            tracing::info!(mtu, "the underlay's devices take packets of this size");
        }
        self.workers.order_all(|done| Order::UnderlayMtu { mtu, done })?;
        Ok(())
    }

    /// That the underlay takes less than the program counts on, for people.
    pub(super) fn narrow_underlay(&self) -> Option<String> {
        let told = self.running.as_ref()?.program.entries.own()?.underlay.mtu;
        let now = self.underlay_mtu;
        (now < told).then(|| {
            format!(
                "the underlay's devices take packets of {now} bytes, not of {told}: senders of larger \
                 ones are told; give the devices their MTU back, or tenants a smaller one"
            )
        })
    }

    /// Gives the worker its tunnel sockets.
    pub(super) fn use_underlay(
        &mut self,
        underlay: Option<Box<Underlay>>,
    ) -> Result<(), DataplaneError> {
        let Some(underlay) = underlay else { return Ok(()) };
        let address = underlay.address();
        self.workers.order(|done| Order::Underlay { underlay, done })?;
        self.underlay = Some(address);
        tracing::info!(%address, "tunnel sockets open");
        Ok(())
    }

    /// The address whose tunnel sockets should be open and are not.
    pub(super) fn missing_underlay(&self) -> Option<IpAddr> {
        let wanted = self.running.as_ref()?.program.entries.own()?.underlay.address;
        (self.underlay != Some(wanted)).then_some(wanted)
    }

    pub(super) fn retry_underlay(&mut self) -> Result<(), DataplaneError> {
        if let Some(address) = self.missing_underlay()
            // Why it fails was told when the program was taken.
            && let Ok(underlay) = self.open_underlay(address)
        {
            self.use_underlay(underlay)?;
        }
        Ok(())
    }
}

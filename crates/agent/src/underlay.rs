//! The devices of the underlay, by which tunnels of other nodes come in: finds them, and tells the data
//! plane. Refuses to know what comes in by them.

use crate::fast_path::LOOPBACK_INDEX;
use crate::link::Outgoing;
use catena_kernel::KernelError;
use catena_kernel::netlink::Netlink;
use catena_model::program::SegmentPlace;
use catena_protocol::message::{UnderlayDevices, to_dataplane};
use std::net::IpAddr;
use std::time::Duration;
use tokio::sync::mpsc;

/// How often interfaces of the underlay are looked for.
pub(crate) const UNDERLAY_RETRY: Duration = Duration::from_secs(1);

/// What an operator says of it.
#[derive(Clone, Debug)]
pub(crate) struct Underlay {
    /// Own address on the data network.
    pub(crate) address: IpAddr,
    /// Own place in the IPv6 underlay, if the node has one.
    pub(crate) segments: Option<SegmentPlace>,
    /// Devices by which tunnels come in; none: those that have the addresses.
    pub(crate) devices: Vec<String>,
}

impl Underlay {
    /// The interfaces by which tunnels come in, as far as there are any now.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub(crate) async fn interfaces(&self, node: &Netlink) -> Result<Vec<u32>, KernelError> {
        if self.devices.is_empty() {
            let mut interfaces = Vec::from_iter(node.link_with_address(self.address).await?);
            if let Some(SegmentPlace { address, .. }) = self.segments {
                let own = node.link_with_address(address.into()).await?;
                interfaces.extend(own.filter(|own| !interfaces.contains(own)));
            }
            return Ok(interfaces);
        }
        let mut interfaces = Vec::new();
        for device in &self.devices {
            interfaces.extend(node.link(device).await?.map(|link| link.index));
        }
        Ok(interfaces)
    }

    /// The longest IP packet that all of these interfaces take now, in bytes; 0: there is none that
    /// leads anywhere.
    ///
    /// # Errors
    /// The kernel does not tell.
    async fn mtu(node: &Netlink, interfaces: &[u32]) -> Result<u32, KernelError> {
        let links = node.links().await?;
        let used = |index: u32| index != LOOPBACK_INDEX && interfaces.contains(&index);
        let mtus = links.iter().filter(|link| used(link.index)).map(|link| link.mtu);
        Ok(mtus.min().unwrap_or(0))
    }

    async fn devices(&self, node: &Netlink) -> Result<UnderlayDevices, KernelError> {
        let interfaces = self.interfaces(node).await?;
        let mtu = Self::mtu(node, &interfaces).await?;
        Ok(UnderlayDevices { interfaces, mtu })
    }

    /// Tells the data plane of the interfaces and what they take, whenever that changes, for as long as
    /// it listens.
    pub(crate) async fn tell(self, node: Netlink, dataplane: mpsc::Sender<Outgoing>) {
        let mut told = None;
        let mut warned = String::new();
        while !dataplane.is_closed() {
            match self.devices(&node).await {
                Ok(devices) if told.as_ref() != Some(&devices) => {
                    self.tell_people(&devices, told.as_ref());
                    told = Some(devices.clone());
                    let message = to_dataplane::Message::UnderlayDevices(devices);
                    // Whoever is gone is found out above.
                    dataplane.send(Outgoing { message, sockets: Vec::new() }).await.ok();
                }
                Err(error) if error.to_string() != warned => {
                    warned = error.to_string();
                    tracing::warn!("devices of the underlay are not looked for: {warned}");
                }
                Ok(_) | Err(_) => {}
            }
            tokio::time::sleep(UNDERLAY_RETRY).await;
        }
    }

    fn tell_people(&self, devices: &UnderlayDevices, before: Option<&UnderlayDevices>) {
        if before.is_none_or(|before| before.interfaces != devices.interfaces) {
            self.warn_if_cut_off(&devices.interfaces);
        }
        let (now, former) = (devices.mtu, before.map_or(0, |before| before.mtu));
        if 0 < now && now < former {
            tracing::warn!("the underlay's devices take {now} bytes in place of {former}");
        }
    }

    fn warn_if_cut_off(&self, interfaces: &[u32]) {
        let Self { address, devices, .. } = self;
        if interfaces.iter().any(|interface| *interface != LOOPBACK_INDEX) {
            return;
        }
        if devices.is_empty() {
            tracing::warn!(
                "no tunnel of another node is taken: {address} is on no device that leads to one; \
                 name those that do with --underlay-device"
            );
        } else {
            tracing::warn!(?devices, "no tunnel of another node is taken: no such device is here");
        }
    }
}

//! The sockets of the IPv6 underlay: when they are opened, and for whose packets. Refuses to know what travels by them.

use super::{Control, DataplaneError, Order};
use crate::shell::segment_sockets::SegmentSockets;
use catena_io::Ipv6Reserve;
use catena_model::entry::Program;
use catena_model::program::SegmentPlace;

/// Sockets for one worker: the first, who has those of tunnels.
const SEGMENT_SOCKETS: usize = 1;

/// Sockets for later, made while there is the right to.
pub(in crate::shell) fn reserve() -> Result<Ipv6Reserve, String> {
    Ipv6Reserve::open(SEGMENT_SOCKETS).map_err(|error| error.to_string())
}

impl Control {
    /// Takes packets of segments where a program says that the node is. What is in the way is told, and the node serves
    /// all else.
    pub(super) fn follow_segments(&mut self, program: &Program) -> Result<(), DataplaneError> {
        let own = program.entries.locators.get(&self.config.node);
        let Some(place) = own.map(|entry| entry.place) else {
            self.no_segments = None;
            return Ok(());
        };
        if self.segments == Some(place) {
            return Ok(());
        }
        let outcome = match self.segments {
            Some(_) => Ok(None),
            None => self.open_segments(place).map(Some),
        };
        let outcome = match outcome {
            Ok(sockets) => {
                let sockets = sockets.map(Box::new);
                let done = self.workers.order(|done| Order::Segments { place, sockets, done })?;
                done.map_err(|error| error.to_string())
            }
            Err(why) => Err(why),
        };
        match outcome {
            Ok(()) => {
                self.segments = Some(place);
                self.no_segments = None;
                let SegmentPlace { address, locator } = place;
                tracing::info!(%address, %locator, "packets of segments are taken");
            }
            Err(why) => {
                let locator = place.locator;
                tracing::error!("no packets to segments below {locator} are taken: {why}");
                self.no_segments =
                    Some(format!("no packets to segments below {locator} are taken: {why}"));
            }
        }
        Ok(())
    }

    fn open_segments(&mut self, place: SegmentPlace) -> Result<SegmentSockets, String> {
        let reserve = self
            .segment_reserve
            .as_mut()
            .map_err(|why| format!("{why}; the data plane needs CAP_NET_RAW where it starts"))?;
        let opened = SegmentSockets::open(place, reserve);
        let mut opened = opened.map_err(|error| error.to_string())?;
        opened.take_only_from(&self.underlay_devices);
        Ok(opened)
    }
}

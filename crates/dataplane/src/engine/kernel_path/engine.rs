//! The kernel path's place in the engine: what is asked of it before and after a vector, and when
//! tables, ports or health change.

use super::super::packet::{Arrived, Packet};
use super::super::trace::Trace;
use super::super::vector::VECTOR_PACKETS_MAX;
use super::super::{Engine, Output, Passing};
use super::{Door, KernelPath, KernelPort, Place, Surroundings, Treatment, Turn, Witnessed};
use catena_io::BufferPool;
use catena_model::id::PortId;
use catena_model::kernel::KernelCounters;
use catena_wire::frame::FrameView;

/// Runs some of the kernel path with what it may ask and move of the engine.
macro_rules! with_kernel {
    ($engine:expr, |$kernel:ident, $with:ident| $body:expr) => {
        if let Some($kernel) = $engine.kernel.as_deref_mut() {
            let $with = &mut Surroundings {
                now_ns: $engine.now_ns,
                epoch: $engine.epoch,
                tables: &$engine.tables,
                slots: &$engine.slots,
                books: &mut $engine.books,
                memory: &mut $engine.memory,
                flow_paths: &mut $engine.flow_paths,
            };
            Some($body)
        } else {
            None
        }
    };
}

impl Engine {
    /// Lets the kernel repeat what is decided from now on. The tables behind the door are empty.
    /// What the former door's tables carried is booked; they are not used any more.
    pub fn open_kernel_path(&mut self, door: Box<dyn Door>) {
        self.close_kernel_path();
        self.kernel = Some(Box::new(KernelPath::new(door)));
        self.memory.note_turns(true);
    }

    /// Decides every packet itself again.
    pub fn close_kernel_path(&mut self) {
        with_kernel!(self, |kernel, with| {
            kernel.end_all(with);
            kernel.settle(with.books);
        });
        self.kernel = None;
        self.memory.note_turns(false);
    }

    /// The interface of a port, for the kernel; none: the port has none that the kernel knows.
    pub fn set_kernel_port(&mut self, id: PortId, port: Option<KernelPort>) {
        with_kernel!(self, |kernel, with| kernel.port(id, port, with));
    }

    /// The interface of the underlay that the kernel's program stands before; none: before none.
    pub fn set_kernel_underlay(&mut self, interface: Option<u32>) {
        with_kernel!(self, |kernel, with| kernel.serve_underlay(interface, with));
    }

    /// Everything that [`Engine::forward`] handed out has been given to the ports: flows that waited
    /// for it may be the kernel's now.
    pub fn transmitted(&mut self) {
        with_kernel!(self, |kernel, with| {
            if kernel.transmitted() {
                kernel.hand_over(with);
            }
        });
    }

    /// Books what the kernel has carried, so that counters are those of this moment.
    pub fn settle_kernel_path(&mut self) -> Option<KernelCounters> {
        let kernel = self.kernel.as_deref_mut()?;
        kernel.settle(&mut self.books);
        Some(kernel.counters())
    }

    /// Lets time pass for the flows in the kernel; answers when it wants to be called again.
    pub(in super::super) fn tick_kernel_path(&mut self, now_ns: u64) -> Option<u64> {
        self.kernel.as_ref()?;
        let is_listening = self.checks.are_on(now_ns) || !self.traps.is_empty();
        let dead = self.health.dead();
        with_kernel!(self, |kernel, with| {
            kernel.listen(is_listening, with);
            if let Some(dead) = dead {
                kernel.note_health(dead, with);
            }
            kernel.tick(with)
        })
    }

    /// New tables are about to be in force.
    pub(in super::super) fn change_kernel_path(&mut self, turn: &mut Turn) {
        with_kernel!(self, |kernel, with| kernel.change(turn, with));
    }

    /// Somebody wants to see packets: from now on they come here.
    pub(in super::super) fn listen_to_kernel_path(&mut self) {
        with_kernel!(self, |kernel, with| kernel.listen(true, with));
    }

    /// How many packets of a vector pass as all others, and the key of the one behind them that
    /// passes alone.
    pub(in super::super) fn treat(
        &mut self,
        input: &[Packet],
        count: usize,
    ) -> (usize, Option<Place>) {
        let found = with_kernel!(self, |kernel, with| {
            let mut packets = input.iter().take(count.min(VECTOR_PACKETS_MAX)).enumerate();
            packets.find_map(|(place, packet)| {
                let Arrived::FromKernel { is_counted } = packet.arrived else { return None };
                match kernel.treat(packet.origin, &packet.buffer, is_counted, with) {
                    Treatment::Ordinary => None,
                    Treatment::Record(known) => Some((place, known)),
                }
            })
        });
        found.flatten().map_or((count, None), |(place, known)| (place, Some(known)))
    }

    /// Before anything of a vector is sent: what it contradicts is not repeated any more.
    pub(in super::super) fn end_turned(&mut self) {
        with_kernel!(self, |kernel, with| kernel.end_turned(with));
    }

    /// Takes a packet through the stages, and the decisions about it into the kernel.
    pub(in super::super) fn forward_recorded(
        &mut self,
        place: Place,
        packet: Packet,
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        let first = (out.frames.len(), out.datagrams.len());
        let frame = packet.buffer.bytes().get(place.inner_offset..).unwrap_or_default();
        let view = FrameView::parse(frame);
        let slot = packet.port();
        let mut notes = Vec::new();
        let passing = Passing { trace: Trace::listening(&mut notes), ..Passing::default() };
        self.forward_vector(self.now_ns, std::iter::once(packet), pool, out, passing);
        self.end_turned();
        let Ok(view) = view else { return };
        let seen = Witnessed { place, slot, view: &view, notes: &notes, first, out };
        with_kernel!(self, |kernel, with| kernel.record(&seen, with));
    }
}

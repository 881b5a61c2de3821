//! The kernel path's place in the engine: what is asked of it before and after a vector, and when
//! tables, ports or health change.

use crate::engine::action::effects::Trace;
use crate::engine::action::output::Output;
use crate::engine::offload::{
    KernelPath, KernelPort, OffloadContext, OffloadTables, Place, Run, Treatment,
    UnderlayInterface, Witnessed,
};
use crate::engine::packet::Packet;
use crate::engine::tables::Tables;
use crate::engine::vector::VECTOR_PACKETS_MAX;
use crate::engine::{Engine, Passing};
use catena_io::BufferPool;
use catena_model::id::PortId;
use catena_model::kernel::KernelCounters;

/// Runs some of the kernel path with what it may ask and move of the engine.
macro_rules! with_kernel {
    ($engine:expr, |$kernel:ident, $with:ident| $body:expr) => {
        if let Some($kernel) = $engine.kernel.as_deref_mut() {
            let $with = &mut OffloadContext {
                now_ns: $engine.now_ns,
                tables: &$engine.tables,
                slots: &$engine.slots,
                counters: &mut $engine.counters,
                proxy_flows: &mut $engine.proxy_flows,
                affinity: &mut $engine.affinity,
                links: &$engine.config.links,
            };
            Some($body)
        } else {
            None
        }
    };
}

impl Engine {
    /// Lets the kernel repeat what is decided from now on. Its tables are empty.
    /// What the former tables carried is counted; they are retired, and come back.
    pub fn open_kernel_path(
        &mut self,
        kernel_tables: Box<dyn OffloadTables>,
    ) -> Option<Box<dyn OffloadTables>> {
        let former = self.close_kernel_path();
        self.kernel = Some(Box::new(KernelPath::new(kernel_tables)));
        self.proxy_flows.note_turns(true);
        former
    }

    /// Decides every packet itself again; the kernel's tables are retired, and come back.
    pub fn close_kernel_path(&mut self) -> Option<Box<dyn OffloadTables>> {
        with_kernel!(self, |kernel, with| {
            kernel.end_all(with);
            kernel.settle(with);
        });
        self.proxy_flows.note_turns(false);
        let KernelPath { mut kernel_tables, .. } = *self.kernel.take()?;
        kernel_tables.retire();
        Some(kernel_tables)
    }

    /// The interface of a port, for the kernel; none: the port has none that the kernel knows.
    pub fn set_kernel_port(&mut self, id: PortId, port: Option<KernelPort>) {
        with_kernel!(self, |kernel, with| kernel.port(id, port, with));
        self.look_at_links();
    }

    /// Other tables are in force: no header that was made or kept under the former ones is good for them.
    pub(crate) fn forget_headers(&mut self) {
        self.pathlets.forget();
        self.carried.turn_tables();
    }

    /// Links are good for something else than before, or others: the kernel passes on by those that are sound.
    pub(crate) fn look_at_links(&mut self) {
        let has_turned = with_kernel!(self, |kernel, with| kernel.look_at_links(with));
        if has_turned == Some(true)
            && let Some(kernel) = self.kernel.as_deref()
        {
            self.transit.note_steered(kernel.steered());
        }
    }

    /// The same, if any has turned since.
    pub(crate) fn look_at_turned_links(&mut self) {
        let links = &self.config.links;
        if self.kernel.as_ref().is_some_and(|kernel| kernel.have_links_turned(links)) {
            self.look_at_links();
        }
    }

    /// The interface of the underlay that the kernel's program stands before; none: before none.
    pub fn set_kernel_underlay(&mut self, place: Option<UnderlayInterface>) {
        with_kernel!(self, |kernel, with| kernel.serve_underlay(place, with));
    }

    /// Everything that [`Engine::forward`] handed out has been given to the ports: flows that waited
    /// for it may be the kernel's now.
    pub fn transmitted(&mut self) {
        with_kernel!(self, |kernel, with| {
            if kernel.transmitted(&mut self.transit.came_up, with.now_ns) {
                kernel.hand_over(with);
            }
        });
    }

    /// Counts what the kernel has carried, so that counters are those of this moment.
    pub fn settle_kernel_path(&mut self) -> Option<KernelCounters> {
        with_kernel!(self, |kernel, with| {
            kernel.settle(with);
            kernel.counters()
        })
    }

    /// Frames that the kernel has sent up since its program was loaded; none: it has none.
    pub fn sent_up(&mut self) -> Option<u64> {
        self.kernel.as_deref_mut().map(KernelPath::sent_up)
    }

    /// Lets time pass for the flows in the kernel; answers when it wants to be called again.
    pub(crate) fn tick_kernel_path(&mut self, now_ns: u64) -> Option<u64> {
        self.kernel.as_ref()?;
        let is_listening =
            self.checks.are_on(now_ns) || self.follows.are_on(now_ns) || !self.captures.is_empty();
        let dead = self.health.dead();
        let next_ns = with_kernel!(self, |kernel, with| {
            kernel.listen(is_listening, with);
            if let Some(dead) = dead {
                kernel.note_health(dead, with);
            }
            kernel.tick(with)
        });
        self.look_at_links();
        next_ns
    }

    /// New tables are about to be in force.
    pub(crate) fn change_kernel_path(&mut self, tables: &Tables) {
        with_kernel!(self, |kernel, with| kernel.change(tables, with));
    }

    /// Somebody wants to see packets: from now on they come here.
    pub(crate) fn listen_to_kernel_path(&mut self) {
        with_kernel!(self, |kernel, with| kernel.listen(true, with));
    }

    /// How many packets of a vector pass together, and what becomes of the one behind them. `first`:
    /// what was said of the first packet before.
    pub(crate) fn treat(
        &mut self,
        input: &[Packet],
        count: usize,
        first: Option<Treatment>,
    ) -> Run {
        let run = with_kernel!(self, |kernel, with| {
            let (mut is_followed, mut said) = (None, first);
            for (place, packet) in input.iter().take(count.min(VECTOR_PACKETS_MAX)).enumerate() {
                let treatment = said.take().unwrap_or_else(|| kernel.treat(packet, with));
                let is_next_followed = match treatment {
                    Treatment::Ordinary => Some(false),
                    Treatment::Followed => Some(true),
                    Treatment::Record(_) => None,
                };
                let goes_on = is_next_followed.is_some()
                    && is_followed.is_none_or(|one| is_next_followed == Some(one));
                if !goes_on {
                    let is_followed = is_followed.unwrap_or(false);
                    return Run { count: place, is_followed, then: Some(treatment) };
                }
                is_followed = is_next_followed;
            }
            Run { count, is_followed: is_followed.unwrap_or(false), then: None }
        });
        run.unwrap_or(Run { count, is_followed: false, then: None })
    }

    /// Before anything of a vector is sent: what it contradicts is not repeated any more.
    pub(crate) fn end_turned(&mut self) {
        with_kernel!(self, |kernel, with| kernel.end_turned(with));
    }

    /// Takes a packet through the stages, and the decisions about it into the kernel.
    pub(crate) fn forward_recorded(
        &mut self,
        place: Place,
        packet: Packet,
        pool: &mut BufferPool,
        out: &mut Output,
    ) {
        let first = out.datagrams.len();
        let view = place.view(packet.buffer.bytes());
        let slot = packet.port();
        let mut notes = Vec::new();
        let passing = Passing { trace: Trace::recording(&mut notes), ..Passing::default() };
        self.egress.gso().follow(true);
        self.forward_vector(self.now_ns, std::iter::once(packet), pool, out, passing);
        self.egress.gso().follow(false);
        self.end_turned();
        let Some(view) = view else { return };
        let seen = Witnessed { place, slot, view: &view, notes: &notes };
        let is_followed = with_kernel!(self, |kernel, with| kernel.record(&seen, with));
        if is_followed != Some(true) {
            // What the engine goes on to send of the flow goes by a socket: this as well.
            let sent = out.datagrams.get_mut(first..).unwrap_or_default();
            sent.iter_mut().for_each(|datagram| datagram.is_followed = false);
        }
    }
}

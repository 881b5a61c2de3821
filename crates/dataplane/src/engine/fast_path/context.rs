//! What of the engine the fast path works with while a vector passes. Knows nothing of its own.

use crate::engine::account::counters::Counters;
use crate::engine::account::slots::Slots;
use crate::engine::action::actions::Actions;
use crate::engine::action::gso_batch::GsoBatcher;
use crate::engine::action::output::Output;
use crate::engine::action::pathlets::Pathlets;
use crate::engine::encap::Carried;
use crate::engine::packet::subscriber::Inspection;
use crate::engine::state::affinity::FlowAffinity;
use crate::engine::state::flow_cache::FlowCache;
use crate::engine::state::flushes::Flushes;
use crate::engine::state::health::Health;
use crate::engine::state::link_board::LinkBoard;
use crate::engine::state::proxy_flows::ProxyFlows;
use crate::engine::tables::Tables;
use crate::engine::vector::decision::Epoch;
use catena_io::BufferPool;

/// What the fast path works with.
pub(crate) struct FastPathContext<'e> {
    pub(crate) now_ns: u64,
    pub(crate) epoch: Epoch,
    pub(crate) tables: &'e Tables,
    pub(crate) slots: &'e Slots,
    pub(crate) actions: &'e Actions,
    pub(crate) health: &'e Health,
    pub(crate) links: &'e LinkBoard,
    pub(crate) flushes: &'e Flushes,
    pub(crate) is_coalescing: bool,
    /// Whether what is in a tunnel is told apart by its user.
    pub(crate) inspection: Inspection,
    pub(crate) counters: &'e mut Counters,
    pub(crate) proxy_flows: &'e mut ProxyFlows,
    pub(crate) affinity: &'e mut FlowAffinity,
    pub(crate) flow_cache: &'e mut FlowCache,
    pub(crate) carried: &'e mut Carried,
    pub(crate) pathlets: &'e mut Pathlets,
    pub(crate) gso: &'e mut GsoBatcher,
    pub(crate) pool: &'e mut BufferPool,
    pub(crate) out: &'e mut Output,
}

//! What requests are answered from. Knows what there is; refuses to know who asks for it and how.

use super::drafts::{Drafts, Maker};
use super::otlp_counters::OtlpCounters;
use super::quotas::Quotas;
use super::seats::Seats;
use crate::auth::Guard;
use crate::config::Overlap;
use crate::declared::Declared;
use crate::reconcile::receipts::Receipts;
use crate::reconcile::{Signals, Situation};
use crate::southbound::collector::Collector;
use crate::southbound::fleet::Fleet;
use catena_plan::Inventory;
use ipnet::IpNet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// What requests are answered from.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) declared: Arc<Declared>,
    /// Is that a draft?
    pub(crate) is_draft: bool,
    pub(crate) situation: watch::Receiver<Situation>,
    pub(crate) receipts: watch::Receiver<Arc<Receipts>>,
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) collector: Arc<Collector>,
    pub(crate) signals: Signals,
    pub(crate) guard: Arc<Guard>,
    /// How long a chain request waits for nodes that do not answer.
    pub(crate) answer_wait: Duration,
    pub(crate) overlap: Overlap,
    pub(crate) watchers: Seats,
    pub(crate) drafts: Arc<Drafts>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) bulks: Seats,
    pub(crate) requests: Seats,
    /// Requests whose body may be larger than others.
    pub(crate) large_bodies: Seats,
    /// What collectors of others were told.
    pub(crate) otlp: Arc<OtlpCounters>,
    pub(crate) trusted_proxies: Arc<[IpNet]>,
}

impl App {
    /// What is known of the nodes now.
    pub(super) fn inventory(&self) -> Arc<Inventory> {
        Arc::clone(&self.situation.borrow().inventory)
    }

    /// The same, but what is declared is a draft. Nobody waits for nodes: they hear nothing of it.
    pub(super) fn in_draft(&self, id: &str, maker: &Maker) -> Option<Self> {
        let declared = self.drafts.get(id, maker)?.declared;
        Some(Self { declared, is_draft: true, answer_wait: Duration::ZERO, ..self.clone() })
    }
}

//! The controller: northbound API, planner shell and southbound server.
//!
//! Knows how declared resources are stored, when to plan, and whom to tell. Refuses to know how a
//! path is made (`plan`) and what a packet looks like (`dataplane`).
#![forbid(unsafe_code)]

mod auth;
mod config;
mod connections;
mod declared;
mod error;
mod northbound;
mod reconcile;
mod southbound;
mod stubs;
mod wall_clock;

pub use auth::{Auth, KEYSTONE_REMEMBER_MAX, KeystoneConfig, KeystoneService};
pub use config::{Config, ListenerSource, Otlp, Overlap};
pub use error::ControllerError;
pub use northbound::{Access, Route, routes};
pub use southbound::pki::{NODE_CERTIFICATE_DAYS, enroll};

use catena_store::{SqliteStore, Store};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The store's file inside the data directory.
const STORE_FILE: &str = "catena.db";

fn open_store(
    data_dir: &Path,
    accepts_loss: bool,
    bytes_max: Option<u64>,
) -> Result<Arc<SqliteStore>, ControllerError> {
    let file = data_dir.join(STORE_FILE);
    let store = match accepts_loss {
        false => SqliteStore::open(file)?,
        true => SqliteStore::open_as_it_is(file)?,
    };
    if let Some(bytes) = bytes_max {
        store.limit_bytes(bytes)?;
    }
    Ok(Arc::new(store))
}

/// Takes the store's log into its file now and then, so that little depends on it.
async fn checkpoint(store: Arc<SqliteStore>, interval: Duration) -> Result<(), ControllerError> {
    loop {
        tokio::time::sleep(interval).await;
        let store = Arc::clone(&store);
        let done = tokio::task::spawn_blocking(move || store.checkpoint()).await;
        if let Err(error) = done.map_err(|_| ControllerError::Ended("checkpoint"))? {
            tracing::warn!("the log of the store stays as it is: {error}");
        }
    }
}

/// Runs a controller until the returned future is dropped or a listener fails.
///
/// Both listeners are bound before the first await, so that whoever started it may connect at once.
/// Needs a runtime of several threads: what blocks does so in place, and others go on beside it.
///
/// # Errors
/// When the configuration is refused, the store is damaged or in use, or a listener fails; each
/// error says what to do next.
pub async fn run(config: Config) -> Result<(), ControllerError> {
    let northbound = config.api.bind()?;
    let southbound = config.southbound.map(ListenerSource::bind).transpose()?;
    config::make_private_directory(&config.data_dir)?;
    let file = open_store(&config.data_dir, config.accepts_loss, config.store_bytes_max)?;
    let store: Arc<dyn Store> = Arc::<SqliteStore>::clone(&file);
    let guard = auth::Guard::prepare(config.auth, &northbound, Arc::clone(&store))?;
    let quotas = northbound::Quotas::load(Arc::clone(&store), !guard.is_open())?;
    let authority = southbound::pki::Authority::open(&config.data_dir)?;
    let declared = Arc::new(declared::Declared::load(Arc::clone(&store))?);
    let fleet = Arc::new(southbound::fleet::Fleet::default());
    let collector = Arc::new(southbound::collector::Collector::new(Arc::clone(&fleet)));
    let (found, findings) = tokio::sync::watch::channel(reconcile::health::Found::default());
    let (signals, situation, reconciler) =
        reconcile::prepare(Arc::clone(&store), &declared, Arc::clone(&fleet), findings)?;

    let (receipts, receipts_seen) =
        tokio::sync::watch::channel(Arc::new(reconcile::receipts::Receipts::default()));
    let forgetting = northbound::watch_rule_sets(Arc::clone(&declared));
    let app = northbound::App {
        declared,
        is_draft: false,
        situation: situation.clone(),
        receipts: receipts_seen,
        fleet: Arc::clone(&fleet),
        collector: Arc::clone(&collector),
        signals: signals.clone(),
        guard: Arc::new(guard),
        answer_wait: config.answer_wait,
        overlap: config.overlap,
        watchers: northbound::Seats::default(),
        drafts: Arc::default(),
        quotas: Arc::new(quotas),
        bulks: northbound::Seats::default(),
        requests: northbound::Seats::default(),
        large_bodies: northbound::Seats::default(),
        otlp: Arc::default(),
        trusted_proxies: config.trusted_proxies.into(),
    };
    let app = Arc::new(app);
    let (north, south) = connections::doors();
    // The planner computes where this future is polled: that holds up no listener, and who waits for its plan
    // is woken on the spot.
    let mut listeners = tokio::task::JoinSet::new();
    listeners.spawn(northbound::otlp::export(Arc::clone(&app), config.otlp));
    listeners.spawn(async move { northbound::serve(northbound, &north, app).await });
    let (heard, running, telling) = (signals.clone(), Arc::clone(&fleet), Arc::clone(&fleet));
    listeners
        .spawn(async move { southbound::serve(southbound, &south, authority, fleet, heard).await });
    tokio::select! {
        end = reconciler.run() => end,
        end = checkpoint(file, config.checkpoint_interval) => end,
        end = forgetting => end,
        end = reconcile::drain::watch(situation.clone(), Arc::clone(&collector), signals.clone(), receipts) => end,
        end = reconcile::instances::watch(situation.clone(), running) => end,
        end = southbound::telemetry::watch(situation.clone(), telling) => end,
        end = reconcile::health::watch(situation, collector, signals, found) => end,
        Some(end) = listeners.join_next() => end.unwrap_or(Err(ControllerError::Ended("listener"))),
    }
}

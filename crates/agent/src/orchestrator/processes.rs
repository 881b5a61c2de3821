//! Instances as processes of the node, each in a network namespace of its own. Finds again what an agent before it has
//! left running.

use super::home::Home;
use super::keeper::{Keeper, Order, Surroundings, remove_cgroup};
use super::network;
use super::process::Process;
use super::{InstanceNews, Orchestrator};
use crate::InstancePaths;
use catena_kernel::netlink::Netlink;
use catena_model::id::InstanceId;
use catena_model::instance::{InstanceBounds, InstanceSpec};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::PathBuf;
use tokio::sync::mpsc;

/// Orders that may wait for one instance.
const ORDERS_MAX: usize = 16;

/// The instances of a node.
pub(crate) struct Processes {
    home: PathBuf,
    around: Surroundings,
    keepers: BTreeMap<InstanceId, mpsc::Sender<Order>>,
    /// Why nothing is run here, once that was found out.
    trouble: Option<String>,
}

impl Processes {
    /// With what runs already, which is answered, too.
    pub(crate) fn resume(
        paths: &InstancePaths,
        node: Netlink,
        news: mpsc::Sender<InstanceNews>,
    ) -> (Self, Vec<InstanceSpec>) {
        let around = Surroundings {
            node,
            binary: paths.binary.clone(),
            cgroups: paths.cgroups.clone(),
            cgroup_journal: paths.cgroup_journal.clone(),
            news,
        };
        let mut all =
            Self { home: paths.home.clone(), around, keepers: BTreeMap::new(), trouble: None };
        all.remove_left_cgroups();
        let there =
            if paths.home.exists() && all.prepare() { Home::all(&paths.home) } else { Vec::new() };
        let specs = there.iter().map(|(_, spec)| spec.clone()).collect();
        for (home, spec) in there {
            all.take_over(home, spec);
        }
        (all, specs)
    }

    /// Groups that a sudden end has left: those that are written down and that nothing runs in.
    fn remove_left_cgroups(&self) {
        for journal in fs::read_dir(&self.around.cgroup_journal).into_iter().flatten().flatten() {
            if let Err(error) = remove_cgroup(&journal.path()) {
                tracing::warn!("a control group of before stays: {error}");
            }
        }
    }

    fn prepare(&mut self) -> bool {
        let prepared = Home::prepare(&self.home);
        self.trouble = prepared.err().map(|error: io::Error| {
            format!(
                "{} cannot be used for instances: {error}; see --instances",
                self.home.display()
            )
        });
        if let Some(trouble) = &self.trouble {
            tracing::error!("no instance is run: {trouble}");
        }
        self.trouble.is_none()
    }

    /// What an agent before this one ran: its process, if it is still there, and else another one.
    fn take_over(&mut self, home: Home, spec: InstanceSpec) {
        let known = home.process();
        let restarts = known.as_ref().map_or(0, |known| known.restarts);
        let found = known.as_ref().and_then(Process::adopt);
        let (found, lost) = match network::find(&spec) {
            Ok(_) => (found, None),
            Err(_) => (None, found),
        };
        // Without its network it is of no use, and in the way of the next.
        lost.map(|process| tokio::spawn(process.end()));
        match &found {
            Some(_) => tracing::info!(instance = spec.name, "runs since before this agent"),
            None => {
                tracing::info!(instance = spec.name, "ran before this agent, and is started anew");
            }
        }
        self.keep(home, spec, restarts, found);
    }

    fn keep(&mut self, home: Home, spec: InstanceSpec, restarts: u32, found: Option<Process>) {
        let (orders, inbox) = mpsc::channel(ORDERS_MAX);
        self.keepers.insert(spec.id, orders);
        let around = self.around.clone();
        let keeper =
            Keeper { spec, home, around, orders: inbox, restarts, last_exit: String::new() };
        tokio::spawn(keeper.run(found));
    }

    fn order(&self, id: InstanceId, order: Order) {
        let Some(keeper) = self.keepers.get(&id) else { return };
        if keeper.try_send(order).is_err() {
            tracing::warn!(instance = %id, "an order is lost: too many wait");
        }
    }
}

impl Orchestrator for Processes {
    fn deploy(&mut self, spec: InstanceSpec) {
        if self.keepers.contains_key(&spec.id) {
            return self.order(spec.id, Order::Become(spec));
        }
        if self.prepare() {
            self.keep(Home::of(&self.home, &spec), spec, 0, None);
        }
    }

    fn resize(&mut self, id: InstanceId, bounds: InstanceBounds) {
        self.order(id, Order::Resize(bounds));
    }

    fn remove(&mut self, id: InstanceId) {
        if let Some(keeper) = self.keepers.remove(&id) {
            // It may be busy with ending its process; this order is not lost.
            tokio::spawn(async move { keeper.send(Order::Remove).await });
        }
    }
}

//! `/v1/chains`: their states, counters and receipts of changes, and what networking-sfc has no words
//! for: by which encapsulation a chain goes on, whether the controller is asked for its flows, the metadata that
//! travels with its packets, and what nodes write of them.

use super::change::{self, body, declare};
use super::functions::{given, operators};
use super::paths;
use super::problem::Problem;
use super::view::View;
use crate::auth::Identity;
use crate::northbound::app::App;
use crate::reconcile::{Situation, settle};
use axum::response::Response;
use catena_model::account::{ChainCounters, PortCounters};
use catena_model::id::{ChainId, FunctionId, InstanceId};
use catena_model::resource::{Chain, ContextHeader, Encapsulation, Payload, ServiceFunction};
use catena_model::setup::{ChainSetups, Setup};
use catena_model::status::{
    ChainAtNode, ChainReport, ChainSummary, LostOnReturn, PathReport, SilentNode,
};
use catena_model::telemetry::Telemetry;
use catena_model::{CounterScope, NodeName};
use catena_plan::{IndexedIntent, Intent};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::discriminant;
use std::net::Ipv6Addr;
use tokio::time::Instant;
use utoipa::ToSchema;
use uuid::Uuid;

/// Longest tenant of a context, in bytes.
const TENANT_BYTES_MAX: usize = 32;

/// What `PATCH` changes of a chain; what is not given stays.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ChainUpdate {
    /// How its path is carried between hosts from now on.
    #[serde(default)]
    pub(super) encapsulation: Option<Encapsulation>,
    /// What is inside from now on, where the encapsulation has a choice.
    #[serde(default)]
    pub(super) payload: Option<Payload>,
    /// When the controller is asked for its flows from now on.
    #[serde(default)]
    pub(super) setup: Option<Setup>,
    /// Metadata that travels with its packets.
    #[serde(default)]
    pub(super) context: Option<Vec<ContextHeader>>,
    /// What its packets take along, and which of them are told of; null takes it away.
    #[serde(default, deserialize_with = "given")]
    #[schema(value_type = Option<Telemetry>)]
    pub(super) telemetry: Option<Option<Telemetry>>,
    /// Segments of others that its packets visit on their way to a function, by the function's name or identity; all
    /// of them, none for `{}`.
    #[serde(default)]
    #[schema(value_type = Option<BTreeMap<String, Vec<String>>>)]
    pub(super) via: Option<BTreeMap<String, Vec<Ipv6Addr>>>,
}

impl ChainUpdate {
    /// What carries a chain from now on, which this carries.
    fn carrier(&self, now: Encapsulation) -> Result<Encapsulation, Problem> {
        let Some(payload) = self.payload else { return Ok(self.encapsulation.unwrap_or(now)) };
        // What is inside now says nothing against what is to be.
        let named = self.encapsulation.unwrap_or(now.without_payload());
        named.with_payload(payload).map_err(|why| Problem::bad_body(&why))
    }
}

pub(super) async fn list(view: &View) -> Result<Response, Problem> {
    let View { situation, intent, .. } = view;
    let all = intent.chains.values().map(|chain| summary(situation, intent, chain));
    view.told(&all.collect::<Vec<ChainSummary>>())
}

pub(super) async fn show(view: &View) -> Result<Response, Problem> {
    let chain = find(&view.intent, &view.call.name)?;
    let report = report(&view.app, &view.situation, &view.intent, &view.identity, chain).await;
    view.told(&report)
}

/// The state of a chain.
pub(super) fn summary(situation: &Situation, intent: &Intent, chain: &Chain) -> ChainSummary {
    ChainSummary {
        name: chain.label.name.clone(),
        status: situation.chain_status(intent, chain.id),
    }
}

/// The chain that is meant by a name or an identity.
pub(super) fn find<'i>(intent: &'i Intent, name: &str) -> Result<&'i Chain, Problem> {
    let all = intent.chains.values().map(|chain| (chain.id.0, &chain.label));
    let id = ChainId(change::find("chain", all, name)?);
    intent.chains.get(&id).ok_or_else(Problem::gone)
}

/// Everything about a chain.
async fn report(
    app: &App,
    situation: &Situation,
    intent: &Intent,
    identity: &Identity,
    chain: &Chain,
) -> ChainReport {
    let name = |id: &FunctionId| {
        let name = intent.functions.get(id).map(|function| function.label.name.clone());
        name.filter(|name| !name.is_empty()).unwrap_or_else(|| id.to_string())
    };
    let at = nodes_of(situation, chain.id);
    let counters = app.collector.some(at.clone(), true, scope_of(intent, chain)).await;
    let is_of_chain = |instance: &InstanceId| {
        let functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
        functions.flat_map(|function| &function.instances).any(|id| id == instance)
    };
    let silent = at.into_iter().filter(|node| !counters.contains_key(node));
    let silent = silent.map(|node| SilentNode { node: Some(node) }).collect();
    let paths = paths::of_chain(situation, chain.id);
    let (mut health, mut setups) = (Vec::new(), None::<ChainSetups>);
    let at_nodes = counters.into_iter().flat_map(|(node, counters)| {
        health.extend(counters.health.into_iter().filter(|one| is_of_chain(&one.instance)));
        if let Some(asked) = counters.setups.chains.get(&chain.id) {
            setups.get_or_insert_default().merge(asked);
        }
        let of_chain = counters.chains.into_iter().filter(|counted| counted.chain == chain.id);
        let counting_ms = counters.dataplane.up_ms;
        let kernel = counters.dataplane.kernel.filter(|_| identity.sees_all());
        let lost_in_kernel = kernel.map(|kernel| kernel.lost_in_kernel().dropped);
        let lost_in_kernel = lost_in_kernel.unwrap_or_default();
        of_chain
            .map(|counted| ChainAtNode {
                node: Some(node.clone()),
                counting_ms,
                lost_on_return: lost_on_return(intent, &paths, &counters.ports, &counted),
                lost_in_kernel: lost_in_kernel.clone(),
                counters: counted,
            })
            .collect::<Vec<ChainAtNode>>()
    });
    let nodes = at_nodes.collect();
    let via = chain.via.iter().filter(|_| identity.sees_all());
    let is_alone = |own: &str| chain.functions.iter().filter(|id| name(id) == own).count() < 2;
    let key = |id: &FunctionId| {
        Some(name(id)).filter(|own| is_alone(own)).unwrap_or_else(|| id.to_string())
    };
    let via = via.map(|(function, segments)| (key(function), segments.clone()));
    ChainReport {
        via: via.collect(),
        status: situation.chain_status(intent, chain.id),
        name: chain.label.name.clone(),
        functions: chain.functions.iter().map(name).collect(),
        encapsulation: chain.encapsulation,
        setup: chain.setup,
        setups,
        telemetry: chain.telemetry.clone(),
        paths,
        nodes,
        silent,
        health,
        receipt: app.receipts.borrow().of(chain.id).cloned(),
    }
}

/// What was lost at the ports by which the functions of a path send back.
fn lost_on_return(
    intent: &Intent,
    paths: &[PathReport],
    ports: &[PortCounters],
    counted: &ChainCounters,
) -> Vec<LostOnReturn> {
    let mut paths = paths.iter().filter(|path| path.path == counted.path);
    let is_reverse = paths.any(|path| path.direction == paths::REVERSE);
    let lost = counted.hops.iter().filter_map(|hop| {
        let instance = intent.instances.get(&hop.instance)?;
        let port = if is_reverse { instance.ingress } else { instance.egress };
        let port = ports.iter().find(|counted| counted.port == port)?;
        Some(LostOnReturn::at(hop.instance, port))
    });
    lost.filter(|lost| lost.total() > 0).collect()
}

/// The nodes of a chain's paths.
pub(super) fn nodes_of(situation: &Situation, chain: ChainId) -> BTreeSet<NodeName> {
    let paths = situation.blueprint.ledger.paths.of_chain(chain);
    paths.flat_map(|(_, path)| path.nodes(situation.inventory.nodes.keys())).collect()
}

/// What is counted of a chain, and at the ports of its functions.
pub(super) fn scope_of(intent: &Intent, chain: &Chain) -> CounterScope {
    let functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
    let instances = functions.flat_map(|function| &function.instances);
    let instances = instances.filter_map(|id| intent.instances.get(id));
    let ports = instances.flat_map(|instance| [instance.ingress, instance.egress]);
    let (chains, ports) = (BTreeSet::from([chain.id]), ports.collect());
    CounterScope { chains, ports, ..CounterScope::default() }
}

/// The account of a chain's last change; of a deleted chain by the name that it had.
pub(super) async fn receipt(view: &View) -> Result<Response, Problem> {
    let (name, receipts) = (&view.call.name, view.app.receipts.borrow());
    let found = match find(&view.intent, name) {
        Ok(chain) => receipts.of(chain.id),
        // A receipt does not say whose chain it was.
        Err(problem) if !view.identity.sees_all() => return Err(problem),
        Err(problem) => {
            let gone = Uuid::parse_str(name).ok().and_then(|id| receipts.of(ChainId(id)));
            Some(gone.or_else(|| receipts.named(name)).ok_or(problem)?)
        }
    };
    view.told(found.ok_or_else(|| {
        Problem::not_found(format!(
            "Chain '{name}' has no receipt: no change of it has ended since this controller started."
        ))
    })?)
}

/// What a chain would cost under each encapsulation.
pub(super) async fn compare(view: &View) -> Result<Response, Problem> {
    let View { app, situation, call, .. } = view;
    let chain = find(&view.intent, &call.name)?.clone();
    let (situation, declared) = (situation.clone(), app.declared.snapshot().intent);
    let compared = move || {
        let (blueprint, inventory) = (&situation.blueprint, &situation.inventory);
        catena_plan::compare(blueprint, &declared, inventory, &chain, &Encapsulation::ALL)
    };
    view.told(&tokio::task::block_in_place(compared))
}

/// Changes what is given; the receipt that it answers is that of this change.
pub(super) async fn patch(view: &View) -> Result<Response, Problem> {
    let View { app, call, identity, .. } = view;
    let change: ChainUpdate = body(call)?;
    check_change(&change)?;
    if change.via.is_some() && !identity.sees_all() {
        return Err(operators("'via' names segments of the network between hosts"));
    }
    let before = app.situation.borrow().blueprint.number;
    let id = find(&view.intent, &call.name)?.id;
    let snapshot = declare(app, move |draft| {
        let chain = draft.intent().chains.get(&id).cloned().ok_or_else(Problem::gone)?;
        let changed = changed(draft.intent(), chain, change)?;
        draft.put(changed)?;
        Ok(())
    })
    .await?;
    let deadline = Instant::now() + app.answer_wait;
    let mut receipts = settle::changed(app, snapshot.revision, before, &[id], deadline).await;
    let situation = app.situation.borrow().clone();
    let chain = snapshot.intent.chains.get(&id).ok_or_else(Problem::gone)?;
    let report = report(app, &situation, &snapshot.intent, identity, chain).await;
    view.told(&ChainReport { receipt: receipts.pop(), ..report })
}

/// A chain as a change makes it; what its functions and slices do not go with is refused by the plan.
fn changed(intent: &IndexedIntent, chain: Chain, change: ChainUpdate) -> Result<Chain, Problem> {
    let encapsulation = change.carrier(chain.encapsulation)?;
    let is_moved = encapsulation != chain.encapsulation;
    // All chains of a graph are carried alike.
    let graph = intent.index().graphs_of_chain(chain.id).next();
    if let Some(graph) = graph.filter(|_| is_moved) {
        let todo = match encapsulation.is_tunnelled() {
            false => "no chain on source routes or segments is in a graph: delete the graph",
            true => "delete the graph first, and make it anew when its chains have moved",
        };
        return Err(Problem::conflict(format!(
            "Chain '{}' is in graph '{graph}', whose chains are all carried alike; {todo}.",
            chain.id
        )));
    }
    let context = change.context.unwrap_or_else(|| chain.context.clone());
    if !context.is_empty() && !encapsulation.capabilities().has_metadata {
        let todo = match is_moved {
            true => "take its context away first ('context': [])",
            false => "move it to nsh ('encapsulation': 'nsh')",
        };
        let (name, carrier) = (chain.id, encapsulation.name());
        return Err(Problem::conflict(format!(
            "Chain '{name}' has a context, for which {carrier} has no room; {todo}."
        )));
    }
    let setup = change.setup.unwrap_or(chain.setup);
    let telemetry = change.telemetry.unwrap_or_else(|| chain.telemetry.clone());
    let via = match change.via {
        Some(via) => of_functions(intent, &chain, via)?,
        None => chain.via.clone(),
    };
    Ok(Chain { context, setup, telemetry, via, ..chain.moved_to(encapsulation) })
}

/// Segments by the functions of a chain that they lead to.
fn of_functions(
    intent: &IndexedIntent,
    chain: &Chain,
    via: BTreeMap<String, Vec<Ipv6Addr>>,
) -> Result<BTreeMap<FunctionId, Vec<Ipv6Addr>>, Problem> {
    let functions = || chain.functions.iter().filter_map(|id| intent.functions.get(id));
    let mut found = BTreeMap::new();
    for (name, segments) in via {
        let is_it = |function: &&ServiceFunction| {
            (function.label.name == name && !name.is_empty()) || function.id.to_string() == name
        };
        let mut named = functions().filter(is_it);
        let function = named.next().ok_or_else(|| {
            let known: Vec<String> = functions().map(ServiceFunction::name).collect();
            Problem::bad_body(&format!(
                "'via' names function '{name}', and chain '{}' has {}; name one of those",
                chain.name(),
                known.join(", ")
            ))
        })?;
        if named.any(|other| other.id != function.id) {
            return Err(Problem::bad_body(&format!(
                "'via' names function '{name}', of which chain '{}' has several; name it by its identity",
                chain.name()
            )));
        }
        if found.insert(function.id, segments).is_some() {
            return Err(Problem::bad_body(&format!("'via' names function '{name}' twice")));
        }
    }
    Ok(found)
}

fn check_change(change: &ChainUpdate) -> Result<(), Problem> {
    match change {
        ChainUpdate {
            encapsulation: None,
            payload: None,
            setup: None,
            context: None,
            telemetry: None,
            via: None,
        } => Err(Problem::bad_body(
            "it changes nothing; give 'encapsulation', 'payload', 'setup', 'context', 'telemetry' or 'via'",
        )),
        ChainUpdate { context, .. } => check_context(context.as_deref().unwrap_or_default()),
    }
}

fn check_context(context: &[ContextHeader]) -> Result<(), Problem> {
    let mut kinds = BTreeSet::new();
    for header in context {
        if !kinds.insert(format!("{:?}", discriminant(header))) {
            let detail = "'context' has two headers of one kind";
            return Err(Problem::bad_body(detail));
        }
        if let ContextHeader::Tenant(tenant) = header
            && !(1..=TENANT_BYTES_MAX).contains(&tenant.len())
        {
            return Err(Problem::bad_body(&format!(
                "a tenant has 1 to {TENANT_BYTES_MAX} bytes, '{tenant}' has {}",
                tenant.len()
            )));
        }
    }
    Ok(())
}

//! Service graphs: a `ChainGraph` in the words of networking-sfc.

use super::attributes::{Attribute, Prepared, empty_text, optional, read_only, required};
use super::collection::{Collection, Shown, shown};
use super::errors::ApiError;
use super::scope::{Edit, Labels, Scope, View};
use super::{port_chain, uses, values};
use catena_model::ProjectId;
use catena_model::id::{ChainId, FunctionId, GraphId};
use catena_model::resource::{Chain, ChainGraph, ClassificationRule, Encapsulation};
use catena_model::status::ChainState;
use catena_plan::IndexedIntent;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

/// The chains that each chain branches into.
type Branches = BTreeMap<ChainId, Vec<ChainId>>;

const TABLE: &[Attribute] = &[
    read_only("id"),
    optional("name", empty_text, true, values::name),
    optional("description", empty_text, true, values::text),
    required("port_chains", false, port_chains),
    read_only("status"),
];

pub(super) struct ServiceGraphs;

impl Collection for ServiceGraphs {
    fn singular(&self) -> &'static str {
        "service_graph"
    }

    fn plural(&self) -> &'static str {
        "service_graphs"
    }

    fn table(&self) -> &'static [Attribute] {
        TABLE
    }

    fn not_found(&self, id: &str) -> ApiError {
        not_found(id)
    }

    fn labels<'a>(&self, scope: Scope<'a>, name: Option<&str>) -> Labels<'a> {
        scope.labels::<ChainGraph>(name)
    }

    fn count(&self, intent: &IndexedIntent, project: &ProjectId) -> usize {
        intent.index().count_owned::<ChainGraph>(project)
    }

    fn render(&self, view: &View, id: Uuid) -> Option<Shown> {
        Some(render(view, view.scope().graph(GraphId(id))?))
    }

    fn create(&self, edit: &mut Edit<'_>, given: &Prepared) -> Result<Uuid, ApiError> {
        let branches = branches(given.value("port_chains"));
        check(edit.scope(), &branches)?;
        let id = Uuid::new_v4();
        edit.draft.put(ChainGraph { id: GraphId(id), label: given.label(), branches })?;
        Ok(id)
    }

    fn update(&self, edit: &mut Edit<'_>, id: Uuid, given: &Prepared) -> Result<(), ApiError> {
        let mut graph = find(edit.scope(), id)?.clone();
        given.relabel(&mut graph.label);
        Ok(edit.draft.put(graph)?)
    }

    fn delete(&self, edit: &mut Edit<'_>, id: Uuid) -> Result<(), ApiError> {
        let id = find(edit.scope(), id)?.id;
        edit.draft.remove::<ChainGraph>(id);
        Ok(())
    }

    fn waits(&self) -> bool {
        true
    }

    fn chains(&self, intent: &IndexedIntent, id: Uuid) -> Vec<ChainId> {
        let graph = intent.graphs.get(&GraphId(id));
        graph.map(|graph| members(&graph.branches)).into_iter().flatten().collect()
    }
}

fn not_found(id: &str) -> ApiError {
    ApiError::not_found("ServiceGraphNotFound", format!("Service Graph {id} not found."))
}

fn find(scope: Scope<'_>, id: Uuid) -> Result<&ChainGraph, ApiError> {
    scope.graph(GraphId(id)).ok_or_else(|| not_found(&id.to_string()))
}

/// Every chain of a graph, once.
fn members(branches: &Branches) -> BTreeSet<ChainId> {
    let onward = branches.values().flatten();
    branches.keys().chain(onward).copied().collect()
}

/// The rules of a graph, in the original's order.
fn check(scope: Scope<'_>, branches: &Branches) -> Result<(), ApiError> {
    // Of a chain that may not be known of it is not told either whether a graph has it.
    let mut known = members(branches).into_iter().filter(|id| scope.chain(*id).is_some());
    if known.any(|id| uses::graph_of(scope.intent, id).is_some()) {
        let message = format!(
            "Some of the Port Chain(s): {}, are already in use by a Service Graph.",
            json!(branches)
        );
        return Err(ApiError::conflict("ServiceGraphInvalidPortChains", message));
    }
    let mut carried = None;
    for (source, onward) in branches {
        let source = port_chain::find(scope, source.0)?;
        check_branching(scope.intent, source, source.functions.last())?;
        check_encapsulation(&mut carried, source)?;
        check_branch_point(scope, onward, &mut carried)?;
    }
    if has_cycle(branches) {
        let message = format!("Loop detected among the Port Chain(s): {}.", json!(branches));
        return Err(ApiError::invalid("ServiceGraphLoopDetected", message));
    }
    Ok(())
}

/// The chains that one chain branches into.
fn check_branch_point(
    scope: Scope<'_>,
    onward: &[ChainId],
    carried: &mut Option<Encapsulation>,
) -> Result<(), ApiError> {
    let mut seen = BTreeSet::new();
    let mut rules: Vec<&ClassificationRule> = Vec::new();
    for id in onward {
        if !seen.insert(*id) {
            let message = format!("Port Chain {id} is named twice at one branching point.");
            return Err(ApiError::invalid("ServiceGraphPortChainInConflict", message));
        }
        let chain = port_chain::find(scope, id.0)?;
        check_branching(scope.intent, chain, chain.functions.first())?;
        check_encapsulation(carried, chain)?;
        let own: Vec<&ClassificationRule> =
            chain.rules.iter().filter_map(|id| scope.intent.rules.get(id)).collect();
        for rule in &own {
            let clash = |other: &&&ClassificationRule| catena_plan::tuples_overlap(rule, other);
            if let Some(other) = rules.iter().find(clash) {
                let message = format!(
                    "Flow Classifier {} of Port Chain {id} conflicts with Flow Classifier {} of \
                     another chain of the same branching point: some packets match both.",
                    rule.id, other.id
                );
                return Err(ApiError::invalid("ServiceGraphFlowClassifierInConflict", message));
            }
        }
        rules.extend(own);
    }
    Ok(())
}

/// The functions on both sides of a branching must speak the chain's encapsulation.
fn check_branching(
    intent: &IndexedIntent,
    chain: &Chain,
    at: Option<&FunctionId>,
) -> Result<(), ApiError> {
    let Some(function) = at.and_then(|id| intent.functions.get(id)) else { return Ok(()) };
    if !chain.encapsulation.is_tunnelled() {
        let known = Encapsulation::TUNNELLED.map(Encapsulation::name).join(" or ");
        let (id, carrier) = (chain.id, chain.encapsulation.name());
        let message = format!(
            "Port Chain {id} cannot be branched: it is carried by {carrier}; move it to {known}."
        );
        return Err(ApiError::invalid("ServiceGraphImpossibleBranching", message));
    }
    let mut instances = function.instances.iter().filter_map(|id| intent.instances.get(id));
    let Some(instance) = instances.find(|pair| pair.speaks != Some(chain.encapsulation)) else {
        return Ok(());
    };
    let message = format!(
        "Port Chain {} cannot be branched: Port Pair {} of Port Pair Group {} does not have the \
         correlation '{}' that the chain is carried by.",
        chain.id,
        instance.id,
        function.id,
        chain.encapsulation.name()
    );
    Err(ApiError::invalid("ServiceGraphImpossibleBranching", message))
}

/// All chains of a graph are carried alike.
fn check_encapsulation(carried: &mut Option<Encapsulation>, chain: &Chain) -> Result<(), ApiError> {
    let common = *carried.get_or_insert(chain.encapsulation);
    if common == chain.encapsulation {
        return Ok(());
    }
    let message = format!(
        "Port Chain {} is carried by '{}', others of the Service Graph by '{}'.",
        chain.id,
        chain.encapsulation.name(),
        common.name()
    );
    Err(ApiError::invalid("ServiceGraphInconsistentEncapsulation", message))
}

/// Does a chain lead back into itself? Chains that nothing leads into are taken away one by one;
/// what remains is a cycle.
fn has_cycle(branches: &Branches) -> bool {
    let mut entries: BTreeMap<ChainId, usize> = BTreeMap::new();
    for id in branches.values().flatten() {
        let count = entries.entry(*id).or_default();
        *count = count.saturating_add(1);
    }
    let mut starts: Vec<ChainId> =
        branches.keys().filter(|id| !entries.contains_key(id)).copied().collect();
    while let Some(start) = starts.pop() {
        for id in branches.get(&start).into_iter().flatten() {
            let Some(count) = entries.get_mut(id) else { continue };
            *count = count.saturating_sub(1);
            if *count == 0 {
                entries.remove(id);
                starts.push(*id);
            }
        }
    }
    !entries.is_empty()
}

/// The state of the chain that is worst off; a graph without chains lacks nothing.
fn status(view: &View, graph: &ChainGraph) -> ChainState {
    let state = |id: ChainId| view.situation.chain_status(&view.intent, id).state;
    let states: Vec<ChainState> = members(&graph.branches).into_iter().map(state).collect();
    let worst = [ChainState::Degraded, ChainState::Building, ChainState::Updating];
    worst.into_iter().find(|state| states.contains(state)).unwrap_or(ChainState::Active)
}

fn render(view: &View, graph: &ChainGraph) -> Shown {
    shown(json!({
        "id": graph.id,
        "name": graph.label.name,
        "project_id": graph.label.project,
        "description": graph.label.description,
        "port_chains": graph.branches,
        "tenant_id": graph.label.project,
        "status": status(view, graph),
    }))
}

/// The branches of a checked `port_chains`.
fn branches(value: Option<&Value>) -> Branches {
    let chain = |text: &str| Uuid::parse_str(text).ok().map(ChainId);
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries
        .filter_map(|(source, onward)| {
            let onward = onward.as_array()?.iter().filter_map(|id| chain(id.as_str()?)).collect();
            Some((chain(source)?, onward))
        })
        .collect()
}

fn port_chains(name: &str, value: &Value) -> Result<Value, ApiError> {
    let given = match value {
        Value::Null => return Ok(json!({})),
        Value::Object(map) => map,
        other => {
            let reason = format!("'{}' is not a dictionary.", values::shown(other));
            return Err(ApiError::attribute(name, reason));
        }
    };
    let mut checked = Map::new();
    for (source, onward) in given {
        let Value::Array(list) = onward else {
            let reason = format!("'{}' is not a list.", values::shown(onward));
            return Err(ApiError::attribute(name, reason));
        };
        let list: Vec<Value> = list.iter().map(chain_id).collect::<Result<_, _>>()?;
        let source = chain_id(&json!(source))?;
        checked.insert(values::shown(&source), json!(list));
    }
    Ok(Value::Object(checked))
}

fn chain_id(value: &Value) -> Result<Value, ApiError> {
    match value.as_str().and_then(|text| Uuid::parse_str(text).ok()) {
        Some(id) => Ok(json!(id)),
        None => {
            let message = format!("'{}' is not a valid UUID.", values::shown(value));
            Err(ApiError::invalid("InvalidUUID", message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(edges: &[(u128, &[u128])]) -> Branches {
        let chain = |number: u128| ChainId(Uuid::from_u128(number));
        let onward = |to: &[u128]| to.iter().map(|to| chain(*to)).collect();
        edges.iter().map(|(from, to)| (chain(*from), onward(to))).collect()
    }

    #[test]
    fn a_way_back_is_found_wherever_it_is_and_joins_are_none() {
        for (edges, expected) in [
            (&[][..], false),
            (&[(1, &[][..])][..], false),
            (&[(1, &[2, 3][..]), (2, &[4]), (3, &[4])], false),
            (&[(1, &[1][..])], true),
            (&[(1, &[2][..]), (2, &[1])], true),
            (&[(1, &[2][..]), (2, &[3]), (3, &[4]), (4, &[2])], true),
            (&[(1, &[2][..]), (5, &[6]), (6, &[5])], true),
        ] {
            assert_eq!(has_cycle(&graph(edges)), expected, "{edges:?}");
        }
    }
}

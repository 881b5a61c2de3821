//! Port chains: a `Chain` in the words of networking-sfc, with read-only attributes that the
//! original lacks: `status`, `status_reason`, `path_id`, `encapsulation`, `last_change`, and in the
//! answer to a change its `receipt`.

use super::attributes::{
    Attribute, Prepared, empty_dict, empty_list, empty_text, optional, read_only, required,
    set_by_operators,
};
use super::collection::{Collection, Shown, shown};
use super::errors::ApiError;
use super::port::made::PortRefusal;
use super::scope::{Edit, Labels, Scope, View};
use super::{flow_classifier, port_pair, port_pair_group, uses, values};
use crate::config::Overlap;
use crate::northbound::packing;
use crate::northbound::templates::Refusal;
use catena_model::ProjectId;
use catena_model::id::{ChainId, FunctionId, RuleId};
use catena_model::resource::{Chain, Encapsulation};
use catena_model::setup::Setup;
use catena_model::status::Receipt;
use catena_plan::IndexedIntent;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use uuid::Uuid;

/// Largest `chain_id`.
const NUMBER_MAX: u32 = 65_535;

const TABLE: &[Attribute] = &[
    read_only("id"),
    optional("name", empty_text, true, values::name),
    optional("description", empty_text, true, values::text),
    required("port_pair_groups", true, groups),
    optional("flow_classifiers", empty_list, true, values::uuid_list_or_one),
    optional("chain_parameters", empty_dict, false, parameters),
    // They are unique over all projects: whoever may choose one learns which are taken.
    set_by_operators(optional("chain_id", || json!(0), false, number)),
    read_only("status"),
    read_only("status_reason"),
    read_only("path_id"),
    read_only("encapsulation"),
    read_only("setup"),
    read_only("telemetry"),
    read_only("via"),
    read_only("last_change"),
    read_only("receipt"),
];

pub(super) struct PortChains;

impl Collection for PortChains {
    fn singular(&self) -> &'static str {
        "port_chain"
    }

    fn plural(&self) -> &'static str {
        "port_chains"
    }

    fn table(&self) -> &'static [Attribute] {
        TABLE
    }

    fn not_found(&self, id: &str) -> ApiError {
        not_found(id)
    }

    fn labels<'a>(&self, scope: Scope<'a>, name: Option<&str>) -> Labels<'a> {
        scope.labels::<Chain>(name)
    }

    fn count(&self, intent: &IndexedIntent, project: &ProjectId) -> usize {
        intent.index().count_owned::<Chain>(project)
    }

    fn render(&self, view: &View, id: Uuid) -> Option<Shown> {
        Some(render(view, view.scope().chain(ChainId(id))?))
    }

    fn create(&self, edit: &mut Edit<'_>, given: &Prepared) -> Result<Uuid, ApiError> {
        let parameters = given.value("chain_parameters").cloned().unwrap_or_default();
        let mut chain = Chain {
            id: ChainId(Uuid::new_v4()),
            label: given.label(),
            functions: Vec::new(),
            rules: Vec::new(),
            encapsulation: port_pair::encapsulation(parameters.get("correlation"))
                .unwrap_or(Encapsulation::OF_NETWORKING_SFC),
            declared_correlation: None,
            setup: Setup::default(),
            is_symmetric: parameters.get("symmetric") == Some(&json!(true)),
            context: Vec::new(),
            telemetry: None,
            via: BTreeMap::new(),
            number: 0,
        };
        // No correlation says it, and nothing else could carry the chain.
        let functions = given.uuids("port_pair_groups").unwrap_or_default();
        if let Some(spoken) = spoken_route(edit.draft.intent(), functions) {
            chain = chain.moved_to(spoken);
        }
        apply(edit, &mut chain, given)?;
        chain.number = allocate(edit.draft.intent(), given.number("chain_id").unwrap_or_default())?;
        let id = chain.id.0;
        put(edit, chain)?;
        Ok(id)
    }

    fn update(&self, edit: &mut Edit<'_>, id: Uuid, given: &Prepared) -> Result<(), ApiError> {
        let mut chain = find(edit.scope(), id)?.clone();
        if given.value("port_pair_groups").or(given.value("flow_classifiers")).is_some() {
            check_no_graph(edit.draft.intent(), chain.id)?;
        }
        given.relabel(&mut chain.label);
        apply(edit, &mut chain, given)?;
        put(edit, chain)
    }

    fn delete(&self, edit: &mut Edit<'_>, id: Uuid) -> Result<(), ApiError> {
        let id = find(edit.scope(), id)?.id;
        check_no_graph(edit.draft.intent(), id)?;
        check_no_slice(edit.draft.intent(), id)?;
        edit.draft.remove::<Chain>(id);
        Ok(())
    }

    fn waits(&self) -> bool {
        true
    }

    fn chains(&self, _intent: &IndexedIntent, id: Uuid) -> Vec<ChainId> {
        vec![ChainId(id)]
    }

    fn receipts(&self, receipts: &[Receipt]) -> Option<(&'static str, Value)> {
        Some(("receipt", json!(receipts.first())))
    }
}

/// Puts it into the draft, with hosts for those of its functions that ask for some beside their neighbours.
fn put(edit: &mut Edit<'_>, chain: Chain) -> Result<(), ApiError> {
    let intent = edit.draft.intent();
    let placing = edit.placing.filter(|_| packing::joins(intent, intent, &chain));
    let former = placing.map(|_| intent.clone());
    edit.draft.put(chain)?;
    let (Some(placing), Some(former)) = (placing, former) else { return Ok(()) };
    packing::place(edit.draft, &former, placing).map(drop).map_err(|refusal| match refusal {
        Refusal::Store(error) => error.into(),
        Refusal::NoHost(why) | Refusal::InUse(why) | Refusal::Template(why) => {
            ApiError::conflict("NoHostForInstances", why)
        }
        Refusal::Port(PortRefusal::Addresses(why)) => {
            ApiError::conflict("IpAddressGenerationFailure", why)
        }
        Refusal::Port(PortRefusal::Quota(kind)) => {
            ApiError::conflict("OverQuota", format!("Quota exceeded for resources: ['{kind}']."))
        }
    })
}

pub(super) fn not_found(id: &str) -> ApiError {
    ApiError::not_found("PortChainNotFound", format!("Port Chain {id} not found."))
}

/// The chain of an id.
pub(super) fn find(scope: Scope<'_>, id: Uuid) -> Result<&Chain, ApiError> {
    scope.chain(ChainId(id)).ok_or_else(|| not_found(&id.to_string()))
}

/// What a graph is made of stays as it is while the graph is there.
fn check_no_graph(intent: &IndexedIntent, id: ChainId) -> Result<(), ApiError> {
    match uses::graph_of(intent, id) {
        None => Ok(()),
        Some(_) => {
            let message = format!("Port Chain {id} in use.");
            Err(ApiError::conflict("ServiceGraphPortChainInUse", message))
        }
    }
}

/// Slices need their chain, and the chain at whose end they begin.
fn check_no_slice(intent: &IndexedIntent, id: ChainId) -> Result<(), ApiError> {
    let Some(slice) = uses::slice_of(intent, id) else { return Ok(()) };
    let slice = slice.name();
    let message = format!(
        "Port Chain {id} in use by slice '{slice}', which is of it or begins at its end; remove such \
         slices first."
    );
    Err(ApiError::conflict("PortChainInUse", message))
}

/// Brings a chain to what was given, with the checks in the original's order.
fn apply(edit: &Edit<'_>, chain: &mut Chain, given: &Prepared) -> Result<(), ApiError> {
    let scope = edit.scope();
    if let Some(ids) = given.uuids("port_pair_groups") {
        chain.functions = ids.into_iter().map(FunctionId).collect();
        // What led to a function that has left leads nowhere.
        chain.via.retain(|function, _| chain.functions.contains(function));
        check_groups(scope, chain)?;
        check_correlation(scope.intent, chain)?;
    }
    if let Some(ids) = given.uuids("flow_classifiers") {
        chain.rules = ids.into_iter().map(RuleId).collect();
        check_classifiers(edit, chain)?;
    }
    Ok(())
}

fn check_groups(scope: Scope<'_>, chain: &Chain) -> Result<(), ApiError> {
    // The original refuses taps in a row; here each gets its copy.
    for id in &chain.functions {
        port_pair_group::find(scope, id.0)?;
    }
    let mut same = uses::chains_of_exactly(scope.intent, &chain.functions);
    let is_other =
        |other: &&Chain| other.id != chain.id && scope.identity.sees(&other.label.project);
    if let Some(other) = same.find(is_other) {
        let message = format!(
            "The same Port Pair Groups in the same order are already used by Port Chain {}.",
            other.id
        );
        return Err(ApiError::conflict("InvalidPortPairGroups", message));
    }
    Ok(())
}

/// The source routes that a function among these reads, if one does.
fn spoken_route(intent: &IndexedIntent, functions: Vec<Uuid>) -> Option<Encapsulation> {
    let functions = functions.into_iter().map(FunctionId);
    let functions = functions.filter_map(|id| intent.functions.get(&id));
    let instances = functions.flat_map(|function| &function.instances);
    let mut spoken = instances.filter_map(|id| intent.instances.get(id)?.speaks);
    spoken.find(|spoken| spoken.is_source_route())
}

/// An instance that speaks an encapsulation must speak what its chain gives it.
pub(super) fn check_correlation(intent: &IndexedIntent, chain: &Chain) -> Result<(), ApiError> {
    let functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
    for function in functions {
        let instances = function.instances.iter().filter_map(|id| intent.instances.get(id));
        let mut spoken = instances.filter_map(|instance| instance.speaks);
        if let Some(other) = spoken.find(|spoken| chain.encapsulation.spoken() != Some(*spoken)) {
            let message = format!(
                "Port Chain {} is carried by {}, Port Pair Group {} has correlation {}.",
                chain.id,
                chain.encapsulation.name(),
                function.id,
                other.name()
            );
            return Err(ApiError::invalid("PortChainInconsistentCorrelations", message));
        }
    }
    Ok(())
}

fn check_classifiers(edit: &Edit<'_>, chain: &Chain) -> Result<(), ApiError> {
    let scope = edit.scope();
    let is_other = |other: &&Chain| other.id != chain.id;
    for id in &chain.rules {
        let rule = flow_classifier::find(scope, id.0)?;
        if uses::chain_of(scope.intent, *id).as_ref().is_some_and(is_other) {
            return Err(flow_classifier::in_use(*id));
        }
        if edit.overlap == Overlap::Allowed {
            continue;
        }
        let index = scope.intent.index();
        let overlapping =
            index.overlapping_in_chains(scope.intent, rule, scope.project(), chain.id);
        if let Some((other, overlapping)) = overlapping {
            let message = format!(
                "Flow Classifier {id} conflicts with Flow Classifier {overlapping} of Port Chain \
                 {other}: some packets match both.",
            );
            return Err(ApiError::invalid("PortChainFlowClassifierInConflict", message));
        }
    }
    Ok(())
}

/// The wanted number if it is free; the lowest free one if none is wanted.
fn allocate(intent: &IndexedIntent, wanted: u64) -> Result<u32, ApiError> {
    if wanted == 0 {
        return uses::free_chain_number(intent, NUMBER_MAX).ok_or_else(|| {
            let message = "No chain_id is free; delete a Port Chain.";
            ApiError::invalid("PortChainUnavailableChainId", message)
        });
    }
    let wanted = u32::try_from(wanted).unwrap_or(NUMBER_MAX);
    if uses::is_chain_number_taken(intent, wanted) {
        let message = format!("The chain_id {wanted} is already used by another Port Chain.");
        return Err(ApiError::invalid("PortChainChainIdInConflict", message));
    }
    Ok(wanted)
}

fn render(view: &View, chain: &Chain) -> Shown {
    let status = view.situation.chain_status(&view.intent, chain.id);
    let correlation = chain.correlation().name();
    shown(json!({
        "id": chain.id,
        "name": chain.label.name,
        "project_id": chain.label.project,
        "description": chain.label.description,
        "port_pair_groups": chain.functions,
        "flow_classifiers": chain.rules,
        "chain_parameters": {"correlation": correlation, "symmetric": chain.is_symmetric},
        "chain_id": chain.number,
        "tenant_id": chain.label.project,
        "status": status.state,
        "status_reason": status.reason,
        "path_id": status.path,
        "encapsulation": chain.encapsulation,
        "setup": chain.setup,
        "telemetry": chain.telemetry,
        "via": view.identity.sees_all().then_some(&chain.via),
        "last_change": view.receipts.of(chain.id),
    }))
}

fn groups(name: &str, value: &Value) -> Result<Value, ApiError> {
    let groups = values::uuid_list_or_one(name, value)?;
    if groups.as_array().is_none_or(Vec::is_empty) {
        let message = "Port Pair Group(s) must be specified for a Port Chain.";
        return Err(ApiError::invalid("PortPairGroupNotSpecified", message));
    }
    Ok(groups)
}

fn parameters(name: &str, value: &Value) -> Result<Value, ApiError> {
    let mut given = values::dict_or_empty(name, value, &["correlation", "symmetric"])?;
    let correlation = match given.remove("correlation") {
        None => json!("mpls"),
        Some(Value::Null) => {
            return Err(ApiError::attribute(name, "'None' is not in valid_values."));
        }
        Some(correlation) => values::one_of_or_null(name, &correlation, &["mpls", "nsh"])?,
    };
    let symmetric = given.remove("symmetric").unwrap_or_else(|| json!(false));
    let symmetric = values::boolean(name, &symmetric)?;
    Ok(json!({"correlation": correlation, "symmetric": symmetric}))
}

fn number(name: &str, value: &Value) -> Result<Value, ApiError> {
    let number = values::integer_or_error(value)?;
    if (0..=i64::from(NUMBER_MAX)).contains(&number) {
        return Ok(json!(number));
    }
    Err(ApiError::attribute(name, format!("'{number}' is not in 0..{NUMBER_MAX}.")))
}

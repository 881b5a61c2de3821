//! Gives hosts to the instances of a draft that no `on` names any for. Knows which functions are concerned, whose they
//! are and what is told of the choice; refuses to know how hosts are chosen.

use super::app::App;
use super::quotas::Quotas;
use super::templates::{Refusal, arrange_on};
use crate::auth::Identity;
use crate::declared::Draft;
use catena_model::NodeName;
use catena_model::capacity::Packing;
use catena_model::resource::{Chain, FunctionTemplate, ServiceFunction};
use catena_plan::{Assignment, Intent, Inventory, Packed};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What whoever does not see hosts is told where there is none.
const NO_HOST: &str = "No hosts suit this beside what they run already; leave it as it was, or ask whoever operates \
                       the hosts to make room.";

/// Who asks for hosts, and what is known of these.
#[derive(Clone)]
pub(super) struct Placing {
    quotas: Arc<Quotas>,
    inventory: Arc<Inventory>,
    asker: Identity,
}

impl Placing {
    pub(super) fn new(app: &App, asker: &Identity) -> Self {
        Self { quotas: Arc::clone(&app.quotas), inventory: app.inventory(), asker: asker.clone() }
    }
}

/// Are the instances of a function placed?
pub(super) fn is_placed(function: &ServiceFunction) -> bool {
    function.template.as_ref().is_some_and(FunctionTemplate::is_placed)
}

/// Does a change ask for hosts?
pub(super) fn is_asked(from: &Intent, to: &Intent) -> bool {
    let is_other =
        |function: &ServiceFunction| needs_hosts(from.functions.get(&function.id), function);
    to.functions.values().any(is_other) || to.chains.values().any(|chain| joins(from, to, chain))
}

/// Is a function placed, and another one in what hosts are chosen by?
pub(super) fn needs_hosts(former: Option<&ServiceFunction>, function: &ServiceFunction) -> bool {
    let is_same = |former: &ServiceFunction| {
        former.template == function.template && former.name() == function.name()
    };
    is_placed(function) && !former.is_some_and(is_same)
}

/// Has a function other neighbours by a chain, of those that must be near it or that its host's link is shared with?
pub(super) fn joins(from: &Intent, to: &Intent, chain: &Chain) -> bool {
    let is_same = |former: &Chain| former.functions == chain.functions;
    let is_bound = |template: &FunctionTemplate| {
        template.is_placed() && (template.bandwidth_mbit.is_some() || template.delay_us.is_some())
    };
    let functions = || chain.functions.iter().filter_map(|id| to.functions.get(id));
    !from.chains.get(&chain.id).is_some_and(is_same)
        && functions().any(|function| function.template.as_ref().is_some_and(is_bound))
}

/// Hosts for all that are placed; what is told of it is beside what was declared before, `former`. What the asker may
/// not see stays where it is, or all is refused.
pub(super) fn place(
    draft: &mut Draft,
    former: &Intent,
    placing: &Placing,
) -> Result<Packing, Refusal> {
    let Placing { quotas, inventory, asker } = placing;
    let packed = catena_plan::packing(draft.intent(), former, inventory);
    let Packed { hosts, told } = packed.map_err(|why| {
        Refusal::NoHost(if asker.sees_all() { why.to_string() } else { NO_HOST.to_owned() })
    })?;
    let functions = &draft.intent().functions;
    let (own, others): (Assignment, Assignment) = hosts.into_iter().partition(|(id, _)| {
        functions.get(id).is_some_and(|function| asker.sees(&function.label.project))
    });
    let is_moved = |function: &ServiceFunction| {
        let hosts = others.get(&function.id).map(Vec::as_slice).unwrap_or_default();
        moves(draft.intent(), function, hosts)
    };
    if others.keys().filter_map(|id| functions.get(id)).any(is_moved) {
        return Err(Refusal::NoHost(NO_HOST.to_owned()));
    }
    for (id, hosts) in own {
        let function = draft.intent().functions.get(&id).cloned();
        function.map_or(Ok(()), |function| arrange_on(draft, quotas, function, Some(&hosts)))?;
    }
    Ok(told)
}

/// Would an instance of a function go from where it is?
fn moves(intent: &Intent, function: &ServiceFunction, hosts: &[Option<NodeName>]) -> bool {
    let instances = function.instances.iter().filter_map(|id| intent.instances.get(id));
    let nodes: BTreeMap<String, &NodeName> = instances
        .filter_map(|one| Some((one.name(), intent.ports.get(&one.ingress)?.node.as_ref()?)))
        .collect();
    let names = function.template.as_ref().map(|template| function.instance_names(template));
    let mut placed = names.iter().flatten().zip(hosts);
    placed.any(|(name, host)| nodes.get(name).is_some_and(|now| host.as_ref() != Some(*now)))
}

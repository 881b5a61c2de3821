//! Gives hosts to the instances of a draft that no `on` names any for. Knows which functions are concerned and what is
//! told of the choice; refuses to know how hosts are chosen.

use super::quotas::Quotas;
use super::templates::{Refusal, arrange_on};
use crate::declared::Draft;
use catena_model::capacity::Packing;
use catena_model::resource::{FunctionTemplate, ServiceFunction};
use catena_plan::{Intent, Inventory, Packed};

/// Are the instances of a function placed?
pub(super) fn is_placed(function: &ServiceFunction) -> bool {
    function.template.as_ref().is_some_and(FunctionTemplate::is_placed)
}

/// Does a change ask for hosts: is a function among it whose instances are placed?
pub(super) fn is_asked(from: &Intent, to: &Intent) -> bool {
    let is_other = |function: &&ServiceFunction| from.functions.get(&function.id) != Some(function);
    to.functions.values().filter(|function| is_placed(function)).any(|function| is_other(&function))
}

/// Hosts for all that are placed; what is told of it is beside what was declared before, `former`.
pub(super) fn place(
    draft: &mut Draft,
    quotas: &Quotas,
    former: &Intent,
    inventory: &Inventory,
) -> Result<Packing, Refusal> {
    let packed = catena_plan::packing(draft.intent(), former, inventory);
    let Packed { hosts, told } = packed.map_err(|why| Refusal::NoHost(why.to_string()))?;
    for (id, hosts) in hosts {
        let function = draft.intent().functions.get(&id).cloned();
        function.map_or(Ok(()), |function| arrange_on(draft, quotas, function, Some(&hosts)))?;
    }
    Ok(told)
}

//! What bundled functions ask of chains. Knows what is said of them; refuses to know what they do.

use crate::error::PlanError;
use crate::graph::Graphs;
use crate::intent::Intent;
use crate::render::{crossings, source_network};
use catena_model::id::RuleId;
use catena_model::resource::{Chain, ClassificationRule};

/// Who understands connections sees both of their directions.
pub(super) fn check_directions(intent: &Intent, chain: &Chain) -> Result<(), PlanError> {
    if chain.is_symmetric {
        return Ok(());
    }
    let mut functions = chain.functions.iter().filter_map(|id| intent.functions.get(id));
    functions.find(|function| function.conduct.needs_both_directions).map_or(Ok(()), |function| {
        Err(PlanError::OneDirection { chain: chain.name(), function: function.name() })
    })
}

/// Where a function leads from one network into another, it is known where packets begin, and where answers do.
pub(super) fn check_crossings(
    intent: &Intent,
    graphs: &Graphs<'_>,
    chain: &Chain,
) -> Result<(), PlanError> {
    let mut reached = source_network(intent, graphs, chain)?;
    for crossing in crossings(intent, chain) {
        if !crossing.function.is_inside() {
            reached = Some(crossing.into);
            continue;
        }
        let refused = |fault: String| {
            let (chain, function) = (chain.name(), crossing.function.name());
            PlanError::BadCrossing { chain, function, fault }
        };
        if let Some(reached) = reached.filter(|reached| *reached != crossing.from) {
            let [reached, from] = [reached, crossing.from].map(|id| intent.network_name(id));
            return Err(refused(format!(
                "its packets come by network '{reached}', and the function takes them from '{from}'; name its networks \
                 in the order in which the chain leads"
            )));
        }
        let is_unsaid = |id: &&RuleId| {
            let rule = intent.rules.get(*id);
            rule.is_some_and(|rule| {
                let is_begun = rule.source_port.is_some() || graphs.is_joined(chain.id);
                !is_begun || (chain.is_symmetric && rule.destination_port.is_none())
            })
        };
        if let Some(rule) = chain.rules.iter().find(is_unsaid) {
            let rule = intent.rules.get(rule).map(ClassificationRule::name).unwrap_or_default();
            return Err(refused(format!(
                "classifier '{rule}' does not say where packets and their answers begin; give it a source and a \
                 destination"
            )));
        }
        reached = Some(crossing.into);
    }
    Ok(())
}

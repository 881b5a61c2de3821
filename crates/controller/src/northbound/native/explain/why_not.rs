//! Why a chain does not take a packet, over all that is declared: what the node at the port says of
//! the rules in its program, and why the others are not in it. Knows the state of chains; refuses
//! to judge a packet.

use crate::reconcile::Situation;
use catena_model::NodeName;
use catena_model::explain::{RuleCondition, RuleVerdict, WhyNotReport};
use catena_model::resource::{Chain, ClassificationRule, Port};
use catena_model::status::ChainState;
use catena_plan::Intent;

/// The whole report; `said` is the node's.
pub(super) fn report(
    situation: &Situation,
    intent: &Intent,
    chain: &Chain,
    node: &NodeName,
    said: &[RuleVerdict],
) -> WhyNotReport {
    let status = situation.chain_status(intent, chain.id);
    let state = (status.state != ChainState::Active)
        .then(|| format!("{}: {}", status.state.name(), status.reason));
    let mut rules: Vec<RuleVerdict> = Vec::new();
    for id in &chain.rules {
        let of_rule = said.iter().filter(|verdict| verdict.id == Some(*id));
        let before = rules.len();
        rules.extend(of_rule.cloned().map(|verdict| named(intent, verdict)));
        if rules.len() == before
            && let Some(rule) = intent.rules.get(id)
        {
            let condition = elsewhere(intent, rule, node, said);
            rules.push(RuleVerdict::new(Some(*id), rule.name(), None, condition));
        }
    }
    let is_taken = rules.iter().any(|verdict| verdict.condition == RuleCondition::Takes);
    WhyNotReport { chain: chain.name(), is_taken, state, rules }
}

/// Why a declared rule is not in the node's program.
fn elsewhere(
    intent: &Intent,
    rule: &ClassificationRule,
    node: &NodeName,
    said: &[RuleVerdict],
) -> RuleCondition {
    let port = rule.source_port.and_then(|id| intent.ports.get(&id));
    if let Some(port) = port
        && let Some(other) = port.node.as_ref().filter(|other| *other != node)
    {
        return RuleCondition::OtherNode { node: other.clone(), port: port.name() };
    }
    if said.iter().any(|verdict| verdict.condition == RuleCondition::NotTurned) {
        RuleCondition::NotTurned
    } else {
        RuleCondition::NotPlanned
    }
}

/// The node knows ports of other nodes by their id alone.
fn named(intent: &Intent, verdict: RuleVerdict) -> RuleVerdict {
    let RuleVerdict { id, rule, path, condition, .. } = verdict;
    let condition = match condition {
        RuleCondition::IngressPort { wanted, found } => {
            let known = intent.ports.values().find(|port| port.id.to_string() == wanted);
            let wanted = known.map_or(wanted, Port::name);
            RuleCondition::IngressPort { wanted, found }
        }
        other => other,
    };
    RuleVerdict::new(id, rule, path, condition)
}

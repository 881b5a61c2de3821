//! What a rule set says as a whole: no chain leads back to itself, and none leads too deep.

use super::Refusal;
use crate::rule_set::{Chain, ChainIndex, Rule, Verdict};

/// Chains that may lead one into the other, as nftables allows (`NFT_JUMP_STACK_SIZE`).
pub(crate) const DEPTH_MAX: usize = 16;

/// Where a rule leads.
fn led_to(rule: &Rule) -> Option<ChainIndex> {
    match rule.verdict()? {
        Verdict::Jump(chain) | Verdict::Goto(chain) => Some(chain),
        _ => None,
    }
}

/// Refuses chains that lead back to themselves, and those that lead too deep.
pub(super) fn loops(chains: &[Chain]) -> Result<(), (u32, Refusal)> {
    // How deep each leads; none: not known yet.
    let mut depths: Vec<Option<usize>> = vec![None; chains.len()];
    for start in 0..chains.len() {
        depth(chains, start, &mut depths, &mut Vec::new())?;
    }
    Ok(())
}

fn depth(
    chains: &[Chain],
    at: ChainIndex,
    depths: &mut [Option<usize>],
    on_the_way: &mut Vec<ChainIndex>,
) -> Result<usize, (u32, Refusal)> {
    if let Some(known) = depths[at] {
        return Ok(known);
    }
    on_the_way.push(at);
    let mut deepest = 0;
    for rule in &chains[at].rules {
        let Some(next) = led_to(rule) else { continue };
        if on_the_way.contains(&next) {
            let what = format!("the chain {} leads back to itself", chains[next].name);
            return Err((rule.line, Refusal::wrong(what, "take this rule out")));
        }
        if on_the_way.len() > DEPTH_MAX {
            let what = format!("chains lead more than {DEPTH_MAX} deep");
            return Err((rule.line, Refusal::wrong(what, "put the rules of some into others")));
        }
        deepest = deepest.max(1 + depth(chains, next, depths, on_the_way)?);
    }
    on_the_way.pop();
    if deepest > DEPTH_MAX {
        let what = format!("chains lead more than {DEPTH_MAX} deep");
        return Err((chains[at].line, Refusal::wrong(what, "put the rules of some into others")));
    }
    depths[at] = Some(deepest);
    Ok(deepest)
}

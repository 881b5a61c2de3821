//! What a rule set says as a whole: no chain leads back to itself, and none leads too deep.

use crate::refusal::Refusal;
use crate::rule_set::{Chain, ChainIndex, Verdict};
use catena_model::limits::{FUNCTION_CONFIG_BYTES_MAX, FUNCTION_RULES_MAX};

/// Chains that may lead one into the other, as nftables allows (`NFT_JUMP_STACK_SIZE`).
pub(crate) const DEPTH_MAX: usize = 16;

/// Where a verdict leads.
pub(crate) fn led_to(verdict: Verdict) -> Option<ChainIndex> {
    match verdict {
        Verdict::Jump(chain) | Verdict::Goto(chain) => Some(chain),
        _ => None,
    }
}

/// Refuses texts that are too long.
pub(crate) fn bytes(text: &str) -> Result<(), Refusal> {
    if text.len() <= FUNCTION_CONFIG_BYTES_MAX {
        return Ok(());
    }
    let what = format!("it has {} bytes of at most {FUNCTION_CONFIG_BYTES_MAX}", text.len());
    Err(Refusal::wrong(what, "split it among several functions"))
}

/// Refuses more rules than a function may have.
pub(crate) fn rules(number: usize) -> Result<(), Refusal> {
    if number <= FUNCTION_RULES_MAX {
        return Ok(());
    }
    let what = format!("there are more than {FUNCTION_RULES_MAX} rules");
    Err(Refusal::wrong(what, "split them among several functions"))
}

/// Refuses chains that lead back to themselves, and those that lead too deep.
pub(crate) fn loops(chains: &[Chain]) -> Result<(), (u32, Refusal)> {
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
        for next in rule.verdicts().filter_map(led_to) {
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
    }
    on_the_way.pop();
    if deepest > DEPTH_MAX {
        let what = format!("chains lead more than {DEPTH_MAX} deep");
        return Err((chains[at].line, Refusal::wrong(what, "put the rules of some into others")));
    }
    depths[at] = Some(deepest);
    Ok(deepest)
}

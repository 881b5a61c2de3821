//! What a document is before its words are known, and what a rule set says as a whole: no chain leads back to itself,
//! none leads too deep, and no packet has to be held against rules without end.

use crate::error::RuleError;
use crate::options::ReadOptions;
use crate::refusal::Refusal;
use crate::rule_set::{Chain, ChainIndex, Verdict};
use catena_model::limits::{FUNCTION_CONFIG_BYTES_MAX, FUNCTION_RULES_MAX};
use serde::de::DeserializeOwned;

/// Chains that may lead one into the other, as nftables allows (`NFT_JUMP_STACK_SIZE`).
pub(crate) const DEPTH_MAX: usize = 16;

/// Rules that one packet may be held against: chains that lead into one another again and again multiply
/// theirs.
const WALK_RULES_MAX: u64 = 1 << 20;

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

/// Reads a configuration in YAML or JSON; `kind` is the function whose page of the book lists its keys.
pub(crate) fn document<T: DeserializeOwned>(
    text: &str,
    file: &str,
    kind: &str,
) -> Result<T, RuleError> {
    let options = ReadOptions { file: file.to_owned(), ..ReadOptions::default() };
    bytes(text).map_err(|refusal| refusal.at(0, &options))?;
    serde_norway::from_str(text).map_err(|error| {
        let line = error.location().map_or(0, |location| location.line());
        let advice = format!(
            "correct it; the page «{kind}» of the book lists the keys and what they may be"
        );
        let told = error.to_string();
        // The line is told in front, as everywhere.
        let what = told.rsplit_once(" at line ").map_or(told.as_str(), |(what, _)| what);
        Refusal::wrong(what, advice).at(u32::try_from(line).unwrap_or(0), &options)
    })
}

/// Refuses more rules than a function may have.
pub(crate) fn rules(number: usize) -> Result<(), Refusal> {
    if number <= FUNCTION_RULES_MAX {
        return Ok(());
    }
    let what = format!("there are more than {FUNCTION_RULES_MAX} rules");
    Err(Refusal::wrong(what, "split them among several functions"))
}

/// Refuses more chains than a function may have rules.
pub(crate) fn chains(number: usize) -> Result<(), Refusal> {
    if number <= FUNCTION_RULES_MAX {
        return Ok(());
    }
    let what = format!("there are more than {FUNCTION_RULES_MAX} chains");
    Err(Refusal::wrong(what, "take those out that nothing leads to"))
}

/// What a chain leads to.
#[derive(Clone, Copy, Default)]
struct Reach {
    /// Chains one behind the other.
    depth: usize,
    /// Rules that a packet may be held against, its own among them.
    rules: u64,
}

/// Refuses chains that lead back to themselves, those that lead too deep, and those by which a packet meets
/// too many rules.
pub(crate) fn loops(chains: &[Chain]) -> Result<(), (u32, Refusal)> {
    let mut known: Vec<Option<Reach>> = vec![None; chains.len()];
    for start in 0..chains.len() {
        reach(chains, start, &mut known, &mut Vec::new())?;
    }
    Ok(())
}

fn reach(
    chains: &[Chain],
    at: ChainIndex,
    known: &mut [Option<Reach>],
    on_the_way: &mut Vec<ChainIndex>,
) -> Result<Reach, (u32, Refusal)> {
    if let Some(known) = known[at] {
        return Ok(known);
    }
    on_the_way.push(at);
    let mut all = Reach::default();
    for rule in &chains[at].rules {
        all.rules = all.rules.saturating_add(1);
        for statement in &rule.statements {
            // Of a map, one entry decides.
            let mut most = 0;
            for next in statement.verdicts().filter_map(led_to) {
                if on_the_way.contains(&next) {
                    let what = format!("the chain {} leads back to itself", chains[next].name);
                    return Err((rule.line, Refusal::wrong(what, "take this rule out")));
                }
                if on_the_way.len() > DEPTH_MAX {
                    return Err((rule.line, too_deep()));
                }
                let led = reach(chains, next, known, on_the_way)?;
                all.depth = all.depth.max(1 + led.depth);
                most = most.max(led.rules);
            }
            all.rules = all.rules.saturating_add(most);
        }
    }
    on_the_way.pop();
    if all.depth > DEPTH_MAX {
        return Err((chains[at].line, too_deep()));
    }
    if all.rules > WALK_RULES_MAX {
        let what = format!(
            "a packet in the chain {} may be held against {} rules of at most {WALK_RULES_MAX}, as chains lead \
             into one another again and again",
            chains[at].name, all.rules
        );
        return Err((chains[at].line, Refusal::wrong(what, "lead to each chain from fewer rules")));
    }
    known[at] = Some(all);
    Ok(all)
}

fn too_deep() -> Refusal {
    let what = format!("chains lead more than {DEPTH_MAX} deep");
    Refusal::wrong(what, "put the rules of some into others")
}

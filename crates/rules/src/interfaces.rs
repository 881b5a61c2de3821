//! Names of interfaces in rules. Knows which side of the function each is; refuses to know how a language
//! writes them.

use crate::condition::Range;
use crate::options::{ReadOptions, Side};
use crate::refusal::Refusal;

/// The sides where packets of an interface came in, as values of
/// [`Subject::CameIn`](crate::condition::Subject::CameIn). `value`: as the rule writes it; `start`: where
/// it stands for all that begin so, with what. `names`: the side that the rule speaks of.
pub(crate) fn came_in(
    options: &ReadOptions,
    value: &str,
    start: Option<&str>,
    names: Side,
) -> Result<Vec<Range>, Refusal> {
    let is_it = |name: &str| start.map_or(name == value, |start| name.starts_with(start));
    let known = options.interfaces.iter().filter(|(name, _)| is_it(name));
    let sides: Vec<Side> = known.map(|(_, side)| *side).collect();
    if sides.is_empty() {
        let what = format!("nothing says which side of the function the interface {value} is");
        let advice = format!("say it in the function's configuration: interfaces: {{{value}: in}}");
        return Err(Refusal::wrong(what, advice));
    }
    // A packet came in at one side and goes out by the other.
    let came_in = |side: &Side| match (names, side) {
        (Side::In, side) => *side,
        (Side::Out, Side::In) => Side::Out,
        (Side::Out, Side::Out) => Side::In,
    };
    Ok(sides.iter().map(|side| Range::one(came_in(side).number())).collect())
}

//! Whether what waits in a function comes back: each packet once, as it was, the way it went, at a moment that the
//! function has told. Knows the contract alone.

use super::{Disproof, Input, packet_of};
use crate::check::{self, Fault};
use crate::function::Function;
use crate::outcome::{GeneratedKind, Outcomes, Verdict};
use crate::packet::{Direction, Time};

/// Packets that wait, as they came.
type Ledger = Vec<(Direction, Vec<u8>)>;

/// Asks for all packets, wakes the function whenever it wants that, and at last waits until nothing is left.
pub(super) fn come_back(
    function: &mut (impl Function + ?Sized),
    inputs: &[Input],
) -> Result<(), Disproof> {
    let mut ledger = Ledger::new();
    let mut outcomes = Outcomes::default();
    for (at, input) in inputs.iter().enumerate() {
        let disproof = |fault| Disproof { fault, packet: at, difference: None };
        wake(function, input.at, &mut ledger, &mut outcomes).map_err(disproof)?;
        let Some(packet) = packet_of(input) else { continue };
        function.process(input.at, input.direction, &[packet], &mut outcomes);
        strike(&outcomes, &mut ledger).map_err(disproof)?;
        if outcomes.verdicts() == [Verdict::Hold] {
            let end = packet.view.end as usize;
            let frame = packet.frame.get(..end).unwrap_or_default();
            ledger.push((input.direction, frame.to_vec()));
        }
        let is_told = function.waiting().packets == ledger.len() as u64;
        is_told.then_some(()).ok_or_else(|| disproof(Fault::NotReleased))?;
    }
    let disproof = |fault| Disproof { fault, packet: inputs.len(), difference: None };
    wake(function, Time(u64::MAX), &mut ledger, &mut outcomes).map_err(disproof)?;
    let is_empty = ledger.is_empty() && function.waiting().packets == 0;
    is_empty.then_some(()).ok_or_else(|| disproof(Fault::NotReleased))
}

/// Lets the function's time pass, from one moment that it has told to the next.
fn wake(
    function: &mut (impl Function + ?Sized),
    until: Time,
    ledger: &mut Ledger,
    outcomes: &mut Outcomes,
) -> Result<(), Fault> {
    while let Some(next) = function.waiting().next.filter(|next| *next <= until) {
        let before = ledger.len();
        function.elapse(next, outcomes);
        check::outcomes(function.profile(), 0, outcomes)?;
        strike(outcomes, ledger)?;
        if ledger.len() == before {
            return Err(Fault::NotReleased);
        }
    }
    Ok(())
}

/// Takes what has come back out of the ledger.
fn strike(outcomes: &Outcomes, ledger: &mut Ledger) -> Result<(), Fault> {
    for (_, made) in outcomes.generated() {
        if made.kind == GeneratedKind::Released {
            let frame = outcomes.bytes(made.frame.clone());
            let is_it = |(direction, held): &(Direction, Vec<u8>)| {
                *direction == made.direction && held == frame
            };
            let place = ledger.iter().position(is_it).ok_or(Fault::NotReleased)?;
            ledger.remove(place);
        }
    }
    Ok(())
}

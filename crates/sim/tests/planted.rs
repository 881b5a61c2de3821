//! The checks can fail: each planted mistake is found, within a stated number of seeds, and by the
//! promise that it breaks.
#![allow(clippy::unwrap_used)]

mod rig;

use catena_sim::{Config, Planted};

/// What is planted, within how many seeds it must be found, and a word of each sentence that may
/// find it.
const FOUND: [(Planted, u64, &[&str]); 18] = [
    (Planted::StoreAnswersBeforeSync, 20, &["acknowledged", "its disk knows blueprint"]),
    (Planted::HandsOutBeforePersisting, 50, &["its disk knows blueprint"]),
    (Planted::TrustsWhatItSent, 20, &["does not know"]),
    (Planted::NodeTakesOlder, 100, &["after it has acknowledged"]),
    (Planted::AcknowledgesBeforePersisting, 20, &["after it has acknowledged", "no program"]),
    (Planted::ReusesAtOnce, 200, &["another path of that identifier", "another at"]),
    (Planted::DrainsBySleep, 50, &["packets on it", "does not know"]),
    (Planted::WritesOneByOne, 50, &["half-applied"]),
    (Planted::WritesLedgerInTwo, 200, &["a ledger is half-applied"]),
    (Planted::ResumesUnsynced, 2_000, &["after it has acknowledged"]),
    (Planted::AppendsUnsynced, 20, &["after it has acknowledged"]),
    (Planted::AppendsBehindTorn, 200, &["after it has acknowledged"]),
    (Planted::OpensUnsynced, 2_000, &["acknowledged", "its disk knows blueprint"]),
    (Planted::TrustsPartialCounters, 2_000, &["packets on it", "does not know"]),
    (Planted::ReusesNumbersAtOnce, 2_000, &["comes out of port"]),
    (Planted::KeepsDeadRoutes, 200, &["does not arrive"]),
    (Planted::ReusesHeadersAtOnce, 2_000, &["writes none for it", "leads it on", "comes out of"]),
    (Planted::LeadsBeforeEdgesKnow, 2_000, &["writes none for it"]),
];

#[test]
fn every_planted_mistake_is_found_within_its_number_of_seeds() {
    assert!(Planted::ALL.iter().all(|planted| FOUND.iter().any(|(known, ..)| known == planted)));
    let mut missed = Vec::new();
    for (planted, seeds, words) in FOUND {
        let config = Config { planted, fabric: planted.fabric(), ..Config::default() };
        match rig::run_all(0..seeds, config) {
            Ok(_) => missed.push(format!("{planted:?} is not found by {seeds} seeds")),
            Err(failure) => {
                println!("{planted:?}: seed {}: {}", failure.seed, failure.promise);
                if !words.iter().any(|word| failure.promise.contains(word)) {
                    missed.push(format!("{planted:?} is found as something else: {failure}"));
                }
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

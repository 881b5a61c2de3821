//! Faults planted on purpose, to show that the checks can fail: each is a mistake that somebody
//! could make in the code that the simulation watches.

use crate::config::Fabric;

/// One planted mistake; a run has at most one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    /// The code as it is.
    #[default]
    None,
    /// The store answers a commit before the disk has it.
    StoreAnswersBeforeSync,
    /// Programs leave before the ledger that they follow from is written.
    HandsOutBeforePersisting,
    /// The controller takes a program as acknowledged when it has sent it.
    TrustsWhatItSent,
    /// Agent and data plane take any number.
    NodeTakesOlder,
    /// A data plane acknowledges a program that is not on its disk yet.
    AcknowledgesBeforePersisting,
    /// Identifiers of removed paths are free at once, and nothing waits for packets.
    ReusesAtOnce,
    /// A path counts as drained after a short sleep.
    DrainsBySleep,
    /// A write of several documents is carried out as several.
    WritesOneByOne,
    /// The head of a ledger is written before its paths.
    WritesLedgerInTwo,
    /// A data plane resumes a program that the one before it had not synced. (Found by a seed.)
    ResumesUnsynced,
    /// A data plane acknowledges a change that its log has not synced.
    AppendsUnsynced,
    /// A data plane adds changes to its log behind one that was torn.
    AppendsBehindTorn,
    /// A controller builds upon a store that the one before it had not synced. (Found by a seed.)
    OpensUnsynced,
    /// Counters that a data plane began anew count for the whole path. (Found by a seed.)
    TrustsPartialCounters,
    /// Port numbers of what has gone are another's at once.
    ReusesNumbersAtOnce,
    /// The controller hears of no cable that dies.
    KeepsDeadRoutes,
    /// Numbers of headers that edges write no more are another's at once.
    ReusesHeadersAtOnce,
    /// The controller takes it that edges know what they shall write as soon as that is written down.
    LeadsBeforeEdgesKnow,
}

impl Planted {
    /// Every mistake.
    pub const ALL: [Self; 18] = [
        Self::StoreAnswersBeforeSync,
        Self::HandsOutBeforePersisting,
        Self::TrustsWhatItSent,
        Self::NodeTakesOlder,
        Self::AcknowledgesBeforePersisting,
        Self::ReusesAtOnce,
        Self::DrainsBySleep,
        Self::WritesOneByOne,
        Self::WritesLedgerInTwo,
        Self::ResumesUnsynced,
        Self::AppendsUnsynced,
        Self::AppendsBehindTorn,
        Self::OpensUnsynced,
        Self::TrustsPartialCounters,
        Self::ReusesNumbersAtOnce,
        Self::KeepsDeadRoutes,
        Self::ReusesHeadersAtOnce,
        Self::LeadsBeforeEdgesKnow,
    ];

    /// The switches without which it cannot be made.
    #[must_use]
    pub const fn fabric(self) -> Fabric {
        match self {
            Self::ReusesNumbersAtOnce | Self::KeepsDeadRoutes => Fabric::Mesh,
            Self::ReusesHeadersAtOnce | Self::LeadsBeforeEdgesKnow => Fabric::Ring,
            _ => Fabric::None,
        }
    }
}

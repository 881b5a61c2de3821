//! How much of what a rule asks its conditions on fields say: what an analysis of packets may conclude.

use crate::condition::Subject;
use crate::rule_set::{Rule, Statement};

/// The mark of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exactness {
    /// It takes exactly the packets that its conditions on fields describe.
    Exact,
    /// It takes some of those, depending on what came before.
    Wider,
}

impl Rule {
    /// The mark of this rule.
    #[must_use]
    pub fn exactness(&self) -> Exactness {
        let depends = self.statements.iter().any(|statement| match statement {
            Statement::Limit(_) => true,
            Statement::Match(condition) => condition.subjects.contains(&Subject::State),
            Statement::MatchTuple(condition) => condition.subjects.contains(&Subject::State),
            Statement::Map(map) => map.subjects.contains(&Subject::State),
            Statement::Count | Statement::Log(_) | Statement::Verdict(_) => false,
        });
        if depends { Exactness::Wider } else { Exactness::Exact }
    }
}

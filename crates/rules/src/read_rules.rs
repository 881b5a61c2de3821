//! The rules of a function, whatever kind it is of: what it runs, for whoever looks at several.

use crate::nat::NatConfig;
use crate::rule_set::RuleSet;
use crate::snort::IdsRules;
use crate::vpn::Selectors;

/// Rules as they were read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum ReadRules {
    /// Of a firewall, one set for each file.
    Filter(Vec<RuleSet>),
    /// Of an ids or ips.
    Inspection(IdsRules),
    /// Of a nat.
    Translation(NatConfig),
    /// Of an end of a vpn.
    Encryption(Selectors),
    /// None that an analysis would know.
    #[default]
    Opaque,
}

//! Which kinds of resources this dialect has, and where. Refuses to know what is done with them.

use super::collection::Collection;
use super::flow_classifier::FlowClassifiers;
use super::network::Networks;
use super::port::Ports;
use super::port_chain::PortChains;
use super::port_pair::PortPairs;
use super::port_pair_group::PortPairGroups;
use super::service_graph::ServiceGraphs;
use super::subnet::Subnets;

/// One kind of resource.
pub(super) struct Kind {
    /// The path of all of them.
    pub(super) path: &'static str,
    /// That of one.
    pub(super) item: &'static str,
    pub(super) collection: &'static dyn Collection,
}

/// In the order of the index.
pub(super) static KINDS: [Kind; 8] = [
    kind("/v2.0/networks", "/v2.0/networks/{network}", &Networks),
    kind("/v2.0/subnets", "/v2.0/subnets/{subnet}", &Subnets),
    kind("/v2.0/ports", "/v2.0/ports/{port}", &Ports),
    kind(
        "/v2.0/sfc/flow_classifiers",
        "/v2.0/sfc/flow_classifiers/{flow_classifier}",
        &FlowClassifiers,
    ),
    kind("/v2.0/sfc/port_pairs", "/v2.0/sfc/port_pairs/{port_pair}", &PortPairs),
    kind(
        "/v2.0/sfc/port_pair_groups",
        "/v2.0/sfc/port_pair_groups/{port_pair_group}",
        &PortPairGroups,
    ),
    kind("/v2.0/sfc/port_chains", "/v2.0/sfc/port_chains/{port_chain}", &PortChains),
    kind("/v2.0/sfc/service_graphs", "/v2.0/sfc/service_graphs/{service_graph}", &ServiceGraphs),
];

const fn kind(path: &'static str, item: &'static str, collection: &'static dyn Collection) -> Kind {
    Kind { path, item, collection }
}

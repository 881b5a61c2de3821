//! What one engine remembers from packet to packet: flows in proxies, flows of paths, fragments, packets
//! that wait, whose health is watched, decisions for known flows. Knows keys, bounds and ages; refuses to decide what
//! becomes of a packet.

pub(crate) mod affinity;
pub(crate) mod capture;
pub(crate) mod crowded;
pub(crate) mod flood_memory;
pub(crate) mod floods;
pub(crate) mod flow_cache;
pub(crate) mod flushes;
pub(crate) mod fragments;
pub(crate) mod function_messages;
pub(crate) mod function_state;
pub(crate) mod functions;
pub(crate) mod health;
pub(crate) mod in_flight;
pub(crate) mod life;
pub(crate) mod link_board;
pub(crate) mod network_mac;
pub(crate) mod port_rates;
pub(crate) mod proxy_flows;
pub(crate) mod rewrite;
pub(crate) mod running;
pub(crate) mod scheduler;
pub(crate) mod seat;
pub(crate) mod setups;
pub(crate) mod sojourns;
pub(crate) mod visits;

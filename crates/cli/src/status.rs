//! `catena status`: how everything stands, in one look.

use crate::connection::Connection;
use crate::failure::Failure;
use crate::kernel_path;
use crate::output::say;
use catena_model::Absences;
use catena_model::DropReason;
use catena_model::account::Account;
use catena_model::status::{ChainState, ChainSummary, NodeReport};
use std::collections::BTreeMap;

pub(crate) fn run(connection: &Connection) -> Result<(), Failure> {
    let client = connection.client()?;
    let nodes = client.nodes()?;
    let chains = client.chains()?;
    say!("controller   ok    {}", client.base());
    print_nodes(&nodes);
    print_data_planes(&nodes);
    print_kernel_paths(&nodes);
    print_chains(&chains);
    print_account(&nodes);
    if let Some(next) = next(&nodes, &chains) {
        say!("next         {next}");
    }
    Ok(())
}

/// The command that tells more about what is not well.
fn next(nodes: &[NodeReport], chains: &[ChainSummary]) -> Option<String> {
    let unwell = chains.iter().find(|chain| chain.status.state != ChainState::Active);
    let unwell = unwell.map(|chain| format!("catena chain show {}", chain.name));
    let is_behind = |node: &&NodeReport| {
        !node.status.is_connected || node.status.acknowledged < node.status.wanted
    };
    unwell.or_else(|| nodes.iter().find(is_behind).map(|_| "catena node list".into()))
}

/// Which program runs where, in as few words as the case allows.
fn programs(nodes: &[NodeReport]) -> String {
    let behind = nodes.iter().filter(|node| node.status.acknowledged < node.status.wanted);
    let behind: Vec<String> = behind
        .map(|node| {
            let status = &node.status;
            format!("{} {} of {}", status.node, status.acknowledged, status.wanted)
        })
        .collect();
    if behind.is_empty() {
        "   every program acknowledged".into()
    } else {
        format!("   programs behind: {}", behind.join(", "))
    }
}

fn print_nodes(nodes: &[NodeReport]) {
    let connected = nodes.iter().filter(|node| node.status.is_connected).count();
    let away = nodes.iter().filter(|node| !node.status.is_connected);
    let away: Vec<&str> = away.map(|node| node.status.node.as_str()).collect();
    let away = if away.is_empty() { String::new() } else { format!("   away: {}", away.join(" ")) };
    say!("nodes        {connected}/{}{}{away}", nodes.len(), programs(nodes));
}

/// What went wrong with data planes, if anything did.
fn print_data_planes(nodes: &[NodeReport]) {
    for counters in nodes.iter().filter_map(|node| node.counters.as_ref()) {
        let (node, life) = (&counters.node, &counters.dataplane);
        for line in absences(&life.absences).iter().chain(&life.troubles) {
            say!("data plane   {node}: {line}");
        }
    }
}

fn print_kernel_paths(nodes: &[NodeReport]) {
    let counters = nodes.iter().filter_map(|node| node.counters.as_ref());
    for line in counters.filter_map(kernel_path::in_one_line) {
        say!("kernel path  {line}");
    }
}

fn absences(known: &Absences) -> Option<String> {
    let Absences { seen, unseen, last_ms, total_ms, missed_at_ports, missed_at_tunnels } = known;
    let times = |n: &u64| if *n == 1 { "once".to_owned() } else { format!("{n} times") };
    let mut said = Vec::new();
    if *seen > 0 {
        said.push(format!(
            "died {}, away {last_ms} ms the last time, {total_ms} ms in all; missed meanwhile: \
             {missed_at_ports} packets at ports, {missed_at_tunnels} at tunnels",
            times(seen)
        ));
    }
    if *unseen > 0 {
        said.push(format!("had died {} before its agent came; nobody counted", times(unseen)));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

fn print_chains(chains: &[ChainSummary]) {
    let active = chains.iter().filter(|chain| chain.status.state == ChainState::Active).count();
    say!("chains       {active} of {} active", chains.len());
    for chain in chains.iter().filter(|chain| chain.status.state != ChainState::Active) {
        say!("             {}: {}, {}", chain.name, chain.status.state.name(), chain.status.reason);
    }
}

fn print_account(nodes: &[NodeReport]) {
    let mut total = Account::default();
    let mut ring_full = 0_u64;
    for counters in nodes.iter().filter_map(|node| node.counters.as_ref()) {
        total.merge(&counters.total());
        ring_full = counters.ring_full().saturating_add(ring_full);
    }
    let created = total.created.values().copied().fold(0, u64::saturating_add);
    say!(
        "packets      received {} + created {created} = forwarded {} + dropped {} + consumed {} + held {}      unaccounted {}",
        total.received.packets,
        total.forwarded.packets,
        total.dropped_total(),
        total.consumed,
        total.held,
        total.unaccounted(),
    );
    say!("drops        {}", drops(&total.dropped));
    say!("ring full    {ring_full}");
}

fn drops(dropped: &BTreeMap<DropReason, u64>) -> String {
    let mut named: Vec<(u64, DropReason)> =
        dropped.iter().filter(|(_, n)| **n > 0).map(|(reason, n)| (*n, *reason)).collect();
    named.sort_by(|a, b| b.cmp(a));
    let named: Vec<String> = named.iter().map(|(n, reason)| format!("{reason} {n}")).collect();
    if named.is_empty() { "none".into() } else { named.join(" · ") }
}

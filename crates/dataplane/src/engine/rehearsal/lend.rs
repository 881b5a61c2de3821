//! What the live engine knows beside its tables, lent to a rehearsal: the visit of the packet's
//! flow, the path it went into, the first fragments, who is dead. Knows what is the same in both
//! engines (indexes of the tables) and what is not (serials, epochs); refuses to change anything
//! that lives.

use crate::engine::Engine;
use crate::engine::packet::index::{PortIndex, UNTOLD_NETWORK};
use crate::engine::packet::parse;
use crate::engine::state::affinity::FlowAffinity;
use crate::engine::state::fragments::FragmentScope;
use crate::engine::state::proxy_flows::{Key, Payer, Visit, Whose};
use crate::engine::state::{network_mac, rewrite};
use crate::engine::vector::decision::Epoch;
use crate::engine::vector::owner::Owner;
use catena_model::explain::{ExplainAt, ExplainRequest};
use catena_wire::digest;

/// Serial of a path that is in no tables.
const NO_PATH_SERIAL: u64 = u64::MAX;
/// An epoch that no engine is in.
const PAST: Epoch = Epoch(u64::MAX);

/// Prepares the rehearsal's engine for the packet.
pub(super) fn lend(engine: &mut Engine, live: &Engine, request: &ExplainRequest, now_ns: u64) {
    lend_fragments(engine, live);
    engine.health.clone_from(&live.health);
    engine.config.links.show(&live.config.links);
    engine.inspection = live.inspection;
    engine.limit_underlay_mtu(live.egress.underlay_limit());
    lend_floods(engine, live);
    let ExplainAt::Port(id) = request.at else { return };
    let Some(port) = live.slots.of_port(id).and_then(|slot| live.slots.owner(slot).1) else {
        return;
    };
    if let Ok(view) = parse::parse_frame(&request.frame.0) {
        let table = engine.tables.port(port);
        let scopes = [live, &*engine]
            .map(|one| FragmentScope::by_port(one.slots.serial(port), table, view.source));
        engine.fragments.borrow_way(&live.fragments, now_ns, scopes, (&request.frame.0, &view));
    }
    lend_flow_path(engine, live, port, &request.frame.0, now_ns);
    lend_visit(engine, live, port, &request.frame.0, now_ns);
}

/// What was sent to everybody, and by which port. One that has gone is elsewhere like the tunnels.
fn lend_floods(engine: &mut Engine, live: &Engine) {
    let slots = &engine.slots;
    let name = |owner| match owner {
        Owner::Port { slot, .. } => match live.slots.owner(slot) {
            (now, Some(port)) if now == owner => slots.owner_of_index(port),
            _ => Owner::Tunnels,
        },
        Owner::Tunnels => Owner::Tunnels,
    };
    engine.floods.memory = live.floods.memory.lent(name);
}

/// The path that the flow went into last: a pin may hold it there.
fn lend_flow_path(engine: &mut Engine, live: &Engine, port: PortIndex, bytes: &[u8], now_ns: u64) {
    let Ok(view) = parse::parse_frame(bytes) else { return };
    let Some(flow) = view.flow else { return };
    let Engine { tables, affinity: own, .. } = engine;
    // Flows are remembered by the chain that they enter, here or at the end of another.
    let network = Some(tables.port(port).network).filter(|_| !tables.port(port).is_function());
    let here = tables.rules.find(port, network, &view, &flow).map(|(_, start)| start);
    let chain = |start| tables.path(tables.positions.place(start).path).chain;
    let entered: Vec<_> = here.into_iter().chain(tables.rules.starts_after()).map(chain).collect();
    let keys = |affinity: &FlowAffinity| -> Vec<u64> {
        entered.iter().map(|chain| affinity.key(&flow, *chain)).collect()
    };
    for (from, to) in keys(&live.affinity).into_iter().zip(keys(own)) {
        let Some((path, ago_ms)) = live.affinity.last(now_ns, from) else { continue };
        let seen_ns = now_ns.saturating_sub(u64::from(ago_ms) * 1_000_000);
        own.note(seen_ns, to, path);
    }
}

/// The flow's visit, if the live memory knows the flow at this port.
fn lend_visit(engine: &mut Engine, live: &Engine, port: PortIndex, bytes: &[u8], now_ns: u64) {
    let Ok(mut view) = parse::parse_frame(bytes) else { return };
    let mut user = live.inspection.into(bytes, &view);
    let table = engine.tables.port(port);
    let scope = FragmentScope::by_port(live.slots.serial(port), table, view.source);
    live.fragments.complete(now_ns, scope, bytes, &mut view, &mut user);
    let Some(flow) = view.flow else { return };
    let told = (network_mac::told_by(table, view.source).unwrap_or(UNTOLD_NETWORK), flow);
    let tables = &engine.tables;
    let position = |visit: &Visit| {
        if visit.epoch == live.epoch {
            return Some(visit.position);
        }
        let renewed = tables.positions.renew_later(visit.position, visit.path, visit.hop);
        renewed.filter(|position| live.counters.path_ref(*position).serial == visit.serial)
    };
    let digest = digest::kept(&view, bytes);
    let is_alive = |visit: &Visit| position(visit).is_some();
    let serial = live.slots.serial(port);
    let mut keys = rewrite::keys(table, serial, told, user.identity());
    let known: Vec<Key> = keys
        .find_map(|key| match live.proxy_flows.whose(now_ns, key) {
            Whose::Nobodys => None,
            Whose::Known(key) => Some(vec![key]),
            Whose::Several => Some(live.proxy_flows.keys_of(now_ns, key).collect()),
        })
        .unwrap_or_default();
    for known in known {
        let Some(visit) = live.proxy_flows.peek(now_ns, known, digest, is_alive) else { continue };
        let lent = match position(&visit) {
            Some(position) => {
                let serial = engine.counters.path_ref(position).serial;
                let position = engine.carried.adopt(&live.carried, position);
                Visit { position, serial, epoch: engine.epoch, ..visit }
            }
            // Its path has gone: so it has for the rehearsal.
            None => Visit { serial: NO_PATH_SERIAL, epoch: PAST, ..visit },
        };
        let key = Key { egress: engine.slots.serial(port), ..known };
        // Its memory is empty.
        let _ = engine.proxy_flows.remember(now_ns, key, (lent, Payer::Path(lent.serial)), 1);
    }
}

/// The ports of datagrams whose later fragments may be asked about.
fn lend_fragments(engine: &mut Engine, live: &Engine) {
    let ports = live.tables.names.all_ports();
    let ports: Vec<(u32, u32)> =
        ports.map(|i| (live.slots.serial(i), engine.slots.serial(i))).collect();
    let paths: Vec<(u64, u64)> = live.counters.serials().zip(engine.counters.serials()).collect();
    let find = |scope: FragmentScope| match scope {
        FragmentScope::Port(serial) => Some(FragmentScope::Port(own(&ports, serial)?)),
        FragmentScope::Told(serial, network) => {
            Some(FragmentScope::Told(own(&ports, serial)?, network))
        }
        FragmentScope::Headed(port, path, hop) => {
            Some(FragmentScope::Headed(own(&ports, port)?, own(&paths, path)?, hop))
        }
        FragmentScope::Path(serial, hop) => Some(FragmentScope::Path(own(&paths, serial)?, hop)),
    };
    engine.fragments.borrow_from(&live.fragments, find);
}

/// What a serial of the live engine is here.
fn own<S: Copy + PartialEq>(pairs: &[(S, S)], serial: S) -> Option<S> {
    pairs.iter().find(|(live, _)| *live == serial).map(|(_, own)| *own)
}

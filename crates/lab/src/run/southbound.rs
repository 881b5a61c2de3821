//! What goes over the connections of edges with the controller while these ask for flows, beside what goes there at
//! rest. Knows when to look and at whom; refuses to know what is said there.

use crate::connections::{Connection, connections};
use crate::error::Result;
use crate::up::RunningLab;
use crate::wiring::SOUTHBOUND_PORT;
use catena_model::setup::Setup;
use serde::Serialize;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How long the connections are looked at while nobody sends anything.
const REST: Duration = Duration::from_secs(3);

/// What went over the connections of the edges that asked for flows with the controller, as the kernel counts it: TLS
/// and HTTP/2 are in it, and what goes there at rest too; headers of TCP and IP are not. In bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SouthboundEvidence {
    /// To the controller, for each flow that it answered for.
    pub up_bytes: f64,
    /// From the controller, the same.
    pub down_bytes: f64,
    /// To the controller in a second at rest, before the first flow.
    pub rest_up_bytes: f64,
    /// From the controller, the same.
    pub rest_down_bytes: f64,
}

/// What went over connections between two moments.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Passed {
    up_bytes: u64,
    down_bytes: u64,
    seconds: f64,
}

/// What went over them at rest, and while there was traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Watched {
    rest: Passed,
    work: Passed,
}

/// The connections of edges at one moment.
struct Look {
    at: Instant,
    connections: Vec<Connection>,
}

/// Does the work of a run, the connections watched of all edges that ask for flows of these chains. Nothing is told
/// where no edge does, where one has not just one connection, or where one has changed meanwhile.
pub(super) fn watch<T>(
    running: &RunningLab,
    chains: impl Iterator<Item = String>,
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Option<Watched>)> {
    let edges = edges(running, chains);
    let look = || {
        let connections = edges.iter().map(|edge| connection(running, edge));
        let connections = connections.collect::<Option<Vec<_>>>()?;
        Some(Look { at: Instant::now(), connections })
    };
    if edges.is_empty() {
        return Ok((work()?, None));
    }
    let before = look();
    std::thread::sleep(REST);
    let begun = look();
    let done = work()?;
    let ended = look();
    let watched = || {
        let (before, begun, ended) = (before?, begun?, ended?);
        Some(Watched { rest: begun.since(&before)?, work: ended.since(&begun)? })
    };
    Ok((done, watched()))
}

/// The nodes that ask for flows of these chains.
fn edges(running: &RunningLab, chains: impl Iterator<Item = String>) -> BTreeSet<String> {
    let documents = chains.filter_map(|name| Some(&running.lab.chain(&name)?.document));
    let asking = documents.filter(|it| it.setup.is_some_and(|setup| setup != Setup::Proactive));
    let ends = asking.flat_map(|it| [Some(&it.source), it.symmetric.then_some(&it.destination)]);
    let ports = &running.plan.ports;
    let host = |end: &String| Some(ports.iter().find(|port| port.device == *end)?.host.clone());
    ends.flatten().filter_map(host).collect()
}

/// The connection of a node with the controller.
fn connection(running: &RunningLab, node: &str) -> Option<Connection> {
    let mut all = connections(&running.doorway(node).ok()?).ok()?;
    all.retain(|one| one.peer.port() == SOUTHBOUND_PORT);
    <[Connection; 1]>::try_from(all).ok().map(|[one]| one)
}

impl Look {
    fn since(&self, before: &Self) -> Option<Passed> {
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        let mut passed = Passed { up_bytes: 0, down_bytes: 0, seconds };
        for (now, then) in self.connections.iter().zip(&before.connections) {
            if now.local != then.local {
                return None;
            }
            passed.up_bytes += now.sent_bytes.checked_sub(then.sent_bytes)?;
            passed.down_bytes += now.received_bytes.checked_sub(then.received_bytes)?;
        }
        Some(passed)
    }
}

impl Watched {
    /// By so many flows that were answered for; none: there was no flow.
    #[allow(clippy::cast_precision_loss, reason = "bytes and flows of a run are far below 2^52")]
    pub(super) fn by_flow(self, answered: u64) -> Option<SouthboundEvidence> {
        let Self { rest, work } = self;
        let of_flow = |bytes: u64| (answered > 0).then(|| bytes as f64 / answered as f64);
        Some(SouthboundEvidence {
            up_bytes: of_flow(work.up_bytes)?,
            down_bytes: of_flow(work.down_bytes)?,
            rest_up_bytes: rest.up_bytes as f64 / rest.seconds,
            rest_down_bytes: rest.down_bytes as f64 / rest.seconds,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// So many bytes up and down in a run, and nothing at rest.
    pub(in crate::run) fn watched(up_bytes: u64, down_bytes: u64) -> Watched {
        let rest = Passed { up_bytes: 0, down_bytes: 0, seconds: 3.0 };
        Watched { rest, work: Passed { up_bytes, down_bytes, ..rest } }
    }

    /// A look so many milliseconds after the first, at connections with these own ports and counts.
    fn look(first: Instant, ms: u64, connections: &[(u16, u64, u64)]) -> Look {
        let end = |port: u16| ([172, 30, 1, 1], port).into();
        let connection = |(port, sent_bytes, received_bytes): &(u16, u64, u64)| Connection {
            local: end(*port),
            peer: end(SOUTHBOUND_PORT),
            sent_bytes: *sent_bytes,
            received_bytes: *received_bytes,
        };
        let connections = connections.iter().map(connection).collect();
        Look { at: first + Duration::from_millis(ms), connections }
    }

    #[test]
    fn what_went_over_all_edges_is_told_by_flow_and_at_rest_by_second() {
        let first = Instant::now();
        let before = look(first, 0, &[(40_001, 1_000, 500), (40_002, 7, 9)]);
        let begun = look(first, 2_000, &[(40_001, 1_600, 540), (40_002, 7, 9)]);
        let ended = look(first, 5_000, &[(40_001, 3_600, 1_540), (40_002, 1_007, 509)]);
        let watched =
            Watched { rest: begun.since(&before).unwrap(), work: ended.since(&begun).unwrap() };
        let told = SouthboundEvidence {
            up_bytes: 30.0,
            down_bytes: 15.0,
            rest_up_bytes: 300.0,
            rest_down_bytes: 20.0,
        };
        assert_eq!(watched.by_flow(100), Some(told));
        assert_eq!(watched.by_flow(0), None, "nobody was answered");
    }

    #[test]
    fn another_connection_than_before_tells_nothing() {
        let first = Instant::now();
        let before = look(first, 0, &[(40_001, 1_000, 500)]);
        assert_eq!(look(first, 9, &[(40_003, 2_000, 900)]).since(&before), None);
        assert_eq!(look(first, 9, &[(40_001, 900, 900)]).since(&before), None, "backwards");
    }
}

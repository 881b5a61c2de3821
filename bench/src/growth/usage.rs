//! What the processes of the lab use: processor time, memory, and what the controller sends to the
//! nodes. All of it is read from the kernel; nothing is asked of who is measured.

use super::site::LAB;
use crate::engine::drive::wrong;
use crate::error::BenchError;
use crate::servers::{Clock, Server};
use catena_lab::{Doorway, connections};
use std::time::{Duration, Instant};

/// The roles of a lab's processes.
pub(super) const ROLES: [&str; 3] = ["controller", "agent", "dataplane"];
/// Where the controller's connections to nodes are.
pub(super) const CONTROLLER: &str = "controller";

/// The processes of one role.
struct Role {
    pids: Vec<u32>,
    clock: Clock,
}

/// The processes of the lab.
pub(super) struct Usage {
    roles: [Role; ROLES.len()],
    doorway: Doorway,
}

/// What they have used so far.
pub(super) struct Reading {
    at: Instant,
    /// Processor time by role, in nanoseconds.
    cpu_ns: [u64; ROLES.len()],
    /// Bytes that the controller has sent to nodes.
    sent_bytes: u64,
}

/// What they used between two readings.
pub(super) struct Spent {
    pub(super) wall: Duration,
    /// Processor time by role, in microseconds.
    pub(super) cpu_us: [f64; ROLES.len()],
    /// Bytes that the controller sent to nodes.
    pub(super) sent_bytes: u64,
}

impl Usage {
    pub(super) fn of(server: &Server) -> Result<Self, BenchError> {
        let role = |name: &str| Role { pids: server.playing(name), clock: Clock::default() };
        let roles = ROLES.map(role);
        if let Some((name, _)) = ROLES.iter().zip(&roles).find(|(_, role)| role.pids.is_empty()) {
            return Err(wrong("the lab", &format!("it has no process '{name}'")));
        }
        Ok(Self { roles, doorway: Doorway::to(LAB, CONTROLLER)? })
    }

    pub(super) fn read(&mut self) -> Result<Reading, BenchError> {
        let agents = ROLES.iter().zip(&self.roles).find(|(name, _)| **name == "agent");
        let nodes = agents.map_or(0, |(_, role)| role.pids.len());
        let sent_bytes = sent_bytes(&self.doorway, nodes)?;
        let cpu_ns = self.roles.each_mut().map(|role| role.clock.read(&role.pids));
        Ok(Reading { at: Instant::now(), cpu_ns, sent_bytes })
    }

    /// What was used since a reading.
    #[allow(clippy::cast_precision_loss)]
    pub(super) fn since(&mut self, before: &Reading) -> Result<Spent, BenchError> {
        let now = self.read()?;
        let pairs = now.cpu_ns.into_iter().zip(before.cpu_ns);
        let mut cpu_us = [0.0; ROLES.len()];
        for (us, (now, before)) in cpu_us.iter_mut().zip(pairs) {
            *us = now.saturating_sub(before) as f64 / 1e3;
        }
        let sent_bytes = now.sent_bytes.checked_sub(before.sent_bytes).ok_or_else(|| {
            wrong("the controller", &"a node has connected anew while bytes were counted")
        })?;
        Ok(Spent { wall: now.at - before.at, cpu_us, sent_bytes })
    }

    /// Memory in MiB of the largest process of a role.
    pub(super) fn resident_mib(&self, role: &str) -> Result<f64, BenchError> {
        let role = ROLES.iter().zip(&self.roles).find(|(name, _)| **name == role);
        let pids = role.iter().flat_map(|(_, role)| &role.pids);
        let largest = pids.filter_map(|pid| resident_kib(*pid)).reduce(f64::max);
        let largest = largest.ok_or_else(|| wrong("the lab", &"a process of it has ended"))?;
        Ok(largest / 1024.0)
    }
}

/// What the controller has sent to so many nodes: it has a network namespace of its own, in which all
/// connections are with nodes.
pub(super) fn sent_bytes(doorway: &Doorway, nodes: usize) -> Result<u64, BenchError> {
    let all = connections(doorway)?;
    if all.len() != nodes {
        let reason = format!("{} connections with nodes are told by ss", all.len());
        return Err(wrong("the controller", &reason));
    }
    Ok(all.iter().map(|connection| connection.sent_bytes).sum())
}

fn resident_kib(pid: u32) -> Option<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

//! A stream for the independent judge: a frame of every slice, plain ones, and those of a user that
//! moves, captured at every function and both ends. Knows what was sent and where it should go; refuses to judge.

use super::Bench;
use super::frames::Content;
use super::moving::{self, Moving};
use super::slices::{self, Declared};
use crate::error::Result;
use crate::run::capture::Captures;
use crate::run::proof::{self, Question};
use crate::vocabulary::Lab;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU32;

/// Frames a second: few enough for captures at every function.
const PACKETS_PER_SECOND: f64 = 2_000.0;
/// Frames of each slice, so that its second one finds what the first one left behind.
const FRAMES_OF_SLICE: u32 = 2;
/// A user moves so often under a stream of so many frames a second.
const MOVES: u32 = 4;
const MOVING_PACKETS_PER_SECOND: f64 = 200.0;
/// Frames of users at least, and plain ones.
const FRAMES_MIN: u32 = 200;

/// Sends the frames of all declared slices and lets them be judged; none where nothing is captured.
pub(super) fn carry_out(
    bench: &mut Bench<'_>,
    declared: &Declared<'_>,
    folder: &Path,
) -> Result<Option<Value>> {
    let (running, users) = (bench.running, bench.users);
    if running.lab.capture.is_empty() {
        return Ok(None);
    }
    let size = users.sizes.first().copied().unwrap_or(super::SIZE_OF_PROOF);
    let mut streams = Vec::new();
    let slices = u32::try_from(declared.len()).unwrap_or(u32::MAX);
    if slices > 0 {
        let frames = slices.saturating_mul(FRAMES_OF_SLICE).max(FRAMES_MIN);
        streams.push((bench.flows(declared, size)?, frames));
    }
    if let Some(plain) = &users.plain {
        let routers = slices::routers_of(running, &plain.chain);
        let content = [Content::Plain { port: plain.port }];
        streams.push((vec![bench.flow(&content, size, routers)?], FRAMES_MIN));
    }
    let captures = Captures::start(running, &folder.join("captures"))?;
    let mut sent = 0;
    for (flows, frames) in &streams {
        let seconds = f64::from(*frames) / PACKETS_PER_SECOND;
        let streamed = bench.stream(flows, PACKETS_PER_SECOND, seconds, &AtomicU32::new(0))?;
        sent += streamed.comparison.sent;
    }
    let moving = Moving { moves: MOVES, size, packets_per_second: MOVING_PACKETS_PER_SECOND };
    let mover = users.tenants.first().filter(|_| users.moves > 0);
    if mover.is_some() {
        sent += moving::carry_out(bench, moving)?.sent;
    }
    let captured = captures.end(running, &BTreeMap::new())?;
    let mut told = Map::new();
    told.insert("source".into(), json!(users.from));
    told.insert("destination".into(), json!(users.to));
    told.insert("sent".into(), json!(sent));
    told.insert("tenants".into(), tenants(&running.lab, bench, declared));
    if let Some(plain) = &users.plain {
        let chain = steps(&running.lab, &plain.chain);
        told.insert("plain".into(), json!({"port": plain.port, "chain": chain}));
    }
    if let Some(tenant) = mover {
        let teids = moving.teids();
        told.insert(
            "mover".into(),
            json!({"vni": tenant.vni.get(), "teids": teids, "places": MOVES + 1}),
        );
    }
    proof::ask(Question::Users, running, &captured, told).map(Some)
}

/// Whose slices there are, and by which functions they should go.
fn tenants(lab: &Lab, bench: &Bench<'_>, declared: &Declared<'_>) -> Value {
    let one = |(index, tenant): (usize, &crate::vocabulary::Tenant)| {
        json!({
            "vni": tenant.vni.get(), "slices": declared.of_tenant(index),
            "qfi": tenant.qfi.map(catena_wire::scalar::Qfi::get),
            "chain": steps(lab, &tenant.chain),
        })
    };
    bench.users.tenants.iter().enumerate().map(one).collect()
}

fn steps(lab: &Lab, chain: &str) -> Value {
    lab.chain(chain).map_or_else(|| json!([]), |chain| json!(chain.document.chain))
}

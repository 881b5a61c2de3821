//! A user that moves under a stream: each time to another end of its tunnel, and with every second
//! move to another tunnel identifier too. Knows what its slice must take meanwhile, so that nothing
//! under way is lost; refuses to know frames.

use super::comparing::Comparison;
use super::frames::{Content, User};
use super::{Bench, slices, tunnel_end};
use crate::error::{LabError, Result};
use catena_client::Client;
use catena_model::slice::SliceDocument;
use catena_wire::scalar::Teid;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const NAME: &str = "mover";
/// The user's first identifier, far from all others; the next follow.
const TEID_FIRST: u32 = 0x4000_0000;
/// Time between two moves.
const PAUSE: Duration = Duration::from_millis(200);
/// After the user has turned to its new tunnel, this long its slice takes the old one too: what is
/// under way in it must still find its chain.
const OLD_TUNNEL_STAYS: Duration = Duration::from_millis(50);
const PACKETS_PER_SECOND_DEFAULT: u32 = 2_000;

/// Sends the stream of a user that moves so often.
pub(super) fn carry_out(bench: &mut Bench<'_>, moves: u32) -> Result<Comparison> {
    let users = bench.users;
    let Some(tenant) = users.tenants.first() else { return Ok(Comparison::default()) };
    let slice = SliceDocument {
        name: NAME.to_owned(),
        chain: tenant.chain.clone(),
        vni: Some(tenant.vni.get()),
        ..SliceDocument::default()
    };
    let places: Vec<User> = (0..=moves)
        .map(|number| User {
            vni: tenant.vni,
            teid: Teid(TEID_FIRST + number / 2),
            qfi: tenant.qfi,
            tunnel_end: tunnel_end(number + 1),
        })
        .collect();
    let client = &bench.running.client;
    client.create_slice(&taking(&slice, Teid(TEID_FIRST), Teid(TEID_FIRST)))?;
    let contents: Vec<Content> = places.iter().copied().map(Content::User).collect();
    let size = users.sizes.last().copied().unwrap_or(512);
    let routers = slices::routers_of(bench.running, &tenant.chain);
    let flows = [bench.flow(&contents, size, routers)?];
    let form = AtomicU32::new(0);
    let rate = f64::from(users.packets_per_second.unwrap_or(PACKETS_PER_SECOND_DEFAULT));
    let seconds = PAUSE.as_secs_f64() * f64::from(moves + 2);
    let comparison = std::thread::scope(|scope| {
        let moving = scope.spawn(|| go_through(client, &slice, &places, &form));
        let streamed = bench.stream(&flows, rate, seconds, &form);
        moving.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        Ok::<_, LabError>(streamed?.comparison)
    })?;
    bench.running.client.delete_slice(NAME)?;
    // Moves that came after the last frame would prove nothing.
    if form.load(Ordering::Relaxed) < moves {
        let reason = "the stream was over before the user had moved".to_owned();
        return Err(LabError::Refused { lab: bench.running.lab.name.clone(), reason });
    }
    Ok(comparison)
}

fn taking(slice: &SliceDocument, first: Teid, last: Teid) -> SliceDocument {
    SliceDocument { teids: Some((first.0, last.0)), ..slice.clone() }
}

/// Makes the moves, one after the other: the slice takes both tunnels, the user turns to the new
/// one, the slice forgets the old one.
fn go_through(
    client: &Client,
    slice: &SliceDocument,
    places: &[User],
    form: &AtomicU32,
) -> Result<()> {
    for (number, pair) in (1_u32..).zip(places.windows(2)) {
        let [before, after] = pair else { continue };
        std::thread::sleep(PAUSE);
        let has_new_teid = before.teid != after.teid;
        if has_new_teid {
            client.put_slice(NAME, &taking(slice, before.teid, after.teid))?;
        }
        form.store(number, Ordering::Release);
        if has_new_teid {
            std::thread::sleep(OLD_TUNNEL_STAYS);
            client.put_slice(NAME, &taking(slice, after.teid, after.teid))?;
        }
    }
    Ok(())
}

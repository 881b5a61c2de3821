//! A user that moves under a stream: each time to another end of its tunnel, and with every second
//! move to another tunnel identifier too. Knows what its slice must take meanwhile, so that nothing
//! under way is lost; refuses to know frames.

use super::comparing::Comparison;
use super::frames::{Content, User};
use super::{Bench, slices, tunnel_end};
use crate::error::{LabError, Result};
use crate::vocabulary::Users;
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
/// With each move it is another end of the tunnel, with each of so many another tunnel as well.
const MOVES_OF_TUNNEL: u32 = 2;
const PACKETS_PER_SECOND_DEFAULT: u32 = 2_000;

/// A stream under which a user moves.
#[derive(Clone, Copy)]
pub(super) struct Moving {
    pub(super) moves: u32,
    /// Of the user's packets.
    pub(super) size: u32,
    pub(super) packets_per_second: f64,
}

impl Moving {
    /// As the lab file asks for it.
    pub(super) fn asked(users: &Users) -> Self {
        let rate = users.packets_per_second.unwrap_or(PACKETS_PER_SECOND_DEFAULT);
        Self {
            moves: users.moves,
            size: users.sizes.last().copied().unwrap_or(512),
            packets_per_second: f64::from(rate),
        }
    }

    /// The tunnels that the user has, one after the other.
    pub(super) fn teids(self) -> Vec<u32> {
        (0..=self.moves / MOVES_OF_TUNNEL).map(|number| TEID_FIRST + number).collect()
    }
}

/// Sends the stream.
pub(super) fn carry_out(bench: &mut Bench<'_>, moving: Moving) -> Result<Comparison> {
    let (users, moves) = (bench.users, moving.moves);
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
            teid: Teid(TEID_FIRST + number / MOVES_OF_TUNNEL),
            qfi: tenant.qfi,
            tunnel_end: tunnel_end(number + 1),
            address: User::address_in(Teid(TEID_FIRST)),
        })
        .collect();
    let client = &bench.running.client;
    client.create_slice(&taking(&slice, Teid(TEID_FIRST), Teid(TEID_FIRST)))?;
    let contents: Vec<Content> = places.iter().copied().map(Content::User).collect();
    let routers = slices::routers_of(bench.running, &tenant.chain);
    let flows = [bench.flow(&contents, moving.size, routers)?];
    let form = AtomicU32::new(0);
    let seconds = PAUSE.as_secs_f64() * f64::from(moves + 2);
    let comparison = std::thread::scope(|scope| {
        let mover = scope.spawn(|| go_through(client, &slice, &places, &form));
        let streamed = bench.stream(&flows, moving.packets_per_second, seconds, &form);
        mover.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
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

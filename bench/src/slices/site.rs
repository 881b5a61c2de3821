//! The slices of the measurements: one for each user, users of two tenants by turns, all over one
//! chain.

use crate::engine::drive::wrong;
use crate::engine::site::{self, Hop, Seat};
use crate::error::BenchError;
use catena_lab::user_frames::{Content, Ends, Mark, Template, User};
use catena_model::NodeProgram;
use catena_model::program::{SliceEntry, SliceMatch, SlicePolicy};
use catena_model::slice::SlicePlace;
use catena_wire::scalar::{Teid, TeidRange, TunnelId, Vni};
use std::net::Ipv4Addr;

/// Tenants; each numbers its users from 1.
const TENANTS: u32 = 2;
/// Network of the first tenant.
const VNI_FIRST: u32 = 5_001;

/// Network and identifier of a user.
fn user(number: u32) -> Result<(Vni, Teid), BenchError> {
    let vni = Vni::new(VNI_FIRST + number % TENANTS).map_err(|error| wrong("a user", &error))?;
    Ok((vni, Teid(number / TENANTS + 1)))
}

/// A program with so many slices; each has a path of its own with the two hops of one chain.
pub(super) fn program(slices: u32) -> Result<NodeProgram, BenchError> {
    // The first path is the chain's own.
    let mut program = site::program(&[Hop::Aware, Hop::Aware], slices + 1)?;
    program.slices = (0..slices)
        .zip(&program.slice_paths)
        .map(|(number, path)| {
            let (vni, teid) = user(number)?;
            Ok(SliceEntry {
                id: path.slice,
                name: format!("user{number}"),
                matches: SliceMatch {
                    place: SlicePlace::Port(Seat::Source.port()),
                    tunnel_id: Some(TunnelId::Vni(vni)),
                    teids: Some(TeidRange::one(teid)),
                    qfi: None,
                },
                path: path.id,
                policy: SlicePolicy::default(),
                is_injected: false,
            })
        })
        .collect::<Result<_, BenchError>>()?;
    Ok(program)
}

/// All users in an order without pattern.
pub(super) fn shuffled(users: u32) -> Result<Vec<(Vni, Teid)>, BenchError> {
    let mut order = (0..users).map(user).collect::<Result<Vec<_>, _>>()?;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for last in (1..order.len()).rev() {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        let word = state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        let place = (word * (last as u64 + 1)) >> 32;
        order.swap(last, usize::try_from(place).unwrap_or(0));
    }
    Ok(order)
}

/// The frame of a user whose packet has so many bytes.
pub(super) fn frame(packet_bytes: usize) -> Result<Vec<u8>, BenchError> {
    let (vni, teid) = user(0)?;
    let ends = Ends {
        macs: (Seat::Source.mac(), Seat::Sink.mac()),
        addresses: (Seat::Source.address(), Seat::Sink.address()),
    };
    let tunnel_end = Ipv4Addr::new(192, 0, 2, 9);
    let user = User { vni, teid, qfi: None, tunnel_end, address: User::address_in(teid) };
    let template = Template::new(&ends, &Content::User(user), packet_bytes);
    let template = template.ok_or_else(|| wrong("a frame", &"it has no room for its headers"))?;
    let mut frame = Vec::new();
    template.write(&Mark { run: 0, user: 0, form: 0, number: 0, sent_ns: 0 }, &mut frame);
    Ok(frame)
}
